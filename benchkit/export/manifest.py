"""What is known of a data folder's files: hash, size and readability of every image, remembered by size and time."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np

from benchkit.datasets.base import Dataset
from benchkit.errors import BenchkitError
from benchkit.export.facts import Facts, ManyFacts
from benchkit.images import Unreadable, inspect
from benchkit.progress import track
from benchkit.provenance.identity import identity_hash
from benchkit.store.lock import exclusive
from benchkit.store.lookup import digests
from benchkit.store.outputs import Outputs
from benchkit.store.table import Table, write_table

Stamp = tuple[int, int, int] | None  # bytes, mtime_ns, ctime_ns
NO_STAMP = (-1, -1, -1)  # no file has it: what is remembered with it is read again
SIZES, STAMPS = ("height", "width"), ("bytes", "mtime_ns", "ctime_ns")
UNREADABLE = hashlib.sha256(b"unreadable").hexdigest()  # stands for bytes that nobody has seen


def read_manifest(dataset: Dataset, views: Sequence[str], outputs: Outputs) -> ManyFacts:
    """Facts of every view; what lies in files whose size and time are as remembered is not read again."""
    if dataset.below is not None and type(dataset).path is Dataset.path:
        stamps = stamps_below(dataset.below, views)
        return _remembered_images(dataset, views, stamps, outputs, lambda view: _stamp(_place(dataset, view)))
    places = {view: _place(dataset, view) for view in views}
    generated = {view: _generated(dataset, view) for view, place in places.items() if not place}
    if len(generated) == len(places):
        return ManyFacts.of(generated)
    stored = [view for view in views if view not in generated]
    distinct = {id(place): place for place in places.values()}  # all views of an archive share one place
    stamped = {key: _stamp(place) for key, place in distinct.items()}
    stamps = _as_array(stamped[id(places[view])] for view in stored)
    known = _remembered_images(dataset, stored, stamps, outputs, lambda view: stamped[id(places[view])])
    return known if not generated else ManyFacts.of({**generated, **known}).taken(views)


def _remembered_images(
    dataset: Dataset, views: Sequence[str], stamps: np.ndarray, outputs: Outputs, stamp: Callable[[str], Stamp]
) -> ManyFacts:
    return _remembered(
        outputs.manifest(identity_hash([type(dataset).__name__, dataset.source()])),
        views,
        stamps,
        lambda view: _read(dataset, view, _place(dataset, view), stamp(view)),
        ("reading image files", "images"),
    )


def _as_array(stamps: Iterable[Stamp]) -> np.ndarray:
    return np.array([stamp or NO_STAMP for stamp in stamps], np.int64).reshape(-1, 3)


def _remembered(
    path: Path, names: Sequence[str], stamps: np.ndarray, read: Callable[[str], Facts], told: tuple[str, str]
) -> ManyFacts:
    """Facts of all names; what is not as remembered is read and remembered.

    One process reads at a time: of several workers that start together the first reads everything, the others find it read.

    Args:
        path: where facts are remembered.
        names: of what is stamped.
        stamps: int64 (N, 3), of the files, now; NO_STAMP of what is to be read in any case.
        read: what is not known; called in threads.
        told: what is done with what, for progress.
    """
    known = _load(path)
    if not _stale(known, names, stamps):
        return known.taken(names)
    with exclusive(path.with_suffix(".lock")):
        known = _load(path)
        stale = _stale(known, names, stamps)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            fresh = dict(zip(stale, track(pool.map(read, stale), len(stale), *told), strict=True))
        if not fresh:
            return known.taken(names)
        every = {**known, **fresh}
        _save(path, every)
    return ManyFacts.of({name: every[name] for name in names})


def _stale(known: ManyFacts, names: Sequence[str], stamps: np.ndarray) -> list[str]:
    """Names that are not as remembered."""
    if names == known.names:
        same = (known.stamps == stamps).all(axis=1)
    else:
        rows = np.fromiter((known.position.get(name, -1) for name in names), np.int64, len(names))
        same = rows >= 0
        same[same] = (known.stamps[rows[same]] == stamps[same]).all(axis=1)
    same &= (stamps != NO_STAMP).any(axis=1)
    return [names[row] for row in np.flatnonzero(~same).tolist()]


def stamps_below(folder: Path, names: Sequence[str]) -> np.ndarray:
    """Size and times of files by their path below a folder, int64 (N, 3); NO_STAMP of what is missing or no regular file."""
    found = array("q")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        for name in names:
            try:
                status = os.stat(name, dir_fd=descriptor)
                regular = S_ISREG(status.st_mode)
            except OSError:
                regular = False
            found.extend((status.st_size, status.st_mtime_ns, status.st_ctime_ns) if regular else NO_STAMP)
    finally:
        os.close(descriptor)
    return np.frombuffer(found, np.int64).reshape(-1, 3)


def read_truths(
    dataset: Dataset, items: Sequence[str], outputs: Outputs, settings: Mapping[str, Any]
) -> Mapping[str, Facts]:
    """Facts of the files of every item's truth: sha256 of their bytes, and what is wrong with them.

    Args:
        dataset: examines each item whose files have changed.
        items: names.
        outputs: remembers.
        settings: what an item is examined against; facts found under other settings are not used.

    Returns:
        {item: facts}; empty where truth has no files of its own.
    """
    if type(dataset).target_paths is Dataset.target_paths:
        return {}
    paths = {item: dataset.target_paths(item) for item in items}
    if not any(paths.values()):
        return {}
    key = [type(dataset).__name__, dataset.source(), "truth", settings, *dataset.examined_by()]
    stamps = {item: _stamp((*files, *_images(dataset, item))) for item, files in paths.items()}
    return _remembered(
        outputs.manifest(identity_hash(key)),
        list(stamps),
        _as_array(stamps.values()),
        lambda item: _examined(dataset, item, paths[item], stamps[item]),
        ("examining the truth", "items"),
    )


def _images(dataset: Dataset, item: str) -> list[Path]:
    return [path for path in map(dataset.path, dataset.views(item)) if path is not None]


def _examined(dataset: Dataset, item: str, paths: Sequence[Path], stamp: Stamp) -> Facts:
    digest = hashlib.sha256()
    try:
        for path in paths:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        problem = dataset.examine(item)
    except (OSError, Unreadable) as error:
        return Facts(UNREADABLE, 0, 0, f"its truth cannot be read ({error})", *NO_STAMP)
    return Facts(digest.hexdigest(), 0, 0, problem, *(stamp or NO_STAMP))


def _place(dataset: Dataset, view: str) -> tuple[Path, ...]:
    """The view's file, or the archive files that hold it; empty when it is generated."""
    path = dataset.path(view)
    return dataset.archives(view) if path is None else (path,)


