"""Readers of one column: rows straight from the file's bytes, each compared with its checksum before it is returned.

HDF5 says where a contiguous dataset lies; reading one row through HDF5 takes 150-300 us, through pread 3 us. Checksums,
offsets and shapes are a few bytes a row and are kept after the first use.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise

import h5py
import numpy as np

from benchkit.store import columns as layout
from benchkit.store import foreign

MOST_AXES = 32  # of an array
LARGEST = float(1 << 40)  # numbers that the sides of an item without any may span and still be an array
STEP = 1 << 20  # bytes read and summed at a time: they are still in the processor's cache when they are summed

Broken = Callable[[int], Exception]  # row -> the error that names it
Each = Callable[[int], None]  # told of bytes as they are read


class Extent:
    """The bytes of one HDF5 dataset.

    Raises:
        foreign.Refused: they lie elsewhere, or not as benchkit writes them.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._offset = foreign.place(dataset)  # None where nothing is stored
        self.dtype: np.dtype = dataset.dtype
        self.shape: tuple[int, ...] = dataset.shape
        self.row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        self._dataset: h5py.Dataset | None = dataset
        self._descriptor: int | None = dataset.file.id.get_vfd_handle()
        self._path: str = dataset.file.filename

    def fill(self, rows: np.ndarray, start: int) -> None:
        """Read rows from `start` on into a C-contiguous array of this dtype.

        Raises:
            OSError: the device fails, or the file has become shorter.
        """
        if not rows.size:
            return
        if self._descriptor is not None:
            self._read(self._descriptor, rows, start)
            return
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            self._read(descriptor, rows, start)
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, rows: np.ndarray, start: int) -> None:
        view = rows.reshape(-1).view(np.uint8).data
        position = self._offset + start * self.row_bytes
        while len(view):
            count = os.preadv(descriptor, [view[:STEP]], position)
            if not count:
                raise OSError(f"it ends at byte {position}, inside its data")
            view, position = view[count:], position + count

    def detach(self) -> None:
        """From now on open the file for each reading: HDF5 may close it."""
        self._dataset = self._descriptor = None

    @property
    def bytes(self) -> int:
        """Of all rows."""
        return self.row_bytes * self.shape[0]

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Unchecked rows start..stop."""
        rows = np.empty((stop - start, *self.shape[1:]), self.dtype)
        self.fill(rows, start)
        return rows


class RowsReader:
    """A column of fixed shape."""

    def __init__(self, node: h5py.Dataset, sums: h5py.Dataset, broken: Broken) -> None:
        self.extent, self._sums = Extent(node), Extent(sums)
        self.dtype = self.extent.dtype
        self.shape: tuple[int, ...] | None = self.extent.shape[1:]
        self._broken = broken
        self.extents = (self.extent, self._sums)

    def fits(self, count: int) -> bool:
        """Whether there are as many rows and checksums as items, and of text one a row."""
        single = self.shape == () or not layout.is_text(self.dtype)
        return self.extent.shape[:1] == (count,) and single and _are_sums(self._sums, count)

    @cached_property
    def sums(self) -> np.ndarray:
        """Stored row checksums, uint32 (N,)."""
        return self._sums.rows(0, self._sums.shape[0])

    def block(self, start: int, stop: int) -> np.ndarray:
        """Checked rows start..stop: (stop - start, *shape)."""
        rows = np.empty((stop - start, *self.extent.shape[1:]), self.dtype)
        step = self.rows_per_step
        for begin in range(0, len(rows), step):
            piece = rows[begin : begin + step]
            self.extent.fill(piece, start + begin)
            broken = np.flatnonzero(layout.row_sums(piece) != self.sums[start + begin : start + begin + len(piece)])
            if len(broken):
                raise self._broken(start + begin + int(broken[0]))
        return rows

    def detach(self) -> None:
        """Keep what is small, so that HDF5 may close the file."""
        _ = self.sums
        for extent in self.extents:
            extent.detach()

    @property
    def rows_per_step(self) -> int:
        """How many rows are read and summed at a time."""
        return max(1, STEP // max(1, self.extent.row_bytes))

    def item(self, row: int) -> np.ndarray:
        """One checked row."""
        rows = self.extent.rows(row, row + 1)
        if zlib.crc32(rows.reshape(-1).view(np.uint8).data) != self.sums[row]:
            raise self._broken(row)
        return rows[0]

    def verify(self, each: Each) -> None:
        """Check every row, some at a time; `each` is told of their bytes.

        Raises:
            UnicodeDecodeError: a text is no UTF-8, though its checksum fits.
        """
        for start in range(0, self.extent.shape[0], self.rows_per_step):
            rows = self.block(start, min(start + self.rows_per_step, self.extent.shape[0]))
            if layout.is_text(rows.dtype):
                b"\0".join(rows.tolist()).decode()
            each(rows.nbytes)


class RaggedReader:
    """A column whose shape varies (CSR)."""

    shape: tuple[int, ...] | None = None

    def __init__(self, node: h5py.Group, sums: h5py.Dataset, broken: Broken) -> None:
        parts = (foreign.dataset(node, name) for name in layout.PARTS)
        self._values, self._offsets, self._shapes = map(Extent, parts)
        self._sums = Extent(sums)
        self.dtype = self._values.dtype
        self._broken = broken
        self.extents = (self._values, self._offsets, self._shapes, self._sums)

    def fits(self, count: int) -> bool:
        """Whether there are as many shapes, offsets and checksums as items."""
        places = self._offsets.shape == (count + 1,) and self._offsets.dtype == np.int64 == self._shapes.dtype
        shapes = len(self._shapes.shape) == 2 and self._shapes.shape[0] == count and self._shapes.shape[1] <= MOST_AXES
        values = len(self._values.shape) == 1 and not layout.is_text(self.dtype)
        return places and shapes and values and _are_sums(self._sums, count)

    @cached_property
    def sums(self) -> np.ndarray:
        """Stored checksums per item, over shape and values, uint32 (N,)."""
        return self._sums.rows(0, self._sums.shape[0])

    @cached_property
    def shapes(self) -> np.ndarray:
        """Shapes per item, int64 (N, ndim), not checked: `item` does."""
        return self._shapes.rows(0, self._shapes.shape[0])

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where items begin and end in the values, int64 (N + 1,), not checked: `item` does."""
        return self._offsets.rows(0, self._offsets.shape[0])

    def detach(self) -> None:
        """Keep what is small, so that HDF5 may close the file."""
        _ = self.sums, self.shapes, self.offsets
        for extent in self.extents:
            extent.detach()

    def item(self, row: int) -> np.ndarray:
        """One checked item in its own shape."""
        start, stop = int(self.offsets[row]), int(self.offsets[row + 1])
        shape = self.shapes[row]
        size = math.prod(shape.tolist()) if (shape >= 0).all() else -1
        if size != stop - start or not 0 <= start <= stop <= self._values.shape[0]:
            raise self._broken(row)
        values = self._values.rows(start, stop)
        if layout.ragged_sum(values, shape) != self.sums[row]:
            raise self._broken(row)
        try:
            return values.reshape(shape)
        except ValueError:  # (0, 10**18): numpy has no such arrays
            raise self._broken(row) from None

    def verify(self, each: Each) -> None:
        """Check every item; `each` is told of their bytes.

        Items that lie one behind the other are read together, which is ten times faster for small ones.
        """
        if not self._are_in_order():
            for row in range(len(self.shapes)):
                each(self.item(row).nbytes)
            return
        begin, step = 0, STEP // max(1, self.dtype.itemsize)
        while begin < len(self.shapes):
            fitting = int(np.searchsorted(self.offsets, self.offsets[begin] + step, "right")) - 1
            end = max(fitting, begin + 1)
            self._verify_run(begin, end)
            each(int(self.offsets[end] - self.offsets[begin]) * self.dtype.itemsize)
            begin = end

    def _are_in_order(self) -> bool:
        """Whether every item has as many values as its shape tells, right behind those of the item before."""
        sizes, room = (sides.astype(np.float64).prod(axis=1) for sides in (self.shapes, np.maximum(self.shapes, 1)))
        good = (self.shapes >= 0).all() and (room < LARGEST).all() and (sizes == np.diff(self.offsets)).all()
        return bool(good and self.offsets[0] >= 0 and self.offsets[-1] <= self._values.shape[0])

    def _verify_run(self, begin: int, end: int) -> None:
        offsets = self.offsets[begin : end + 1]
        octets = self._values.rows(int(offsets[0]), int(offsets[-1])).view(np.uint8).data
        places = ((offsets - offsets[0]) * self.dtype.itemsize).tolist()
        items = (octets[start:stop] for start, stop in pairwise(places))
        sums = map(zlib.crc32, items, map(zlib.crc32, self.shapes[begin:end]))
        broken = np.flatnonzero(np.fromiter(sums, np.uint32, end - begin) != self.sums[begin:end])
        if len(broken):
            raise self._broken(begin + int(broken[0]))


def _are_sums(sums: Extent, count: int) -> bool:
    return sums.shape == (count,) and sums.dtype == np.uint32


Reader = RowsReader | RaggedReader


def reader(node: h5py.Dataset | h5py.Group, sums: h5py.Dataset, broken: Broken) -> Reader:
    """The reader that fits a column's layout."""
    return RowsReader(node, sums, broken) if isinstance(node, h5py.Dataset) else RaggedReader(node, sums, broken)
