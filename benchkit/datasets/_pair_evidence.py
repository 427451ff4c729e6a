"""What images and depth maps say about a pose: how many matches, or depths, would be as they are if it were right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets._pair_guesses import Guess
from benchkit.datasets._pair_items import Matrix, inverted

Points = NDArray[np.float64]
SIDE = 800  # of the images that are matched: the longer one, pixels
FEATURES = 1500
RATIO = 0.8  # Lowe's
SAMPLED = 4000  # pixels of a depth map that are looked at


def matched(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> tuple[Points, Points, float]:
    """Points of two images that look alike, (n, 2) each, in their own pixels (corner convention), and pixels to one of
    the reduced image in which they were found.
    """
    found = [_features(image) for image in (first, second)]
    (points0, features0, unit0), (points1, features1, unit1) = found
    if min(len(points0), len(points1)) < 2:
        return np.zeros((0, 2)), np.zeros((0, 2)), max(unit0, unit1)
    likeness = features0 @ features1.T
    forward, back = likeness.argmax(axis=1), likeness.argmax(axis=0)
    best, second_best = -np.sort(-np.partition(likeness, -2, axis=1)[:, -2:], axis=1).T
    ratio = np.sqrt(np.maximum(2 - 2 * best, 0)) < RATIO * np.sqrt(np.maximum(2 - 2 * second_best, 1e-12))
    chosen = np.flatnonzero((back[forward] == np.arange(len(points0))) & ratio)
    return points0[chosen], points1[forward[chosen]], max(unit0, unit1)


def _features(image: NDArray[np.uint8]) -> tuple[Points, NDArray[np.float32], float]:
    """Places, unit descriptors (n, 128), and pixels of the image to one of the reduced image."""
    import cv2

    grey: Any = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    unit = max(1.0, max(height, width) / SIDE)
    if unit > 1:
        size = max(1, round(width / unit)), max(1, round(height / unit))
        grey = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
    sift: Any = cv2.SIFT_create(FEATURES)  # type: ignore[attr-defined]
    found, features = sift.detectAndCompute(grey, None)
    if features is None or not len(found):
        return np.zeros((0, 2)), np.zeros((0, 128), np.float32), unit
    scale = np.array([width / grey.shape[1], height / grey.shape[0]])
    points = (np.array([each.pt for each in found]) + 0.5) * scale
    features = features.astype(np.float32)
    return points, features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-6), unit


def distances(points0: Points, points1: Points, guess: Guess) -> NDArray[np.float64]:
    """Pixels from each point to where its partner's depth could put it, the larger of both directions, (n,).

    A point at any depth in front of its camera lies, in the other view, on a ray: it begins where the point would be if
    it were infinitely far, and leads to the epipole. On the line but behind its beginning it would be behind a camera.
    """
    there = _to_ray(points0, points1, guess.pose, guess.K0, guess.K1)
    back = _to_ray(points1, points0, inverted(guess.pose), guess.K1, guess.K0)
    return np.maximum(there, back)


def _to_ray(points0: Points, points1: Points, pose: Matrix, K0: Matrix, K1: Matrix) -> NDArray[np.float64]:
    seen = np.concatenate([points0, np.ones((len(points0), 1))], axis=1) @ np.linalg.inv(K0).T
    far = seen @ (K1 @ pose[:3, :3]).T  # homogeneous place of the point at infinity
    toward = K1 @ pose[:3, 3]
    line = np.cross(far, toward)
    length = np.hypot(line[:, 0], line[:, 1])
    off = np.abs((line[:, :2] * points1).sum(axis=1) + line[:, 2]) / np.maximum(length, 1e-12)
    ahead = far[:, 2] > 1e-9 * np.linalg.norm(far, axis=1)
    begin = far[:, :2] / np.where(ahead, far[:, 2], 1)[:, None]
    direction = toward[:2] - begin * toward[2]  # of growing nearness, up to a positive factor
    along = ((points1 - begin) * direction).sum(axis=1)
    to_begin = np.linalg.norm(points1 - begin, axis=1)
    return np.where(ahead, np.where(along >= 0, off, to_begin), off)


def sampled(depth0: NDArray[np.float32]) -> Points:
    """Pixels of a map whose depth is known, SAMPLED of them at most: x d, y d, d, (n, 3)."""
    rows, columns = np.nonzero(np.isfinite(depth0))
    chosen = np.unique(np.linspace(0, max(len(rows) - 1, 0), SAMPLED).astype(int)) if len(rows) else np.zeros(0, int)
    rows, columns = rows[chosen], columns[chosen]
    return np.stack([columns + 0.5, rows + 0.5, np.ones(len(rows))], axis=1) * depth0[rows, columns, None]


def agreements(pixels: Points, depth1: NDArray[np.float32], guess: Guess) -> NDArray[np.float64]:
    """By how much, relative to it, the depth of a point of view 0 seen from view 1 differs from view 1's map, (n,).

    NaN where the point is not in view 1, or its depth is unknown there.

    Args:
        pixels: of view 0, as `sampled` gives them.
        depth1: (h, w).
        guess: cameras, pose, and a factor of both maps.
    """
    seen = pixels @ np.linalg.inv(guess.K0).T
    points = seen * guess.depth @ guess.pose[:3, :3].T + guess.pose[:3, 3]
    ahead = points[:, 2] > 1e-9
    projected = points @ guess.K1.T
    places = projected[:, :2] / np.where(ahead, projected[:, 2], 1)[:, None]
    height, width = depth1.shape
    within = ahead & np.logical_and.reduce((places >= 0) & (places < [width, height]), axis=1)
    x, y = np.where(within[:, None], places, 0).astype(int).T
    off = np.abs(points[:, 2] - depth1[y, x] * guess.depth) / np.where(ahead, points[:, 2], 1)
    return np.where(within, off, np.nan)
