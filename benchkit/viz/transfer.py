"""Given points of one view, where they were found in another, and where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

GAP = 3.0  # pixels between two views side by side, as contact sheets leave


def draw_transfer(
    axes: Any,
    places: tuple[np.ndarray, np.ndarray, np.ndarray],
    sizes: tuple[np.ndarray, np.ndarray],
    reach: float,
    image: Any,
) -> None:
    """A line from each query to the place found, and from there to a cross at the true one, on `image` or on white.

    Args:
        axes: of matplotlib.
        places: queries in pixels of the first view, places found and true ones in those of the second, (k, 2) each.
        sizes: width and height of the first and the second view.
        reach: pixels of the second view; a place found that far off is half-way from green to red.
        image: uint8 (h, w, 3), both views side by side with a gap, their longer sides alike; None for white.
    """
    axes.set_axis_off()
    queries, found, true = (np.asarray(each, np.float64) for each in places)
    shares = [size[0] / max(size) for size in sizes]
    longer = float(max(sizes[1]))
    if image is not None:
        axes.imshow(image)
        longer = (image.shape[1] - GAP) / sum(shares)
    else:
        axes.set(xlim=(0, longer * sum(shares) + GAP), ylim=(longer, 0))
        axes.set_aspect("equal")
    first = longer / max(sizes[0]) * queries
    shift = [longer * shares[0] + GAP, 0]
    ends, truths = (longer / max(sizes[1]) * each + shift for each in (found, true))
    wrong = np.clip(np.hypot(*(found - true).T) / max(2 * reach, 1e-9), 0, 1)
    for start, end, truth, off in zip(first, ends, truths, wrong, strict=True):
        color = (off, 0.8 * (1 - off), 0.1)
        axes.plot((start[0], end[0]), (start[1], end[1]), color=color, linewidth=0.5)
        axes.plot((end[0], truth[0]), (end[1], truth[1]), color=color, linewidth=1.2)
        axes.plot(truth[0], truth[1], "x", color=color, markersize=3)
