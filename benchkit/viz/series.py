"""A score with its interval against a number (layers, shots), and by class or another category: of one tag or of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST = 60  # categories that are shown; of more the lowest and the highest


@dataclass(frozen=True)
class Score:
    """A value with the ends of its interval, which are the value itself where there is none."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, score: Mapping[str, Any]) -> Score | None:
        """From a score in a record; None where it is undefined."""
        if score["value"] is None:
            return None
        return cls(score["value"], *(score["interval"] or (score["value"], score["value"])))


def against(
    figure: Any, lines: Mapping[str, Mapping[float, Score]], floors: Mapping[str, float], what: str, metric: str
) -> None:
    """A line per series through its scores, with their intervals as bands.

    Args:
        figure: an empty matplotlib Figure.
        lines: by label; scores by what is on the abscissa.
        floors: of some of the series, by label.
        what, metric: names of the axes.
    """
    figure.set_size_inches(5.5, 3.8)
    axes = figure.subplots()
    for label, scores in lines.items():
        x = sorted(scores)
        (line,) = axes.plot(x, [scores[each].value for each in x], "o-", label=_shown(label), markersize=4)
        low, high = [scores[each].low for each in x], [scores[each].high for each in x]
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    for place, floor in enumerate(sorted(set(floors.values()))):
        axes.axhline(floor, color="black", linestyle=":", linewidth=1, label="floor" if not place else "_floor")
    axes.set_xlabel(what, parse_math=False)
    axes.set_ylabel(metric, parse_math=False)
    _legend(axes)


def by_category(figure: Any, tags: Mapping[str, Mapping[str, Score]], metric: str) -> None:
    """Bars of a score by class (or angle, or sequence) with its intervals, the lowest last; one without a value has no bar.

    Args:
        figure: an empty matplotlib Figure.
        tags: scores by category, by tag; the first tag orders the categories.
        metric: name of the axis.
    """
    values = {label: {name: each.value for name, each in scores.items()} for label, scores in tags.items()}
    first = next(iter(values.values()))
    names = list(dict.fromkeys(name for scores in values.values() for name in scores))
    names.sort(key=lambda name: -first.get(name, -np.inf))
    shown = names if len(names) <= MOST else [*names[: MOST // 2], *names[-MOST // 2 :]]
    longest = max((len(label) for label in tags), default=0) if len(tags) > 1 else 0
    figure.set_size_inches(6 + 0.07 * longest, 1.4 + max(0.2, 0.12 * len(tags)) * max(len(shown), 1))
    axes = figure.subplots()
    thick = 0.8 / len(tags)
    for place, (label, scores) in enumerate(tags.items()):
        rows = [row for row, name in enumerate(shown) if name in scores]
        bars = [scores[shown[row]] for row in rows]
        ends = [[max(each.value - each.low, 0) for each in bars], [max(each.high - each.value, 0) for each in bars]]
        at = np.array(rows) + (place - (len(tags) - 1) / 2) * thick
        axes.barh(at, [each.value for each in bars], thick, xerr=ends, label=_shown(label), error_kw={"linewidth": 0.7})
    axes.set_yticks(range(len(shown)), shown, fontsize=7, parse_math=False)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    left_out = f" ({len(names) - len(shown)} of {len(names)} left out)" if len(shown) < len(names) else ""
    axes.set_xlabel(f"{metric}, 95 % interval{left_out}", parse_math=False)
    if len(tags) > 1:
        _legend(axes, "in the order of the first", outside=True)


def _shown(label: str) -> str:
    """matplotlib leaves labels that begin with _ out of legends."""
    return f" {label}" if label.startswith("_") else label


def _legend(axes: Any, title: str = "", outside: bool = False) -> None:
    """In the axes, or on its right, where it hides nothing."""
    if not axes.get_legend_handles_labels()[0]:
        return
    where: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)} if outside else {}
    legend = axes.legend(fontsize=7, title=title, title_fontsize=7, **where)
    for text in legend.get_texts():
        text.set_parse_math(False)
