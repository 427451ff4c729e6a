"""Depth maps of ETH3D's photos as they were taken, looked up for pixels of a pinhole camera in the same place.

The ground truth (`ground_truth_depth/dslr_images`, raw float32 by rows, infinite where unknown) is of the distorted photos;
depth along the optical axis is the same for both pictures, so it only has to be found (https://www.eth3d.net/documentation).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets._pair_items import Matrix, floats
from benchkit.errors import UsageError
from benchkit.images import Unreadable

MODEL = "THIN_PRISM_FISHEYE"  # fx fy cx cy k1 k2 p1 p2 k3 k4 sx1 sy1


def distorted(rays: NDArray[np.float64], numbers: Sequence[float]) -> NDArray[np.float64]:
    """Pixels (n, 2), corner convention, of rays x/z, y/z (n, 2) through COLMAP's THIN_PRISM_FISHEYE camera."""
    fx, fy, cx, cy, k1, k2, p1, p2, k3, k4, sx, sy = numbers
    radius = np.linalg.norm(rays, axis=1)
    bent = rays * np.where(radius > 1e-12, np.arctan(radius) / np.maximum(radius, 1e-12), 1)[:, None]
    u, v = bent.T
    square = u * u + v * v
    radial = square * (k1 + square * (k2 + square * (k3 + square * k4)))
    x = u + u * radial + 2 * p1 * u * v + p2 * (square + 2 * u * u) + sx * square
    y = v + v * radial + 2 * p2 * u * v + p1 * (square + 2 * v * v) + sy * square
    return np.stack([fx * x + cx, fy * y + cy], axis=1)


def looked_up(path: Path, camera: tuple[str, Sequence[str]], K: Matrix, size: tuple[int, int]) -> NDArray[np.float32]:
    """Depth of the pixels of a pinhole camera, float32 (h, w), metres, NaN where unknown; the nearest stored value.

    Args:
        path: raw depth of the distorted photo.
        camera: (file and line, `MODEL WIDTH HEIGHT PARAMS[]`) of that photo.
        K: (3, 3) of the pinhole camera.
        size: width and height of its picture.

    Raises:
        Unreadable: the file does not have as many values as the photo has pixels.
        UsageError: the photo's camera is of another model.
    """
    where, cells = camera
    if cells[:1] != [MODEL] or len(cells) != 15:
        raise UsageError(f"{where}: the photos of ETH3D have cameras of the model {MODEL}, not {' '.join(cells[:1])}.")
    width, height, *numbers = floats(cells[1:], where)
    if path.stat().st_size != int(width) * int(height) * 4:
        raise Unreadable(
            f"it has {path.stat().st_size:,} bytes, and the photo has {width:g} x {height:g} pixels of 4 each"
        )
    stored = np.fromfile(path, dtype="<f4")
    stored = stored.reshape(int(height), int(width))
    x, y = np.meshgrid(np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5)
    seen = np.stack([x.ravel(), y.ravel(), np.ones(x.size)], axis=1) @ np.linalg.inv(K).T
    places = np.floor(distorted(seen[:, :2], numbers)).astype(int)
    within = np.logical_and.reduce((places >= 0) & (places < [int(width), int(height)]), axis=1)
    column, row = np.where(within[:, None], places, 0).T
    depth = np.where(within, stored[row, column], np.nan).reshape(size[1], size[0])
    return np.where(np.isfinite(depth) & (depth > 0), depth, np.float32(np.nan)).astype(np.float32)
