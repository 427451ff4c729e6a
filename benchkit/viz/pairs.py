"""Two views side by side: matches between them as lines, and epipolar lines in the second."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

DRAWN = 60  # matches
GAP = 3.0  # pixels between two views side by side, as contact sheets leave
UNKNOWN = (0.5, 0.5, 0.5)


class Sheet(NamedTuple):
    """Factors from each view's pixels to those of the sheet, and where the second view begins on it."""

    scale0: float
    scale1: float
    shift: float


def show(axes: Any, size0: np.ndarray, size1: np.ndarray, image: Any) -> Sheet:
    """Both views on axes, their longer sides alike, on `image` (uint8 (h, w, 3), a gap between them) or on white.

    Args:
        axes: of matplotlib.
        size0, size1: width and height of the views.
        image: of the two, at any scale; None for white.
    """
    axes.set_axis_off()
    shares = size0[0] / max(size0), size1[0] / max(size1)
    longer = max(size1)
    if image is not None:
        axes.imshow(image)
        longer = (image.shape[1] - GAP) / sum(shares)
    else:
        axes.set(xlim=(0, longer * sum(shares) + GAP), ylim=(longer, 0))
        axes.set_aspect("equal")
    return Sheet(longer / max(size0), longer / max(size1), longer * shares[0] + GAP)


def draw_lines(
    axes: Any, starts: np.ndarray, ends: np.ndarray, off: np.ndarray, size0: np.ndarray, size1: np.ndarray, image: Any
) -> None:
    """Some matches from green (right) to red, grey where nothing is known.

    Args:
        starts, ends: (m, 2) in pixels of view 0 and of view 1; off: (m,), 0 (right) to 1 (far off), NaN unknown.
        axes, size0, size1, image: as in `show`.
    """
    sheet = show(axes, size0, size1, image)
    some = np.arange(len(starts))[:: max(1, len(starts) // DRAWN)]
    for start, end, wrong in zip(starts[some] * sheet.scale0, ends[some] * sheet.scale1, off[some], strict=True):
        color = UNKNOWN if np.isnan(wrong) else (wrong, 0.8 * (1 - wrong), 0.1)
        axes.plot((start[0], end[0] + sheet.shift), (start[1], end[1]), color=color, linewidth=0.5)


def draw_epipolar(
    axes: Any,
    points: np.ndarray,
    lines: list[tuple[np.ndarray, str]],
    size0: np.ndarray,
    size1: np.ndarray,
    image: Any,
) -> None:
    """Points of view 0 as crosses, and in view 1 the lines on which they are said to lie.

    Args:
        points: (n, 2) in pixels of view 0.
        lines: (n, 3) each, a x + b y + c = 0 in pixels of view 1, with their colour.
        axes, size0, size1, image: as in `show`.
    """
    sheet = show(axes, size0, size1, image)
    axes.plot(*(points * sheet.scale0).T, "x", color="white" if image is not None else "black", markersize=4)
    for equations, color in lines:
        for equation in equations:
            ends = _within(equation, size1)
            if len(ends) == 2:
                x, y = (ends * sheet.scale1).T
                axes.plot(x + sheet.shift, y, color=color, linewidth=0.8)


def _within(equation: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Where a line crosses the border of a view: two points (2, 2), or none (0, 2)."""
    (a, b, c), (width, height) = equation, size
    found = []
    for x in (0.0, width) if b else ():
        found.append((x, -(a * x + c) / b))
    for y in (0.0, height) if a else ():
        found.append((-(b * y + c) / a, y))
    inside = np.array([p for p in found if -1e-6 <= p[0] <= width + 1e-6 and -1e-6 <= p[1] <= height + 1e-6])
    if len(inside) < 2:
        return np.zeros((0, 2))
    apart = np.linalg.norm(inside - inside[0], axis=1).argmax()
    return inside[[0, apart]]
