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

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from benchkit.errors import RunError, UsageError
from benchkit.store import columns as layout
from benchkit.store import seal
from benchkit.store.columns import Column
from benchkit.store.files import replacing

VERSION = 1


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
        with h5py.File(unfinished, "w", locking="best-effort") as file:
            layout.write(file, "names", list(names), len(names))
            for key in sorted(columns):
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
    found: list[str] = []

    def visit(name: str, node: Any) -> None:
        if "layout" in node.attrs:
            found.append(name)

    file.visititems(visit)
    return sorted(found)


class Table:
    """An opened table; use it as a context manager. Handles are never carried into another process.

    Raises:
        RunError: missing, damaged, locked or foreign file, or a row whose checksum fails: named by file and item.
        UsageError: the file was written by a newer format version.
    """

    def __init__(self, path: Path, kind: str | None = None) -> None:
        self.path = path
        trailer = seal.verify(path, kind)
        self.kind = trailer["kind"]
        if trailer["version"] > VERSION:
            raise UsageError(
                f"{path} has format version {trailer['version']}; this benchkit reads up to {VERSION}. Update benchkit."
            )
        try:
            self._file = h5py.File(path, "r", locking="best-effort")
        except OSError as error:
            raise RunError(
                f"{path} cannot be opened: {error}. Another program may hold it; close it and retry."
            ) from error
        self.names = self._names()
        self.position = {name: i for i, name in enumerate(self.names)}
        self.columns = [k for k in _paths(self._file) if k not in ("names", "meta") and not k.startswith("whole/")]

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; reading afterwards is an error."""
        self._file.close()

    def _names(self) -> list[str]:
        raw = self._file["names"][:]
        broken = np.flatnonzero(layout.row_sums(raw) != self.sums("names"))
        if len(broken):
            shown = raw[broken[0]].decode(errors="replace")
            raise RunError(
                f"{self.path}: the name of item row {broken[0]} is damaged (it reads {shown!r}). {seal.MEND}"
            )
        return [name.decode() for name in raw]

    def sums(self, path: str) -> np.ndarray:
        """Stored row checksums of a column, uint32 (N,)."""
        return self._file[f"crc/{path}"][:]

    def dtype(self, column: str) -> np.dtype:
        """The dtype of a column's values."""
        return layout.datasets(self.node(column))[0].dtype

    def shape(self, column: str) -> tuple[int, ...] | None:
        """The shape of one row, or None where it varies by item."""
        node = self.node(column)
        return node.shape[1:] if isinstance(node, h5py.Dataset) else None

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def node(self, column: str) -> h5py.Dataset | h5py.Group:
        """The HDF5 object of a column (or of `whole/<path>`, `meta`)."""
        if column not in self._file:
            raise RunError(f"{self.path} has no {column!r}; it has {', '.join(self.columns)}.")
        return self._file[column]

    def read(self, column: str) -> Any:
        """A whole checked column: array (N, ...), list of arrays where shapes vary, list of str for text."""
        node = self.node(column)
        if isinstance(node, h5py.Group):
            return [self.item(column, i) for i in range(len(self.names))]
        return self.block(column, 0, node.shape[0])

    def block(self, column: str, start: int, stop: int) -> Any:
        """Checked rows start..stop of a fixed-shape column."""
        dataset = self.node(column)
        rows = np.empty((stop - start, *dataset.shape[1:]), dataset.dtype)
        if rows.size:
            dataset.read_direct(rows, np.s_[start:stop])
        self._check(column, layout.row_sums(rows), start)
        return [r.decode() for r in rows] if layout.is_text(dataset.dtype) else rows

    def blocks(self, column: str, size: int = 4096) -> Iterator[np.ndarray]:
        """Checked blocks of a fixed-shape column, in order."""
        for start in range(0, len(self.names), size):
            yield self.block(column, start, min(start + size, len(self.names)))

    def _check(self, column: str, sums: np.ndarray, start: int) -> None:
        stored = self._file[f"crc/{column}"][start : start + len(sums)]
        broken = np.flatnonzero(sums != stored)
        if len(broken):
            row = start + int(broken[0])
            whole = column == "meta" or column.startswith("whole/")
            where = column if whole else f"{column} of item {self.names[row]!r}"
            raise RunError(f"{self.path}: {where} is damaged (its checksum fails). {seal.MEND}")

    def item(self, column: str, row: int) -> np.ndarray:
        """One checked row of any column, in its own shape."""
        node = self.node(column)
        if isinstance(node, h5py.Dataset):
            return self.block(column, row, row + 1)[0]
        start, stop = node["offsets"][row : row + 2]
        shape = node["shapes"][row]
        fits = 0 <= start <= stop <= node["values"].shape[0] and int(np.prod(shape)) == stop - start
        values = node["values"][start:stop] if fits and (shape >= 0).all() else np.zeros(0, node["values"].dtype)
        self._check(
            column, np.array([layout.ragged_sum(values, shape)], np.uint32) if fits else ~self._sum(column, row), row
        )
        return values.reshape(shape)

    def _sum(self, column: str, row: int) -> np.ndarray:
        return self._file[f"crc/{column}"][row : row + 1]

    @property
    def whole(self) -> list[str]:
        """Names of the arrays that belong to no item."""
        return sorted(k.removeprefix("whole/") for k in _paths(self._file) if k.startswith("whole/"))

    def read_whole(self, path: str) -> np.ndarray:
        """One checked array that belongs to no item."""
        return self._single(f"whole/{path}")

    @property
    def meta(self) -> dict[str, Any]:
        """The checked facts that hold for all items."""
        return json.loads(self._single("meta").tobytes())

    def _single(self, path: str) -> np.ndarray:
        value = self.node(path)[:]
        self._check(path, layout.row_sums(value), 0)
        return value[0]
