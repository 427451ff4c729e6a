"""Whether matches determine a model, and whether a library's model is one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Relative to the largest, the least eigenvalue that is not rounding: points within a thousandth of a pixel of a line of 1,000
# pixels leave about 1e-12.
SMALLEST = 1e-13
SINGULAR = 1e-9  # least ratio of a homography's singular values, in coordinates of the order of 1
LEFTOVER = 1e-100  # the largest entry of memory that was never written is often the bits of an address, about 1e-310
ROTATION = 1e-6  # largest entry of R R^T - I


def determines_homography(points0: Array, points1: Array) -> bool:
    """Whether the direct linear transform of these matches has one solution: 4 distinct ones, not all but one on a line."""
    if len(points0) < 4:
        return False
    first, second = _homogeneous(points0), _homogeneous(points1)
    zero = np.zeros_like(first)
    upper = np.concatenate([first, zero, -second[:, :1] * first], axis=1)
    lower = np.concatenate([zero, first, -second[:, 1:2] * first], axis=1)
    return _rank_at_least(8, np.concatenate([upper, lower]))


def determines_pose(points0: Array, points1: Array) -> bool:
    """Whether these matches give 5 independent epipolar constraints; those of points on one line are 3."""
    if len(points0) < 5:
        return False
    first, second = _homogeneous(points0), _homogeneous(points1)
    return _rank_at_least(5, (second[:, :, None] * first[:, None, :]).reshape(-1, 9))


def proper_homography(model: Array, points0: Array, points1: Array) -> Array | None:
    """The matrix (3, 3) scaled so that the points (n, 2) lie before it, or None where it is singular or memory's leftovers."""
    largest = np.abs(model).max()
    if model.shape != (3, 3) or not largest > LEFTOVER:
        return None
    values = np.linalg.svd(_frame(points1) @ model @ np.linalg.inv(_frame(points0)), compute_uv=False)
    if not values[-1] > SINGULAR * values[0]:
        return None
    ahead = np.sum(points0 @ model[2, :2] + model[2, 2] > 0)
    size = abs(model[2, 2])
    if size < 1e-12 * largest:  # the first pixel's corner is sent to infinity
        size = np.linalg.norm(model)
    return model / (size if 2 * ahead >= len(points0) else -size)


def proper_pose(model: Array) -> Array | None:
    """[R | t] (3, 4) with |t| = 1, or None where R is no rotation or t is 0, as failed calls leave it."""
    if model.shape != (3, 4):
        return None
    rotation, length = model[:, :3], np.linalg.norm(model[:, 3])
    if np.abs(rotation @ rotation.T - np.eye(3)).max() > ROTATION or np.linalg.det(rotation) < 0 or length < 1e-12:
        return None
    return np.concatenate([rotation, model[:, 3:] / length], axis=1)


def _rank_at_least(rank: int, rows: Array) -> bool:
    values = np.linalg.eigvalsh(rows.T @ rows)
    return bool(values[9 - rank] > SMALLEST * values[-1])


def _homogeneous(points: Array) -> Array:
    return np.concatenate([points, np.ones((len(points), 1))], axis=1) @ _frame(points).T


def _frame(points: Array) -> Array:
    """The similarity (3, 3) that moves the points' mean to 0 and their mean distance from it to 1 (Hartley 1997)."""
    mean = points.mean(axis=0)
    spread = float(np.linalg.norm(points - mean, axis=1).mean()) or 1.0
    return np.array([[1 / spread, 0, -mean[0] / spread], [0, 1 / spread, -mean[1] / spread], [0, 0, 1]])
