"""OpenCV: RANSAC, LMEDS, RHO and the USAC framework (MAGSAC++ and others), for OpenCV 4 and 5.

Thresholds are 3 pixels for homographies and .5 for poses, confidences and numbers of samples those that Glue Factory uses.
RANSAC, LMEDS and RHO draw from a generator that OpenCV seeds itself, always alike: for them the seed changes nothing. The USAC
methods take the seed (a call with OpenCV's own flag is that of seed 0). The same seed gives the same bits. Not offered are
USAC_PARALLEL, which does not repeat itself, and USAC_FAST and USAC_PROSAC, which no parameters with a seed stand for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from benchkit.errors import UsageError
from benchkit.estimators.base import Array, Estimator, Found, Solver, require
from benchkit.settings import setting

EXTRA, NEEDS = "geometry", ("cv2",)
CONFIDENCE = {"homography": 0.995, "relative_pose": 0.99999}
MAX_ITERS = {"homography": 3000, "relative_pose": 1000}
FAR = 1e9  # baselines; no point is left out of the test of what lies before the cameras for being far

Sampler = Literal["SAMPLING_UNIFORM", "SAMPLING_PROGRESSIVE_NAPSAC", "SAMPLING_NAPSAC", "SAMPLING_PROSAC"]
Score = Literal["SCORE_METHOD_RANSAC", "SCORE_METHOD_MSAC", "SCORE_METHOD_MAGSAC", "SCORE_METHOD_LMEDS"]
LoMethod = Literal[
    "LOCAL_OPTIM_NULL",
    "LOCAL_OPTIM_INNER_LO",
    "LOCAL_OPTIM_INNER_AND_ITER_LO",
    "LOCAL_OPTIM_GC",
    "LOCAL_OPTIM_SIGMA",
]
Neighbours = Literal["NEIGH_FLANN_KNN", "NEIGH_GRID", "NEIGH_FLANN_RADIUS"]
Polisher = Literal["NONE_POLISHER", "LSQ_POLISHER", "COV_POLISHER"]

# What OpenCV's flags stand for (usac::setParameters), as UsacParams, which alone take a seed.
_PLAIN = {"sampler": "SAMPLING_UNIFORM", "score": "SCORE_METHOD_MSAC"}
USAC: dict[str, dict[str, Any]] = {
    "USAC_DEFAULT": {**_PLAIN, "lo_method": "LOCAL_OPTIM_INNER_AND_ITER_LO"},
    "USAC_ACCURATE": {**_PLAIN, "lo_method": "LOCAL_OPTIM_GC", "lo_sample_size": 20, "lo_iterations": 25},
    "USAC_MAGSAC": {"sampler": "SAMPLING_UNIFORM", "score": "SCORE_METHOD_MAGSAC", "lo_method": "LOCAL_OPTIM_SIGMA"},
}
SIGMA = {
    "homography": {"lo_sample_size": 75, "lo_iterations": 15},
    "relative_pose": {"lo_sample_size": 50, "lo_iterations": 10},
}
PARAMS = {  # of UsacParams
    "sampler": "sampler",
    "score": "score",
    "lo_method": "loMethod",
    "lo_sample_size": "loSampleSize",
    "lo_iterations": "loIterations",
    "neighbors_search": "neighborsSearch",
    "final_polisher": "final_polisher",
    "final_polisher_iterations": "final_polisher_iterations",
}


@dataclasses.dataclass
class Settings:
    """OpenCV's parameters, in lower case with underscores; constants by their names in cv2."""

    method: Literal["RANSAC", "LMEDS", "RHO", "USAC_DEFAULT", "USAC_ACCURATE", "USAC_MAGSAC"] = setting(
        "RANSAC", "LMEDS uses no threshold; RHO is for homographies only"
    )
    confidence: float | None = setting(
        None, "that the model is found (default: .995 for homographies, .99999 for poses)"
    )
    max_iters: int | None = setting(None, "samples drawn at most (default: 3000 for homographies, 1000 for poses)")
    sampler: Sampler | None = setting(None, "of USAC methods, as all below (default: the method's)")
    score: Score | None = setting(None, "how models are compared")
    lo_method: LoMethod | None = setting(None, "local optimisation")
    lo_sample_size: int | None = setting(None, "matches in a sample of the local optimisation")
    lo_iterations: int | None = setting(None, "iterations of the local optimisation")
    neighbors_search: Neighbours | None = setting(None, "for the samplers and optimisations that look at neighbours")
    final_polisher: Polisher | None = setting(None, "what refines the last model")
    final_polisher_iterations: int | None = setting(None, "iterations of that")

    def __post_init__(self) -> None:
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise ValueError(f"confidence lies between 0 and 1, not {self.confidence}")
        numbers = ("max_iters", "lo_sample_size", "lo_iterations", "final_polisher_iterations")
        for key in (key for key in numbers if getattr(self, key) is not None and getattr(self, key) < 1):
            raise ValueError(f"{key} is at least 1, not {getattr(self, key)}")
        given = [key for key in PARAMS if getattr(self, key) is not None]
        if given and self.method not in USAC:
            raise ValueError(f"{given[0]} is an option of the methods {', '.join(USAC)}, not of {self.method}")


