"""Copies of one file in several folders: parts lie in the bank and in tags, the truth of a split beside the banks and in tags."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchkit.errors import BenchkitError, RunError, UsageError
from benchkit.provenance.record import read_record
from benchkit.store.checking import check_file, content_of
from benchkit.store.files import link_or_copy
from benchkit.store.salvage import move_aside


def damage(file: Path, record: Mapping[str, Any] | None = None) -> str:
    """What is wrong with a file, asked again just before it is mended: it may have been replaced meanwhile; "" when it is whole.

    Raises:
        BenchkitError: it is not known to be damaged: it cannot be read at all, or a later version of benchkit wrote it.
    """
    try:
        check_file(file, dict(record) if record is not None else None)
    except UsageError:
        raise
    except RunError as error:
        if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError):
            raise
        return str(error)
    return ""


def is_plain(file: Path, root: Path) -> bool:
    """Whether a path lies below a folder with no link in between."""
    if file.is_symlink():
        return False
    straight = os.path.normpath(os.path.join(os.path.realpath(root), file.parent.relative_to(root)))
    return os.path.realpath(file.parent) == straight


def whole_copy(candidates: Iterable[Path], content: str) -> Path | None:
    """The first that is whole and has this content, or the first letters of it are these."""
    for path in candidates:
        if path.is_symlink() or not path.is_file():
            continue
        try:
            if content_of(path).startswith(content):
                return path
        except BenchkitError:  # damaged too, or the same file under another name
            continue
    return None


def put_copy(copy: Path, file: Path) -> str:
    """Put a whole copy in the place of a file; returns what was done, in words.

    Raises:
        RunError: it cannot be put there.
    """
    kept = keep_whole(file)
    link_or_copy(copy, file)
    return f"replaced by its whole copy {copy}{kept}"


def keep_whole(file: Path) -> str:
    """Move a file aside that is no damaged one but another under this name; returns words about it."""
    try:
        content_of(file)
    except BenchkitError:
        return ""
    return f"; what lay there is now {move_aside(file).name}"


def tags_of(outputs: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Folders of finished experiments below an outputs folder, with their records; those with a damaged one are left out."""
    for folder in sorted((outputs / "results").glob("*/*")):
        try:
            record = read_record(folder) if folder.is_dir() else None
        except BenchkitError:
            continue
        if record is not None:
            yield folder, record
