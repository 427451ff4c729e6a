"""Two calibrated cameras: relative pose, essential matrix, epipolar lines, points through depth.

X1 = R X0 + t takes the first camera's frame (x right, y down, z forward) to the second's. Points are (x, y) in pixels, the
corner of the top-left pixel at (0, 0), and so are the matrices K; normalised coordinates lie on the plane z = 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
AHEAD = 1e-9  # least depth of what a camera sees, in the unit of depths


def relative(R0: Array, t0: Array, R1: Array, t1: Array) -> tuple[Array, Array]:
    """R (3, 3) and t (3,) from camera 0 to camera 1, of two poses that take world to camera, X = R W + t."""
    rotation = R1 @ R0.T
    return rotation, t1 - rotation @ t0


def inverse(R: Array, t: Array) -> tuple[Array, Array]:
    """The pose from camera 1 to camera 0."""
    return R.T, -R.T @ t


def essential(R: Array, t: Array) -> Array:
    """E = [t]x R (3, 3), of a t of length 1 whatever its length (0 of t = 0): x1' E x0 = 0 for normalised points."""
    length = float(np.linalg.norm(t))
    x, y, z = t / length if length else t
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) @ R


def normalised(points: NDArray[np.floating], K: Array) -> Array:
    """Pixels (n, 2) on the plane z = 1 of the camera's frame: (n, 2)."""
    return (np.concatenate([points, np.ones((len(points), 1))], axis=1) @ np.linalg.inv(K).T)[:, :2]


def unprojected(points: NDArray[np.floating], depths: NDArray[np.floating], K: Array) -> Array:
    """Points in space (n, 3) in the camera's frame, of pixels (n, 2) and depths (n,) along the optical axis."""
    return np.concatenate([normalised(points, K), np.ones((len(points), 1))], axis=1) * depths[:, None]


def projected(space: Array, K: Array) -> Array:
    """Pixels (n, 2) of points (n, 3) in the camera's frame; infinite where they are not in front of it, or not known."""
    ahead: NDArray[np.bool_] = space[:, 2] > AHEAD
    moved = space @ K.T
    return np.where(ahead[:, None], moved[:, :2] / np.where(ahead, space[:, 2], 1)[:, None], np.inf)


def transferred(
    points: NDArray[np.floating], depths: NDArray[np.floating], K0: Array, K1: Array, R: Array, t: Array
) -> Array:
    """Pixels (n, 2) of camera 1 where points (n, 2) of camera 0 at these depths (n,) lie; infinite where they do not."""
    return projected(unprojected(points, depths, K0) @ R.T + t, K1)


def epipolar_lines(points: NDArray[np.floating], K0: Array, K1: Array, R: Array, t: Array) -> Array:
    """(n, 3): a, b and c of the lines a x + b y + c = 0 in camera 1's pixels on which points (n, 2) of camera 0 lie."""
    fundamental = np.linalg.inv(K1).T @ essential(R, t) @ np.linalg.inv(K0)
    return np.concatenate([points, np.ones((len(points), 1))], axis=1) @ fundamental.T


def depth_at(depth: NDArray[np.floating], points: NDArray[np.floating], size: NDArray[np.floating]) -> Array:
    """Depths (n,) at points (n, 2), bilinear between pixel centres; NaN outside the view or where nothing is known.

    Where one of the four pixels around is not known, it is the nearest pixel's.

    Args:
        depth: (h, w), NaN or not positive where unknown; of any resolution.
        size: width and height of the view that the points are pixels of.
    """
    height, width = depth.shape
    inside: NDArray[np.bool_] = np.logical_and.reduce((points >= 0) & (points < size), axis=1)
    scale = np.array([width, height]) / size
    place = np.clip(np.where(inside[:, None], points * scale, 0) - 0.5, 0, [width - 1, height - 1])
    low = np.minimum(place.astype(np.intp), [max(width - 2, 0), max(height - 2, 0)])
    (right, down), (x0, y0) = (place - low).T, low.T
    x1, y1 = np.minimum(x0 + 1, width - 1), np.minimum(y0 + 1, height - 1)
    nearest = _known(depth[np.where(down < 0.5, y0, y1), np.where(right < 0.5, x0, x1)])
    upper = _known(depth[y0, x0]) * (1 - right) + _known(depth[y0, x1]) * right
    lower = _known(depth[y1, x0]) * (1 - right) + _known(depth[y1, x1]) * right
    mixed = upper * (1 - down) + lower * down
    return np.where(inside, np.where(np.isnan(mixed), nearest, mixed), np.nan)


def _known(depths: NDArray[np.floating]) -> Array:
    return np.where(np.isfinite(depths) & (depths > 0), depths, np.nan).astype(np.float64)
