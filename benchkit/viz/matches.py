"""Matches between two views as lines, coloured by how far they are off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchkit.metrics.correspondence import AREA, errors

DRAWN = 60  # matches
GAP = 4  # pixels between two views side by side on white
MARKED = "tab:blue"  # a line in the second view, and the point in the first that it belongs to


def draw_matches(
    axes: Any,
    points0: np.ndarray,
    points1: np.ndarray,
    matches: np.ndarray,
    homography: np.ndarray,
    size: np.ndarray,
    image: Any,
) -> None:
    """Lines from the first view to the second of the same size, on `image`, the two side by side, or on white.

    Args:
        axes: of matplotlib.
        points0, points1, matches: of one item; homography, size (width, height): its truth.
        image: uint8 (h, w, 3), both views side by side with a gap, at any scale; None for white.
    """
    chosen = np.flatnonzero(matches >= 0)
    ends = points1[matches[chosen]]
    wrong = errors(points0[chosen], ends, homography) / AREA
    draw_pairs(axes, points0[chosen], ends, wrong, (size, size), image)


def draw_pairs(
    axes: Any,
    points0: np.ndarray,
    points1: np.ndarray,
    wrong: np.ndarray,
    sizes: Sequence[np.ndarray],
    image: Any,
    marked: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """Matched points (n, 2) of two views as lines, green where `wrong` (n,) is 0, red where it is 1 or more, grey for NaN.

    Args:
        sizes: width and height of both views.
        image: as for `draw_matches`; the views may have different scales, as thumbnails have.
        marked: a point (2,) of the first view, and two ends (2, 2) of a line in the second one.
    """
    axes.set_axis_off()
    scales, left = _placed(axes, sizes, image)
    step = max(1, len(points0) // DRAWN)
    for start, end, off in zip(points0[::step], points1[::step], wrong[::step], strict=True):
        (x0, y0), (x1, y1) = start * scales[0], end * scales[1]
        colour = (0.6, 0.6, 0.6) if np.isnan(off) else (min(off, 1.0), 0.8 * (1 - min(off, 1.0)), 0.1)
        axes.plot((x0, x1 + left), (y0, y1), color=colour, linewidth=0.5)
    if marked is not None:
        point, ends = marked[0] * scales[0], marked[1] * scales[1]
        axes.plot(*point, marker="o", markersize=3, color=MARKED)
        axes.plot(ends[:, 0] + left, ends[:, 1], color=MARKED, linewidth=1)


def draw_epipolar(
    axes: Any, points: np.ndarray, lines: Sequence[tuple[np.ndarray, str]], sizes: Sequence[np.ndarray], image: Any
) -> None:
    """Points (n, 2) of the first view as crosses, and in the second the lines on which they are said to lie.

    Args:
        lines: (n, 3) each, a x + b y + c = 0 in the second view's pixels, with their colour.
        sizes, image: as for `draw_pairs`.
    """
    axes.set_axis_off()
    scales, left = _placed(axes, sizes, image)
    axes.plot(*(points * scales[0]).T, "x", color=MARKED, markersize=4)
    for equations, colour in lines:
        for ends in (line_within(equation, sizes[1]) for equation in equations):
            if ends is not None:
                axes.plot(ends[:, 0] * scales[1] + left, ends[:, 1] * scales[1], color=colour, linewidth=0.8)


def _placed(axes: Any, sizes: Sequence[np.ndarray], image: Any) -> tuple[tuple[float, float], float]:
    """The scale of each view as shown, and where the second one begins."""
    if image is None:
        width, height = sizes[0][0] + GAP + sizes[1][0], max(size[1] for size in sizes)
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_aspect("equal")
        return (1.0, 1.0), float(sizes[0][0] + GAP)
    axes.imshow(image)
    axes.set_autoscale_on(False)
    side = image.shape[0] / max(size[1] / max(size) for size in sizes)  # the longer side of each view, as shown
    whole = image.shape[0] == max(size[1] for size in sizes)  # small images are not made smaller
    scales = [1.0 if whole else float(side / max(size)) for size in sizes]
    return (scales[0], scales[1]), float(image.shape[1] - sizes[1][0] * scales[1])


def line_within(line: np.ndarray, size: np.ndarray) -> np.ndarray | None:
    """The two ends (2, 2) of a x + b y + c = 0 within a view of this width and height; None where it does not cross it."""
    a, b, c = line
    found = []
    for fixed in (0.0, float(size[0])):
        if b:
            found.append((fixed, -(a * fixed + c) / b))
    for fixed in (0.0, float(size[1])):
        if a:
            found.append((-(b * fixed + c) / a, fixed))
    slack = 1e-6 * max(size)
    inside = [p for p in found if -slack <= p[0] <= size[0] + slack and -slack <= p[1] <= size[1] + slack]
    if len(inside) < 2:
        return None
    return np.array([min(inside), max(inside)])
