"""Matches between two views as lines, coloured by how far they are off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchkit.viz.pairs import colour, place

DRAWN = 60  # matches
MARKED = "tab:blue"  # a line in the second view, and the match that it belongs to
Views = Sequence[np.ndarray] | None


def draw_pairs(
    axes: Any,
    points0: np.ndarray,
    points1: np.ndarray,
    wrong: np.ndarray,
    sizes: Sequence[np.ndarray],
    views: Views,
    marked: tuple[int, np.ndarray] | None = None,
) -> None:
    """Matched points (n, 2) of two views as lines, green where `wrong` (n,) is 0, red where it is 1 or more, grey for NaN.

    Args:
        axes: of matplotlib.
        sizes, views: as for `pairs.place`.
        marked: a match, and two ends (2, 2) of a line in the second view that belongs to it.
    """
    placed = place(axes, sizes, views)
    starts, ends = placed.first(points0), placed.second(points1)
    for row in range(0, len(starts), max(1, len(starts) // DRAWN)):
        (x0, y0), (x1, y1) = starts[row], ends[row]
        axes.plot((x0, x1), (y0, y1), color=colour(wrong[row]), linewidth=0.6)
    if marked is not None:
        axes.plot(*placed.second(marked[1]).T, color=MARKED, linewidth=1)
        dots = np.stack([starts[marked[0]], ends[marked[0]]])
        axes.plot(*dots.T, marker="o", markersize=3.5, linestyle="", color=MARKED, markeredgecolor="white")


def draw_keypoints(
    axes: Any,
    points: tuple[np.ndarray, np.ndarray],
    matched: tuple[np.ndarray, np.ndarray],
    sizes: Sequence[np.ndarray],
    views: Views,
) -> None:
    """All keypoints (n, 2) of two views as dots, those with a match (n,) in blue, others in orange, and how many they are.

    `sizes`, `views`: as for `pairs.place`.
    """
    placed = place(axes, sizes, views)
    size0, size1 = (placed.first(sizes[0]), placed.second(sizes[1]))
    for each, found, to_axes, left, right in (
        (points[0], matched[0], placed.first, 0.0, size0[0]),
        (points[1], matched[1], placed.second, placed.left, size1[0]),
    ):
        for chosen, said in ((~found, "tab:orange"), (found, MARKED)):
            axes.plot(*to_axes(each[chosen]).T, ".", markersize=2.5, color=said)
        text = f"{len(each)} keypoints, {int(found.sum())} matched"
        axes.text((left + right) / 2, 0, text, ha="center", va="bottom", fontsize=7)


def draw_epipolar(
    axes: Any, points: np.ndarray, lines: Sequence[tuple[np.ndarray, str]], sizes: Sequence[np.ndarray], views: Views
) -> None:
    """Points (n, 2) of the first view as crosses, and in the second the lines on which they are said to lie.

    Args:
        lines: (n, 3) each, a x + b y + c = 0 in the second view's pixels, with their colour.
        sizes, views: as for `pairs.place`.
    """
    placed = place(axes, sizes, views)
    axes.plot(*placed.first(points).T, "x", color=MARKED, markersize=4)
    for equations, said in lines:
        for ends in (line_within(equation, sizes[1]) for equation in equations):
            if ends is not None:
                axes.plot(*placed.second(ends).T, color=said, linewidth=0.8)


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
