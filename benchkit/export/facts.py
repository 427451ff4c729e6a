"""What is known of many files as columns: a million of them take no Python object each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from benchkit.store.lookup import digests, hexadecimal


@dataclasses.dataclass(frozen=True)
class Facts:
    """One image: sha256 of its bytes, upright size, what is wrong with it ('' when nothing is), and its file's stamp."""

    sha256: str
    height: int
    width: int
    problem: str
    bytes: int
    mtime_ns: int
    ctime_ns: int  # a copy that keeps size and modification time (rsync -t, cp -p) still changes this


class ManyFacts(Mapping[str, Facts]):
    """Facts by name.

    Attributes:
        names: N of them.
        digests: uint8 (N, 32), sha256 of the bytes.
        sizes: int64 (N, 2), height and width.
        stamps: int64 (N, 3), bytes, mtime_ns and ctime_ns.
        problems: what is wrong, by row; of most files nothing.
    """

    def __init__(
        self,
        names: Sequence[str],
        digests: np.ndarray,
        sizes: np.ndarray,
        stamps: np.ndarray,
        problems: Mapping[int, str],
    ) -> None:
        self.names, self.digests, self.sizes, self.stamps, self.problems = names, digests, sizes, stamps, dict(problems)

    @classmethod
    def of(cls, facts: Mapping[str, Facts]) -> ManyFacts:
        """Facts that are there one by one."""
        each = list(facts.values())
        sizes = np.array([(f.height, f.width) for f in each], np.int64).reshape(-1, 2)
        stamps = np.array([(f.bytes, f.mtime_ns, f.ctime_ns) for f in each], np.int64).reshape(-1, 3)
        problems = {row: f.problem for row, f in enumerate(each) if f.problem}
        return cls(list(facts), digests([f.sha256 for f in each]), sizes, stamps, problems)

    @cached_property
    def position(self) -> dict[str, int]:
        """Row of each name."""
        return dict(zip(self.names, range(len(self.names)), strict=True))

    def rows(self, names: Sequence[str]) -> np.ndarray:
        """The row of each name, int64; all are known."""
        if names is self.names or names == self.names:
            return np.arange(len(names))
        return np.fromiter(map(self.position.__getitem__, names), np.int64, len(names))

    def taken(self, names: Sequence[str]) -> ManyFacts:
        """Of some names, all known, in their order."""
        rows = self.rows(names)
        problems = {}
        if self.problems:
            problems = {at: self.problems[row] for at, row in enumerate(rows.tolist()) if row in self.problems}
        return ManyFacts(names, self.digests[rows], self.sizes[rows], self.stamps[rows], problems)

    def hashes(self, names: Sequence[str]) -> list[str]:
        """sha256 of each name's bytes as text."""
        return hexadecimal(self.digests[self.rows(names)])

    def __getitem__(self, name: str) -> Facts:
        row = self.position[name]
        (sha256,), (height, width) = hexadecimal(self.digests[row]), self.sizes[row].tolist()
        return Facts(sha256, height, width, self.problems.get(row, ""), *self.stamps[row].tolist())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)
