"""Matches between two views as lines, coloured by how far they are off."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchkit.metrics.correspondence import AREA, errors

DRAWN = 60  # matches
GAP = 4  # pixels between two views side by side, as contact sheets leave


def draw_matches(
    axes: Any,
    points0: np.ndarray,
    points1: np.ndarray,
    matches: np.ndarray,
    homography: np.ndarray,
    size: np.ndarray,
    image: Any,
) -> None:
    """Lines from the first view to the second, on `image`, the two side by side, or on white.

    Args:
        axes: of matplotlib.
        points0, points1, matches: of one item; homography, size (width, height): its truth.
        image: uint8 (h, w, 3), both views side by side with a gap, at any scale; None for white.
    """
    axes.set_axis_off()
    scale, gap = 1.0, float(GAP)
    if image is not None:
        axes.imshow(image)
        scale = image.shape[0] / size[1]
        gap = image.shape[1] - 2 * size[0] * scale
    else:
        axes.set(xlim=(0, 2 * size[0] + gap), ylim=(size[1], 0))
        axes.set_aspect("equal")
    chosen = np.flatnonzero(matches >= 0)
    chosen = chosen[:: max(1, len(chosen) // DRAWN)]
    ends = points1[matches[chosen]]
    wrong = np.clip(errors(points0[chosen], ends, homography) / AREA, 0, 1)
    for start, end, off in zip(points0[chosen] * scale, ends * scale, wrong, strict=True):
        x, y = (start[0], end[0] + size[0] * scale + gap), (start[1], end[1])
        axes.plot(x, y, color=(off, 0.8 * (1 - off), 0.1), linewidth=0.5)