class OpenCV(Estimator):
    """`findHomography`, and `findEssentialMat` with `recoverPose`."""

    name = "opencv"
    default_threshold: Mapping[str, float] = {"homography": 3.0, "relative_pose": 0.5}

    def __init__(self, settings: Settings) -> None:
        self.cv2 = require("cv2", "opencv-python-headless", EXTRA)
        self.cv2.setNumThreads(1)  # items are what is done in parallel
        self.settings = settings

    def homography_solver(self, points0: Array, points1: Array) -> Solver:
        """`threshold` is the distance in view 1, ransacReprojThreshold."""
        cv2 = self.cv2
        confidence, most = self._limits("homography")

        def solve(threshold: float, seed: int) -> Found:
            if self.settings.method in USAC:
                return cv2.findHomography(points0, points1, self._usac("homography", threshold, seed))
            method = getattr(cv2, self.settings.method)
            return cv2.findHomography(points0, points1, method, threshold, None, most, confidence)

        return solve

    def pose_solver(self, points0: Array, points1: Array, K0: Array, K1: Array) -> Solver:
        """`threshold` is the distance from the epipolar lines, divided by the mean of the four focal lengths for the points on
        the image plane at 1 that OpenCV is given: it knows but one camera. Inliers lie before both cameras.

        Raises:
            UsageError: the method is RHO.
        """
        if self.settings.method == "RHO":
            raise UsageError("eval.options.method=RHO: OpenCV offers RHO for homographies only, not for poses.")
        confidence, most = self._limits("relative_pose")
        rays0, rays1 = _rays(points0, K0), _rays(points1, K1)
        focal = float(np.mean([K0[0, 0], K0[1, 1], K1[0, 0], K1[1, 1]]))
        cv2, same = self.cv2, np.eye(3)

        def solve(threshold: float, seed: int) -> Found:
            if self.settings.method in USAC:
                params = self._usac("relative_pose", threshold / focal, seed)
                return self._pose(cv2.findEssentialMat(rays0, rays1, same, same, None, None, params), rays0, rays1)
            method = getattr(cv2, self.settings.method)
            limits = {"prob": confidence, "threshold": threshold / focal, "maxIters": most}
            return self._pose(cv2.findEssentialMat(rays0, rays1, same, method=method, **limits), rays0, rays1)

        return solve

    def _limits(self, kind: str) -> tuple[float, int]:
        return self.settings.confidence or CONFIDENCE[kind], self.settings.max_iters or MAX_ITERS[kind]

    def _usac(self, kind: str, threshold: float, seed: int) -> Any:
        params = self.cv2.UsacParams()
        params.threshold, params.randomGeneratorState = threshold, seed
        params.confidence, params.maxIterations = self._limits(kind)
        preset = {**USAC[self.settings.method], **(SIGMA[kind] if self.settings.method == "USAC_MAGSAC" else {})}
        for key, name in PARAMS.items():
            value = preset.get(key) if getattr(self.settings, key) is None else getattr(self.settings, key)
            if value is not None and not hasattr(params, name):
                raise UsageError(
                    f"eval.options.{key}: OpenCV {self.cv2.__version__} has no such option; OpenCV 4.7 has."
                )
            if value is not None:
                setattr(params, name, getattr(self.cv2, value) if isinstance(value, str) else value)
        return params

    def _pose(self, found: tuple[Any, Any], rays0: Array, rays1: Array) -> Found:
        """Of the candidate matrices, stacked (3 k, 3), the pose with most inliers before both cameras; the first of equals."""
        best: tuple[int, Array | None, Any] = (0, None, None)
        essential, mask = found
        candidates = [] if essential is None else essential.reshape(-1, 3, 3)
        for candidate in candidates:
            # By name: a fifth argument by position is taken for R, and points beyond 50 baselines count as behind.
            count, rotation, translation, before = self.cv2.recoverPose(
                candidate, rays0, rays1, np.eye(3), distanceThresh=FAR, mask=mask.copy()
            )[:4]
            if count > best[0]:
                best = count, np.concatenate([rotation, translation], axis=1), before
        return best[1], best[2]


def _rays(points: Array, K: Array) -> Array:
    return np.ascontiguousarray((points - K[:2, 2]) / K.diagonal()[:2])


build = OpenCV
