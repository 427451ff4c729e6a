"""PoseLib: LO-RANSAC with its own minimal solvers and non-linear refinement (Larsson, github.com/PoseLib/PoseLib).

The same seed gives the same bits. Thresholds are 2 pixels for both models, as in Glue Factory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from benchkit.estimators.base import Array, Estimator, Found, Solver, require
from benchkit.settings import setting

EXTRA, NEEDS = "geometry", ("poselib",)
BUNDLE = ("loss_type", "loss_scale", "gradient_tol", "step_tol", "initial_lambda", "min_lambda", "max_lambda")


@dataclasses.dataclass
class Settings:
    """RansacOptions, and BundleOptions of the refinement; `max_iterations` is in both, so the second has a prefix."""

    max_iterations: int = setting(100_000, "samples drawn at most")
    min_iterations: int = setting(1_000, "samples drawn at least")
    dyn_num_trials_mult: float = setting(3.0, "factor on the number of samples that success_prob asks for")
    success_prob: float = setting(0.9999, "probability of a sample without outliers at which drawing ends")
    progressive_sampling: bool = setting(False, "PROSAC: the matches' order is their quality")
    max_prosac_iterations: int = setting(100_000, "samples after which PROSAC draws from all matches")
    real_focal_check: bool = setting(False, "fundamental matrices only: real focal lengths")
    bundle_max_iterations: int = setting(100, "iterations of the last refinement")
    loss_type: Literal["TRIVIAL", "TRUNCATED", "HUBER", "CAUCHY", "TRUNCATED_LE_ZACH"] = setting(
        "CAUCHY", "robust loss of the last refinement"
    )
    loss_scale: float | None = setting(
        None, "scale of that loss in pixels (default: half the threshold, the library's own)"
    )
    gradient_tol: float = setting(1e-10, "the refinement ends below this norm of the gradient")
    step_tol: float = setting(1e-8, "the refinement ends below this norm of the step")
    initial_lambda: float = setting(1e-3, "first damping of the refinement")
    min_lambda: float = setting(1e-10, "least damping")
    max_lambda: float = setting(1e10, "largest damping")

    def __post_init__(self) -> None:
        if not 0 < self.success_prob < 1:
            raise ValueError(f"success_prob lies between 0 and 1, not {self.success_prob}")
        if min(self.max_iterations, self.bundle_max_iterations) < 1 or self.min_iterations < 0:
            raise ValueError("max_iterations and bundle_max_iterations are at least 1, min_iterations at least 0")


class Poselib(Estimator):
    """`estimate_homography` and `estimate_relative_pose`."""

    name = "poselib"
    default_threshold: Mapping[str, float] = {"homography": 2.0, "relative_pose": 2.0}

    def __init__(self, settings: Settings) -> None:
        self.poselib = require("poselib", "poselib", EXTRA)
        given = dataclasses.asdict(settings)
        chosen = {key: given.pop(key) for key in BUNDLE}
        self.bundle: dict[str, Any] = {key: value for key, value in chosen.items() if value is not None}
        self.bundle["max_iterations"] = given.pop("bundle_max_iterations")
        self.ransac: dict[str, Any] = given

    def homography_solver(self, points0: Array, points1: Array) -> Solver:
        """`threshold` is max_reproj_error."""
        poselib = self.poselib

        def solve(threshold: float, seed: int) -> Found:
            options = {**self.ransac, "max_reproj_error": threshold, "seed": seed}
            model, info = poselib.estimate_homography(points0, points1, options, self.bundle)
            return model, info["inliers"]

        return solve

    def pose_solver(self, points0: Array, points1: Array, K0: Array, K1: Array) -> Solver:
        """`threshold` is max_epipolar_error, of Sampson's distance."""
        poselib = self.poselib
        cameras = [poselib.Camera("PINHOLE", [*K.diagonal()[:2], *K[:2, 2]], 0, 0) for K in (K0, K1)]

        def solve(threshold: float, seed: int) -> Found:
            options = {**self.ransac, "max_epipolar_error": threshold, "seed": seed}
            pose, info = poselib.estimate_relative_pose(points0, points1, *cameras, options, self.bundle)
            return pose.Rt, info["inliers"]

        return solve


build = Poselib
