"""Maps and truth of a few items in real files, for tests of dense heads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.store.bank import Bank
from benchkit.store.columns import Ragged
from benchkit.store.features import write_features
from benchkit.store.items import TableItems
from benchkit.store.maps import Maps
from benchkit.store.table import Table, write_table


def column(arrays: Sequence[np.ndarray]) -> Any:
    """Rows where all shapes agree."""
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    return Ragged(arrays[0].dtype, arrays[0].ndim, arrays)


class Tag:
    """A bank, a tag's features and the truth of some items.

    Args:
        folder: empty.
        maps: per key one map per item, (C, h, w).
        truth: per field one array per item.
        meta: of the truth.
        frames, extents: per item; default: the truth's size, and 1.
        names: of the items.
        parts: so many items a part.
    """

    def __init__(
        self,
        folder: Path,
        maps: Mapping[str, Sequence[np.ndarray]],
        truth: Mapping[str, Sequence[np.ndarray]],
        meta: Mapping[str, Any] | None = None,
        frames: Any = None,
        extents: Any = None,
        names: Sequence[str] | None = None,
        parts: int = 16,
    ) -> None:
        count = len(next(iter(maps.values())))
        self.folder, self.keys = folder, list(maps)
        self.names = list(names or (f"{i:04d}" for i in range(count)))
        images = [hashlib.sha256(name.encode()).hexdigest() for name in self.names]
        with Bank(folder / "bank", {"model": "tiny"}) as bank:
            for start in range(0, count, parts):
                some = slice(start, start + parts)
                columns: dict[str, Any] = {f"features/{key}": column(rows[some]) for key, rows in maps.items()}
                bank.add(images[some], {**columns, "reason": [""] * len(images[some])}, {"cpu": "any"})
            bank.scan()
            write_features(folder / "tag", bank, self.names, images, self.keys)
        write_table(folder / "truth.h5", "targets", self.names, {k: column(v) for k, v in truth.items()}, meta=meta)
        sizes = [array.shape[:2] for array in next(iter(truth.values()))]
        self.frames = np.array(sizes if frames is None else frames, np.int32)
        self.extents = np.ones((count, 2)) if extents is None else np.array(extents, float)

    @property
    def key(self) -> str:
        """As heads get it."""
        return "+".join(self.keys)

    @contextmanager
    def opened(self, rows: Sequence[int] | None = None) -> Iterator[tuple[Maps, TableItems]]:
        """Maps and truth of some items."""
        picked = list(range(len(self.names))) if rows is None else list(rows)
        names = [self.names[row] for row in picked]
        with Table(self.folder / "truth.h5", "targets") as table:
            folder = self.folder / "tag"
            with Maps(folder, names, names, self.keys, self.frames[picked], self.extents[picked]) as maps:
                yield maps, TableItems(table, names)


def values(column: Any) -> Any:
    """A predicted column as arrays: (N, ...), or a list where shapes vary."""
    if isinstance(column, np.ndarray):
        return column
    if isinstance(column, Ragged):
        return list(column.each())
    return np.concatenate(list(column.blocks))
