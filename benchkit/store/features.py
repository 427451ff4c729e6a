"""features.h5: the features that one tag used, by view name, and the bank's parts beside it.

Pooled keys are rows of the file. Keys that are larger (patch maps, or more pooled rows than the limit) stay in the
bank's parts, hard-linked into `features/`; the file then holds an index from view to part and row of our own, since HDF5
resolves its links against the working directory and would read another file's numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.errors import RunError
from benchkit.store.bank import Bank
from benchkit.store.columns import Column, Rows
from benchkit.store.content import Entry
from benchkit.store.files import link_or_copy
from benchkit.store.table import Table, write_table

INLINE_BYTES = 1 << 30  # pooled keys up to this size are copied into features.h5
_BLOCK = 4096


def write_features(
    folder: Path,
    bank: Bank,
    views: Sequence[str],
    images: Sequence[str],
    keys: Sequence[str],
    limit: int = INLINE_BYTES,
) -> None:
    """Write `features.h5` and link the parts it points to.

    Args:
        folder: where features.h5 goes; parts go to `folder/features`.
        bank: holds every key for every image.
        views: N view names, sorted.
        images: N sha256 of the views' bytes.
        keys: feature keys.
        limit: bytes of pooled features that are copied.
    """
    columns: dict[str, Column] = {"image": list(images)}
    parts: list[str] = []
    for key in keys:
        column = f"features/{key}"
        sample = bank.read(column, images[:1]) if images else np.zeros((0, 0), np.float32)
        inline = isinstance(sample, np.ndarray) and sample.ndim == 2 and sample.nbytes * len(images) <= limit
        if inline:
            columns[column] = Rows(sample.dtype, sample.shape[1:], _blocks(bank, column, images))
        else:
            columns[f"index/{key}"] = _index(bank, column, images, parts)
    for part in parts:
        link_or_copy(bank.folder / part, folder / "features" / part)
    meta = {"identity": bank.identity, "identity_hash": bank.identity_hash, "keys": list(keys), "parts": parts}
    write_table(folder / "features.h5", "features", views, columns, meta=meta)


def _blocks(bank: Bank, column: str, images: Sequence[str]) -> Iterator[np.ndarray]:
    for start in range(0, len(images), _BLOCK):
        yield bank.read(column, images[start : start + _BLOCK])


def _index(bank: Bank, column: str, images: Sequence[str], parts: list[str]) -> np.ndarray:
    rows = np.zeros((len(images), 2), np.int64)
    numbers = {part: i for i, part in enumerate(parts)}
    for i, image in enumerate(images):
        part, row = bank.place(column, image)
        if part not in numbers:
            numbers[part] = len(parts)
            parts.append(part)
        rows[i] = numbers[part], row
    return rows


class TagFeatures:
    """Features of named views, from a tag's folder alone; an `Items` whose fields are feature keys.

    Raises:
        RunError: features.h5 or a part is missing, damaged or of another identity; a view is not there.
    """

    def __init__(self, folder: Path, names: Sequence[str] | None = None) -> None:
        self.folder = folder
        self.table = Table(folder / "features.h5", "features")
        self.meta = self.table.meta
        self.names = list(self.table.names if names is None else names)
        absent = next((n for n in self.names if n not in self.table.position), None)
        if absent is not None:
            raise RunError(f"{self.table.path} has no view {absent!r}. Export again to make it.")

    def __contains__(self, key: str) -> bool:
        return key in self.meta["keys"]

    def read(self, key: str) -> np.ndarray:
        """All rows of a key in the order of `names`."""
        rows = [self.table.position[name] for name in self.names]
        if f"features/{key}" in self.table:
            return self.table.read(f"features/{key}")[rows]
        return np.stack([self._indexed(key, row) for row in rows])

    def item(self, key: str, row: int) -> np.ndarray:
        """One row of a key."""
        position = self.table.position[self.names[row]]
        if f"features/{key}" in self.table:
            return self.table.item(f"features/{key}", position)
        return self._indexed(key, position)

    def _indexed(self, key: str, position: int) -> np.ndarray:
        number, row = self.table.item(f"index/{key}", position)
        path = self.folder / "features" / self.meta["parts"][int(number)]
        part = self._part(path)
        if part.names[int(row)] != self.table.item("image", position):
            raise RunError(f"{path} does not hold view {self.table.names[position]!r} where features.h5 says.")
        return part.item(f"features/{key}", int(row))

    def indexed_entry(self, key: str) -> Entry:
        """What an indexed key adds to a content hash: the same as if its rows lay in features.h5."""
        sums, shapes, dtype = [], [], ""
        for position in range(len(self.table.names)):
            value = self._indexed(key, position)
            dtype = value.dtype.str
            shapes.append(str(value.shape))
            sums.append(zlib.crc32(np.ascontiguousarray(value).data))
        return f"features/{key}", self.table.names, dtype, shapes, np.array(sums, np.uint32)

    def _part(self, path: Path) -> Table:
        if getattr(self, "_open", None) is None or self._open.path != path:
            self._open: Any = Table(path, "bank")
            if self._open.meta["identity_hash"] != self.meta["identity_hash"]:
                raise RunError(f"{path} belongs to another model or preprocessing than features.h5 beside it.")
        return self._open

    def close(self) -> None:
        """Close the files."""
        self.table.close()
        if getattr(self, "_open", None) is not None:
            self._open.close()

    def __enter__(self) -> TagFeatures:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
