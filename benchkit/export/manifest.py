"""What is known of a data folder's files: hash, size and readability of every image, remembered by size and time."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stat import S_ISREG

import numpy as np

from benchkit.datasets.base import Dataset
from benchkit.errors import BenchkitError
from benchkit.images import Unreadable, inspect
from benchkit.progress import track
from benchkit.provenance.identity import identity_hash
from benchkit.store.outputs import Outputs
from benchkit.store.table import Table, write_table


@dataclasses.dataclass(frozen=True)
class Facts:
    """One image file: sha256 of its bytes, upright size, what is wrong with it ('' when nothing is)."""

    sha256: str
    height: int
    width: int
    problem: str
    bytes: int
    mtime_ns: int
    ctime_ns: int  # a copy that keeps size and modification time (rsync -t, cp -p) still changes this


UNREADABLE = hashlib.sha256(b"unreadable").hexdigest()  # stands for bytes that nobody has seen


def read_manifest(dataset: Dataset, views: Sequence[str], outputs: Outputs) -> dict[str, Facts]:
    """Facts of every view; files whose size and time are as remembered are not read again."""
    paths = {view: dataset.path(view) for view in views}
    files = {view: path for view, path in paths.items() if path is not None}
    found = {view: _generated(dataset, view) for view, path in paths.items() if path is None}
    if not files:
        return found
    remembered_at = outputs.manifest(
        identity_hash([type(dataset).__name__, str(Path(dataset.settings.root).resolve())])
    )
    known = _load(remembered_at)
    stale = [view for view, path in files.items() if not _same_file(known.get(view), path)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reading = pool.map(lambda view: _read(files[view]), stale)
        fresh = dict(zip(stale, track(reading, len(stale), "reading image files", "images"), strict=True))
    if fresh:
        _save(remembered_at, {**known, **fresh})
    return {**found, **{view: fresh[view] if view in fresh else known[view] for view in files}}


def _generated(dataset: Dataset, view: str) -> Facts:
    height, width = dataset.generated_size(view)
    return Facts(hashlib.sha256(dataset.recipe(view).encode()).hexdigest(), height, width, "", 0, 0, 0)


def _same_file(facts: Facts | None, path: Path) -> bool:
    if facts is None:
        return False
    try:
        stat = path.stat()
    except OSError:
        return False
    return _stamp(stat) == (facts.bytes, facts.mtime_ns, facts.ctime_ns)


def _stamp(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _read(path: Path) -> Facts:
    height = width = 0
    problem = ""
    try:
        stat = path.stat()
        if not S_ISREG(stat.st_mode):  # reading a pipe would wait for ever
            return Facts(UNREADABLE, 0, 0, "it is no regular file", -1, -1, -1)
        data = path.read_bytes()
    except OSError as error:
        return Facts(UNREADABLE, 0, 0, f"it cannot be read ({error.strerror})", -1, -1, -1)
    try:
        height, width = inspect(data)
    except Unreadable as error:
        problem = str(error)
    return Facts(hashlib.sha256(data).hexdigest(), height, width, problem, *_stamp(stat))


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
