"""Matches of a model that takes both images at once, as columns: pixels of its input become original ones, sorted, cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchkit.heads.solvers.blocks import fixed_threads
from benchkit.store.columns import Column, Ragged
from benchkit.store.points import MATCH_FIELDS

GREY = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601), as OpenCV reads grey images


class Found(NamedTuple):
    """Matches of two inputs.

    Attributes:
        points0, points1: (n, 2), x and y in pixels of each input, the corner of the top-left pixel at (0, 0).
        scores: (n,), the larger the surer.
    """

    points0: np.ndarray
    points1: np.ndarray
    scores: np.ndarray


def predict(views: Any, match: Callable[[Any, Any], Found], max_matches: int | None, threads: int) -> dict[str, Column]:
    """Columns of a pair per item: keypoints0, keypoints1, matches0, matching_scores0, the surest first.

    Args:
        views: a `benchkit.export.views.Views` with the two views of each item one after the other.
        match: of two `benchkit.export.views.View`.
        max_matches: so many of the surest are kept; None: all.
        threads: of torch on the CPU.
    """
    with fixed_threads(threads), torch.inference_mode():
        rows = range(0, len(views.names), 2)
        pairs = [_pair(views.view(row), views.view(row + 1), match, max_matches) for row in rows]
    columns = zip(MATCH_FIELDS, zip(*pairs, strict=True), strict=True)
    return {name: Ragged(values[0].dtype, values[0].ndim, values) for name, values in columns}


def _pair(first: Any, second: Any, match: Callable[[Any, Any], Found], most: int | None) -> tuple[np.ndarray, ...]:
    found = match(first, second)
    order = np.argsort(-found.scores, kind="stable")[:most]
    return (
        first.original(found.points0[order]),
        second.original(found.points1[order]),
        np.arange(len(order), dtype=np.int32),
        found.scores[order].astype(np.float32),
    )


def grey(view: Any, device: str) -> Tensor:
    """The image of a view without its padding, float32 (1, 1, h, w), 0 to 1."""
    height, width = view.shown
    image = view.pixels[:, :height, :width].to(device).float()
    weights = torch.tensor(GREY, device=device)[:, None, None]
    return ((image * weights).sum(dim=0) / 255)[None, None]