def _generated(dataset: Dataset, view: str) -> Facts:
    height, width = dataset.generated_size(view)
    return Facts(hashlib.sha256(dataset.recipe(view).encode()).hexdigest(), height, width, "", 0, 0, 0)


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
            return Facts(UNREADABLE, 0, 0, "it is no regular file", *NO_STAMP)
        data = dataset.read(view) or b""
    except OSError as error:
        return Facts(UNREADABLE, 0, 0, f"it cannot be read ({error.strerror})", *NO_STAMP)
    try:
        height, width = inspect(data)
    except Unreadable as error:
        problem = str(error)
    return Facts(hashlib.sha256(data).hexdigest(), height, width, problem, *(stamp or NO_STAMP))


def _load(path: Path) -> ManyFacts:
    """What is remembered; nothing of a memory that is not whole: its files are read again."""
    try:
        with Table(path, "manifest") as table:
            sizes, stamps = (np.stack([table.read(each) for each in fields], axis=1) for fields in (SIZES, STAMPS))
            problems = {row: problem for row, problem in enumerate(table.read("problem")) if problem}
            return ManyFacts(table.names, digests(table.read("sha256")), sizes, stamps, problems)
    except BenchkitError:
        return ManyFacts.of({})


def _save(path: Path, facts: Mapping[str, Facts]) -> None:
    names = sorted(facts)
    columns = {
        field.name: [getattr(facts[n], field.name) for n in names]
        if field.type == "str"
        else np.array([getattr(facts[n], field.name) for n in names], dtype=np.int64)
        for field in dataclasses.fields(Facts)
    }
    write_table(path, "manifest", names, columns)
