"""The bank: features of one backbone identity, shared by every benchmark that shows it the same images.

A folder of immutable parts. A part is a table whose item names are the sha256 of the images' bytes, its columns are
feature keys (`features/<key>`), thumbnails (`thumb`), image sizes (`size`) and, for skipped rows, the reason
(`reason`, '' for a good row). A row is in a part for all of the part's columns or not at all.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.errors import RunError
from benchkit.provenance.identity import identity_hash
from benchkit.store.columns import Column
from benchkit.store.files import clear_dead, make_folder, write_json
from benchkit.store.parts import OpenParts
from benchkit.store.table import Table, write_table

TOLERANCE = 2e-2  # relative difference allowed between platforms, of the row's largest value

Place = tuple[str, int]  # part name, row


class Bank:
    """The parts of one backbone identity.

    Args:
        folder: `features/<backbone>-<hash8>`; made when missing.
        identity: everything that can change a feature's value (JSON-serialisable); each part repeats it.

    Raises:
        RunError: a part is damaged, belongs to another identity, or disagrees in bits with another of its platform.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        self.identity = dict(identity)
        self.identity_hash = identity_hash(self.identity)
        make_folder(folder)
        clear_dead(folder)
        if not (folder / "identity.json").exists():
            write_json(folder / "identity.json", self.identity)
        self.index: dict[str, dict[str, Place]] = {}
        self.reasons: dict[str, str] = {}
        self.platforms: dict[str, Mapping[str, Any]] = {}
        self.duplicates = 0
        self._scanned: set[str] = set()
        self._parts = OpenParts(folder, self.identity_hash)
        self.scan()

    def scan(self) -> None:
        """Index the parts that have appeared since the last scan."""
        for path in sorted(self.folder.glob("part-*.h5")):
            if path.name not in self._scanned:
                self._index_part(path.name)
                self._scanned.add(path.name)

    def _index_part(self, part: str) -> None:
        table = self._parts[part]
        self.platforms[part] = table.meta["platform"]
        self.reasons.update((n, r) for n, r in zip(table.names, table.read("reason"), strict=True) if r)
        found = {name: (part, row) for row, name in enumerate(table.names)}
        for column in table.columns:
            if column != "reason":
                self._index_column(column, found)

    def _index_column(self, column: str, found: Mapping[str, Place]) -> None:
        places = self.index.setdefault(column, {})
        twice = [name for name in found if name in places] if places else []
        if column.startswith("features/"):
            for name in twice:
                self._settle_duplicate(column, name, places[name], found[name])
        places.update({**found, **{name: min(places[name], found[name]) for name in twice}})

    def _settle_duplicate(self, column: str, name: str, old: Place, new: Place) -> None:
        self.duplicates += 1
        first, second = self._parts[old[0]], self._parts[new[0]]
        equal = _equal_bits(first, old[1], second, new[1], column)
        if not equal and self.platforms[old[0]] == self.platforms[new[0]]:
            raise RunError(
                f"{first.path} and {second.path} hold different {column} for the image {name}, though one platform "
                "made both: one was made by a faulty or non-deterministic forward. Delete both parts and export again."
            )
        if not equal and not _close(first.item(column, old[1]), second.item(column, new[1])):
            raise RunError(
                f"{first.path} and {second.path} disagree on {column} of image {name} by more than {TOLERANCE} of its "
                "largest value, though only the machine differs. Delete the part you trust less and export again."
            )

    def missing(self, names: Iterable[str], columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """For every image that lacks some of `columns`: which ones it lacks. In the order of `names`."""
        lacking = {}
        for name in names:
            absent = tuple(c for c in columns if name not in self.index.get(c, ()))
            if absent:
                lacking[name] = absent
        return lacking

    def add(self, names: Sequence[str], columns: Mapping[str, Column], platform: Mapping[str, Any]) -> Path:
        """Write one finished part; the rows exist for all its columns from the moment this returns."""
        path = self.folder / f"part-{uuid.uuid4().hex}.h5"
        meta = {"identity": self.identity, "identity_hash": self.identity_hash, "platform": dict(platform)}
        write_table(path, "bank", names, columns, meta=meta)
        return path

    def read(self, column: str, names: Sequence[str]) -> Any:
        """Rows of a column in the order of `names`: array (N, ...) or, where shapes vary, a list of arrays."""
        places = [self.place(column, name) for name in names]
        by_part: dict[str, list[int]] = {}
        for position, (part, _) in enumerate(places):
            by_part.setdefault(part, []).append(position)
        found: list[Any] = [None] * len(names)
        for part, positions in by_part.items():
            values = self._parts[part].items(column, (places[p][1] for p in positions))
            for position, value in zip(positions, values, strict=True):
                found[position] = value
        return np.stack(found) if found and len({value.shape for value in found}) == 1 else found

    def place(self, column: str, name: str) -> Place:
        """Part and row of one image.

        Raises:
            RunError: no part has it.
        """
        try:
            return self.index[column][name]
        except KeyError:
            raise RunError(f"{self.folder} has no {column} of image {name}. Export again to make it.") from None

    def close(self) -> None:
        """Close every part."""
        self._parts.close()

    def __enter__(self) -> Bank:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _equal_bits(first: Table, i: int, second: Table, j: int, column: str) -> bool:
    layouts = [(table.dtype(column), table.shape(column)) for table in (first, second)]
    if layouts[0] == layouts[1]:
        return bool(first.sums(column)[i] == second.sums(column)[j])
    a, b = first.item(column, i), second.item(column, j)  # rows in one part, shape per item in the other
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    scale = max(float(np.abs(a).max(initial=0)), float(np.abs(b).max(initial=0)), 1e-12)
    return float(np.abs(a.astype(np.float64) - b).max(initial=0)) <= TOLERANCE * scale
