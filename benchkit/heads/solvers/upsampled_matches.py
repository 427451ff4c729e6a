"""Nearest neighbours between two feature maps enlarged to finer grids, some cells at a time.

Interpolation is linear, so the products of a feature with an enlarged map are its products with the map itself, enlarged:
the second map is never multiplied at its full size, which saves most of the work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchkit.errors import RunError
from benchkit.heads.solvers.blocks import fixed_threads
from benchkit.heads.solvers.dense_grid import Level, resize
from benchkit.heads.solvers.grid_matches import pair_columns
from benchkit.metrics import resample
from benchkit.store.columns import Column
from benchkit.store.items import Items
from benchkit.store.maps import Maps

BLOCK = 1 << 22  # similarities that exist at a time
CHANNELS = 64  # of a map that are enlarged at a time where only lengths are asked for
LEAST = 1e-9  # bounds distances from below, as in probe3d

INTERPOLATIONS = {"bicubic": resample.bicubic, "bilinear": resample.bilinear}


class Side(NamedTuple):
    """One view: features (C, h, w), the matrices (H, h) and (W, w) that enlarge them, and which of H x W cells count."""

    values: Tensor
    rows: Tensor
    columns: Tensor
    valid: Tensor


def predict(features: Maps, given: Items, settings: Any, threads: int) -> dict[str, Column]:
    """Columns of a pair per item; `features` has the two views of each item one after the other, `given` is by item."""

    def pair(row: int) -> tuple[np.ndarray, ...]:
        one, other = (
            side(features, row + k, given.item(f"valid{k}", row // 2), settings.interpolation) for k in (0, 1)
        )
        first, second, scores = match(one, other, settings.max_matches)
        matched, place = np.unique(second, return_inverse=True)
        points0 = _centres(first, one.valid.shape, features.frames[row])
        points1 = _centres(matched, other.valid.shape, features.frames[row + 1])
        return points0, points1, place.reshape(-1).astype(np.int32), scores

    with fixed_threads(threads), torch.no_grad():
        return pair_columns(features.names, pair)


def side(features: Maps, row: int, valid: np.ndarray, interpolation: str) -> Side:
    """One view's layers, side by side as they are, to be enlarged to the grid of `valid` (H, W).

    Raises:
        RunError: layers have different grids.
    """
    levels, parts = [], []
    for key in features.keys:
        whole = np.asarray(features.item(key, row), np.float32)
        level = Level.of((whole.shape[1], whole.shape[2]), tuple(map(float, features.extents[row])))  # type: ignore[arg-type]
        levels.append(level)
        parts.append(torch.from_numpy(np.ascontiguousarray(whole[:, : level.cut[0], : level.cut[1]])))
    if len({level.cut for level in levels}) > 1:
        raise RunError("the layers' maps have different grids: match one layer, or layers of one grid.")
    make, level = INTERPOLATIONS[interpolation], levels[0]
    matrices = [torch.tensor(make(valid.shape[k], level.cut[k], level.share[k])) for k in (0, 1)]
    found = Side(torch.cat(parts), matrices[0], matrices[1], torch.from_numpy(np.array(valid, bool)))
    return _enlarged(found) if level.cut[0] * level.cut[1] > valid.size else found


def _enlarged(found: Side) -> Side:
    """The map at the grid's own size, where that is the smaller one."""
    height, width = found.valid.shape
    return Side(resize(found.values, found.rows, found.columns), torch.eye(height), torch.eye(width), found.valid)


def match(one: Side, other: Side, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Flat cells (n,) of one view and the matched ones of the other, and float32 (n,) 1 - ratio, largest first."""
    cells0, cells1 = (torch.nonzero(each.valid.reshape(-1))[:, 0] for each in (one, other))
    if not len(cells0) or not len(cells1):
        return cells0[:0].numpy(), cells1[:0].numpy(), np.zeros(0, np.float32)
    queries = functional.normalize(resize(one.values, one.rows, one.columns).flatten(1)[:, cells0].T, dim=1)
    lengths = _lengths(other)[cells1].clamp_min(1e-12)
    flat = other.values.flatten(1)
    best, second, place = [], [], []
    for some in queries.split(max(1, BLOCK // other.valid.numel())):
        products = (some @ flat).view(len(some), *other.values.shape[1:])
        cosines = resize(products, other.rows, other.columns).flatten(1)[:, cells1] / lengths
        largest, where = cosines.max(dim=1)
        best.append(largest)
        place.append(where)
        second.append(cosines.scatter_(1, where[:, None], -1.0).amax(dim=1))  # -1: there is no second one
    near, next_ = ((1 - torch.cat(each)).clamp_min(LEAST) for each in (best, second))
    scores = 1 - near / next_
    order = torch.argsort(-scores, stable=True)[:most]
    return cells0[order].numpy(), cells1[torch.cat(place)[order]].numpy(), scores[order].numpy()


def _lengths(found: Side) -> Tensor:
    """Lengths (H * W,) of the enlarged features."""
    total = torch.zeros(found.valid.shape)
    for some in found.values.split(CHANNELS):
        total += resize(some, found.rows, found.columns).square().sum(dim=0)
    return total.sqrt().reshape(-1)


def _centres(cells: np.ndarray, grid: Any, frame: np.ndarray) -> np.ndarray:
    """Centres float32 (n, 2), x and y, of flat cells of a grid (H, W) over a frame (height, width)."""
    rows, columns = np.divmod(cells, grid[1])
    return np.stack([(columns + 0.5) * frame[1] / grid[1], (rows + 0.5) * frame[0] / grid[0]], axis=1).astype(
        np.float32
    )
