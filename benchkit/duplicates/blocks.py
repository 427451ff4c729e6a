"""Pairs of rows that are alike, from blocks of a product: memory does not grow with the square of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

SIZE = 2048  # rows and columns of a block: 16 MB of similarities

Similarity = Callable[[slice, slice], np.ndarray]  # rows, columns -> (len(rows), len(columns))


@dataclass
class Found:
    """What one block gave: pairs first < second (P,), how many more there were, how many pairs it compared."""

    first: np.ndarray
    second: np.ndarray
    dropped: int
    compared: int


def blocks_of_pairs(count: int) -> int:
    """How many blocks `pairs_above` goes through."""
    side = -(-count // SIZE)
    return side * (side + 1) // 2


def pairs_above(similarity: Similarity, count: int, least: float, most: int) -> Iterator[Found]:
    """Pairs of `count` rows with a similarity of at least `least`, block after block of the upper triangle.

    Args:
        similarity: symmetric; called with two ranges of rows.
        count: rows.
        least: smallest similarity that is found.
        most: at most so many pairs of a block, the most similar ones; the others are counted.
    """
    for i in range(0, count, SIZE):
        for j in range(i, count, SIZE):
            rows, columns = slice(i, min(i + SIZE, count)), slice(j, min(j + SIZE, count))
            values = similarity(rows, columns)
            alike = np.triu(values >= least, 1) if i == j else values >= least
            found = np.flatnonzero(alike)  # a fifth of the time that two-dimensional nonzero takes
            chosen = found[_highest(values.reshape(-1)[found], most)]
            height, width = values.shape
            compared = height * (height - 1) // 2 if i == j else height * width
            yield Found(chosen // width + i, chosen % width + j, len(found) - len(chosen), compared)


def _highest(values: np.ndarray, most: int) -> np.ndarray:
    if len(values) <= most:
        return np.arange(len(values))
    return np.sort(np.argpartition(values, -most)[-most:])
