"""Homographies between images: drawn at random, applied to points, and to pixels.

Points are (x, y) in pixels, the corner of the top-left pixel at (0, 0) (COLMAP's convention): its centre is (.5, .5).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
LARGEST_WARP = 0.25  # corners that move by more than a quarter of a side could fold the picture


def from_corners(source: NDArray[np.floating], target: NDArray[np.floating]) -> Matrix:
    """The homography (3, 3), last entry 1, that takes four points (4, 2) to four others (direct linear transform)."""
    rows, values = [], []
    for (x, y), (u, v) in zip(source.astype(np.float64), target.astype(np.float64), strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    return np.append(np.linalg.solve(np.array(rows), np.array(values)), 1.0).reshape(3, 3)


def random_warp(generator: np.random.Generator, height: int, width: int, max_warp: float) -> Matrix:
    """Each corner of an image is moved by a uniform offset of at most `max_warp` of width and of height (VisBench).

    Raises:
        ValueError: `max_warp` is not from 0 to below LARGEST_WARP.
    """
    if not 0 <= max_warp < LARGEST_WARP:
        raise ValueError(f"max_warp lies from 0 to below {LARGEST_WARP}, not {max_warp}")
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)
    return from_corners(corners, corners + generator.uniform(-max_warp, max_warp, (4, 2)) * [width, height])


def transfer(matrix: Matrix, points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Points (N, 2) through a homography; infinite where they have no image (on or behind its line at infinity)."""
    moved = np.concatenate([points, np.ones((len(points), 1))], axis=1) @ matrix.T
    ahead = moved[:, 2:] > 1e-12
    return np.where(ahead, moved[:, :2] / np.where(ahead, moved[:, 2:], 1), np.inf)


def point_distances(moved: NDArray[np.floating], points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Between points (..., 2) and points (..., 2), shapes as NumPy broadcasts them: (...), in their unit; infinite where one has
    no place.
    """
    known: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(moved) & np.isfinite(points), axis=-1)
    apart = np.where(known[..., None], moved, 0) - np.where(known[..., None], points, 0)
    return np.asarray(np.where(known, np.hypot(apart[..., 0], apart[..., 1]), np.inf), np.float64)


def warped(image: NDArray[np.uint8], matrix: Matrix) -> NDArray[np.uint8]:
    """The image through a homography, of the same size: bilinear at pixel centres, 0 where nothing of the image lies."""
    height, width = image.shape[:2]
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    source = transfer(np.linalg.inv(matrix).astype(np.float64), np.stack([x.ravel(), y.ravel()], axis=1))
    inside = np.logical_and.reduce((source >= 0) & (source <= [width, height]), axis=1)
    place = np.clip(np.where(inside[:, None], source, 0) - 0.5, 0, [width - 1, height - 1])
    low = np.minimum(place.astype(np.intp), [max(width - 2, 0), max(height - 2, 0)])
    (right, down), (x0, y0) = (place - low).T[:, :, None], low.T
    x1, y1 = np.minimum(x0 + 1, width - 1), np.minimum(y0 + 1, height - 1)
    upper = image[y0, x0] * (1 - right) + image[y0, x1] * right
    lower = image[y1, x0] * (1 - right) + image[y1, x1] * right
    values = np.where(inside[:, None], np.rint(upper * (1 - down) + lower * down), 0)
    return values.astype(np.uint8).reshape(image.shape)
