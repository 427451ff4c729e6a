"""Points in space on a grid over a view, from its depth map and camera; bins of angles between views."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets._dense_readers import read_stored
from benchkit.images import Unreadable

CELL = 4  # pixels of the view between two points


def stored_map(path: Path) -> NDArray[np.float32]:
    """A depth map's stored numbers, float32 (h, w), in whatever unit.

    Raises:
        Unreadable: the file is damaged or no such map.
    """
    stored = np.asarray(read_stored(path, labels=False), np.float32)
    if stored.ndim != 2:
        raise Unreadable(f"{path.name} holds {stored.ndim} dimensions, not height and width")
    return stored


def cells(width: float, height: float) -> tuple[int, int]:
    """Rows and columns of the grid over a view: a quarter of its sides."""
    return max(1, round(height / CELL)), max(1, round(width / CELL))


def on_grid(values: NDArray[np.floating], grid: tuple[int, int]) -> NDArray[np.floating]:
    """Of a map (h, w) over the whole view the pixels in which the centres of the grid's cells lie."""
    rows, columns = (
        np.minimum(((np.arange(count) + 0.5) * side / count).astype(np.intp), side - 1)
        for count, side in zip(grid, values.shape, strict=True)
    )
    return values[rows[:, None], columns[None]]


def points(
    depth: NDArray[np.floating], K: NDArray[np.float64], size: Sequence[float] | NDArray[np.floating]
) -> NDArray[np.float32]:
    """Points float32 (h, w, 3) in the camera's frame, seen through the centres of the cells; NaN where depth is.

    Args:
        depth: (h, w), metres along the optical axis.
        K: (3, 3), pixels of the view; size: its width and height.
    """
    rows, columns = depth.shape
    x, y = (np.arange(columns) + 0.5) * size[0] / columns, (np.arange(rows) + 0.5) * size[1] / rows
    pixels = np.stack([*np.meshgrid(x, y), np.ones((rows, columns))], axis=-1)
    return (pixels @ np.linalg.inv(K).T * depth[..., None]).astype(np.float32)


def angle_bin(degrees: float, ends: Sequence[int]) -> str:
    """The bin between rising ends that an angle falls into, as text (0-30); its lower end belongs to it."""
    last = int(np.searchsorted(ends[1:-1], degrees, side="right"))
    return f"{ends[last]}-{ends[last + 1]}"
