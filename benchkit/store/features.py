"""features.h5: the features that one tag used, by view name, and the bank's parts beside it.

Pooled keys are rows of the file. Keys that are larger (patch maps, or more pooled rows than the limit) stay in the
bank's parts, hard-linked into `features/`; the file then holds an index from view to part and row of our own, since HDF5
resolves its links against the working directory and would read another file's numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.errors import RunError
from benchkit.store.bank import Bank
from benchkit.store.columns import Column, Rows
from benchkit.store.files import link_or_copy
from benchkit.store.items import ArrayItems
from benchkit.store.parts import OpenParts
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
    for i, (part, row) in enumerate(bank.places(column, images)):
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
        self._rows = [self.table.position[name] for name in self.names]
        self._parts = OpenParts(folder / "features", self.meta["identity_hash"])
        self._columns: dict[str, Any] = {}

    def __contains__(self, key: str) -> bool:
        return key in self.meta["keys"]

    def read(self, key: str) -> np.ndarray:
        """All rows of a key in the order of `names`."""
        if f"features/{key}" in self.table:
            return self.table.read(f"features/{key}")[self._rows]
        return np.stack(self._indexed(key, self._rows))

    def item(self, key: str, row: int) -> np.ndarray:
        """One row of a key."""
        if f"features/{key}" in self.table:
            return self.table.item(f"features/{key}", self._rows[row])
        return self._indexed(key, [self._rows[row]])[0]

    def rows(self, key: str, positions: Sequence[int]) -> list[np.ndarray]:
        """Some rows of a key, in the order asked for."""
        if f"features/{key}" in self.table:
            return self.table.items(f"features/{key}", [self._rows[position] for position in positions])
        return self._indexed(key, [self._rows[position] for position in positions])

    def joined(self, keys: Sequence[str]) -> ArrayItems:
        """Several pooled keys side by side, (N, sum of C), as the one field that is called by their names joined by +."""
        rows = [np.asarray(self.read(key)) for key in keys]
        return ArrayItems(self.names, {"+".join(keys): np.concatenate(rows, axis=1)}, self.meta)

    def places(self, key: str, positions: Iterable[int]) -> Iterator[tuple[Table, list[int], list[int]]]:
        """Where an indexed key's rows lie: per part its table, the positions in features.h5, and the part's rows."""
        index = self._column(f"index/{key}")
        by_part: dict[int, list[int]] = {}
        for position in positions:
            by_part.setdefault(int(index[position, 0]), []).append(position)
        for number, found in by_part.items():
            part = self._parts.reading(self.meta["parts"][number], f"features/{key}")
            rows = [int(index[position, 1]) for position in found]
            self._check_images(part, found, rows)
            yield part, found, rows

    def _indexed(self, key: str, positions: Sequence[int]) -> list[np.ndarray]:
        values: dict[int, np.ndarray] = {}
        for part, found, rows in self.places(key, positions):
            values.update(zip(found, part.items(f"features/{key}", rows), strict=True))
        return [values[position] for position in positions]

    def _check_images(self, part: Table, positions: Sequence[int], rows: Sequence[int]) -> None:
        images = self._column("image")
        for position, row in zip(positions, rows, strict=True):
            if row >= len(part.names) or part.names[row] != images[position]:
                raise RunError(
                    f"{part.path} does not hold view {self.table.names[position]!r} where features.h5 says: it is "
                    "another file under this name. Export again to make it."
                )

    def _column(self, name: str) -> Any:
        if name not in self._columns:
            self._columns[name] = self.table.read(name)
        return self._columns[name]

    def close(self) -> None:
        """Close the files."""
        self.table.close()
        self._parts.close()

    def __enter__(self) -> TagFeatures:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
