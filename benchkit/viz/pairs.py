"""Two views side by side: where they are placed, what off means in colour, and a sheet of pairs that fits a page."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

WIDTH = 8.0  # inches of a pair on a sheet
TOGETHER = 2  # pairs that stand in a column; more stand in two
GAP = 0.01  # between two views, in longer sides
SHARP = (100, 160)  # dots per inch of a sheet: few where there are only thumbnails
PER_INCH = 15  # letters of a title of 9 points
LINE = 0.17  # inches


class Placed:
    """Two views on matplotlib axes, with equal longer sides, the first one's in its own pixels.

    Attributes:
        scales: from each view's pixels to those of the axes; left: where the second view begins.
    """

    def __init__(self, sizes: Sequence[np.ndarray]) -> None:
        longer = [float(max(size)) for size in sizes]
        self.scales = (1.0, longer[0] / longer[1])
        self.left = float(sizes[0][0]) + GAP * longer[0]

    def first(self, points: np.ndarray) -> np.ndarray:
        """Points (..., 2) of the first view in pixels of the axes."""
        return np.asarray(points, np.float64) * self.scales[0]

    def second(self, points: np.ndarray) -> np.ndarray:
        """Points (..., 2) of the second view in pixels of the axes."""
        return np.asarray(points, np.float64) * self.scales[1] + [self.left, 0.0]


def place(axes: Any, sizes: Sequence[np.ndarray], views: Sequence[np.ndarray] | None) -> Placed:
    """Show two views, or their frames on white.

    Args:
        axes: of matplotlib.
        sizes: width and height of both in the pixels that points are told in.
        views: uint8 (h, w, 3) each, at any scale; None for white.
    """
    from matplotlib.patches import Rectangle

    placed = Placed(sizes)
    axes.set_axis_off()
    shown = [np.asarray(size, np.float64) * scale for size, scale in zip(sizes, placed.scales, strict=True)]
    for k, (left, (width, height)) in enumerate(zip((0.0, placed.left), shown, strict=True)):
        if views is None:
            axes.add_patch(Rectangle((left, 0), width, height, fill=False, color="0.8", linewidth=0.5))
        else:
            axes.imshow(views[k], extent=(left, left + width, height, 0))
    axes.set(xlim=(0, placed.left + shown[1][0]), ylim=(max(height for _, height in shown), 0), aspect="equal")
    axes.set_autoscale_on(False)
    return placed


def colour(off: float) -> tuple[float, float, float]:
    """Green for 0, yellow half-way, red for 1 and more; grey for NaN."""
    if np.isnan(off):
        return (0.6, 0.6, 0.6)
    off = float(np.clip(off, 0, 1))
    return (min(1.0, 2 * off), 0.8 * min(1.0, 2 - 2 * off), 0.1)


def wrapped(text: str, inches: float, per_inch: float = PER_INCH) -> str:
    """Text in lines that are at most so wide."""
    return "\n".join(textwrap.wrap(text, max(int(inches * per_inch), 10), break_on_hyphens=False))


def sheet(figure: Any, draws: Sequence[tuple[str, Callable[[Any], None]]], title: str, legend: str) -> None:
    """Pairs on an empty matplotlib Figure, each as wide as a page: one or two a row, with a caption and the colours below.

    Args:
        draws: a caption and a function that draws on axes, of each pair.
        legend: what the colours mean.
    """
    across = 1 if len(draws) <= TOGETHER else 2
    wide = across * WIDTH
    captions = [wrapped(caption, WIDTH) for caption, _ in draws]
    below = LINE * (0.8 + max(caption.count("\n") + 1 for caption in captions))
    grid = figure.subplots(-(-len(draws) // across), across, squeeze=False)
    for axes in grid.ravel():
        axes.set_axis_off()
    for axes, (_, draw) in zip(grid.ravel(), draws, strict=False):
        draw(axes)
    rows = [max(_height(axes) for axes in row[: len(draws) - k * across]) for k, row in enumerate(grid)]
    title, legend = wrapped(title, wide), wrapped(legend, wide, PER_INCH * 1.2)
    head, foot = (LINE * (0.8 + text.count("\n") + 1) for text in (title, legend))
    whole = head + foot + sum(rows) + below * len(rows)
    figure.set_size_inches(wide, whole)
    figure.set_dpi(float(np.clip(max(map(_dots, grid.ravel()[: len(draws)])), *SHARP)))
    top = whole - head
    for k, (row, height) in enumerate(zip(grid, rows, strict=True)):
        for place_in_row, axes in enumerate(row):
            axes.set_position(
                (place_in_row / across + 0.005, (top - height) / whole, 1 / across - 0.01, height / whole)
            )
        for place_in_row, caption in enumerate(captions[k * across : (k + 1) * across]):
            x, y = (place_in_row + 0.5) / across, (top - height - 0.3 * LINE) / whole
            figure.text(x, y, caption, ha="center", va="top", fontsize=8, parse_math=False)
        top -= height + below
    figure.text(0.5, 1 - 0.4 * LINE / whole, title, ha="center", va="top", fontsize=9, parse_math=False)
    figure.text(0.5, 0.4 * LINE / whole, legend, ha="center", va="bottom", fontsize=7, parse_math=False)


def _height(axes: Any) -> float:
    """Inches of a pair that is drawn, at its width on a sheet."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    return WIDTH * abs(high - low) / abs(right - left)


def _dots(axes: Any) -> float:
    """Dots per inch at which no pixel of the images is lost."""
    return sum(image.get_array().shape[1] for image in axes.get_images()) / WIDTH
