"""Which items a page has pictures of: those that experiments disagree most about, the worst and the best."""

from __future__ import annotations

from itertools import combinations, zip_longest

import numpy as np

MOST = 100  # items of a benchmark


def chosen_items(scores: np.ndarray, better: str, most: int = MOST) -> list[int]:
    """Rows of items, the most telling first: in turn the worst, the best, and the largest flips of each pair of experiments.

    Args:
        scores: (E, N) of one column, NaN where undefined.
        better: "lower" turns worst and best.
        most: so many at most.
    """
    goodness = -scores if better == "lower" else scores
    known = np.isfinite(goodness)
    count = known.sum(axis=0)
    mean = np.where(known, goodness, 0).sum(axis=0) / np.maximum(count, 1)
    mean[count == 0] = np.nan
    lists = [_first(mean, most), _first(-mean, most)]
    for one, other in combinations(range(len(scores)), 2):
        apart = np.where(goodness[one] == goodness[other], np.nan, goodness[other] - goodness[one])
        for sign in (1, -1):
            lists.append([row for row in _first(sign * apart, most) if sign * apart[row] < 0])
    in_turn = [row for rank in zip_longest(*lists) for row in rank if row is not None]
    return list(dict.fromkeys([*in_turn, *range(scores.shape[1])]))[:most]


def _first(values: np.ndarray, most: int) -> list[int]:
    """Rows of the lowest finite values, the lowest first; of equal ones the earlier row."""
    order = np.argsort(values, kind="stable")  # NaN last
    return [int(row) for row in order[:most] if np.isfinite(values[row])]
