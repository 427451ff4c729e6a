"""Point matches under a known homography: how far each match lies from the truth, and what that makes of a set of them.

Protocol of VisBench (warped-plane correspondence): the error of a match is the distance in the second image of the matched
point from where the homography takes the first one. recall@t is the share of the matches below t, pooled over all matches;
auc@10px is the area under the recall curve up to 10 pixels over 10, which is the mean of max(0, 1 - error / 10).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchkit.geometry.homography import point_distances, transfer

THRESHOLDS = (1, 2, 5, 10)
AREA = 10.0


def errors(
    points0: NDArray[np.floating], points1: NDArray[np.floating], matrix: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Distances (M,) of matched points (M, 2) from the truth, in the second image's pixels; infinite without an image."""
    return point_distances(transfer(matrix, points0), points1)


def sums(distances: NDArray[np.float64], unit: float = 1.0) -> NDArray[np.float64]:
    """(6,): matches, those below 1, 2, 5 and 10 units (strictly), and the sum of max(0, 1 - error / 10 units)."""
    scaled = distances / unit
    below = [np.count_nonzero(scaled < limit) for limit in THRESHOLDS]
    return np.array([len(scaled), *below, np.clip(1 - scaled / AREA, 0, None).sum()], np.float64)


def shares(total: NDArray[np.float64]) -> NDArray[np.float64]:
    """(5,): recalls and area of summed `sums`; 0 without a match: nothing was found."""
    return total[1:] / total[0] if total[0] else np.zeros(len(total) - 1)


def nearest(points: NDArray[np.floating], others: NDArray[np.floating]) -> NDArray[np.intp]:
    """For each point (M, 2) the row of the nearest of the others (N, 2)."""
    return np.array([np.square(others - point).sum(axis=1).argmin() for point in points], np.intp)
