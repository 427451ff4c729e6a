"""Columns of a table: how one field of many items is laid out, summed and checked.

Fixed shapes are rows of one contiguous dataset. Fields whose shape varies are CSR: values one after the other, offsets,
and a shape per item. Strings are UTF-8 of one fixed length. Every row has a crc32 of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from benchkit.errors import UsageError
from benchkit.store.crc import TABLE

PARTS = ("values", "offsets", "shapes")  # of a field whose shape varies
_HELD = 1024  # arrays gathered before they are written,
_HELD_BYTES = 1 << 24  # or so many bytes of them
_FEW, _MANY = 16, 128  # bytes of a row, rows: where summing byte by byte is faster


@dataclass
class Rows:
    """A fixed-shape field that arrives in blocks: each block is (n, *shape) of `dtype`."""

    dtype: np.dtype
    shape: tuple[int, ...]
    blocks: Iterable[np.ndarray]


@dataclass
class Ragged:
    """A field whose shape varies: one array per item, all of one dtype and number of dimensions.

    `arrays` is a sequence, or a function that gives them anew each time, for more than fit in memory. Where the `shapes`
    are known beforehand they are made once only.
    """

    dtype: np.dtype
    ndim: int
    arrays: Sequence[np.ndarray] | Callable[[], Iterable[np.ndarray]]
    shapes: Sequence[tuple[int, ...]] | None = None

    def each(self) -> Iterable[np.ndarray]:
        """The arrays, from the first."""
        return self.arrays() if callable(self.arrays) else self.arrays


Column = np.ndarray | Rows | Ragged | Sequence[str]


def row_sums(rows: np.ndarray) -> np.ndarray:
    """crc32 of the bytes of every row, uint32 (N,)."""
    if not rows.size:
        return np.zeros(len(rows), np.uint32)
    octets = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).reshape(len(rows), -1)
    if octets.shape[1] <= _FEW and len(rows) > _MANY:
        return _sums_of_few(octets)
    each: Iterable[Any] = octets
    return np.array(list(map(zlib.crc32, each)), np.uint32)


def _sums_of_few(octets: np.ndarray) -> np.ndarray:
    """crc32 of rows of some bytes (N, bytes), byte by byte of all: ten times faster than a call for each score."""
    state = np.full(len(octets), 0xFFFFFFFF, np.uint32)
    for column in octets.T:
        state = TABLE[(state ^ column) & 0xFF] ^ (state >> 8)
    return ~state


def ragged_sum(values: np.ndarray, shape: np.ndarray) -> int:
    """crc32 of one CSR item: its shape, then its values."""
    start = zlib.crc32(np.ascontiguousarray(shape, dtype=np.int64).data)
    return zlib.crc32(np.ascontiguousarray(values).data, start)


def text_rows(texts: Sequence[str]) -> np.ndarray:
    """Strings as fixed-length UTF-8, in the type HDF5 viewers show as text.

    Raises:
        UsageError: a text that is no Unicode (a file name of other bytes), or that holds a NUL, which HDF5 drops.
    """
    encoded = [_encoded(text) for text in texts]
    length = max((len(e) for e in encoded), default=0) or 1
    return np.array(encoded, dtype=f"S{length}").astype(h5py.string_dtype("utf-8", length))


def _encoded(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!r} cannot be stored: it is no valid Unicode. Rename the file.") from error
    if b"\0" in data:
        raise UsageError(f"{text!r} cannot be stored: it holds a NUL character. Rename the item.")
    return data


def write(file: h5py.File, path: str, column: Any, count: int) -> None:
    """Write one column of `count` rows and its checksums (`crc/<path>`)."""
    if isinstance(column, Ragged):
        _write_ragged(file, path, column, count)
        return
    if not isinstance(column, Rows):
        if not isinstance(column, np.ndarray) and len(column) and isinstance(column[0], np.ndarray):
            _write_ragged(file, path, Ragged(column[0].dtype, column[0].ndim, column), count)
            return
        array = column if isinstance(column, np.ndarray) else text_rows(column)
        column = Rows(array.dtype, array.shape[1:], [array])
    _write_rows(file, path, column, count)


def _write_rows(file: h5py.File, path: str, rows: Rows, count: int) -> None:
    dataset = file.create_dataset(path, shape=(count, *rows.shape), dtype=rows.dtype)
    dataset.attrs["layout"] = "rows"
    sums, position = np.zeros(count, np.uint32), 0
    for block in rows.blocks:
        block = np.ascontiguousarray(block, dtype=rows.dtype)
        stop = position + len(block)
        if block.size:
            dataset.write_direct(block, dest_sel=np.s_[position:stop])
        sums[position:stop] = row_sums(block)
        position = stop
    if position != count:
        raise ValueError(f"{path} got {position} rows, not {count}")
    file.create_dataset(f"crc/{path}", data=sums)


def _write_ragged(file: h5py.File, path: str, ragged: Ragged, count: int) -> None:
    shapes = ragged.shapes if ragged.shapes is not None else [array.shape for array in ragged.each()]
    if len(shapes) != count or any(len(shape) != ragged.ndim for shape in shapes):
        raise ValueError(f"{path} needs {count} arrays of {ragged.ndim} dimensions")
    table = np.array(shapes, dtype=np.int64).reshape(count, ragged.ndim)
    offsets = np.concatenate([[0], np.cumsum(table.prod(axis=1), dtype=np.int64)]).astype(np.int64)
    group = file.create_group(path)
    group.attrs["layout"] = "ragged"
    sums = _write_values(group.create_dataset("values", (int(offsets[-1]),), ragged.dtype), ragged, table, offsets)
    group.create_dataset("offsets", data=offsets)
    group.create_dataset("shapes", data=table)
    file.create_dataset(f"crc/{path}", data=sums)


def _write_values(values: h5py.Dataset, ragged: Ragged, shapes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Write the values, some thousand items or megabytes at a time; returns each item's checksum."""
    sums, held, size = np.zeros(len(shapes), np.uint32), [], 0
    for row, array in enumerate(ragged.each()):
        if array.shape != tuple(shapes[row]):
            raise ValueError(f"{values.name}: row {row} is of shape {array.shape}, not {tuple(shapes[row])}")
        held.append(np.ascontiguousarray(array, dtype=ragged.dtype).reshape(-1))
        sums[row] = ragged_sum(held[-1], shapes[row])
        size += held[-1].nbytes
        if len(held) == _HELD or size >= _HELD_BYTES or row == len(shapes) - 1:
            block = np.concatenate(held)
            if block.size:
                start = int(offsets[row + 1 - len(held)])
                values.write_direct(block, dest_sel=np.s_[start : start + block.size])
            held, size = [], 0
    return sums


def datasets(node: h5py.Dataset | h5py.Group) -> list[h5py.Dataset]:
    """The HDF5 datasets that hold a column."""
    return [node] if isinstance(node, h5py.Dataset) else [node[part] for part in PARTS]


def is_text(dtype: np.dtype) -> bool:
    """Whether a column's dtype is fixed-length UTF-8."""
    return dtype.kind == "S"
