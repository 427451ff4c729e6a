"""What an estimator is: matched points -> a homography or a relative pose, or honestly nothing.

Libraries answer too few or degenerate matches with an identity, with uninitialised memory, or not at all. Here every answer
goes through the same checks, and what fails one is an `Estimate` without a model.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchkit.errors import UsageError
from benchkit.estimators import _degenerate

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Found = tuple[Array | None, Any]  # a library's model, in any scale, and which of the points it calls inliers
Solver = Callable[[float, int], Found]  # threshold in pixels, seed

SEEDS = 2**31 - 1  # every library reads a seed below this


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What was estimated from n matches.

    Attributes:
        model: float64 (3, 3), the homography from view 0 to view 1, with a positive third coordinate for its inliers and 1
            (or, for planes seen so, -1) as its last entry; or (3, 4), [R | t] with |t| = 1, X1 = R X0 + t. None: no estimate.
        inliers: (n,), the matches that support it; none without a model.
    """

    model: Array | None
    inliers: Mask


class Estimator:
    """A library's robust estimation. Own ones give `name`, `default_threshold` and the two solvers.

    Points are float64 (n, 2), x and y in pixels; the corner of the top-left pixel is (0, 0), and the cameras' matrices are
    meant so too. Matches with a coordinate that is not finite are left out: they are never inliers. There is no estimate
    from fewer matches than a minimal sample (4 for a homography, 5 for a pose), from matches that leave the model open (all
    equal, on one line), or where the library's model is not finite, singular, no rotation, or supported by so few.
    Of cameras that only turn, R is meaningful and t an arbitrary direction.

    Attributes:
        name: as in names of metrics.
        default_threshold: largest error of an inlier in pixels, by kind (`homography`, `relative_pose`).
    """

    name = ""
    default_threshold: Mapping[str, float] = {}

    def homography_solver(self, points0: Array, points1: Array) -> Solver:
        """The library's call for these points, which are finite, contiguous, and at least 4."""
        raise NotImplementedError

    def pose_solver(self, points0: Array, points1: Array, K0: Array, K1: Array) -> Solver:
        """The library's call for these points, at least 5, seen by cameras without skew; its models are [R | t] (3, 4)."""
        raise NotImplementedError

    def homography(self, points0: Array, points1: Array, threshold: float, seed: int) -> Estimate:
        """The homography from view 0 to view 1; see `homographies`."""
        return self.homographies(points0, points1, [threshold], seed)[0]

    def relative_pose(
        self, points0: Array, points1: Array, K0: Array, K1: Array, threshold: float, seed: int
    ) -> Estimate:
        """The second camera's pose in the first one's frame; see `relative_poses`."""
        return self.relative_poses(points0, points1, K0, K1, [threshold], seed)[0]

    def homographies(self, points0: Array, points1: Array, thresholds: Sequence[float], seed: int) -> list[Estimate]:
        """One homography per threshold (pixels), each with the same seed.

        Raises:
            ValueError: arrays of other shapes, a threshold that is not positive, a negative seed.
        """
        usable, (points0, points1) = _usable(points0, points1)
        if not _degenerate.determines_homography(points0, points1):
            return [_nothing(usable) for _ in _checked(thresholds, seed)]
        solve = self.homography_solver(points0, points1)

        def one(threshold: float) -> Estimate:
            model, inliers = _support(*solve(threshold, seed % SEEDS), len(points0))
            if model is None or not _degenerate.determines_homography(points0[inliers], points1[inliers]):
                return _nothing(usable)
            model = _degenerate.proper_homography(model, points0[inliers], points1[inliers])
            return _nothing(usable) if model is None else Estimate(model, _spread(usable, inliers))

        return [one(threshold) for threshold in _checked(thresholds, seed)]

    def relative_poses(
        self, points0: Array, points1: Array, K0: Array, K1: Array, thresholds: Sequence[float], seed: int
    ) -> list[Estimate]:
        """One pose per threshold (pixels of the views), each with the same seed.

        Args:
            K0, K1: float64 (3, 3), upper triangular, last row 0 0 1, positive focal lengths.

        Raises:
            ValueError: as `homographies`, or a matrix that is no camera's.
        """
        usable, (points0, points1) = _usable(points0, points1)
        points0, K0 = _without_skew(points0, K0)
        points1, K1 = _without_skew(points1, K1)
        if not _degenerate.determines_pose(points0, points1):
            return [_nothing(usable) for _ in _checked(thresholds, seed)]
        solve = self.pose_solver(points0, points1, K0, K1)

        def one(threshold: float) -> Estimate:
            model, inliers = _support(*solve(threshold, seed % SEEDS), len(points0))
            if model is None or not _degenerate.determines_pose(points0[inliers], points1[inliers]):
                return _nothing(usable)
            model = _degenerate.proper_pose(model)
            return _nothing(usable) if model is None else Estimate(model, _spread(usable, inliers))

        return [one(threshold) for threshold in _checked(thresholds, seed)]


def require(module: str, package: str, extra: str) -> Any:
    """The library's module.

    Raises:
        UsageError: it is not installed; names the extra that holds it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"eval.estimator needs the Python package {package}, which cannot be imported ({error}): "
            f"pip install 'benchkit[{extra}]' (or {package} alone)."
        ) from error


def _usable(points0: Array, points1: Array) -> tuple[Mask, tuple[Array, Array]]:
    points0, points1 = np.asarray(points0, np.float64), np.asarray(points1, np.float64)
    if points0.ndim != 2 or points0.shape[1] != 2 or points0.shape != points1.shape:
        raise ValueError(f"matched points are two arrays (n, 2), not {points0.shape} and {points1.shape}")
    usable: Mask = np.isfinite(np.concatenate([points0, points1], axis=1)).all(axis=1)
    return usable, (np.ascontiguousarray(points0[usable]), np.ascontiguousarray(points1[usable]))


def _checked(thresholds: Sequence[float], seed: int) -> Sequence[float]:
    if seed < 0 or not all(0 < threshold < np.inf for threshold in thresholds):
        raise ValueError(f"thresholds are positive and a seed is not negative, not {list(thresholds)} and {seed}")
    return thresholds


def _without_skew(points: Array, K: Array) -> tuple[Array, Array]:
    """Points and matrix of the same camera with square axes: libraries' pinhole cameras have no skew."""
    K = np.array(K, np.float64)
    if K.shape != (3, 3) or not np.isfinite(K).all() or min(K[0, 0], K[1, 1]) <= 0 or np.any(K[[1, 2, 2], [0, 0, 1]]):
        raise ValueError(
            f"a camera's matrix is (3, 3), upper triangular, with positive focal lengths, not {K.tolist()}"
        )
    K /= K[2, 2]
    if K[0, 1]:
        points = np.stack([points[:, 0] - K[0, 1] * (points[:, 1] - K[1, 2]) / K[1, 1], points[:, 1]], axis=1)
        K[0, 1] = 0
    return points, K


def _support(model: Any, inliers: Any, count: int) -> tuple[Array | None, Mask]:
    """A library's answer as arrays; no model where it is not finite or comes without a mask of the points."""
    mask = np.zeros(0, bool) if inliers is None else np.asarray(inliers).ravel().astype(bool)
    if model is None or len(mask) != count:
        return None, np.zeros(count, bool)
    model = np.asarray(model, np.float64)
    return (model if np.isfinite(model).all() else None), mask


def _spread(usable: Mask, inliers: Mask) -> Mask:
    spread = np.zeros(len(usable), bool)
    spread[usable] = inliers
    return spread


def _nothing(usable: Mask) -> Estimate:
    return Estimate(None, np.zeros(len(usable), bool))
