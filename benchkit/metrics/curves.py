"""Curves of errors and of scored answers, and the areas below them.

The area of errors is that of SuperGlue, LoFTR and Glue Factory: recall is drawn from (0, 0) through (error, share of the items
that are at most so far off), straight from point to point, then level from the last error below the threshold to the
threshold; the area below it is divided by the threshold. An item that failed has an infinite error and stays in the
denominator. Average precision is that of Glue Factory's ETH3D: precision is first raised to the best at any higher recall.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def areas(errors: NDArray[np.floating], thresholds: Sequence[float]) -> Array:
    """Area under the recall curve up to each threshold, over the threshold: (..., T), in 0..1.

    The trapezoids of k errors e below a threshold t, of n in all, add up to (sum of (t - e) + largest e / 2) / n: nothing has
    to be sorted.

    Args:
        errors: (..., n), not negative, infinite where there is no answer; n is at least 1.
        thresholds: T positive numbers in the unit of the errors.
    """
    found = []
    for limit in thresholds:
        below = errors < limit
        last = np.where(below, errors, 0).max(axis=-1)
        found.append((np.where(below, limit - errors, 0).sum(axis=-1) + last / 2) / (errors.shape[-1] * limit))
    return np.stack(found, axis=-1)


def recall_curve(errors: NDArray[np.floating], upto: float) -> tuple[Array, Array]:
    """Errors and recall, as `areas` takes them: from (0, 0) to `upto`, straight from point to point."""
    below = np.sort(errors[errors < upto])
    recall = np.arange(len(below) + 1) / len(errors)
    return np.concatenate([[0.0], below, [upto]]), np.append(recall, recall[-1])


def precision_recall(right: NDArray[np.number], wrong: NDArray[np.number], positives: float) -> tuple[Array, Array]:
    """Precision and recall (L,) of the answers down to each score.

    Args:
        right, wrong: (L,) answers at each of L scores, the highest first.
        positives: right answers that there are, found or not.
    """
    hits, all_given = np.cumsum(right, dtype=np.float64), np.cumsum(right + wrong, dtype=np.float64)
    return hits / np.maximum(all_given, 1e-12), hits / max(positives, 1e-12)


def average_precision(precision: Array, recall: Array) -> float:
    """Area under precision against recall, where precision is the best at this recall or a higher one; 0 without answers."""
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall, prepend=0.0) * best).sum())


def score_levels(scores: NDArray[np.floating], most: int) -> NDArray[np.floating]:
    """The scores (L,) at which answers are counted, rising: all different ones, or `most` quantiles where they are more."""
    different = np.unique(scores)
    if len(different) <= most:
        return different
    return np.unique(np.quantile(scores, np.linspace(0, 1, most), method="inverted_cdf"))


def counts_at(
    levels: NDArray[np.floating], scores: NDArray[np.floating], right: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """(L, 2): right and wrong answers at each level, the highest first; an answer counts at the last level it reaches."""
    place = len(levels) - np.searchsorted(levels, scores, side="right")
    return np.stack([np.bincount(place[each], minlength=len(levels)) for each in (right, ~right)], axis=1)
