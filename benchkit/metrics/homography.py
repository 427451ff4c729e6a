"""How far matches and estimates are from a true homography, as Glue Factory measures them on HPatches.

The error of a match is the mean of two distances: of the second point from where the homography takes the first one, and of
the first point from where the inverse takes the second one (`sym_homography_error`). That of an estimate is the mean distance
of the first view's four corners under both homographies (`homography_corner_error`; cvg/glue-factory,
gluefactory/geometry/homography.py). All in pixels of the scored frame.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchkit.geometry.homography import point_distances, transfer

Array = NDArray[np.float64]
DEGENERATE = 1e-13  # least ratio of the second smallest eigenvalue to the largest, that matches determine a homography


def transfer_errors(points0: Array, points1: Array, matrix: Array) -> Array:
    """Mean of forward and backward distance of matched points (n, 2): (n,); infinite where a point has no image."""
    there, back = transfer(matrix, points0), transfer(_inverse(matrix), points1)
    return (point_distances(there, points1) + point_distances(back, points0)) / 2


def transfer_errors_all(points0: Array, points1: Array, matrix: Array) -> Array:
    """The same of every pair of points (n, 2) and points (m, 2): (n, m)."""
    there, back = transfer(matrix, points0)[:, None], transfer(_inverse(matrix), points1)[None]
    return (point_distances(there, points1[None]) + point_distances(back, points0[:, None])) / 2


def corner_error(estimate: Array, true: Array, size: Array) -> float:
    """Mean distance of the corners of a view of this size (width, height) under both; infinite where one has no image."""
    width, height = size
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)
    return float(point_distances(transfer(estimate, corners), transfer(true, corners)).mean())


def scaled(matrix: Array, scale0: float, scale1: float, size0: Array) -> Array:
    """The homography between views that were resized by these factors, with the first view's centre in front of it.

    Args:
        matrix: (3, 3) between original pixels, of any sign.
        size0: the first view's original width and height.
    """
    centre = np.append(size0 / 2, 1.0)
    sign = -1.0 if matrix[2] @ centre < 0 else 1.0
    return sign * np.diag([scale1, scale1, 1.0]) @ matrix @ np.diag([1 / scale0, 1 / scale0, 1.0])


def weighted_dlt(points0: Array, points1: Array, weights: Array) -> Array | None:
    """The direct linear transform of all matches (n, 2): the least sum of squared algebraic residuals, each times its weight,
    where points are moved so that their weighted mean is 0 and their weighted mean distance from it the root of 2 (Hartley).

    It is kornia's `find_homography_dlt(solver="svd")`; its default solver, which Glue Factory calls, takes one step of
    inverse iteration towards the same minimum, and differs where matches are noisy. Weights (n,) that are not positive count
    as 0. None where what is left determines no homography: fewer than 4 matches, or points on one line.

    Returns:
        (3, 3), with most of the weight in front of it.
    """
    used = weights > 0
    points0, points1, weights = points0[used], points1[used], weights[used]
    if len(points0) < 4:
        return None
    weights = weights / weights.sum()
    frame0, frame1 = _frame(points0, weights), _frame(points1, weights)
    first, second = (np.column_stack([p, np.ones(len(p))]) @ f.T for p, f in ((points0, frame0), (points1, frame1)))
    zero = np.zeros_like(first)
    rows = [np.hstack([first, zero, -second[:, :1] * first]), np.hstack([zero, first, -second[:, 1:2] * first])]
    values, vectors = np.linalg.eigh(sum(each.T @ (each * weights[:, None]) for each in rows))
    if values[1] <= DEGENERATE * values[-1]:
        return None
    matrix = np.linalg.inv(frame1) @ vectors[:, 0].reshape(3, 3) @ frame0
    ahead = np.sign(np.column_stack([points0, np.ones(len(points0))]) @ matrix[2])
    return matrix / np.linalg.norm(matrix) * (-1.0 if ahead @ weights < 0 else 1.0)


def _inverse(matrix: Array) -> Array:
    return np.asarray(np.linalg.inv(matrix), np.float64)


def _frame(points: Array, weights: Array) -> Array:
    """The similarity that normalises points; the weights add up to 1."""
    mean = weights @ points
    scale = np.sqrt(2) / (weights @ np.linalg.norm(points - mean, axis=1) or 1.0)
    return np.array([[scale, 0, -scale * mean[0]], [0, scale, -scale * mean[1]], [0, 0, 1]])
