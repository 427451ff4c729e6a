"""Pinhole cameras: x right, y down, z forward; the pixel in row i and column j has its centre at (j + .5, i + .5)."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Camera:
    """A square pinhole camera, independent of the number of pixels.

    Attributes:
        focal: focal length in units of the image's width.
        pose: float64 (4, 4), world to camera: X_camera = R X_world + t, metres.
    """

    focal: float
    pose: np.ndarray

    @property
    def eye(self) -> np.ndarray:
        """Centre of projection in the world, float64 (3,), metres."""
        return -self.pose[:3, :3].T @ self.pose[:3, 3]

    def intrinsics(self, size: int) -> np.ndarray:
        """K, float64 (3, 3), in pixels of a size x size image, corner convention."""
        return np.array([[self.focal * size, 0, size / 2], [0, self.focal * size, size / 2], [0, 0, 1.0]])

    def project(self, points: np.ndarray) -> np.ndarray:
        """World points (n, 3) to (n, 3): x and y in units of the image's width from its centre, and depth in metres."""
        local = points @ self.pose[:3, :3].T + self.pose[:3, 3]
        return np.concatenate([self.focal * local[:, :2] / local[:, 2:], local[:, 2:]], axis=1)

    def directions(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Rays in the world, float32 (3, n), scaled so that the ray parameter is the depth along the optical axis."""
        forward = self.pose[:3, :3].T
        rows = (forward / np.array([self.focal, self.focal, 1.0])).tolist()
        # Written out, not as a matrix product: BLAS may round differently from one number of threads to the next.
        return np.stack([x * a + (y * b + c) for a, b, c in rows])


@functools.lru_cache(maxsize=8)
def pixel_grid(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixel centres x and y, float32 (size * size,) each, row by row, in units of the width from the image's centre."""
    line = ((np.arange(size) + 0.5) / size - 0.5).astype(np.float32)
    x, y = np.tile(line, size), np.repeat(line, size)
    x.flags.writeable = y.flags.writeable = False
    return x, y


def look_at(eye: np.ndarray, target: np.ndarray, roll: float, focal: float) -> Camera:
    """A camera at `eye` (metres, world z is up) looking at `target`, turned by `roll` radians about its own axis."""
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    cos, sin = np.cos(roll), np.sin(roll)
    rotation = np.stack([cos * right + sin * down, cos * down - sin * right, forward])
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, -rotation @ eye
    return Camera(focal=float(focal), pose=pose)
