"""Points that two cameras both see, as keypoints and matches without error."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchkit.geometry import pose as geometry
from benchkit.metrics.matches import DepthPair, reprojection_errors

APART = 1.0  # pixels between two points, so that each is the other's nearest
EXACT = 0.2  # pixels: largest reprojection error of points on a surface that both depth maps see
TRIED = 48  # points a side of the first view
DEPTHS = (1.0, 1.5, 2.2, 3.3, 5.0, 8.0)  # in lengths of t, where no depth is known
Points = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # keypoints0, keypoints1, matches0, matching_scores0


def points_in_both(truth: Any, depth: DepthPair | None, count: int) -> Points:
    """`count` keypoints of each view, float64 (count, 2): those that both see, matched, then such as lie nowhere, unmatched."""
    cells = (np.arange(TRIED) + 0.5) / TRIED
    grid = np.stack(np.meshgrid(cells, cells), axis=-1).reshape(-1, 2) * truth.size0
    found = _anywhere(grid, truth) if depth is None else _on_surfaces(grid, depth)
    chosen = _spread(*found, count)
    nowhere = -1e4 * (1 + np.arange(count, dtype=np.float64))[:, None] * np.ones(2)
    matches, scores = np.full(count, -1, np.int32), np.zeros(count)
    matches[: len(chosen)], scores[: len(chosen)] = np.arange(len(chosen)), 1.0
    points0, points1 = (np.concatenate([each[chosen], nowhere[len(chosen) :]]) for each in found)
    return points0, points1, matches, scores


def _anywhere(points0: np.ndarray, truth: Any) -> tuple[np.ndarray, np.ndarray]:
    """Each pixel at the first depth, in turn, at which the second camera sees it."""
    unit = float(np.linalg.norm(truth.t)) or 1.0
    turn = np.arange(len(points0)) % len(DEPTHS)
    depths = unit * np.array(DEPTHS)[(turn[None] + np.arange(len(DEPTHS))[:, None]) % len(DEPTHS)]
    moved = [geometry.transferred(points0, each, truth.K0, truth.K1, truth.R, truth.t) for each in depths]
    seen = np.array([((each >= 0) & (each < truth.size1)).all(axis=1) for each in moved])
    points1 = np.array(moved)[seen.argmax(axis=0), np.arange(len(points0))]
    return points0[seen.any(axis=0)], points1[seen.any(axis=0)]


def _on_surfaces(points0: np.ndarray, depth: DepthPair) -> tuple[np.ndarray, np.ndarray]:
    """Where the first view's depth says they lie, if the second view's says the same."""
    points1, known = depth.forward(points0)
    known &= np.isfinite(points1).all(axis=1)
    points0, points1 = points0[known], points1[known]
    exact = reprojection_errors(points0, points1, depth) < EXACT
    return points0[exact], points1[exact]


def _spread(points0: np.ndarray, points1: np.ndarray, count: int) -> list[int]:
    """At most `count` rows whose points are apart in both views, evenly from all."""
    chosen: list[int] = []
    for row in np.random.default_rng(0).permutation(len(points0)).tolist():
        gaps = [np.hypot(*(each[chosen] - each[row]).T) for each in (points0, points1)]
        if len(chosen) < count and not any((gap < APART).any() for gap in gaps):
            chosen.append(row)
    return chosen
