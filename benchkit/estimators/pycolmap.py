"""COLMAP's LO-RANSAC through pycolmap: essential and homography matrices, with its local optimisation.

Thresholds are 4 pixels for both models, as in COLMAP and hloc. The same seed gives the same bits: the generator is seeded
anew in each call and belongs to the thread, and every call runs in one thread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.estimators.base import Array, Estimator, Found, Solver, require
from benchkit.settings import setting

EXTRA, NEEDS = "colmap", ("pycolmap",)
MASKS = ("inlier_mask", "inliers")  # what versions call the inliers
FUNCTIONS = {  # the function's name now, and before pycolmap 3.11
    "homography": ("estimate_homography_matrix", "homography_matrix_estimation"),
    "relative_pose": ("estimate_essential_matrix", "essential_matrix_estimation"),
}


@dataclasses.dataclass
class Settings:
    """RANSACOptions."""

    min_inlier_ratio: float = setting(0.01, "share of inliers that is assumed at least; bounds the number of samples")
    confidence: float = setting(0.9999, "probability of a sample without outliers at which drawing ends")
    dyn_num_trials_multiplier: float = setting(3.0, "factor on the number of samples that confidence asks for")
    min_num_trials: int = setting(1_000, "samples drawn at least")
    max_num_trials: int = setting(100_000, "samples drawn at most")

    def __post_init__(self) -> None:
        if not (0 < self.min_inlier_ratio <= 1 and 0 <= self.confidence <= 1):
            raise ValueError("min_inlier_ratio and confidence lie from 0 to 1")
        if not 0 <= self.min_num_trials <= self.max_num_trials:
            raise ValueError("max_num_trials is at least min_num_trials, and that at least 0")


class Pycolmap(Estimator):
    """`estimate_homography_matrix` and `estimate_essential_matrix`."""

    name = "pycolmap"
    default_threshold: Mapping[str, float] = {"homography": 4.0, "relative_pose": 4.0}

    def __init__(self, settings: Settings) -> None:
        self.pycolmap = require("pycolmap", "pycolmap", EXTRA)
        self.given = dataclasses.asdict(settings)
        self._options(1.0)  # refuses what this version does not know

    def homography_solver(self, points0: Array, points1: Array) -> Solver:
        """`threshold` is max_error, the distance in view 1."""
        call = self._function("homography")

        def solve(threshold: float, seed: int) -> Found:
            found = call(points0, points1, self._seeded(threshold, seed)) or {}
            return found.get("H"), _mask(found)

        return solve

    def pose_solver(self, points0: Array, points1: Array, K0: Array, K1: Array) -> Solver:
        """`threshold` is max_error, Sampson's distance; COLMAP divides it by each camera's mean focal length."""
        call = self._function("relative_pose")
        cameras = [
            self.pycolmap.Camera(model="PINHOLE", width=0, height=0, params=[*K.diagonal()[:2], *K[:2, 2]])
            for K in (K0, K1)
        ]

        def solve(threshold: float, seed: int) -> Found:
            found = call(points0, points1, *cameras, self._seeded(threshold, seed)) or {}
            return _matrix(found.get("cam2_from_cam1")), _mask(found)

        return solve

    def _seeded(self, threshold: float, seed: int) -> Any:
        options = self._options(threshold)
        if hasattr(options, "random_seed"):
            options.random_seed = seed
        else:
            self.pycolmap.set_random_seed(seed)  # of this thread
        return options

    def _options(self, threshold: float) -> Any:
        options = self.pycolmap.RANSACOptions()
        for key, value in {**self.given, "max_error": threshold}.items():
            if not hasattr(options, key):
                raise UsageError(f"pycolmap {self.pycolmap.__version__} has no option {key}: pip install -U pycolmap.")
            setattr(options, key, value)
        if hasattr(options, "num_threads"):
            options.num_threads = 1
        return options

    def _function(self, kind: str) -> Callable[..., dict[str, Any] | None]:
        now, before = FUNCTIONS[kind]
        return getattr(self.pycolmap, now, None) or getattr(self.pycolmap, before)


def _matrix(pose: Any) -> Array | None:
    if pose is None:
        return None
    return np.asarray(pose.matrix() if callable(pose.matrix) else pose.matrix, np.float64)


def _mask(found: Mapping[str, Any]) -> Any:
    return next((found[name] for name in MASKS if name in found), None)


build = Pycolmap
