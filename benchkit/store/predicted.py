"""Predictions of items as they are made one by one, in parts: what was finished before a stop is not made again.

A part is a table whose rows are items: `fields/<field>`, and `images`, the sha256 of the item's images; its meta has the identity
of what predicts. A row counts if both are what they are now.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchkit.errors import RunError
from benchkit.provenance.identity import identity_hash
from benchkit.store.columns import Column, Ragged, Rows
from benchkit.store.files import changing, clear_dead, make_folder
from benchkit.store.table import Table, write_table

KIND = "pairs"


class _Place(NamedTuple):
    part: Path
    row: int


class Predicted:
    """The parts in one folder that one process fills.

    Args:
        folder: made when missing.
        identity: everything that can change a prediction, but for the images (JSON-serialisable).
        platform: recorded with every part.
        images: by item, what stands for the bytes of its images.
        part_bytes, part_seconds: a part is written when it is so large or so old.
        say: told of parts that are of no use; they are deleted.

    Attributes:
        platforms: of the parts that count, each once.
    """

    def __init__(
        self,
        folder: Path,
        identity: Mapping[str, Any],
        platform: Mapping[str, Any],
        images: Mapping[str, str],
        part_bytes: int,
        part_seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self.folder, self.platform, self.images = folder, dict(platform), images
        self.identity_hash = identity_hash(identity)
        self.part_bytes, self.part_seconds, self.say = part_bytes, part_seconds, say
        self.platforms: list[Mapping[str, Any]] = []
        self._places: dict[str, _Place] = {}
        self._shapes: dict[str, dict[str, tuple[int, ...]]] = {}  # by field and item
        self._layouts: dict[str, tuple[np.dtype, bool]] = {}  # dtype of a field, and whether its shape varies
        self._clear()
        make_folder(folder)
        clear_dead(folder)
        for path in sorted(folder.glob("part-*.h5")):
            self._index(path)

    def __contains__(self, item: str) -> bool:
        return item in self._places

    def _index(self, path: Path) -> None:
        """Take the rows of a part that count; a part without any is deleted."""
        try:
            with Table(path, KIND) as table:
                if table.meta.get("identity_hash") == self.identity_hash:
                    self._take(table)
                    return
            why = "was made with other weights or settings"
        except RunError as error:
            why = f"is damaged ({error})"
        self.say(f"{path} {why}: it is deleted, and its items are predicted again.")
        with changing(path):
            path.unlink()

    def _take(self, table: Table) -> None:
        fields = [column for column in table.columns if column != "images"]
        for column in fields:
            table.verify(column)
        rows = enumerate(zip(table.names, table.read("images"), strict=True))
        good = [(row, name) for row, (name, images) in rows if self.images.get(name) == images]
        self._places.update({name: _Place(table.path, row) for row, name in good})
        for column in fields:
            varies = table.shape(column) is None or self._layouts.get(column, (None, False))[1]
            self._layouts[column] = (table.dtype(column), varies)
            shapes = table.shapes(column)
            self._shapes.setdefault(column, {}).update({name: shapes[row] for row, name in good})
        if table.meta["platform"] not in self.platforms:
            self.platforms.append(table.meta["platform"])

    def add(self, item: str, columns: Mapping[str, Column]) -> None:
        """Take the columns of one item, each with one row."""
        row = {f"fields/{name}": (_only(column), isinstance(column, Ragged)) for name, column in columns.items()}
        self._held[item] = row
        self._bytes += sum(value.nbytes for value, _ in row.values())
        if self._bytes >= self.part_bytes or time.monotonic() - self._opened >= self.part_seconds:
            self.close()

    def close(self) -> None:
        """Write what has not been written yet."""
        if not self._held:
            return
        names = list(self._held)
        path = self.folder / f"part-{uuid.uuid4().hex}.h5"
        columns: dict[str, Column] = {"images": [self.images[name] for name in names]}
        for field, (first, ragged) in self._held[names[0]].items():
            values = [self._held[name][field][0] for name in names]
            columns[field] = Ragged(first.dtype, first.ndim, values) if ragged else np.stack(values)
        meta = {"identity_hash": self.identity_hash, "platform": self.platform}
        write_table(path, KIND, names, columns, meta=meta)
        self._clear()
        self._index(path)

    def _clear(self) -> None:
        self._held: dict[str, dict[str, tuple[np.ndarray, bool]]] = {}
        self._bytes = 0
        self._opened = time.monotonic()

    def columns(self, items: Sequence[str]) -> dict[str, Column]:
        """The predictions of items that are all there, read while they are written on."""
        found: dict[str, Column] = {}
        for field, (dtype, varies) in self._layouts.items():
            shapes = [self._shapes[field][item] for item in items]
            each, name = partial(self._each, field, items), field.removeprefix("fields/")
            if varies or len(set(shapes)) > 1:
                found[name] = Ragged(dtype, len(shapes[0]), each, shapes)
            else:
                found[name] = Rows(dtype, shapes[0], (value[None] for value in each()))
        return found

    def _each(self, field: str, items: Sequence[str]) -> Iterator[np.ndarray]:
        """Rows of a field; one part is open at a time, and items of one part follow each other, as they were made."""
        table: Table | None = None
        try:
            for item in items:
                part, row = self._places[item]
                if table is None or table.path != part:
                    if table is not None:
                        table.close()
                    table = Table(part, KIND)
                yield table.item(field, row)
        finally:
            if table is not None:
                table.close()


def _only(column: Any) -> np.ndarray:
    """The one row of a column."""
    if isinstance(column, Rows):
        column = np.concatenate(list(column.blocks))
    rows = list(column.each()) if isinstance(column, Ragged) else column
    if len(rows) != 1:
        raise ValueError(f"a column of {len(rows)} rows for one item")
    return np.asarray(rows[0])
