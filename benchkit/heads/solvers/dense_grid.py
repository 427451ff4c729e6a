"""From the cells of a map to the pixels of a frame: bilinear, align_corners false, by one matrix a side.

Resizing is linear, so logits go through two small matrices (rows, then columns). Equal to torch's
`interpolate(mode="bilinear", align_corners=False)`, and faster on a CPU. Of a padded map only the cells count that show
the image: maps are cut to them before anything is computed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from benchkit.metrics.resample import bilinear

Size = tuple[int, int]
Share = tuple[float, float]  # of a grid's height and width that shows the image
WHOLE: Share = (1.0, 1.0)
BLOCK = 1 << 20  # values at full size that exist at a time


@dataclasses.dataclass(frozen=True)
class Level:
    """The cells of one layer's map of one image.

    Attributes:
        full: rows and columns of the map as the backbone gave it.
        cut: of those, the ones that show any of the image; the others are padding.
        share: how much of the cut cells shows the image, below 1 where the last ones do in part.
    """

    full: Size
    cut: Size
    share: Share

    @classmethod
    def of(cls, full: Size, extent: Share) -> Level:
        """The level of a map of which `extent` (height, width) shows the image."""
        used = [side * part for side, part in zip(full, extent, strict=True)]
        cut = [max(1, math.ceil(each - 1e-6)) for each in used]
        share = [min(1.0, each / cells) for each, cells in zip(used, cut, strict=True)]
        return cls((full[0], full[1]), (cut[0], cut[1]), (share[0], share[1]))


@lru_cache(maxsize=1024)
def matrix(target: int, source: int, share: float = 1.0, device: str = "cpu") -> Tensor:
    """float32 (target, source): the first `share` of the cells is stretched over `target` pixels."""
    return torch.tensor(bilinear(target, source, share), device=device)


@lru_cache(maxsize=1024)
def between(target: Size, source: Size, device: str = "cpu") -> Tensor:
    """float32 (cells of target, cells of source) along one side, from one level's map to another's.

    Args:
        target, source: (cells of the whole map, of those the ones that are kept). The maps lie over each other as wholes;
            where a target cell would read a source cell that was cut off, it reads the last one kept.
    """
    whole = np.array(bilinear(target[0], source[0]))[: target[1]]
    kept = whole[:, : source[1]].copy()
    kept[:, -1] += whole[:, source[1] :].sum(axis=1)
    return torch.tensor(kept, device=device)


def resize(values: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """(..., h, w) through (H, h) and (W, w): (..., H, W)."""
    return rows @ (values @ columns.T)


def to_level(values: Tensor, source: Level, target: Level) -> Tensor:
    """A map (..., h, w) on the cells of another level."""
    if source == target:
        return values
    device = str(values.device)
    rows, columns = (
        between((target.full[side], target.cut[side]), (source.full[side], source.cut[side]), device) for side in (0, 1)
    )
    return resize(values, rows, columns)


def enlarge(values: Tensor, factor: int) -> Tensor:
    """(..., h, w) -> (..., factor x h, factor x w)."""
    height, width = values.shape[-2:]
    device = str(values.device)
    return resize(values, matrix(factor * height, height, 1.0, device), matrix(factor * width, width, 1.0, device))


def sides(frame: Size, values: Tensor, share: Share) -> tuple[Tensor, Tensor]:
    """The two matrices from a map's grid to a frame."""
    height, width = values.shape[-2:]
    device = str(values.device)
    return matrix(frame[0], height, share[0], device), matrix(frame[1], width, share[1], device)


def blocks(values: Tensor, frame: Size, share: Share) -> Iterator[tuple[slice, Tensor]]:
    """A map (C, h, w) at the frame's size, some rows of pixels at a time: (which, (C, rows, W))."""
    rows, columns = sides(frame, values, share)
    wide = values @ columns.T
    step = max(1, BLOCK // (len(values) * frame[1]))
    for start in range(0, frame[0], step):
        which = slice(start, min(start + step, frame[0]))
        yield which, rows[which] @ wide


def thinned(truth: np.ndarray, longest: int) -> np.ndarray:
    """Truth (h, w, ...) whose longer side is at most `longest` pixels, by the nearest pixel centre; aspect kept."""
    height, width = truth.shape[:2]
    if max(height, width) <= longest:
        return truth
    scale = longest / max(height, width)
    picked: Sequence[np.ndarray] = [_centres(max(1, round(side * scale)), side) for side in (height, width)]
    return np.ascontiguousarray(truth[picked[0][:, None], picked[1][None]])


def _centres(count: int, side: int) -> np.ndarray:
    """For each of `count` equal cells over `side` pixels, the pixel that holds its centre."""
    return np.minimum(((np.arange(count) + 0.5) * side / count).astype(np.intp), side - 1)
