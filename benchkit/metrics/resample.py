"""Maps to another size by matrices: rows and columns are resampled one after the other, exactly as image libraries do.

`bilinear` and `bicubic` are half-pixel-centred interpolation without antialiasing (torch's `interpolate` with
`align_corners=False`); `area` is the mean over the area that each new cell covers.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np


@lru_cache(maxsize=512)
def bilinear(target: int, source: int, extent: float = 1.0) -> np.ndarray:
    """Matrix float32 (target, source): a column of `source` cells, whose first `extent` is stretched over `target` pixels.

    Cells beyond the extent (padding) never take part.
    """
    used = source * extent
    last = max(int(np.ceil(used - 1e-6)) - 1, 0)
    place = np.clip((np.arange(target) + 0.5) * (used / target) - 0.5, 0, last)
    low = np.floor(place).astype(int)
    high = np.minimum(low + 1, last)
    weight = place - low
    matrix = np.zeros((target, source))
    np.add.at(matrix, (np.arange(target), low), 1 - weight)
    np.add.at(matrix, (np.arange(target), high), weight)
    matrix = matrix.astype(np.float32)
    matrix.setflags(write=False)
    return matrix


@lru_cache(maxsize=512)
def bicubic(target: int, source: int, extent: float = 1.0) -> np.ndarray:
    """Matrix float32 (target, source) as `bilinear`'s, by cubic convolution (Keys 1981) with torch's parameter -0.75."""
    used = source * extent
    last = max(int(np.ceil(used - 1e-6)) - 1, 0)
    place = (np.arange(target) + 0.5) * (used / target) - 0.5
    low = np.floor(place).astype(int)
    matrix = np.zeros((target, source))
    for cell in (low - 1, low, low + 1, low + 2):
        apart = np.abs(place - cell)
        near = (1.25 * apart - 2.25) * apart**2 + 1
        far = -0.75 * (((apart - 5) * apart + 8) * apart - 4)
        np.add.at(matrix, (np.arange(target), np.clip(cell, 0, last)), np.where(apart <= 1, near, far))
    matrix = matrix.astype(np.float32)
    matrix.setflags(write=False)
    return matrix


@lru_cache(maxsize=512)
def area(target: int, source: int) -> np.ndarray:
    """Matrix float32 (target, source): the mean over the pixels that each of `target` equal cells covers; rows add up to 1."""
    edges = np.linspace(0, source, target + 1)
    cells = np.arange(source)
    cover = np.minimum(edges[1:, None], cells[None] + 1) - np.maximum(edges[:-1, None], cells[None])
    matrix = (np.clip(cover, 0, None) * target / source).astype(np.float32)
    matrix.setflags(write=False)
    return matrix


def resample(values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A map (..., h, w) through a matrix (H, h) for its rows and one (W, w) for its columns: (..., H, W)."""
    return rows @ (values @ columns.T)


def to_grid_and_back(shape: tuple[int, ...], grid: tuple[int, int]) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Matrices for rows and for columns, from (h, w, ...) to a grid of cells by area, and from the grid back, bilinear."""
    (height, width), (rows, columns) = shape[:2], grid
    return (area(rows, height), area(columns, width)), (bilinear(height, rows), bilinear(width, columns))


def pooled(values: np.ndarray, valid: np.ndarray, grid: tuple[int, int], nowhere: float = 0) -> np.ndarray:
    """The map that a grid of cells allows, float32 (h, w): the mean of each cell's valid pixels, resized bilinearly.

    Cells without a valid pixel take no part; where none of the cells around has one, it is the mean of the image.

    Args:
        values: (h, w); anything where not valid.
        valid: bool (h, w).
        grid: rows and columns.
        nowhere: what it is where no pixel of the image is valid.
    """
    down, up = to_grid_and_back(values.shape, grid)
    known = np.where(valid, values, 0).astype(np.float32)
    if valid.all():
        return resample(resample(known, *down), *up)
    weight = resample(valid.astype(np.float32), *down)
    filled = weight > 0
    cells = np.divide(resample(known, *down), weight, out=np.zeros_like(weight), where=filled)
    near = resample(filled.astype(np.float32), *up)
    usual = np.float32(values[valid].mean() if valid.any() else nowhere)
    return np.divide(resample(cells, *up), near, out=np.full_like(near, usual), where=near > 0)
