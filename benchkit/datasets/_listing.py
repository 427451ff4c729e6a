"""Listing folders of images: in name order, without what archivers leave behind, safe from loops of links."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from benchkit.errors import UsageError
from benchkit.images import SUFFIXES

LEFTOVERS = frozenset(("__MACOSX", "@eaDir", "__pycache__", "lost+found", "$RECYCLE.BIN", "Thumbs.db", "desktop.ini"))
_UNNAMABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # control characters, and bytes that are no UTF-8


class Entries(NamedTuple):
    """What a folder holds, as paths in name order."""

    folders: list[str]
    images: list[str]
    others: list[str]


def scan(folder: str | Path) -> Entries:
    """The entries of one folder; names with a dot in front or a tilde behind are hidden.

    Raises:
        UsageError: the folder cannot be listed; a name could not stand in results; a folder is a link to nothing.
    """
    found = Entries([], [], [])
    try:
        with os.scandir(folder) as entries:
            seen = [e for e in entries if not (e.name[0] == "." or e.name[-1] == "~" or e.name in LEFTOVERS)]
            seen.sort(key=attrgetter("name"))
            _check_names(seen)
            for entry in seen:
                _kind(entry, found).append(entry.path)
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be read ({error.strerror}).") from error
    return found


def _check_names(entries: Sequence[os.DirEntry[str]]) -> None:
    """All at once; one by one only where one of them is wrong."""
    if not is_nameable("".join(entry.path for entry in entries)):
        for entry in entries:
            check_name(entry.path)


def _kind(entry: os.DirEntry[str], found: Entries) -> list[str]:
    if os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir():
        return found.folders
    if entry.name.lower().endswith(SUFFIXES):
        return found.images
    if entry.is_symlink() and "." not in entry.name and not os.path.exists(entry.path):
        raise UsageError(f"{entry.path} is a link to {os.readlink(entry.path)}, which is not there. Mend or remove it.")
    return found.others


def tree(
    folder: str, above: frozenset[tuple[int, int]] = frozenset(), skipped: Sequence[str] = ()
) -> Iterator[tuple[str, Entries]]:
    """A folder and all below it, each with its entries.

    Args:
        folder: path.
        above: inodes of the folders it lies in: a link back to one of them is not followed.
        skipped: normal paths of folders that are left out.
    """
    here = inode(folder)
    if here in above or os.path.normpath(folder) in skipped:
        return
    found = scan(folder)
    yield folder, found
    for below in found.folders:
        yield from tree(below, above | {here}, skipped)


def walk(folder: str, name: str, above: frozenset[tuple[int, int]], others: Counter[str]) -> Iterator[str]:
    """Names of the images in and below `folder`, whose own name is `name`; counts other files by suffix in `others`."""
    for _, found in tree(folder, above):
        others.update(os.path.splitext(other)[1].lower() or "no suffix" for other in found.others)
        yield from (f"{name}{image.removeprefix(folder)}".replace(os.sep, "/") for image in found.images)


def inode(folder: str | Path) -> tuple[int, int]:
    """What a folder is, by whatever link it is reached."""
    stat = os.stat(folder)
    return stat.st_dev, stat.st_ino


def is_nameable(path: str) -> bool:
    """Whether a path can stand in results: UTF-8 without control characters."""
    return not _UNNAMABLE.search(path)


def check_name(path: str) -> None:
    """Results name items by their path, one a line.

    Raises:
        UsageError: the path holds bytes that are no UTF-8, or a control character.
    """
    if not is_nameable(path):
        raise UsageError(
            f"{path!a} has a name that is no valid UTF-8 or holds a control character (a line end, say), so results "
            "could not name it. Rename it."
        )
