"""Nearest neighbours between two grids of features, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchkit.errors import RunError
from benchkit.heads.solvers.blocks import fixed_threads
from benchkit.heads.solvers.dense_grid import Level
from benchkit.progress import track
from benchkit.store.columns import Column, Ragged
from benchkit.store.maps import Maps

BLOCK = 1 << 22  # similarities that exist at a time


def predict(features: Maps, settings: Any, threads: int) -> dict[str, Column]:
    """Columns of a pair per item; `features` has the two views of each item one after the other."""
    found: dict[str, list[np.ndarray]] = {
        name: [] for name in ("keypoints0", "keypoints1", "matches0", "matching_scores0")
    }
    with fixed_threads(threads), torch.no_grad():
        for row in track(range(0, len(features.names), 2), len(features.names) // 2, "matching", "pairs"):
            (points0, one), (points1, other) = _view(features, row), _view(features, row + 1)
            matches, scores = match(one, other, settings)
            values = (points0, points1, matches, scores)
            for name, value in zip(found, values, strict=True):
                found[name].append(value)
    return {name: Ragged(values[0].dtype, values[0].ndim, values) for name, values in found.items()}


def _view(features: Maps, row: int) -> tuple[np.ndarray, Tensor]:
    """Centres float32 (n, 2) of a view's cells in original pixels, and their features (n, C) of length 1.

    Several layers stand side by side, each of length 1, on one grid.
    """
    levels, parts = [], []
    for key in features.keys:
        whole = np.asarray(features.item(key, row), np.float32)
        level = Level.of((whole.shape[1], whole.shape[2]), tuple(map(float, features.extents[row])))  # type: ignore[arg-type]
        cut = torch.from_numpy(np.ascontiguousarray(whole[:, : level.cut[0], : level.cut[1]]))
        levels.append(level)
        parts.append(functional.normalize(cut.flatten(1).T, dim=1))
    if len({level.cut for level in levels}) > 1:
        raise RunError("the layers' maps have different grids: match one layer, or layers of one grid.")
    values = functional.normalize(torch.cat(parts, dim=1), dim=1)
    (rows, columns), share = levels[0].cut, levels[0].share
    height, width = features.frames[row]
    y = (np.arange(rows) + 0.5) * (height / (rows * share[0]))
    x = (np.arange(columns) + 0.5) * (width / (columns * share[1]))
    centres = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return centres.astype(np.float32), values


def match(one: Tensor, other: Tensor, settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """int32 (n,) rows of `other` (-1: none) and float32 (n,) cosines (0: none) of the rows of `one`, unit vectors both.

    Where two of the others are equally near, there is no telling which is meant: the ratio is 1, and no test below 1 passes.
    """
    best, second, place = (torch.cat(parts) for parts in zip(*_nearest(one, other), strict=True))
    kept = torch.ones(len(one), dtype=torch.bool)
    if settings.ratio < 1:
        kept &= _distance(best) < settings.ratio * _distance(second)
    if settings.distance is not None:
        kept &= _distance(best) <= settings.distance
    if settings.mutual:
        back = torch.cat([places for _, _, places in _nearest(other, one)])
        kept &= back[place] == torch.arange(len(one))
    rows = torch.nonzero(kept)[:, 0]
    order = torch.argsort(-best[rows], stable=True)[: settings.max_matches]
    matches, scores = np.full(len(one), -1, np.int32), np.zeros(len(one), np.float32)
    chosen = rows[order].numpy()
    matches[chosen], scores[chosen] = place[chosen].numpy(), best[chosen].numpy()
    return matches, scores


def _nearest(one: Tensor, other: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Per block of rows: the largest cosine, the second largest (-1 where there is one row alone), and where the largest is."""
    step = max(1, BLOCK // len(other))
    for start in range(0, len(one), step):
        cosines = one[start : start + step] @ other.T
        best, place = cosines.max(dim=1)
        cosines.scatter_(1, place[:, None], -1.0)
        yield best, cosines.amax(dim=1), place


def _distance(cosines: Tensor) -> Tensor:
    return (2 - 2 * cosines).clamp_min(0).sqrt()
