"""Verify every checksum below a path, and hash its content."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchkit.progress import Progress
from benchkit.provenance.identity import identity_hash
from benchkit.provenance.record import NAME as RECORD
from benchkit.store.checking import Outcome, check_files, check_names, content_of
from benchkit.store.crew import check_batches

OUTSIDE = ("thumbs.h5", RECORD, "conf.yaml", "identity.json")  # verified, but no part of a folder's content
UNFINISHED = (".parts", ".locks")
BATCH = 64 << 20  # bytes that one process checks at a time
MANY = 256 << 20  # bytes, and
SEVERAL = 500  # files, from which on others help: each takes a third of a second to start


def verify_tree(path: Path, processes: int = 1, silent: bool = True) -> dict[str, Any]:
    """Check all files below `path`.

    Args:
        path: a file or folder.
        processes: that many work at it where it is large.
        silent: else it tells on standard error how far it is, where it takes more than two seconds.

    Returns:
        files: per relative name its content hash (or None) and what is wrong; content: hash over predictions, targets,
        results, summaries and feature values of each folder; damaged: how many files are.
    """
    files = _files(path)
    outcomes = _outcomes(files, processes, silent)
    report = {
        file.name if path.is_file() else file.relative_to(path).as_posix(): {"content": content, "problem": problem}
        for file, (content, problem) in zip(files, outcomes, strict=True)
    }
    parts = {name: facts["content"] for name, facts in report.items() if _counts(name)}
    return {
        "files": report,
        "content": identity_hash(parts),
        "damaged": sum(facts["content"] is None for facts in report.values()),
    }


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    suffixes = (".h5", ".json", ".safetensors")
    files = sorted(p for p in path.rglob("*") if (p.suffix in suffixes or p.name == "conf.yaml") and p.is_file())
    return [f for f in files if not set(UNFINISHED) & set(f.relative_to(path).parts)]


def folder_content(folder: Path) -> str:
    """Content hash of one tag's folder: predictions, targets, results, summaries and feature values."""
    found = {name: content_of(folder / name) for name in sorted(p.name for p in folder.iterdir()) if _counts(name)}
    return identity_hash(found)


def _counts(name: str) -> bool:
    base = name.rsplit("/", 1)[-1]
    return (
        base not in OUTSIDE
        and not base.startswith("part-")
        and base.endswith((".h5", ".json"))
        and "manifests" not in name
    )


def _outcomes(files: Sequence[Path], processes: int, silent: bool) -> list[Outcome]:
    """Of each file; a part that has a name in the bank and others in tags is read once."""
    keys = [_key(file) for file in files]
    first: dict[Any, Path] = {}
    for key, file in zip(keys, files, strict=True):
        first.setdefault(key, file)
    found = dict(zip(first, _checked(list(first.values()), processes, silent), strict=True))
    outcomes = {first[key]: found[key] for key in found}
    others = [(file, found[key][0]) for key, file in zip(keys, files, strict=True) if file != first[key]]
    for _, names in groupby(others, lambda other: other[0].parent):
        outcomes.update(_of_names(list(names)))
    return [outcomes[file] for file in files]


def _of_names(names: Sequence[tuple[Path, str | None]]) -> dict[Path, Outcome]:
    """Of second names in one folder; of a damaged file it is said anew, under this name."""
    whole = [(file, content) for file, content in names if content]
    damaged = [file for file, content in names if not content]
    found = check_names([file for file, _ in whole], [content for _, content in whole]) if whole else []
    again = check_files(damaged, lambda count: None) if damaged else []
    return dict(zip([*(file for file, _ in whole), *damaged], [*found, *again], strict=True))


def _key(file: Path) -> Any:
    status = _status(file)
    shared = status is not None and status.st_nlink > 1 and file.name.startswith("part-")
    return (status.st_dev, status.st_ino) if status is not None and shared else file


def _status(file: Path) -> os.stat_result | None:
    with contextlib.suppress(FileNotFoundError):  # replaced or removed since it was listed
        return file.stat()
    return None


def _checked(files: Sequence[Path], processes: int, silent: bool) -> list[Outcome]:
    statuses = map(_status, files)
    sizes = [status.st_size if status else 0 for status in statuses]
    progress, read = Progress(sum(sizes) // 1_000_000, "verifying", "MB", silent), 0

    def each(count: int) -> None:
        nonlocal read
        read += count
        progress.advance(read // 1_000_000 - progress.done)

    try:
        batches = _batches(files, sizes)
        if processes > 1 and len(batches) > 1 and (sum(sizes) >= MANY or len(files) >= SEVERAL):
            return check_batches(batches, processes, each)
        return [outcome for batch in batches for outcome in check_files(batch, each)]
    finally:
        progress.finish()


def _batches(files: Sequence[Path], sizes: Sequence[int]) -> list[list[Path]]:
    """Files of one folder, of BATCH bytes together or one alone."""
    batches: list[list[Path]] = []
    room = 0
    for file, size in zip(files, sizes, strict=True):
        if not batches or batches[-1][0].parent != file.parent or size > room:
            batches.append([])
            room = BATCH
        batches[-1].append(file)
        room -= size
    return batches
