"""All scores at once: a number in each cell, its colour where it lies in its column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

WIDE, HIGH = 0.85, 0.3  # inches of a cell
LETTER = 0.075  # inches of one in a label
COLOURS = "Blues"
DARK = 0.55  # position above which numbers are white
TITLE = 30  # degrees by which the names of columns are turned


def heatmap(
    figure: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    texts: Sequence[Sequence[str]],
    positions: np.ndarray,
    other: np.ndarray,
) -> None:
    """A table of scores with colours.

    Args:
        figure: an empty matplotlib Figure.
        rows: R names.
        columns: C names.
        texts: of each of R rows, what its C cells say; "" where there is no score.
        positions: (R, C) from 0, the floor of a column, to 1, its best; NaN where that has no meaning.
        other: bool (R, C), hatched: scores that follow another protocol than the column's others.
    """
    named, titled = (LETTER * max(map(len, names), default=1) for names in (rows, columns))
    width, height = WIDE * len(columns), HIGH * len(rows)
    # Names of columns rise to the right of the last one; what they need there is added on the right.
    figure.set_size_inches(named + width + 0.9 * titled + 0.6, height + 0.6 * titled + 1.1)
    axes = figure.subplots()
    shown = axes.imshow(np.ma.masked_invalid(positions), cmap=COLOURS, vmin=0, vmax=1, aspect=HIGH / WIDE)
    axes.set_facecolor("whitesmoke")
    for row, column in np.ndindex(positions.shape):
        dark = positions[row, column] > DARK  # NaN is not
        _cell(axes, row, column, texts[row][column], "white" if dark else "black", bool(other[row, column]))
    axes.set_yticks(range(len(rows)), rows, fontsize=8, parse_math=False)
    axes.set_xticks(range(len(columns)), columns, fontsize=8, rotation=TITLE, ha="left", parse_math=False)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=2)
    bar = figure.colorbar(shown, ax=axes, orientation="horizontal", fraction=0.04, pad=0.04, shrink=min(1, 3 / width))
    bar.set_ticks([0, 1], labels=["floor", "best"])
    bar.ax.tick_params(labelsize=7)
    if other.any():
        bar.set_label("hatched: another protocol, not to be compared", fontsize=7)


def _cell(axes: Any, row: int, column: int, text: str, colour: str, hatched: bool) -> None:
    from matplotlib.patches import Rectangle

    if hatched:
        corner = (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor="lightgray", linewidth=0))
    axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour, parse_math=False)
