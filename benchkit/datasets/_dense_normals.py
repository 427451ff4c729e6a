"""Surface normals from depth and intrinsics, for data that have no others: a plane through each pixel's neighbours.

On a plane n . X = d the inverse depth is linear in the pixel: with X = z ((u - cx) / fx, (v - cy) / fy, 1),
1 / z = (n_x (u - cx) / fx + n_y (v - cy) / fy + n_z) / d. So the plane is a least-squares line fit of 1 / z in the
window, over the neighbours on the same surface: those whose depth is near the pixel's own. The idea of fitting planes to
windows of depth is that of Silberman et al. 2012, where NYUv2's normals come from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RADIUS = 2  # of the window: 5 x 5 pixels
NEAR = 0.05  # neighbours this share of the depth away, per pixel of the window's radius, are another surface
ENOUGH = 6  # neighbours, the pixel included, without which there is no plane


def method() -> str:
    """How the normals came about, for the record."""
    side = 2 * RADIUS + 1
    return f"depth: planes fitted to {side} x {side} pixels"


def from_depth(depth: np.ndarray, intrinsics: Sequence[float]) -> np.ndarray:
    """Normals that face the camera.

    Args:
        depth: float (h, w), distance along the optical axis in any unit, 0 where there is none.
        intrinsics: fx, fy, cx, cy in pixels, the corner of the top-left pixel at (0, 0); the sign of a focal length
            (data whose y points up) does not matter, since rows run downwards in any file.

    Returns:
        float32 (h, w, 3), unit vectors, x right, y down, z forward; zero where no plane can be fitted.
    """
    fx, fy, cx, cy = intrinsics
    inverse = np.divide(1, depth, out=np.zeros(depth.shape, np.float32), where=depth > 0)
    across, along, level, known = _planes(inverse)
    x = (np.arange(depth.shape[1]) + 0.5 - cx).astype(np.float32)
    y = (np.arange(depth.shape[0])[:, None] + 0.5 - cy).astype(np.float32)
    normals = np.stack([abs(fx) * across, abs(fy) * along, level - across * x - along * y], axis=-1)
    length = np.linalg.norm(normals, axis=-1, keepdims=True)
    good = known & (length[..., 0] > 0)
    return np.where(good[..., None], -normals / np.where(length > 0, length, 1), 0).astype(np.float32)


def _planes(inverse: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Slope of the inverse depth per column and per row, its level at the pixel, and where these are known.

    Values are counted from the pixel's own, so that float32 does.
    """
    total = np.zeros((9, *inverse.shape), np.float32)
    for down in range(-RADIUS, RADIUS + 1):
        row = np.zeros((5, *inverse.shape), np.float32)  # n, u, uu, w, uw of one row of the window
        for right in range(-RADIUS, RADIUS + 1):
            one, value = _neighbour(inverse, down, right)
            row[0] += one
            row[3] += value
            if right:
                row[1] += one * np.float32(right)
                row[2] += one * np.float32(right**2)
                row[4] += value * np.float32(right)
        n, u, uu, w, uw = row
        for place, part in enumerate((n, u, down * n, uu, down * u, down**2 * n, w, uw, down * w)):
            total[place] += part
    across, along, above, known = _solved(*total)
    return across, along, inverse + above, known


def _neighbour(inverse: np.ndarray, down: int, right: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether the neighbour so far away is on the pixel's surface, as a float; and by how much its value is greater."""
    other = _shifted(inverse, down, right)
    value = other - inverse
    # |z - z0| <= t z0 in inverse depths, symmetrical: neither of the two is much the nearer one
    near = (np.abs(value) <= np.float32(NEAR * RADIUS) * np.minimum(other, inverse)) & (inverse > 0) & (other > 0)
    one = near.astype(np.float32)
    return one, value * one


def _solved(
    n: np.ndarray, u: np.ndarray, v: np.ndarray, uu: np.ndarray, uv: np.ndarray, vv: np.ndarray,
    w: np.ndarray, uw: np.ndarray, vw: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The normal equations by elimination of the level; (slope per column, per row, level, where)."""
    many = np.maximum(n, 1)
    uu, uv, vv = uu - u * u / many, uv - u * v / many, vv - v * v / many
    uw, vw = uw - u * w / many, vw - v * w / many
    determinant = uu * vv - uv * uv
    known = (n >= ENOUGH) & (determinant > 1e-3)
    safe = np.where(known, determinant, 1)
    across, along = (uw * vv - vw * uv) / safe, (vw * uu - uw * uv) / safe
    return across, along, (w - across * u - along * v) / many, known


def _shifted(values: np.ndarray, down: int, right: int) -> np.ndarray:
    """The value so many rows below and columns to the right; 0 outside."""
    padded = np.pad(values, RADIUS)
    h, w = values.shape
    return padded[RADIUS + down : RADIUS + down + h, RADIUS + right : RADIUS + right + w]
