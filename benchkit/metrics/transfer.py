"""Transferred keypoints: how many lie close enough to the truth, measured by the size of the object.

PCK@a (percentage of correct keypoints) of SPair-71k (Min et al. 2019; its devkit): a point is correct where it lies at most
a x max(width, height) of the target's bounding box from the truth, in original pixels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ALPHAS = (0.1, 0.05, 0.01)


def extent(box: NDArray[np.floating]) -> float:
    """The longer side of a box x0, y0, x1, y1."""
    return float(max(box[2] - box[0], box[3] - box[1]))


def hits(distances: NDArray[np.floating], size: float) -> NDArray[np.float64]:
    """(4,): points, and those of them at most .1, .05 and .01 of `size` away; just as far counts."""
    return np.array([len(distances), *(np.count_nonzero(distances <= alpha * size) for alpha in ALPHAS)], np.float64)


def random_hits(points: NDArray[np.floating], size: float, picture: tuple[float, float]) -> NDArray[np.float64]:
    """(4,): points, and how many of them a pixel drawn at random for each would hit, on average.

    Args:
        points: the truth (k, 2), in pixels of the picture.
        size: of the object, as for `hits`.
        picture: width and height, pixels.
    """
    shares = [sum(_share(point, alpha * size, picture) for point in points) for alpha in ALPHAS]
    return np.array([len(points), *shares], np.float64)


def _share(point: NDArray[np.floating], reach: float, picture: tuple[float, float]) -> float:
    """The share of the picture's pixels whose centre lies at most `reach` from a point."""
    width, height = round(picture[0]), round(picture[1])
    x = np.arange(width) + 0.5 - point[0]
    x = x[np.abs(x) <= reach]
    half = np.sqrt(reach * reach - x * x)
    first = np.maximum(np.ceil(point[1] - half - 0.5), 0)
    last = np.minimum(np.floor(point[1] + half - 0.5), height - 1)
    return float(np.maximum(last - first + 1, 0).sum() / (width * height))


def nearest_cells(points: NDArray[np.floating], grid: NDArray[np.floating]) -> NDArray[np.float64]:
    """Centres (k, 2) of the cells nearest to points (k, 2); grid: columns, rows, width and height of a cell."""
    cells, sides = np.asarray(grid[:2], np.float64), np.asarray(grid[2:], np.float64)
    return (np.clip(np.floor(points / sides), 0, cells - 1) + 0.5) * sides
