"""A table: named items and their columns in one sealed HDF5 file, every row checked when it is read.

Layout (format version 1):
    names               (N,) UTF-8, sorted unless the writer says otherwise, unique
    <column>            (N, ...) rows, or a group with values, offsets (N+1), shapes (N, ndim)
    whole/<path>        arrays that belong to no item (a constant's prediction, a fit log)
    meta                JSON text
    crc/<any of these>  uint32, one per row (one for a whole array)
then the seal (benchkit.store.seal).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from benchkit.errors import RunError, reason
from benchkit.provenance import strict
from benchkit.store import columns as layout
from benchkit.store import foreign, seal
from benchkit.store.columns import Column
from benchkit.store.files import replacing
from benchkit.store.reading import Each, RaggedReader, Reader, RowsReader, reader
from benchkit.store.sink import created

VERSION = 1
ODD = (foreign.Refused, KeyError, UnicodeDecodeError, RuntimeError)  # what h5py raises of odd structures


def write_table(
    path: Path,
    kind: str,
    names: Sequence[str],
    columns: Mapping[str, Column],
    whole: Mapping[str, np.ndarray] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> None:
    """Write a complete table under `path`, atomically and read-only.

    Args:
        path: the final name.
        kind: what the file holds (predictions, targets, results, bank, ...); checked when it is opened.
        names: N unique item names.
        columns: per field one of: array (N, ...), `Rows`, `Ragged`, or a list of N strings.
        whole: arrays that belong to no item.
        meta: JSON-serialisable facts that hold for all items.
    """
    if len(set(names)) != len(names):
        raise ValueError(f"{path}: item names are not unique")
    text = np.frombuffer(json.dumps(meta or {}, sort_keys=True, allow_nan=False).encode(), np.uint8)
    arrays = {**{f"whole/{k}": np.asarray(v) for k, v in (whole or {}).items()}, "meta": text}
    with replacing(path) as unfinished:
        with created(unfinished) as (file, sink):
            layout.write(file, "names", list(names), len(names))
            for key in sorted(columns):
                sink.check()
                layout.write(file, key, columns[key], len(names))
            for key in sorted(arrays):
                layout.write(file, key, arrays[key][None], 1)
            checked = _ranges(file)
        seal.append(unfinished, kind, VERSION, checked)


def _ranges(file: h5py.File) -> list[seal.Range]:
    found = []
    for key in _paths(file):
        for dataset in layout.datasets(file[key]):
            if dataset.id.get_offset() is not None:
                found.append((dataset.id.get_offset(), dataset.id.get_storage_size()))
    return found


def _paths(file: h5py.File) -> list[str]:
    """What has checksums: names, columns, whole arrays, meta. Opens no data set, which would take milliseconds."""
    sums = foreign.node(file, "crc")
    return foreign.paths(sums) if isinstance(sums, h5py.Group) else []


class Table:
    """An opened table; use it as a context manager. Handles are never carried into another process.

    Raises:
        RunError: missing, damaged, locked or foreign file, or a row whose checksum fails: named by file and item.
        UsageError: the file was written by a newer format version.
    """

    def __init__(self, path: Path, kind: str | None = None) -> None:
        self.path = path
        self.kind: str = seal.verify(path, kind, VERSION)["kind"]
        self._readers: dict[str, Reader] = {}
        self._claimed: dict[str, int] = {}
        with self._reading():
            self._file = h5py.File(path, "r", locking="best-effort")
            self._paths = _paths(self._file)
            self._room = path.stat().st_size  # bytes that columns may claim, all together
        self.columns = [k for k in self._paths if k not in ("names", "meta") and not k.startswith("whole/")]
        self.names = self._names()

    @cached_property
    def position(self) -> dict[str, int]:
        """Row of each name."""
        rows = {name: i for i, name in enumerate(self.names)}
        if len(rows) < len(self.names):
            raise RunError(f"{self.path} names an item twice: it is no file of benchkit's. {seal.MEND}")
        return rows

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; reading afterwards is an error."""
        self._readers.clear()
        self._file.close()

    def reads(self, column: str) -> bool:
        """Whether the column has been read from."""
        return column in self._readers

    def detach(self) -> None:
        """Let go of the file but for reading on from the columns read so far: names, checksums and places are kept.

        An open HDF5 file takes .4 MB and a handle, and opening it milliseconds; what is kept takes kilobytes.
        """
        for each in self._readers.values():
            each.detach()
        self._file.close()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except ODD as error:
            raise RunError(f"{self.path} is no file as benchkit writes it: {reason(error)}. {seal.MEND}") from error
        except BlockingIOError as error:
            raise RunError(f"{self.path} is being written by another process. Close it, or wait and retry.") from error
        except OSError as error:
            raise RunError(f"{self.path} cannot be read: {error}. Check the disk, then export again.") from error

    def _names(self) -> list[str]:
        with self._reading():
            found = self._opened("names", None)
            raw = found.extent.rows(0, found.extent.shape[0])
            broken = np.flatnonzero(layout.row_sums(raw) != found.sums)
            if len(broken):
                shown = raw[broken[0]].decode(errors="replace")
                raise RunError(
                    f"{self.path}: the name of item row {broken[0]} is damaged (it reads {shown!r}). {seal.MEND}"
                )
            return [name.decode() for name in raw.tolist()]

    def _reader(self, path: str) -> Reader:
        if path not in self._readers:
            if path not in self._paths:
                raise RunError(f"{self.path} has no {path!r}; it has {', '.join(self.columns)}.")
            if not self._file:
                raise ValueError(f"{self.path} is closed")
            count = 1 if path == "meta" or path.startswith("whole/") else len(self.names)
            with self._reading():
                self._readers[path] = self._opened(path, count)
        return self._readers[path]

    def _opened(self, path: str, count: int | None) -> Any:
        """The reader of a column with so many rows; None: of the names, however many they are.

        Raises:
            foreign.Refused: it has others, or columns claim more bytes than the file has.
        """
        sums = foreign.dataset(self._file, f"crc/{path}")
        found = reader(foreign.node(self._file, path), sums, lambda row: self._damaged(path, row))
        text = count is None and isinstance(found, RowsReader) and found.dtype.kind == "S" and found.shape == ()
        if not (found.fits(count) if count is not None else text and found.fits(found.extents[0].shape[0])):
            raise foreign.Refused(f"{path} does not have a row, and a checksum, for every item")
        self._claimed[path] = sum(extent.bytes for extent in found.extents)  # by name: two threads may open one column
        if sum(list(self._claimed.values())) > self._room:
            raise foreign.Refused("its columns claim more bytes than it has")
        return found

    def _damaged(self, path: str, row: int) -> RunError:
        whole = path == "meta" or path.startswith("whole/")
        where = path if whole else f"{path} of item {self.names[row]!r}"
        return RunError(f"{self.path}: {where} is damaged (its checksum fails). {seal.MEND}")

    def sums(self, path: str) -> np.ndarray:
        """Stored row checksums of a column, uint32 (N,)."""
        with self._reading():
            return self._reader(path).sums

    def dtype(self, column: str) -> np.dtype:
        """The dtype of a column's values."""
        return self._reader(column).dtype

    def shape(self, column: str) -> tuple[int, ...] | None:
        """The shape of one row, or None where it varies by item."""
        return self._reader(column).shape

    def shapes(self, column: str) -> list[tuple[int, ...]]:
        """The shape of every item (unchecked where it varies)."""
        found = self._reader(column)
        if isinstance(found, RaggedReader):
            with self._reading():
                return [tuple(shape) for shape in found.shapes.tolist()]
        return [found.extent.shape[1:]] * len(self.names)

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def node(self, column: str) -> h5py.Dataset | h5py.Group:
        """The HDF5 object of a column (or of `whole/<path>`, `meta`)."""
        if column not in self._paths:
            raise RunError(f"{self.path} has no {column!r}; it has {', '.join(self.columns)}.")
        if not self._file:
            raise ValueError(f"{self.path} is closed")
        with self._reading():
            return foreign.node(self._file, column)

    def read(self, column: str) -> Any:
        """A whole checked column: array (N, ...), list of arrays where shapes vary, list of str for text."""
        if self.shape(column) is None:
            return self.items(column, range(len(self.names)))
        return self.block(column, 0, len(self.names))

    def block(self, column: str, start: int, stop: int) -> Any:
        """Checked rows start..stop of a fixed-shape column."""
        found = self._reader(column)
        if isinstance(found, RaggedReader):
            raise ValueError(f"{column} has no fixed shape: read its items")
        with self._reading():
            rows = found.block(start, stop)
            return [r.decode() for r in rows.tolist()] if layout.is_text(rows.dtype) else rows

    def blocks(self, column: str, size: int | None = None) -> Iterator[Any]:
        """Checked blocks of a fixed-shape column, in order; `size` rows each (default: about one megabyte)."""
        found = self._reader(column)
        size = size or (found.rows_per_step if isinstance(found, RowsReader) else 1)
        for start in range(0, len(self.names), size):
            yield self.block(column, start, min(start + size, len(self.names)))

    def verify(self, column: str, each: Each = lambda count: None) -> None:
        """Check every row of a column without keeping it; `each` is told of bytes as they are read."""
        found = self._reader(column)
        with self._reading():
            found.verify(each)

    def item(self, column: str, row: int) -> Any:
        """One checked row of any column: an array in its own shape, or a str."""
        return self.items(column, (row,))[0]

    def items(self, column: str, rows: Iterable[int]) -> list[Any]:
        """Checked rows of any column in the order asked for; several microseconds each."""
        found = self._reader(column)
        with self._reading():
            values: list[Any] = [found.item(row) for row in rows]
            return [v.decode() for v in values] if layout.is_text(found.dtype) else values

    @property
    def whole(self) -> list[str]:
        """Names of the arrays that belong to no item."""
        return [k.removeprefix("whole/") for k in self._paths if k.startswith("whole/")]

    def read_whole(self, path: str) -> np.ndarray:
        """One checked array that belongs to no item."""
        return self.item(f"whole/{path}", 0)

    @property
    def meta(self) -> dict[str, Any]:
        """The checked facts that hold for all items."""
        try:
            facts = strict.parse(self.item("meta", 0).tobytes())
        except ValueError as error:
            raise RunError(f"{self.path}: its meta cannot be read ({reason(error)}). {seal.MEND}") from error
        if not isinstance(facts, dict):
            raise RunError(f"{self.path}: its meta is {type(facts).__name__}, not keys with values. {seal.MEND}")
        return facts
