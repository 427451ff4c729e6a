"""Curves of the whole set: how many items are at most so far off, and precision against recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchkit.metrics import curves
from benchkit.viz.pairs import wrapped

LETTER, LINE = 0.06, 0.15  # inches in a legend
LEAST, MOST = 40, 60  # letters of a line of it


def cumulative(figure: Any, errors: Mapping[str, np.ndarray], thresholds: Sequence[float], unit: str) -> None:
    """Share of the items below each error, with the areas up to the thresholds in the legend.

    Args:
        figure: an empty matplotlib Figure.
        errors: (N,) by what was done (an estimator and its threshold), infinite where it failed.
        thresholds: of the areas, in `unit`; the curves end at the largest.
    """
    labels = [_label(name, curves.areas(each, thresholds)) for name, each in errors.items()]
    lines = "\n".join(labels).split("\n")
    figure.set_size_inches(5.5 + LETTER * max(LEAST, *map(len, lines)), max(4.5, 1.2 + LINE * len(lines)))
    axes = figure.subplots()
    for label, each in zip(labels, errors.values(), strict=True):
        axes.plot(*curves.recall_curve(each, max(thresholds)), label=label, linewidth=1.2)
    for limit in thresholds:
        axes.axvline(limit, color="black", linestyle=":", linewidth=0.6)
    axes.set(
        xlim=(0, max(thresholds)), ylim=(0, 1), xlabel=f"error ({unit})", ylabel="share of items at most so far off"
    )
    _legend(axes, f"area up to {' / '.join(f'{limit:g}' for limit in thresholds)} {unit}, %", outside=True)


def _label(name: str, areas: np.ndarray) -> str:
    """A curve's name and its areas, in lines that fit beside the axes."""
    return f"{wrapped(name, MOST, 1)}: {' / '.join(f'{100 * area:.1f}' for area in areas)}"


def precision_recall(figure: Any, precision: np.ndarray, recall: np.ndarray, label: str) -> None:
    """Precision against recall (L,) of one set of answers on an empty matplotlib Figure, with lines of equal F."""
    figure.set_size_inches(5, 4.5)
    axes = figure.subplots()
    for f_measure in np.arange(0.1, 1, 0.1):
        x = np.linspace(f_measure / (2 - f_measure), 1, 50)
        axes.plot(x, f_measure * x / (2 * x - f_measure), color="tab:green", alpha=0.3, linewidth=0.6)
    axes.plot(recall, precision, label=label, linewidth=1.2, marker="." if len(recall) < 3 else "")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
    _legend(axes, "", outside=False)


def _legend(axes: Any, title: str, outside: bool) -> None:
    where: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)} if outside else {"loc": "lower left"}
    legend = axes.legend(fontsize=7, title=title, title_fontsize=7, **where)
    for text in legend.get_texts():
        text.set_parse_math(False)
