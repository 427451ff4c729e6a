"""What an axis shows: scores, differences of scores, categories side by side, or items in their order."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from benchkit.inspect.view import View
from benchkit.viz.neighbours import shortened

if TYPE_CHECKING:
    from benchkit.experiments.joined import Joined

TAG = 30  # letters of a tag in the name of an axis
JITTER = 0.36  # how far points are moved about the place of their category or item, at most
SPREAD = 0.4  # of an experiment's share of that room, how far by the item's name


@dataclass(frozen=True)
class Axis:
    """One axis of the scatter.

    Attributes:
        label: what it says.
        values: float64 (E, N), NaN where undefined; of a category moved a little, by experiment and by the item's name.
        ticks: the labels of a category, whose places are 0, 1, 2 ...; empty for numbers.
        exact: int64 (N,), the label of each item; empty for numbers.
        scored: whether it shows scores, of which a mean says something.
    """

    label: str
    values: np.ndarray
    ticks: list[str] = field(default_factory=list)
    exact: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    scored: bool = False


def axis_of(joined: Joined, name: str, view: View, order: Sequence[int]) -> Axis:
    """One of `view.axes_of`; `order` holds rows of `joined.names`."""
    if name in joined.columns:
        return _scores(joined, name, view.diff_only)
    if name in joined.categories:
        return _category(joined, name)
    places = np.empty(len(joined.names))
    places[np.asarray(order, np.int64)] = np.arange(len(places))
    return Axis(f"items ({view.order})", _for_all(joined, places) + lanes(len(joined.tags))[:, None])


def _scores(joined: Joined, column: str, diff_only: bool) -> Axis:
    unit, direction = _about(joined, column)
    name = f"{column} ({unit})" if unit else column
    better = {"higher": ", higher is better", "lower": ", lower is better"}.get(direction, "")
    values = joined.scores(column)
    if diff_only:
        with np.errstate(invalid="ignore"):  # of two errors without end
            return Axis(
                f"{name} minus that of {shortened(joined.tags[0], TAG)}{better}", values - values[0], scored=True
            )
    return Axis(f"{name}{better}", values, scored=True)


def _about(joined: Joined, column: str) -> tuple[str, str]:
    """Unit of a score, and which direction of it is better; "" where nothing tells.

    The metric that is its mean tells both. A score that the family orders items by (of errors whose metric is no mean, but an
    area) has the family's own unit, and so has the same score of another estimator or threshold: its name begins alike.
    """
    metric = next((m for each in joined.experiments if (m := each.metric_of(column)) is not None), None)
    if metric is not None:
        return metric.unit, metric.better
    for each in joined.experiments:
        ordered, better = each.family.order(each.item_scores)
        if ordered and (
            column == ordered or (column.startswith(f"{ordered.rpartition('_')[0]}_") and each.family.unit)
        ):
            return each.family.unit, better
    return "", ""


def _category(joined: Joined, name: str) -> Axis:
    labels = joined.categories[name]
    ticks = sorted(set(labels))
    place = {label: k for k, label in enumerate(ticks)}
    exact = np.array([place[label] for label in labels], np.int64)
    moved = SPREAD * 2 * JITTER / len(joined.tags) * jitter(joined.names)
    return Axis(name, _for_all(joined, exact + moved) + lanes(len(joined.tags))[:, None], ticks, exact)


def lanes(count: int) -> np.ndarray:
    """Where experiments stand beside each other about a place, (E,): equal scores would hide one another."""
    return ((np.arange(count) + 0.5) * 2 / count - 1) * JITTER


def jitter(names: Sequence[str]) -> np.ndarray:
    """Float64 (N,), from -1 to 1: the same for a name each time and everywhere."""
    return np.array([zlib.crc32(name.encode()) / 0xFFFFFFFF * 2 - 1 for name in names])


def _for_all(joined: Joined, values: np.ndarray) -> np.ndarray:
    """The same of every experiment, NaN where it has no such item."""
    found = np.full((len(joined.tags), len(joined.names)), np.nan)
    for row, places in enumerate(joined.places):
        found[row, places] = values[places]
    return found


def category_means(axis: Axis, values: np.ndarray) -> np.ndarray:
    """Mean of the defined values (E, N) of each label of a category: (E, labels), NaN where there is none."""
    found = np.full((len(values), len(axis.ticks)), np.nan)
    for row, each in enumerate(values):
        known = ~np.isnan(each)
        sums = np.bincount(axis.exact[known], each[known], minlength=len(axis.ticks))
        counts = np.bincount(axis.exact[known], minlength=len(axis.ticks))
        found[row, counts > 0] = sums[counts > 0] / counts[counts > 0]
    return found
