"""A trailer behind an HDF5 file that covers every byte which no row checksum covers.

Row checksums protect values; a flipped bit in HDF5's own structures could still move a dataset, change a type or crash
the library. So the bytes outside the checked datasets are summed too, and verified before HDF5 parses anything. HDF5
ignores bytes behind its own end of file, so any HDF5 reader still opens the file.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchkit.errors import RunError, UsageError, printable, reason
from benchkit.provenance import strict

MAGIC = b"BENCHKIT"
_FOOTER = len(MAGIC) + 8 + 4  # magic, length of the trailer, checksum of the trailer
_BLOCK = 1 << 20

Range = tuple[int, int]  # offset and length in bytes


def append(path: Path, kind: str, version: int, checked: Sequence[Range]) -> None:
    """Seal a closed HDF5 file; `checked` are the byte ranges that row checksums cover."""
    size = path.stat().st_size
    trailer = {
        "checked": sorted(checked),
        "crc32": _sum_outside(path, size, sorted(checked)),
        "kind": kind,
        "size": size,
        "version": version,
    }
    text = json.dumps(trailer, sort_keys=True, separators=(",", ":")).encode()
    with path.open("ab") as handle:
        handle.write(text + MAGIC + len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(4, "little"))


def verify(path: Path, kind: str | None = None, version: int | None = None) -> dict[str, Any]:
    """Check a sealed file's structure and return its trailer (kind, version, size).

    Args:
        path: the file.
        kind: what it must hold.
        version: the latest format version that the caller can read.

    Raises:
        RunError: missing, truncated, damaged, or not a file of this kind; the message names the file.
        UsageError: the file has a later format version.
    """
    trailer = _trailer(path)
    if version is not None and trailer["version"] > version:  # first: later versions may mean all else differently
        raise UsageError(
            f"{path} has format version {trailer['version']}; this benchkit reads up to {version}. Update benchkit."
        )
    if kind is not None and trailer.get("kind") != kind:
        held = printable(trailer.get("kind"), 40)
        raise RunError(f"{path} holds {held}, where {kind} belong: it is another file under this name.")
    if not _are_apart(trailer.get("checked"), trailer["size"]) or not isinstance(trailer.get("kind"), str):
        raise RunError(f"{path} is no benchkit file: its seal speaks of ranges that it cannot have. {MEND}")
    if trailer.get("crc32") != _structure_sum(path, trailer):
        raise RunError(f"{path} is damaged: its structure does not match its checksum. {MEND}")
    return trailer


def _structure_sum(path: Path, trailer: dict[str, Any]) -> int:
    try:
        return _sum_outside(path, trailer["size"], trailer["checked"])
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}. Check the disk.") from error


MEND = "Delete it and export again; `benchkit doctor` lists every damaged file of a folder."


def _trailer(path: Path) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        with path.open("rb") as handle:
            handle.seek(max(0, size - _FOOTER))
            footer = handle.read(_FOOTER)
            length = int.from_bytes(footer[8:16], "little")
            complete = len(footer) == _FOOTER and footer[:8] == MAGIC and length <= size - _FOOTER
            handle.seek(size - _FOOTER - length if complete else 0)
            text = handle.read(length) if complete else b""
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing. Export again to make it.") from error
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not complete or zlib.crc32(text) != int.from_bytes(footer[16:], "little"):
        raise RunError(f"{path} is damaged or no benchkit file: its closing seal is missing or broken. {MEND}")
    trailer = _parsed(path, text)
    if trailer["size"] + length + _FOOTER != size:
        raise RunError(f"{path} is damaged: it has {size} bytes, not the {trailer['size'] + length + _FOOTER} written.")
    return trailer


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    """What a trailer says: a checksum that fits is no proof that benchkit wrote it.

    Raises:
        RunError: it is none of ours.
    """
    try:
        trailer = strict.parse(text)
        good = all(type(trailer[key]) is int for key in ("version", "size"))
    except (ValueError, TypeError, KeyError) as error:
        raise RunError(f"{path} is no benchkit file: its seal cannot be read ({reason(error)}). {MEND}") from error
    if not good:
        raise RunError(f"{path} is no benchkit file: its seal tells no version and size. {MEND}")
    return dict(trailer)


def _are_apart(ranges: Any, size: int) -> bool:
    """Whether these are ranges (offset, length) one behind the other within so many bytes."""
    if not isinstance(ranges, list) or not all(isinstance(each, list) and len(each) == 2 for each in ranges):
        return False
    if not all(type(number) is int and number >= 0 for each in ranges for number in each):
        return False
    begins, ends = [*(o for o, _ in ranges), size], [0, *(o + n for o, n in ranges)]
    return all(end <= begin for begin, end in zip(begins, ends, strict=True))


def _sum_outside(path: Path, size: int, checked: Sequence[Range]) -> int:
    total, position = 0, 0
    with path.open("rb") as handle:
        for offset, length in [*checked, (size, 0)]:
            total = _sum_range(handle.fileno(), position, offset, total)
            position = offset + length
    return total


def _sum_range(descriptor: int, start: int, stop: int, total: int) -> int:
    for position in range(start, stop, _BLOCK):
        total = zlib.crc32(os.pread(descriptor, min(_BLOCK, stop - position), position), total)
    return total
