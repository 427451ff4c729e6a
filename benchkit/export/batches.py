"""Which images go through the model together.

The same image gives other fp32 bits in a batch of another size, so every forward has exactly `batch_size` rows; whole
batches are the unit of work that shards divide.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchkit.datasets.base import Dataset
from benchkit.export.shares import Share
from benchkit.preprocess import Preprocess


@dataclasses.dataclass(frozen=True)
class Picture:
    """One distinct image: where it comes from, the sha256 that names it in the bank, its upright size."""

    view: str
    sha256: str
    height: int
    width: int
    dataset: Dataset


def owners(pictures: Sequence[Picture], preprocess: Preprocess, batch_size: int, count: int) -> dict[str, int]:
    """Whose of `count` workers each picture is, by its sha256, whatever is done already.

    Whole batches are dealt, the dearest first, each to the worker that has the least so far: the costs of two workers differ
    by no more than a batch. Every forward has `batch_size` rows, so what a batch costs is the size of its input.
    """
    whole = list(batches(pictures, preprocess, batch_size))
    areas = [math.prod(preprocess.shape(batch[0].height or 1, batch[0].width or 1)) for batch in whole]
    least = [(0, worker) for worker in range(count)]
    found: dict[str, int] = {}
    for number in sorted(range(len(whole)), key=lambda number: (-areas[number], number)):
        cost, worker = heapq.heappop(least)
        found.update((picture.sha256, worker) for picture in whole[number])
        heapq.heappush(least, (cost + areas[number], worker))
    return found


def own(pictures: Sequence[Picture], preprocess: Preprocess, batch_size: int, share: Share) -> Sequence[Picture]:
    """The pictures of one share, in their order."""
    if share.count == 1:
        return pictures
    whose = owners(pictures, preprocess, batch_size, share.count)
    return [picture for picture in pictures if whose[picture.sha256] == share.index]


def batches(pictures: Iterable[Picture], preprocess: Preprocess, batch_size: int) -> Iterator[list[Picture]]:
    """Lists of at most `batch_size` pictures of one input shape, in a fixed order."""
    by_shape: dict[tuple[int, int], list[Picture]] = defaultdict(list)
    for picture in pictures:
        by_shape[preprocess.shape(picture.height or 1, picture.width or 1)].append(picture)
    for shape in sorted(by_shape):
        members = by_shape[shape]
        for start in range(0, len(members), batch_size):
            yield members[start : start + batch_size]


def lacking_by_columns(
    lacking: Mapping[str, tuple[str, ...]], pictures: Sequence[Picture]
) -> Iterator[tuple[tuple[str, ...], list[Picture]]]:
    """Pictures by the bank columns they lack: each kind of part is filled by itself."""
    groups: dict[tuple[str, ...], list[Picture]] = defaultdict(list)
    for picture in pictures:
        if picture.sha256 in lacking:
            groups[lacking[picture.sha256]].append(picture)
    yield from sorted(groups.items())
