"""Maps and truth of the items, in bounded memory: some stay in it, the others are read again in every epoch.

What stays and what is read are the same bytes, so results do not depend on the bound.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchkit.errors import RunError
from benchkit.heads.solvers.dense_grid import Level, thinned
from benchkit.progress import track
from benchkit.store.items import Items
from benchkit.store.maps import Maps

AHEAD = 2  # batches that are read while another is computed on


@dataclasses.dataclass(frozen=True)
class Sample:
    """One item.

    Attributes:
        name: of the item.
        maps: one per layer, (C, h, w), the cells that show the image, in the bank's dtype.
        levels: where their cells lie.
        frame: height and width of the scored frame.
        truth: the field to be learned, at most `longest` pixels a side; None where only maps were asked for.
    """

    name: str
    maps: tuple[np.ndarray, ...]
    levels: tuple[Level, ...]
    frame: tuple[int, int]
    truth: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Of maps and truth."""
        return sum(each.nbytes for each in self.maps) + (self.truth.nbytes if self.truth is not None else 0)


class Samples:
    """Samples of some items, by row.

    Args:
        features: their maps.
        truth: of the same items in the same order; None to read maps alone.
        field: of the truth.
        longest: side of the truth in pixels; larger frames are thinned to it.
        budget: bytes of samples that may stay in memory.
    """

    def __init__(
        self, features: Maps, truth: Items | None = None, field: str = "", longest: int = 1 << 30, budget: int = 0
    ) -> None:
        self.features, self.truth, self.field, self.longest = features, truth, field, longest
        self.names = list(features.names)
        self._left = budget
        self._kept: dict[int, Sample] = {}

    def __len__(self) -> int:
        return len(self.names)

    @property
    def kept(self) -> int:
        """How many stay in memory."""
        return len(self._kept)

    def scan(self, look: Callable[[str, np.ndarray], None]) -> None:
        """Show every item's truth to `look` once, and keep samples as long as there is room."""
        room = True
        for row in track(range(len(self)), len(self), "reading truth and maps", "items"):
            truth = self._read_truth(row)
            assert truth is not None
            look(self.names[row], truth)
            room = room and self._keep(row, truth)

    def _keep(self, row: int, truth: np.ndarray) -> bool:
        if truth.nbytes > self._left:
            return False
        sample = self._with_maps(row, truth)
        if sample.nbytes > self._left:
            return False
        self._left -= sample.nbytes
        self._kept[row] = sample
        return True

    def __getitem__(self, row: int) -> Sample:
        """One sample, from memory or read."""
        return self._kept[row] if row in self._kept else self._with_maps(row, self._read_truth(row))

    def _with_maps(self, row: int, truth: np.ndarray | None) -> Sample:
        extent = float(self.features.extents[row][0]), float(self.features.extents[row][1])
        maps, levels = [], []
        for key in self.features.keys:
            whole = self.features.item(key, row)
            level = Level.of((whole.shape[1], whole.shape[2]), extent)
            maps.append(np.ascontiguousarray(whole[:, : level.cut[0], : level.cut[1]]))
            levels.append(level)
        return Sample(self.names[row], tuple(maps), tuple(levels), self.frame(row), truth)

    def frame(self, row: int) -> tuple[int, int]:
        """Height and width of an item's scored frame."""
        height, width = self.features.frames[row]
        return int(height), int(width)

    def _read_truth(self, row: int) -> np.ndarray | None:
        if self.truth is None:
            return None
        truth = np.asarray(self.truth.item(self.field, row))
        if truth.shape[:2] != self.frame(row):
            raise RunError(
                f"{self.field} of {self.names[row]!r} is {truth.shape[:2]} and its frame {self.frame(row)} pixels: "
                "export again with --overwrite."
            )
        return thinned(truth, self.longest)

    def batches(self, rows: Sequence[int], size: int) -> Iterator[list[Sample]]:
        """Samples of the rows in this order, `size` at a time; the next ones are read in a thread meanwhile."""
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        if all(row in self._kept for row in rows):
            yield from ([self._kept[row] for row in part] for part in parts)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="maps") as reader:
            ahead = deque(reader.submit(self._batch, part) for part in parts[:AHEAD])
            for part in [*parts[AHEAD:], *[None] * AHEAD]:
                if ahead:
                    batch = ahead.popleft().result()
                    if part is not None:
                        ahead.append(reader.submit(self._batch, part))
                    yield batch

    def _batch(self, rows: Sequence[int]) -> list[Sample]:
        return [self[row] for row in rows]
