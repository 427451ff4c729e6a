"""Scores against what they cost, with the line of those that no other beats in both."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

SIDE = (3.6, 3.0)  # inches of a panel
MARKERS = "osD^vP*X"  # ten colours of each
COLOURS = 10
TICKS = 5
BELOW = 4  # names in a row of the legend
LINE = 0.16  # inches of such a row


@dataclasses.dataclass(frozen=True)
class Panel:
    """One board against one cost.

    Attributes:
        title: of which board.
        cost, score: names of the axes.
        points: name -> cost, score, and the score's interval (None where it has none).
        front: names of those that no other beats in both, from the cheapest.
    """

    title: str
    cost: str
    score: str
    points: Mapping[str, tuple[float, float, tuple[float, float] | None]]
    front: Sequence[str]


def costs(figure: Any, panels: Sequence[Sequence[Panel]]) -> None:
    """Panels on an empty matplotlib Figure: a row for each board, in it a panel for each cost. A name looks the same in all.

    Args:
        figure: an empty matplotlib Figure.
        panels: rows of panels, one at least.
    """
    names = list(dict.fromkeys(name for row in panels for panel in row for name in panel.points))
    across = max(map(len, panels))
    lines = -(-len(names) // BELOW)
    figure.set_size_inches(SIDE[0] * across, SIDE[1] * len(panels) + LINE * (lines + 2))
    grid = figure.subplots(len(panels), across, squeeze=False)
    for axes_row, row in zip(grid, panels, strict=True):
        for axes in axes_row[len(row) :]:
            axes.set_axis_off()
        for axes, panel in zip(axes_row, row, strict=False):
            _draw(axes, panel, names)
    _legend(figure, names, lines)


def _draw(axes: Any, panel: Panel, names: Sequence[str]) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    front = [panel.points[name] for name in panel.front]
    axes.plot([p[0] for p in front], [p[1] for p in front], color="gray", linewidth=0.8, linestyle="--", zorder=1)
    for name, (cost, score, interval) in panel.points.items():
        low, high = interval or (score, score)
        ends = [[max(score - low, 0)], [max(high - score, 0)]]
        axes.errorbar(cost, score, yerr=ends, elinewidth=0.7, markersize=5, **_look(names.index(name)))
    values = [cost for cost, _, _ in panel.points.values()]
    if values and min(values) > 0 and max(values) > 10 * min(values):
        axes.set_xscale("log")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(TICKS))
        axes.xaxis.set_major_formatter(EngFormatter())
    axes.set_title(panel.title, fontsize=8, parse_math=False)
    axes.set_xlabel(panel.cost, fontsize=8, parse_math=False)
    axes.set_ylabel(panel.score, fontsize=8, parse_math=False)
    axes.tick_params(labelsize=7)


def _look(number: int) -> dict[str, Any]:
    """Colour and marker of the name of that number."""
    return {"color": f"C{number % COLOURS}", "marker": MARKERS[number // COLOURS % len(MARKERS)], "linestyle": "none"}


def _legend(figure: Any, names: Sequence[str], lines: int) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **_look(number)) for number in range(len(names))]
    legend = figure.legend(handles, names, loc="lower center", ncols=min(BELOW, len(names)), fontsize=7, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    height = figure.get_figheight()
    figure.tight_layout(rect=(0, LINE * (lines + 1) / height, 1, 1))
