"""Structure of an image at each pixel: gradients, structure tensor, corners, orientation, blobs; numpy only.

Brightness is BT.601 luma in 0..1; borders repeat the outermost pixel, since a step to black would be an edge of its own.
Corner strength is the smaller eigenvalue of the Gaussian-windowed structure tensor (Shi and Tomasi 1994). Orientation is the
tensor's main direction, as the doubled angle (an edge and its reverse run the same way), at the length of its coherence
(eigenvalues' difference over their sum; Bigun and Granlund 1987). Gradients (Sobel / 8), window (sigma 2, cut at 3 sigma)
and the compression log(1 + 1e4 x) of corners are VisBench's (data/derived.py, ShiTomasiResponse, OrientationResponse).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LUMA = (0.299, 0.587, 0.114)
SIGMA = 2.0  # pixels, of the window
TRUNCATE = 3.0  # sigmas
CORNER_SCALE = 1e4
FLAT = 1e-12  # trace of the tensor below which nothing has a direction

Map = NDArray[np.float32]


def luma(image: NDArray[np.uint8]) -> Map:
    """Brightness in 0..1, (h, w), of an image (h, w, 3)."""
    red, green, blue = (image[..., k].astype(np.float32) * np.float32(1 / 255) for k in range(3))
    return (np.float32(LUMA[0]) * red + np.float32(LUMA[1]) * green + np.float32(LUMA[2]) * blue).astype(np.float32)


def smooth(values: Map, sigma: float) -> Map:
    """A map (h, w) under a Gaussian of `sigma` pixels, cut at three sigma."""
    kernel = _gaussian(sigma)
    return _along(_along(values, kernel, 1), kernel, 0)


@lru_cache(maxsize=32)
def _gaussian(sigma: float) -> tuple[float, ...]:
    radius = max(1, int(TRUNCATE * sigma))
    weights = np.exp(-(np.arange(-radius, radius + 1) ** 2) / (2 * sigma**2))
    return tuple((weights / weights.sum()).tolist())


def _along(values: Map, kernel: tuple[float, ...], axis: int) -> Map:
    """Correlation with a symmetric kernel of odd length along one axis."""
    radius, side = len(kernel) // 2, values.shape[axis]
    padded = np.pad(values, [(radius, radius) if k == axis else (0, 0) for k in (0, 1)], mode="edge")
    parts = [padded[k : k + side] if axis == 0 else padded[:, k : k + side] for k in range(len(kernel))]
    total = parts[radius] * np.float32(kernel[radius])
    for k in range(radius):
        total += (parts[k] + parts[-1 - k]) * np.float32(kernel[k])
    return total


def gradients(values: Map) -> tuple[Map, Map]:
    """Change per pixel to the right and downwards (Sobel / 8), (h, w) each."""
    padded = np.pad(values, 1, mode="edge")
    across, down = padded[:, 2:] - padded[:, :-2], padded[2:] - padded[:-2]
    right = (across[:-2] + 2 * across[1:-1] + across[2:]) / np.float32(8)
    below = (down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]) / np.float32(8)
    return right, below


def tensor(brightness: Map, sigma: float = SIGMA) -> tuple[Map, Map, Map]:
    """The structure tensor's xx, xy and yy, (h, w) each."""
    right, below = gradients(brightness)
    return smooth(right * right, sigma), smooth(right * below, sigma), smooth(below * below, sigma)


def corner_strength(image: NDArray[np.uint8]) -> Map:
    """log(1 + 1e4 x the smaller eigenvalue of the tensor), (h, w), from 0."""
    xx, xy, yy = tensor(luma(image))
    smaller = ((xx + yy) - np.sqrt((xx - yy) ** 2 + 4 * xy * xy)) / 2
    return np.log1p(np.float32(CORNER_SCALE) * np.maximum(smaller, 0)).astype(np.float32)


def orientation(image: NDArray[np.uint8]) -> Map:
    """Coherence x (cos, sin) of twice the angle of the gradient, from right towards down; (h, w, 2), length 0 to 1."""
    xx, xy, yy = tensor(luma(image))
    both = np.stack([xx - yy, 2 * xy], axis=-1)
    total = (xx + yy)[..., None]
    found = np.divide(both, total, out=np.zeros_like(both), where=total > FLAT)
    return found / np.maximum(np.linalg.norm(found, axis=-1, keepdims=True), 1)


def edge_strength(image: NDArray[np.uint8], sigma: float = 1.0) -> Map:
    """Length of the gradient of the smoothed brightness per 8 pixels, (h, w): Canny's before non-maximum suppression."""
    return np.hypot(*gradients(smooth(luma(image), sigma))) * np.float32(8)


def blob_strength(image: NDArray[np.uint8], sigma: float = SIGMA) -> Map:
    """Root of the scale-normalised determinant of the Hessian where it is positive, times 8, (h, w): SURF's response."""
    right, below = gradients(smooth(luma(image), sigma))
    (xx, xy), (_, yy) = gradients(right), gradients(below)
    return np.sqrt(np.maximum(xx * yy - xy * xy, 0)) * np.float32(8 * sigma**2)
