"""Boundaries against those that people drew: pixels matched within a distance, F at the best threshold.

The protocol of BSDS500 (Martin, Fowlkes and Malik 2004; Arbelaez et al. 2011), with the conventions of its code and of the
edges toolbox (Dollar and Zitnick 2013; edgesEvalImg.m, edgesEvalDir.m):
* thresholds: 99, k / 100; at each the prediction is what reaches it, thinned;
* a predicted and a drawn pixel may match within .0075 of the diagonal, each once, as many as can be, for each annotator alone;
* precision: predicted pixels that match any annotator's; recall: the drawn pixels that are matched, summed over annotators;
* counts are summed over images before they are divided. ODS: the largest F of one threshold for all images, between two
  thresholds with precision and recall interpolated; OIS: F of the sums where each image has its own best threshold; AP: the
  mean of the precision at recalls of 0, .01, ... 1.
Which of equally large matchings is taken is left open (the code minimises the sum of distances, roughly): recall is the same
in all, and with several annotators precision differs by some thousandths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchkit.metrics.thinning import Binary, Soft, ridges, thinned

BETWEEN = 100  # steps between two thresholds, as in the toolbox
RECALLS = np.arange(101) / 100
FOUND, PREDICTED, MATCHED, DRAWN = range(
    4
)  # predicted pixels that match, all of them; drawn ones that match, all of them

Counts = NDArray[np.integer]


def levels(count: int) -> NDArray[np.float64]:
    """The thresholds: `count` numbers evenly between 0 and 1, without the ends."""
    return np.arange(1, count + 1) / (count + 1)


def image_counts(
    prediction: Soft, drawn: NDArray[np.uint8], thresholds: NDArray[np.float64], max_dist: float, nms: bool
) -> NDArray[np.uint32]:
    """Pixels (T, 4) of one image by threshold: FOUND, PREDICTED, MATCHED, DRAWN.

    Args:
        prediction: (h, w), more is more of a boundary. A map of one value says where nothing is: nothing is predicted.
        drawn: (A, h, w), 0 or 1, a map of each annotator.
        thresholds: (T,), above 0.
        max_dist: the distance within which pixels match, over the diagonal.
        nms: only ridges of the prediction count.
    """
    counts = np.zeros((len(thresholds), 4), np.uint32)
    counts[:, DRAWN] = np.count_nonzero(drawn)
    if prediction.min() == prediction.max():
        return counts
    soft = ridges(prediction) if nms else prediction
    candidates = np.flatnonzero(soft >= thresholds.min())
    reach = max_dist * float(np.hypot(*soft.shape))
    pairs = [_near(candidates, np.flatnonzero(each), soft.shape[1], reach) for each in drawn]
    last: Binary | None = None
    for row, threshold in enumerate(thresholds):
        binary = soft >= threshold
        if last is None or not np.array_equal(binary, last):
            chosen = thinned(binary).ravel()[candidates]
            found = _matched(chosen, pairs)
        counts[row, [FOUND, PREDICTED, MATCHED]] = found
        last = binary
    return counts


def _near(predicted: NDArray[np.intp], drawn: NDArray[np.intp], width: int, reach: float) -> tuple[Any, Any, int]:
    """Positions in `predicted` and in `drawn` of the pairs of pixels that may match, and how many are drawn."""
    from scipy.spatial import cKDTree

    one, other = (np.stack(np.divmod(pixels, width), axis=1) for pixels in (predicted, drawn))
    if not len(one) or not len(other):
        return np.zeros(0, np.intp), np.zeros(0, np.intp), len(other)
    found = cKDTree(one).sparse_distance_matrix(cKDTree(other), reach, output_type="ndarray")
    order = np.lexsort((found["v"], found["i"]))  # nearest first: of equally large matchings, rather a near one
    return found["i"][order], found["j"][order], len(other)


def _matched(chosen: Binary, pairs: list[tuple[Any, Any, int]]) -> tuple[int, int, int]:
    """FOUND, PREDICTED and MATCHED when only the chosen candidates are predicted."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    place, count = np.cumsum(chosen) - 1, int(chosen.sum())
    anyone, matched = np.zeros(count, bool), 0
    for rows, columns, n_drawn in pairs:
        kept = chosen[rows]
        if not kept.any():
            continue
        starts = np.concatenate([[0], np.cumsum(np.bincount(place[rows[kept]], minlength=count))])
        graph = csr_matrix((np.ones(int(starts[-1]), np.int8), columns[kept], starts), shape=(count, n_drawn))
        partner = maximum_bipartite_matching(graph, perm_type="column")
        anyone |= partner >= 0
        matched += int(np.count_nonzero(partner >= 0))
    return int(anyone.sum()), count, matched


def curve(counts: Counts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Precision and recall, each (...,), of counts (..., 4); 0 where nothing is predicted, or nothing drawn."""
    found, predicted, matched, drawn = (counts[..., k].astype(np.float64) for k in range(4))
    return found / np.maximum(predicted, 1), matched / np.maximum(drawn, 1)


def f_measure(precision: NDArray[np.float64], recall: NDArray[np.float64]) -> NDArray[np.float64]:
    """Harmonic mean of the two; 0 where both are."""
    total = precision + recall
    return np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)


def ods(total: Counts) -> float:
    """The largest F of counts (T, 4) summed over images, with precision and recall interpolated between thresholds."""
    precision, recall = curve(total)
    share = np.linspace(0, 1, BETWEEN)
    between = [values[1:, None] * share + values[:-1, None] * (1 - share) for values in (precision, recall)]
    return float(max(f_measure(precision, recall).max(), f_measure(*between).max(initial=0)))


def best_counts(counts: Counts) -> Counts:
    """Counts (N, 4) of each image at its own best threshold, the lowest of equals, from (N, T, 4)."""
    best = f_measure(*curve(counts)).argmax(axis=1)
    return counts[np.arange(len(counts)), best]


def average_precision(total: Counts) -> float:
    """Mean precision at recalls of 0, .01, ... 1, from counts (T, 4) summed over images; 0 where nothing is predicted.

    Precision is linear between the recalls of two thresholds; below the least recall it is that of the least, above the
    largest 0.
    """
    precision, recall = curve(total[total[:, PREDICTED] > 0])
    if not len(recall):
        return 0.0
    order = np.lexsort((-precision, recall))
    precision, recall = precision[order], recall[order]
    first = np.concatenate([[True], np.diff(recall) > 0])  # of equal recalls, the best precision
    return float(np.interp(RECALLS, recall[first], precision[first], right=0).mean())


def toolbox_average_precision(total: Counts) -> float:
    """As the edges toolbox and the benchmark's code have it: nothing below the least recall, 101 values over 100, and 0
    where all thresholds have one recall; thresholds that predict nothing have precision and recall 0.
    """
    precision, recall = curve(total)
    recall, first = np.unique(recall, return_index=True)
    if len(recall) < 2:
        return 0.0
    return float(np.interp(RECALLS, recall, precision[first], left=0, right=0).sum() / 100)
