"""Which images go through the model together.

The same image gives other fp32 bits in a batch of another size, so every forward has exactly `batch_size` rows; whole
batches are the unit of work that shards divide.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.datasets.base import Dataset
from benchkit.export.shares import Share
from benchkit.preprocess import Preprocess
from benchkit.store.lookup import Lookup, digests

if TYPE_CHECKING:
    from benchkit.export.job import Job


@dataclasses.dataclass(frozen=True)
class Picture:
    """One distinct image: where it comes from, the sha256 that names it in the bank, its upright size."""

    view: str
    sha256: str
    height: int
    width: int
    dataset: Dataset


class Pictures(Sequence[Picture]):
    """Many pictures as columns; each is made when it is asked for.

    Attributes:
        views: N names.
        digests: uint8 (N, 32), sha256 of their bytes.
        sizes: int64 (N, 2), upright heights and widths.
        datasets: where they come from; sources: int (N,), which of them.
    """

    def __init__(
        self,
        views: Sequence[str],
        digests: np.ndarray,
        sizes: np.ndarray,
        datasets: Sequence[Dataset],
        sources: np.ndarray,
    ) -> None:
        self.views, self.digests, self.sizes, self.datasets, self.sources = views, digests, sizes, datasets, sources

    @classmethod
    def of(cls, pictures: Sequence[Picture]) -> Pictures:
        """As columns, what may be so already."""
        if isinstance(pictures, Pictures):
            return pictures
        sizes = np.array([(p.height, p.width) for p in pictures], np.int64).reshape(-1, 2)
        datasets = list({id(p.dataset): p.dataset for p in pictures}.values())
        number = {id(dataset): n for n, dataset in enumerate(datasets)}
        sources = np.array([number[id(p.dataset)] for p in pictures], np.int64)
        return cls([p.view for p in pictures], digests([p.sha256 for p in pictures]), sizes, datasets, sources)

    def taken(self, rows: np.ndarray) -> Pictures:
        """Some of them, by their places, in that order."""
        views = [self.views[row] for row in rows.tolist()]
        return Pictures(views, self.digests[rows], self.sizes[rows], self.datasets, self.sources[rows])

    def shapes(self, preprocess: Preprocess) -> tuple[list[tuple[int, int]], np.ndarray]:
        """The shapes of inputs there are, sorted, and which of them each picture has: int (N,)."""
        sizes, which = np.unique(self.sizes, axis=0, return_inverse=True)
        each = [preprocess.shape(height or 1, width or 1) for height, width in sizes.tolist()]
        found = sorted(set(each))
        return found, np.array([found.index(shape) for shape in each], np.int64)[which.reshape(-1)]

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return self.taken(np.arange(len(self))[row])
        height, width = self.sizes[row].tolist()
        return Picture(
            self.views[row], self.digests[row].tobytes().hex(), height, width, self.datasets[int(self.sources[row])]
        )


def distinct(jobs: Sequence[Job]) -> Pictures:
    """Every distinct image of all jobs, once, in the order of names."""
    views = [view for job in jobs for view in job.views]
    rows = [job.facts.rows(job.views) for job in jobs]
    every = Pictures(
        views,
        np.concatenate([job.facts.digests[each] for job, each in zip(jobs, rows, strict=True)]),
        np.concatenate([job.facts.sizes[each] for job, each in zip(jobs, rows, strict=True)]),
        [job.dataset for job in jobs],
        np.concatenate([np.full(len(each), number) for number, each in enumerate(rows)]),
    )
    found = Lookup(every.digests, np.zeros(len(views), np.int32), np.arange(len(views)))
    again = [place for start, stop in found.repeats() for place in found.rows[start + 1 : stop]]
    once = every if not again else every.taken(np.delete(np.arange(len(views)), again))
    if len(jobs) == 1:
        return once
    order = sorted(range(len(once)), key=lambda row: (once.views[row], once.digests[row].tobytes()))
    return once.taken(np.array(order, np.int64))


def _places(
    pictures: Pictures, preprocess: Preprocess, batch_size: int
) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """Shape and places of every batch."""
    shapes, which = pictures.shapes(preprocess)
    for number, shape in enumerate(shapes):
        members = np.flatnonzero(which == number)
        for start in range(0, len(members), batch_size):
            yield shape, members[start : start + batch_size]


def owners(pictures: Sequence[Picture], preprocess: Preprocess, batch_size: int, count: int) -> np.ndarray:
    """Whose of `count` workers each picture is, int (N,), whatever is done already.

    Whole batches are dealt, the dearest first, each to the worker that has the least so far: the costs of two workers differ
    by no more than a batch. Every forward has `batch_size` rows, so what a batch costs is the size of its input.
    """
    whole = list(_places(Pictures.of(pictures), preprocess, batch_size))
    areas = [math.prod(shape) for shape, _ in whole]
    least = [(0, worker) for worker in range(count)]
    found = np.zeros(len(pictures), np.int64)
    for number in sorted(range(len(whole)), key=lambda number: (-areas[number], number)):
        cost, worker = heapq.heappop(least)
        found[whole[number][1]] = worker
        heapq.heappush(least, (cost + areas[number], worker))
    return found


def own(pictures: Sequence[Picture], preprocess: Preprocess, batch_size: int, share: Share) -> Pictures:
    """The pictures of one share, in their order."""
    pictures = Pictures.of(pictures)
    if share.count == 1:
        return pictures
    return pictures.taken(np.flatnonzero(owners(pictures, preprocess, batch_size, share.count) == share.index))


def batches(pictures: Sequence[Picture], preprocess: Preprocess, batch_size: int) -> Iterator[list[Picture]]:
    """Lists of at most `batch_size` pictures of one input shape, in a fixed order."""
    columns = Pictures.of(pictures)
    for _, places in _places(columns, preprocess, batch_size):
        yield [columns[place] for place in places.tolist()]


def lacking_by_columns(
    lacks: np.ndarray, columns: Sequence[str], pictures: Pictures
) -> Iterator[tuple[tuple[str, ...], Pictures]]:
    """Pictures by the bank columns they lack: each kind of part is filled by itself.

    Args:
        lacks: bool (N, columns), of `Bank.lacks`.
        columns: names; pictures: N.
    """
    kinds = {
        tuple(c for c, absent in zip(columns, kind, strict=True) if absent): kind for kind in np.unique(lacks, axis=0)
    }
    for missing, kind in sorted(kinds.items(), key=lambda each: each[0]):
        if missing:
            yield missing, pictures.taken(np.flatnonzero((lacks == kind).all(axis=1)))
