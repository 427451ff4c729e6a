"""The cells of one feature map that are most similar to given points of another, block by block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchkit.heads.solvers.blocks import fixed_threads
from benchkit.heads.solvers.grid_matches import grid_view
from benchkit.progress import track
from benchkit.store.columns import Column, Ragged
from benchkit.store.items import Items
from benchkit.store.maps import Maps

BLOCK = 1 << 22  # interpolated values, or similarities, that exist at a time


class Grid(NamedTuple):
    """One view: features of length 1, (rows, columns, C), and width and height of a cell in original pixels."""

    values: Tensor
    cell: tuple[float, float]


def predict(features: Maps, given: Items, upsample: bool, threads: int) -> dict[str, Column]:
    """Columns `predicted`, `scores` and `grid` per item; `features` has the two views of each one after the other."""
    places, scores, grids = [], [], []
    with fixed_threads(threads), torch.no_grad():
        for row in track(range(len(given.names)), len(given.names), "transferring", "pairs"):
            queries = torch.from_numpy(np.asarray(given.item("queries", row), np.float32).reshape(-1, 2))
            one, other = read_grid(features, 2 * row), read_grid(features, 2 * row + 1)
            height, width = features.frames[2 * row + 1]
            rows, columns = (int(height), int(width)) if upsample else (other.values.shape[0], other.values.shape[1])
            cell = (1.0, 1.0) if upsample else other.cell
            place, score = transferred(one, other, queries, (rows, columns), cell)
            places.append(place)
            scores.append(score)
            grids.append(np.array([columns, rows, *cell], np.float32))
    return {
        "predicted": Ragged(np.dtype(np.float32), 2, places),
        "scores": Ragged(np.dtype(np.float32), 1, scores),
        "grid": np.array(grids, np.float32).reshape(-1, 4),
    }


def read_grid(features: Maps, row: int) -> Grid:
    """A view's cells; several layers stand side by side, each of length 1, on one grid."""
    centres, values = grid_view(features, row)
    columns = int(np.count_nonzero(centres[:, 1] == centres[0, 1]))
    return Grid(values.reshape(-1, columns, values.shape[1]), (2 * float(centres[0, 0]), 2 * float(centres[0, 1])))


def transferred(
    one: Grid, other: Grid, queries: Tensor, shape: tuple[int, int], cell: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """float32 (k, 2) places of the second view and (k,) their cosines, for points (k, 2) of the first; both in pixels.

    Args:
        one, other: the views.
        queries: x and y.
        shape, cell: rows and columns, width and height, of the cells that compete: the second view's own, or finer ones.
    """
    wanted = sampled(one, queries)
    best, index = torch.full((len(queries),), -torch.inf), torch.zeros(len(queries), dtype=torch.int64)
    own = shape == tuple(other.values.shape[:2])
    step = max(1, BLOCK // (shape[1] * max(other.values.shape[2], len(queries), 1)))
    for start in range(0, shape[0], step):
        stop = min(start + step, shape[0])
        part = other.values[start:stop].flatten(0, 1) if own else sampled(other, _centres(start, stop, shape[1], cell))
        largest, place = (wanted @ part.T).max(dim=1)
        nearer = largest > best
        best = torch.where(nearer, largest, best)
        index = torch.where(nearer, place + start * shape[1], index)
    x, y = (index % shape[1] + 0.5) * cell[0], (index // shape[1] + 0.5) * cell[1]
    return torch.stack([x, y], dim=1).to(torch.float32).numpy(), best.to(torch.float32).numpy()


def _centres(start: int, stop: int, columns: int, cell: tuple[float, float]) -> Tensor:
    """Centres (n, 2) of rows `start` to `stop` of the cells."""
    x, y = (torch.arange(columns) + 0.5) * cell[0], (torch.arange(start, stop) + 0.5) * cell[1]
    return torch.stack([x.repeat(len(y)), y.repeat_interleave(columns)], dim=1)


def sampled(grid: Grid, points: Tensor) -> Tensor:
    """Features (k, C) of length 1 at points (k, 2): bilinear between centres of cells, beyond the outermost ones theirs."""
    rows, columns = grid.values.shape[:2]
    x = (points[:, 0] / grid.cell[0] - 0.5).clamp(0, columns - 1)
    y = (points[:, 1] / grid.cell[1] - 0.5).clamp(0, rows - 1)
    left, top = x.floor().long(), y.floor().long()
    right, below = (left + 1).clamp(max=columns - 1), (top + 1).clamp(max=rows - 1)
    across, down = (x - left)[:, None], (y - top)[:, None]
    upper = grid.values[top, left] * (1 - across) + grid.values[top, right] * across
    lower = grid.values[below, left] * (1 - across) + grid.values[below, right] * across
    return functional.normalize(upper * (1 - down) + lower * down, dim=1)
