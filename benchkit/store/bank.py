"""The bank: features of one backbone identity, shared by every benchmark that shows it the same images.

A folder of immutable parts. A part is a table whose item names are the sha256 of the images' bytes, its columns are
feature keys (`features/<key>`), thumbnails (`thumb`), image sizes (`size`) and, for skipped rows, the reason
(`reason`, '' for a good row). A row is in a part for all of the part's columns or not at all.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.errors import RunError
from benchkit.provenance.identity import identity_hash
from benchkit.store.columns import Column
from benchkit.store.files import clear_dead, make_folder, write_json
from benchkit.store.lookup import Lookup, digests, merged
from benchkit.store.parts import OpenParts
from benchkit.store.table import Table, write_table

TOLERANCE = 2e-2  # relative difference allowed between platforms, of the row's largest value

Place = tuple[str, int]  # part name, row
Columns = tuple[str, ...]


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
        self.reasons: dict[str, str] = {}
        self.platforms: dict[str, Mapping[str, Any]] = {}
        self.duplicates = 0
        self._names: list[str] = []  # of the parts, in order: a part's number is its place here
        self._kinds: dict[Columns, Lookup] = {}  # rows of the parts that have these columns
        self._parts = OpenParts(folder, self.identity_hash)
        self.scan()

    def scan(self) -> None:
        """Index the parts that have appeared since the last scan; all of them, or none where they do not fit together."""
        fresh = sorted({path.name for path in self.folder.glob("part-*.h5")}.difference(self._names))
        if not fresh:
            return
        before = self._names, self._kinds, self.duplicates
        read = [self._read_part(part) for part in fresh]
        try:
            numbers = self._take(fresh, read)
            for column in sorted({c for columns, _ in read for c in columns if c.startswith("features/")}):
                self._settle_duplicates(column, numbers)
        except RunError:
            self._names, self._kinds, self.duplicates = before
            raise

    def _take(self, parts: Sequence[str], read: Sequence[tuple[Columns, np.ndarray]]) -> set[int]:
        """Put the rows of new parts to the others; returns the numbers of the new parts."""
        names = sorted([*self._names, *parts])
        numbers = {name: number for number, name in enumerate(names)}
        moved = np.array([numbers[name] for name in self._names], np.int32)
        found = {columns: [lookup.renumbered(moved)] for columns, lookup in self._kinds.items()}
        for part, (columns, images) in zip(parts, read, strict=True):
            rows = np.arange(len(images), dtype=np.int32)
            found.setdefault(columns, []).append(Lookup(images, np.full_like(rows, numbers[part]), rows))
        self._names, self._kinds = names, {columns: merged(lookups) for columns, lookups in found.items()}
        return {numbers[part] for part in parts}

    def _read_part(self, part: str) -> tuple[Columns, np.ndarray]:
        """Columns and names of a part."""
        table = self._parts[part]
        self.platforms[part] = table.meta["platform"]
        self.reasons.update((n, r) for n, r in zip(table.names, table.read("reason"), strict=True) if r)
        return tuple(column for column in table.columns if column != "reason"), digests(table.names)

    def _having(self, column: str) -> list[Lookup]:
        return [lookup for columns, lookup in self._kinds.items() if column in columns]

    def _settle_duplicates(self, column: str, fresh: Collection[int]) -> None:
        """Compare rows of one image in several parts, where one of the parts is new."""
        rows = merged(self._having(column))
        repeats = rows.repeats()
        seen = np.concatenate([[0], np.cumsum(np.isin(rows.parts, list(fresh)))])
        for start, stop in repeats[seen[repeats[:, 1]] > seen[repeats[:, 0]]]:
            places = list(zip(rows.parts[start:stop].tolist(), rows.rows[start:stop].tolist(), strict=True))
            places.sort(key=lambda place: place[0] in fresh)  # those known before come first, each kind by name
            best = places[0]
            for place in places[1:]:
                if place[0] in fresh:
                    self._settle(column, best, place)
                best = min(best, place)

    def _settle(self, column: str, old: tuple[int, int], new: tuple[int, int]) -> None:
        self.duplicates += 1
        parts = [self._names[number] for number, _ in (old, new)]
        first, second = (self._parts[part] for part in parts)
        equal = _equal_bits(first, old[1], second, new[1], column)
        name = first.names[old[1]]
        if not equal and self.platforms[parts[0]] == self.platforms[parts[1]]:
            raise RunError(
                f"{first.path} and {second.path} hold different {column} for the image {name}, though one platform "
                "made both: one was made by a faulty or non-deterministic forward. Delete both parts and export again."
            )
        if not equal and not _close(first.item(column, old[1]), second.item(column, new[1])):
            raise RunError(
                f"{first.path} and {second.path} disagree on {column} of image {name} by more than {TOLERANCE} of its "
                "largest value, though only the machine differs. Delete the part you trust less and export again."
            )

    def lacks(self, images: np.ndarray, columns: Sequence[str]) -> np.ndarray:
        """Which of so many digests uint8 (N, 32) lack which columns: bool (N, columns)."""
        there = {kind: lookup.find(images) >= 0 for kind, lookup in self._kinds.items()}
        lacking = np.ones((len(images), len(columns)), bool)
        for number, column in enumerate(columns):
            for kind in (kind for kind in there if column in kind):
                lacking[:, number] &= ~there[kind]
        return lacking

    def missing(self, names: Iterable[str], columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """For every image that lacks some of `columns`: which ones it lacks. In the order of `names`."""
        names = list(names)
        lacking = self.lacks(digests(names), columns)
        rows = np.flatnonzero(lacking.any(axis=1)).tolist()
        return {names[row]: tuple(c for c, lacks in zip(columns, lacking[row], strict=True) if lacks) for row in rows}

    def add(self, names: Sequence[str], columns: Mapping[str, Column], platform: Mapping[str, Any]) -> Path:
        """Write one finished part; the rows exist for all its columns from the moment this returns."""
        path = self.folder / f"part-{uuid.uuid4().hex}.h5"
        meta = {"identity": self.identity, "identity_hash": self.identity_hash, "platform": dict(platform)}
        write_table(path, "bank", names, columns, meta=meta)
        return path

    def read(self, column: str, names: Sequence[str]) -> Any:
        """Rows of a column in the order of `names`: array (N, ...) or, where shapes vary, a list of arrays."""
        parts, rows = self._places(column, names)
        found: list[Any] = [None] * len(names)
        for number in dict.fromkeys(parts.tolist()):
            positions = (parts == number).nonzero()[0].tolist()
            table = self._parts[self._names[number]]
            self._check_names(table, [names[position] for position in positions], rows[positions])
            values = table.items(column, rows[positions].tolist())
            for position, value in zip(positions, values, strict=True):
                found[position] = value
        return np.stack(found) if found and len({value.shape for value in found}) == 1 else found

    def _check_names(self, table: Table, names: Sequence[str], rows: np.ndarray) -> None:
        for name, row in zip(names, rows.tolist(), strict=True):
            if row >= len(table.names) or table.names[row] != name:
                raise RunError(
                    f"{table.path} does not hold the image {name} in its row {row} any more: it was replaced by another "
                    "file. Export again."
                )

    def _places(self, column: str, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the parts and rows in them.

        Raises:
            RunError: no part has one of the names.
        """
        wanted = digests(names)
        parts, rows = np.full(len(names), len(self._names), np.int32), np.zeros(len(names), np.int32)
        for lookup in self._having(column):
            at = lookup.find(wanted)
            better = ((at >= 0) & (lookup.parts[at] < parts)).nonzero()[0]
            parts[better], rows[better] = lookup.parts[at[better]], lookup.rows[at[better]]
        absent = (parts == len(self._names)).nonzero()[0]
        if len(absent):
            raise RunError(f"{self.folder} has no {column} of image {names[absent[0]]}. Export again to make it.")
        return parts, rows

    def places(self, column: str, names: Sequence[str]) -> list[Place]:
        """Part and row of each image.

        Raises:
            RunError: no part has one of them.
        """
        parts, rows = self._places(column, names)
        return [(self._names[number], row) for number, row in zip(parts.tolist(), rows.tolist(), strict=True)]

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
