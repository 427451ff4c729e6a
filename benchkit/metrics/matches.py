"""Matches against depth: how far they are from where the surfaces project to, and which keypoints truly belong together.

As Glue Factory defines them (cvg/glue-factory, gluefactory/geometry/depth.py `symmetric_reprojection_error` and gt_generation.py
`gt_matches_from_pose_depth`, with 3 and 5 pixels as in gluefactory/eval/utils.py `eval_matches_depth`). Its depth is read
beyond the image's border as if 0 lay there; here the border's own value goes on.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from benchkit.geometry.homography import point_distances
from benchkit.geometry.pose import depth_at, inverse, transferred

Array = NDArray[np.float64]
NEAR, FAR = 3.0, 5.0  # pixels: up to which keypoints belong together, beyond which they do not
ALONE, UNKNOWN = -1, -2  # true matches of a keypoint that has none, and of one of which nothing can be said


@dataclasses.dataclass(frozen=True)
class DepthPair:
    """Two views with depth.

    Attributes:
        K0, K1: (3, 3); R, t: X1 = R X0 + t in the unit of the depths.
        size0, size1: width and height of the views.
        depth0, depth1: (h, w), NaN or not positive where unknown.
    """

    K0: Array
    K1: Array
    R: Array
    t: Array
    size0: Array
    size1: Array
    depth0: NDArray[np.floating]
    depth1: NDArray[np.floating]

    def forward(self, points: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Where points (n, 2) of view 0 lie in view 1, infinite behind it; and whether their depth is known."""
        depths = depth_at(self.depth0, points, self.size0)
        return transferred(points, depths, self.K0, self.K1, self.R, self.t), np.isfinite(depths)

    def backward(self, points: Array) -> tuple[Array, NDArray[np.bool_]]:
        """The same from view 1 to view 0."""
        depths = depth_at(self.depth1, points, self.size1)
        return transferred(points, depths, self.K1, self.K0, *inverse(self.R, self.t)), np.isfinite(depths)


def reprojection_errors(points0: Array, points1: Array, pair: DepthPair) -> Array:
    """Mean of the distances in both views of matched points (n, 2) from each other's projections, pixels: (n,).

    NaN where the depth of one of them is not known, infinite where one projects behind the other camera.
    """
    (there, known0), (back, known1) = pair.forward(points0), pair.backward(points1)
    apart = (point_distances(there, points1) + point_distances(back, points0)) / 2
    return np.where(known0 & known1, apart, np.nan)


def true_matches(keypoints0: Array, keypoints1: Array, pair: DepthPair) -> NDArray[np.intp]:
    """(n0,): the keypoint of view 1 that each of view 0 belongs to, ALONE or UNKNOWN.

    Two belong together if each projects into the other view at less than NEAR pixels from the other, and neither has a nearer
    partner (by the larger of both distances). A keypoint with depth is alone if no keypoint of view 1 is within FAR pixels
    of where it projects to. Of all others nothing is known.
    """
    (there, known0), (back, known1) = pair.forward(keypoints0), pair.backward(keypoints1)
    first, second, apart = _within(there, keypoints1, FAR)
    found = np.where(known0, ALONE, UNKNOWN).astype(np.intp)
    found[first] = UNKNOWN
    larger = np.maximum(apart, point_distances(back[second], keypoints0[first]))
    seen = known1[second] & _in_view(there[first], pair.size1) & _in_view(back[second], pair.size0)
    close = seen & (larger < NEAR)
    first, second, larger = first[close], second[close], larger[close]
    mutual = _least(first, second, larger) & _least(second, first, larger)
    found[first[mutual]] = second[mutual]
    return found


def _within(points: Array, others: Array, radius: float) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Rows of points, rows of others and distances of all pairs that are at most `radius` apart."""
    order = np.argsort(others[:, 0], kind="stable")
    line = others[order, 0]
    start, stop = np.searchsorted(line, points[:, 0] - radius), np.searchsorted(line, points[:, 0] + radius, "right")
    counts = np.where(np.isfinite(points[:, 0]), stop - start, 0)
    rows = np.repeat(np.arange(len(points)), counts)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts - start, counts)
    apart = point_distances(points[rows], others[order[places]])
    near = apart <= radius
    return rows[near], order[places[near]], apart[near]


def _least(rows: NDArray[np.intp], others: NDArray[np.intp], values: Array) -> NDArray[np.bool_]:
    """Of pairs: whether each has its row's smallest value; of equal ones the first of the others."""
    order = np.lexsort((others, values, rows))
    first = np.ones(len(rows), bool)
    first[1:] = np.diff(rows[order]) > 0
    least = np.zeros(len(rows), bool)
    least[order[first]] = True
    return least


def _in_view(points: Array, size: Array) -> NDArray[np.bool_]:
    return np.logical_and.reduce((points >= 0) & (points < size), axis=1)
