"""Nearest neighbours between two grids of features, or two sets of local features, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
from benchkit.store.points import MATCH_FIELDS, Points

BLOCK = 1 << 20  # similarities that exist at a time: 4 MB, which caches hold between the product and its maxima


def predict(features: Maps | Points, settings: Any, threads: int) -> dict[str, Column]:
    """Columns of a pair per item; `features` has the two views of each item one after the other."""

    def view(row: int) -> tuple[np.ndarray, Tensor]:
        return local_view(features, row) if isinstance(features, Points) else grid_view(features, row)

    with fixed_threads(threads), torch.no_grad():
        return pair_columns(features.names, lambda row: _pair(view(row), view(row + 1), settings))


def pair_columns(views: Sequence[str], pair: Callable[[int], tuple[np.ndarray, ...]]) -> dict[str, Column]:
    """Columns of MATCH_FIELDS, of what `pair` gives for the row of each pair's first view."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in MATCH_FIELDS}
    for row in track(range(0, len(views), 2), len(views) // 2, "matching", "pairs"):
        for name, value in zip(MATCH_FIELDS, pair(row), strict=True):
            found[name].append(value)
    return {name: Ragged(values[0].dtype, values[0].ndim, values) for name, values in found.items()}


def _pair(first: tuple[np.ndarray, Tensor], second: tuple[np.ndarray, Tensor], settings: Any) -> tuple[np.ndarray, ...]:
    return (first[0], second[0], *match(first[1], second[1], settings))


def local_view(features: Points, row: int) -> tuple[np.ndarray, Tensor]:
    """Keypoints float32 (n, 2) of a view in original pixels, and their descriptors (n, C) of length 1."""
    view = features.view(row)
    return view.points, functional.normalize(torch.from_numpy(view.descriptors), dim=1)


def grid_view(features: Maps, row: int) -> tuple[np.ndarray, Tensor]:
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
    matches, scores = np.full(len(one), -1, np.int32), np.zeros(len(one), np.float32)
    if not len(one) or not len(other):
        return matches, scores
    found = _nearest(one, other, settings.ratio < 1, settings.mutual)
    kept = torch.ones(len(one), dtype=torch.bool)
    if found.second is not None:
        kept &= _distance(found.best) < settings.ratio * _distance(found.second)
    if settings.distance is not None:
        kept &= _distance(found.best) <= settings.distance
    if found.back is not None:
        kept &= _mutual(found.best, found.place, found.back)
    rows = torch.nonzero(kept)[:, 0]
    order = torch.argsort(-found.best[rows], stable=True)[: settings.max_matches]
    chosen = rows[order].numpy()
    matches[chosen], scores[chosen] = found.place[chosen].numpy(), found.best[chosen].numpy()
    return matches, scores


class Nearest(NamedTuple):
    """Of each row: the largest cosine, where it is, the second largest (-1: there is one row alone); of each other row the
    largest cosine. The last two only where they are asked for.
    """

    best: Tensor
    place: Tensor
    second: Tensor | None
    back: Tensor | None


def _nearest(one: Tensor, other: Tensor, second: bool, back: bool) -> Nearest:
    """One product for both directions, block by block."""
    step = max(1, BLOCK // len(other))
    bests, places, seconds = [], [], []
    largest = torch.full((len(other),), -torch.inf)
    buffer = torch.empty(min(step, len(one)), len(other))
    for start in range(0, len(one), step):
        rows = one[start : start + step]
        cosines = torch.mm(rows, other.T, out=buffer[: len(rows)])
        place = torch.from_numpy(cosines.numpy().argmax(axis=1))  # three times as fast as torch's
        bests.append(cosines.gather(1, place[:, None])[:, 0])
        places.append(place)
        if back:
            torch.maximum(largest, cosines.amax(dim=0), out=largest)
        if second:
            seconds.append(cosines.scatter_(1, place[:, None], -1.0).amax(dim=1))
    return Nearest(
        torch.cat(bests), torch.cat(places), torch.cat(seconds) if second else None, largest if back else None
    )


def _mutual(best: Tensor, place: Tensor, back: Tensor) -> Tensor:
    """Whether each row is the nearest of its nearest; of several equally near rows the first."""
    mutual = best == back[place]
    rows = torch.nonzero(mutual)[:, 0]
    first = torch.full((len(back),), len(best)).scatter_reduce(0, place[rows], rows, "amin")
    return mutual & (first[place] == torch.arange(len(best)))


def _distance(cosines: Tensor) -> Tensor:
    return (2 - 2 * cosines).clamp_min(0).sqrt()
