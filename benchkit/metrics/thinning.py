"""Boundary maps one pixel wide: ridges of a soft map, and binary maps thinned to curves; numpy only."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchkit.metrics.structure import tensor

RIDGE_SIGMA = 2.0  # pixels: the window in which a ridge's direction is read
TOLERANCE = 1.01  # a neighbour has to be larger by this factor to suppress, so that rounding decides nothing

Soft = NDArray[np.floating]
Binary = NDArray[np.bool_]

# the eight neighbours (row, column), from the right one counter-clockwise: bit k of a code is neighbour k
RING = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))


def ridges(soft: Soft) -> NDArray[np.float32]:
    """A soft map (h, w) where it is as large as both neighbours across the ridge, else 0 (non-maximum suppression).

    Across is the main direction of the map's gradients within 2 pixels; neighbours a pixel away are interpolated, as the
    edges toolbox does (Dollar and Zitnick 2013), which reads the direction from second derivatives.
    """
    values = np.maximum(soft, 0).astype(np.float32)
    xx, xy, yy = tensor(values, RIDGE_SIGMA)
    angle = np.arctan2(2 * xy, xx - yy) / 2
    x, y = np.cos(angle), np.sin(angle)
    larger = np.maximum(_shifted(values, y, x), _shifted(values, -y, -x))
    return np.where(values * np.float32(TOLERANCE) >= larger, values, np.float32(0))


def _shifted(values: NDArray[np.float32], down: Soft, right: Soft) -> Soft:
    """The map at each pixel's own offset of at most a pixel, bilinear; the outermost pixels repeat."""
    height, width = values.shape
    rows = np.clip(np.arange(height)[:, None] + down, 0, height - 1)
    columns = np.clip(np.arange(width) + right, 0, width - 1)
    top, left = np.minimum(rows.astype(int), height - 2), np.minimum(columns.astype(int), width - 2)
    v, u = rows - top, columns - left
    upper = values[top, left] * (1 - u) + values[top, left + 1] * u
    lower = values[top + 1, left] * (1 - u) + values[top + 1, left + 1] * u
    return upper * (1 - v) + lower * v


def thinned(binary: Binary) -> Binary:
    """A binary map (h, w) thinned until nothing changes: curves one pixel wide, connected as before.

    The parallel thinning of Guo and Hall (1989, their A1) as Lam, Lee and Suen (1992, p. 879) describe it, which MATLAB's
    bwmorph(., "thin", Inf) of the BSDS benchmark is.
    """
    padded = np.pad(binary, 1).astype(np.uint8)
    inner = padded[1:-1, 1:-1]
    found = np.flatnonzero(padded.ravel())
    steps = [row * padded.shape[1] + column for row, column in RING]
    flat = padded.reshape(-1)
    while True:
        before = len(found)
        for table in _deletable():
            code = np.zeros(len(found), np.uint8)
            for bit, step in enumerate(steps):
                code |= flat[found + step] << bit
            gone = table[code]
            flat[found[gone]] = 0
            found = found[~gone]
        if len(found) == before:
            return inner.astype(bool)


@lru_cache(maxsize=1)
def _deletable() -> tuple[Binary, Binary]:
    """For each code of eight neighbours, whether the first and the second half-step delete the pixel, (256,) each."""
    x = [(np.arange(256) >> k & 1).astype(bool) for k in range(8)]
    crossings = sum((~x[k] & (x[k + 1] | x[(k + 2) % 8])).astype(int) for k in (0, 2, 4, 6))
    one = sum((x[k] | x[k + 1]).astype(int) for k in (0, 2, 4, 6))
    other = sum((x[k + 1] | x[(k + 2) % 8]).astype(int) for k in (0, 2, 4, 6))
    least = np.minimum(one, other)
    both = (crossings == 1) & (least >= 2) & (least <= 3)
    first = both & ~((x[1] | x[2] | ~x[7]) & x[0])
    second = both & ~((x[5] | x[6] | ~x[3]) & x[4])
    return first, second
