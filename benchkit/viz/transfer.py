"""Given points of one view, where they were found in another, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchkit.viz.pairs import colour, place


def draw_transfer(
    axes: Any,
    places: tuple[np.ndarray, np.ndarray, np.ndarray],
    sizes: tuple[np.ndarray, np.ndarray],
    reach: float,
    views: Sequence[np.ndarray] | None,
) -> None:
    """A line from each query to the place found, and from there to a cross at the true one, on two views or on white.

    Args:
        axes: of matplotlib.
        places: queries in pixels of the first view, places found and true ones in those of the second, (k, 2) each.
        sizes, views: as for `pairs.place`.
        reach: pixels of the second view; a place found that far off is half-way from green to red.
    """
    placed = place(axes, sizes, views)
    queries, found, true = (np.asarray(each, np.float64).reshape(-1, 2) for each in places)
    wrong = np.hypot(*(found - true).T) / max(2 * reach, 1e-9)
    ends = placed.second(found), placed.second(true)
    for start, end, truth, off in zip(placed.first(queries), *ends, wrong, strict=True):
        said = colour(off)
        axes.plot((start[0], end[0]), (start[1], end[1]), color=said, linewidth=0.6)
        axes.plot((end[0], truth[0]), (end[1], truth[1]), color=said, linewidth=1.2)
        axes.plot(truth[0], truth[1], "x", color=said, markersize=4)
