"""What is known of a data folder's files: hash, size and readability of every image, remembered by size and time."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np

from benchkit.datasets.base import Dataset
from benchkit.errors import BenchkitError
from benchkit.images import Unreadable, inspect
from benchkit.progress import track
from benchkit.provenance.identity import identity_hash
from benchkit.store.lock import exclusive
from benchkit.store.outputs import Outputs
from benchkit.store.table import Table, write_table


@dataclasses.dataclass(frozen=True)
class Facts:
    """One image: sha256 of its bytes, upright size, what is wrong with it ('' when nothing is), and its file's stamp."""

    sha256: str
    height: int
    width: int
    problem: str
    bytes: int
    mtime_ns: int
    ctime_ns: int  # a copy that keeps size and modification time (rsync -t, cp -p) still changes this


Stamp = tuple[int, int, int] | None  # bytes, mtime_ns, ctime_ns
UNREADABLE = hashlib.sha256(b"unreadable").hexdigest()  # stands for bytes that nobody has seen


def read_manifest(dataset: Dataset, views: Sequence[str], outputs: Outputs) -> dict[str, Facts]:
    """Facts of every view; what lies in files whose size and time are as remembered is not read again."""
    places = {view: _place(dataset, view) for view in views}
    found = {view: _generated(dataset, view) for view, place in places.items() if not place}
    if len(found) == len(places):
        return found
    remembered_at = outputs.manifest(identity_hash([type(dataset).__name__, dataset.source()]))
    distinct = {id(place): place for place in places.values()}  # all views of an archive share one place
    stamps = {key: _stamp(place) for key, place in distinct.items()}
    known = _remembered(
        remembered_at,
        {view: stamps[id(place)] for view, place in places.items() if place},
        lambda view: _read(dataset, view, places[view], stamps[id(places[view])]),
        ("reading image files", "images"),
    )
    return {**found, **{view: known[view] for view in views if view not in found}}


def _remembered(
    path: Path, stamps: Mapping[str, Stamp], read: Callable[[str], Facts], told: tuple[str, str]
) -> dict[str, Facts]:
    """Facts of all that `stamps` names; what is not as remembered is read and remembered.

    One process reads at a time: of several workers that start together the first reads everything, the others find it read.

    Args:
        path: where facts are remembered.
        stamps: of the files, now.
        read: what is not known; called in threads.
        told: what is done with what, for progress.
    """
    known = _load(path)
    if all(_same(known.get(name), stamp) for name, stamp in stamps.items()):
        return known
    with exclusive(path.with_suffix(".lock")):
        known = _load(path)
        stale = [name for name, stamp in stamps.items() if not _same(known.get(name), stamp)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            known.update(zip(stale, track(pool.map(read, stale), len(stale), *told), strict=True))
        if stale:
            _save(path, known)
    return known


def read_truths(
    dataset: Dataset, items: Sequence[str], outputs: Outputs, settings: Mapping[str, Any]
) -> dict[str, Facts]:
    """Facts of the files of every item's truth: sha256 of their bytes, and what is wrong with them.

    Args:
        dataset: examines each item whose files have changed.
        items: names.
        outputs: remembers.
        settings: what an item is examined against; facts found under other settings are not used.

    Returns:
        {item: facts}; empty where truth has no files of its own.
    """
    paths = {item: dataset.target_paths(item) for item in items}
    if not any(paths.values()):
        return {}
    key = [type(dataset).__name__, dataset.source(), "truth", settings, *dataset.examined_by()]
    stamps = {item: _stamp((*files, *_images(dataset, item))) for item, files in paths.items()}
    known = _remembered(
        outputs.manifest(identity_hash(key)),
        stamps,
        lambda item: _examined(dataset, item, paths[item], stamps[item]),
        ("examining the truth", "items"),
    )
    return {item: known[item] for item in items}


def _images(dataset: Dataset, item: str) -> list[Path]:
    return [path for path in map(dataset.path, dataset.views(item)) if path is not None]


def _examined(dataset: Dataset, item: str, paths: Sequence[Path], stamp: Stamp) -> Facts:
    digest = hashlib.sha256()
    try:
        for path in paths:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        problem = dataset.examine(item)
    except (OSError, Unreadable) as error:
        return Facts(UNREADABLE, 0, 0, f"its truth cannot be read ({error})", -1, -1, -1)
    return Facts(digest.hexdigest(), 0, 0, problem, *(stamp or (-1, -1, -1)))


def _place(dataset: Dataset, view: str) -> tuple[Path, ...]:
    """The view's file, or the archive files that hold it; empty when it is generated."""
    path = dataset.path(view)
    return dataset.archives(view) if path is None else (path,)


def _generated(dataset: Dataset, view: str) -> Facts:
    height, width = dataset.generated_size(view)
    return Facts(hashlib.sha256(dataset.recipe(view).encode()).hexdigest(), height, width, "", 0, 0, 0)


def _same(facts: Facts | None, stamp: Stamp) -> bool:
    return facts is not None and stamp is not None and stamp == (facts.bytes, facts.mtime_ns, facts.ctime_ns)


def _stamp(place: tuple[Path, ...]) -> Stamp:
    """Size and times of the files; None when there is none, or one is missing or no regular file."""
    try:
        stats = [path.stat() for path in place]
    except OSError:
        return None
    if not stats or not all(S_ISREG(s.st_mode) for s in stats):
        return None
    return sum(s.st_size for s in stats), max(s.st_mtime_ns for s in stats), max(s.st_ctime_ns for s in stats)


def _read(dataset: Dataset, view: str, place: tuple[Path, ...], stamp: Stamp) -> Facts:
    """Hash and inspect one view. `stamp` was taken before: a file that changes meanwhile is read again next time."""
    height = width = 0
    problem = ""
    try:
        if stamp is None and not all(S_ISREG(path.stat().st_mode) for path in place):  # a pipe would be waited for
            return Facts(UNREADABLE, 0, 0, "it is no regular file", -1, -1, -1)
        data = dataset.read(view) or b""
    except OSError as error:
        return Facts(UNREADABLE, 0, 0, f"it cannot be read ({error.strerror})", -1, -1, -1)
    try:
        height, width = inspect(data)
    except Unreadable as error:
        problem = str(error)
    return Facts(hashlib.sha256(data).hexdigest(), height, width, problem, *(stamp or (-1, -1, -1)))


def _load(path: Path) -> dict[str, Facts]:
    if not path.exists():
        return {}
    try:
        with Table(path, "manifest") as table:
            columns = [table.read(field.name) for field in dataclasses.fields(Facts)]
            rows = zip(*(c.tolist() if isinstance(c, np.ndarray) else c for c in columns), strict=True)
            return {name: Facts(*row) for name, row in zip(table.names, rows, strict=True)}
    except BenchkitError:  # a memory of files is only worth having whole; without it they are read again
        return {}


def _save(path: Path, facts: dict[str, Facts]) -> None:
    names = sorted(facts)
    columns = {
        field.name: [getattr(facts[n], field.name) for n in names]
        if field.type == "str"
        else np.array([getattr(facts[n], field.name) for n in names], dtype=np.int64)
        for field in dataclasses.fields(Facts)
    }
    write_table(path, "manifest", names, columns)
