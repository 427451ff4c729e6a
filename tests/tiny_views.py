"""Two views of points with known geometry, in pixels of the corner convention."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
K0 = np.array([[800.0, 0, 320], [0, 820, 240], [0, 0, 1]])
K1 = np.array([[700.0, 0, 300], [0, 690, 260], [0, 0, 1]])
H = np.array([[1.1, 0.05, 20], [-0.03, 0.9, 10], [1e-4, -2e-4, 1]])
TRANSLATION = np.array([-0.8, 0.0, 0.6])  # of length 1


def rotation(axis: tuple[float, float, float] = (0.2, 1, 0.1), degrees: float = 12) -> Array:
    """By Rodrigues' formula."""
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = np.radians(degrees)
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


@dataclasses.dataclass
class Views:
    """Matches (n, 2) each, the first `true` of them right; R, t of unit length (or 0): X1 = R X0 + t."""

    points0: Array
    points1: Array
    true: int
    R: Array = dataclasses.field(default_factory=rotation)
    t: Array = dataclasses.field(default_factory=lambda: TRANSLATION)


def seen(points: Array, K: Array) -> Array:
    """Points (n, 3) in a camera's frame, as pixels."""
    pixels = points @ K.T
    return pixels[:, :2] / pixels[:, 2:]


def scene(n: int = 200, noise: float = 0.0, outliers: float = 0.0, seed: int = 0, t: Array = TRANSLATION) -> Views:
    """Points in a box of 2 x 2 x 4, 4 to 8 before the first camera."""
    generator = np.random.default_rng(seed)
    points = generator.uniform([-1, -1, 4], [1, 1, 8], (n, 3))
    R = rotation()
    views = Views(seen(points, K0), seen(points @ R.T + t, K1), n - round(outliers * n), R, t)
    return _spoiled(views, noise, generator)


def plane(n: int = 200, noise: float = 0.0, outliers: float = 0.0, seed: int = 0) -> Views:
    """Points of the first view, and where the homography H takes them."""
    generator = np.random.default_rng(seed)
    points0 = generator.uniform(0, [640, 480], (n, 2))
    points1 = seen(np.concatenate([points0, np.ones((n, 1))], axis=1), H)
    return _spoiled(Views(points0, points1, n - round(outliers * n)), noise, generator)


def _spoiled(views: Views, noise: float, generator: np.random.Generator) -> Views:
    views.points0 = views.points0 + generator.normal(0, noise, views.points0.shape)
    views.points1 = views.points1 + generator.normal(0, noise, views.points1.shape)
    views.points1[views.true :] = generator.uniform(0, [640, 480], (len(views.points1) - views.true, 2))
    return views


def degrees_between(first: Array, second: Array) -> float:
    """The angle between two directions, or of the turn between two rotations."""
    if first.ndim == 2:
        turn = first @ second.T
        axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
        return float(np.degrees(np.arctan2(np.linalg.norm(axis), np.trace(turn) - 1)))
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(first, second)), first @ second)))
