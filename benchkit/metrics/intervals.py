"""Percentile bootstrap over items, or over whole groups, of any summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from benchkit.errors import RunError

Columns = dict[str, np.ndarray]
Summary = Mapping[str, float | None]
Interval = tuple[float, float]
BLOCK = 1 << 18  # units that are drawn at once


def bootstrap(
    columns: Columns,
    summarize: Callable[[Columns], Summary],
    *,
    n_resamples: int = 1000,
    seed: int,
    groups: np.ndarray | None = None,
) -> dict[str, Interval | None]:
    """95 % interval of each summary: its 2.5 and 97.5 percentiles over resamples (Efron's percentile method).

    Args:
        columns: arrays with items on the first axis, scalars or statistics of any further shape.
        summarize: pure; called with resampled columns. Its keys on the whole columns are the keys of the result.
        seed: the only source of chance: equal columns in equal order give equal intervals.
        groups: (N,) group of each item; then groups are drawn, each with all its items, as many as there are.

    Returns:
        {metric: (low, high)}. None: there are fewer than two items (or groups), an end is infinite, or the metric is
        undefined (None, NaN, missing) on the whole or in more than half of the resamples; fewer are left out.

    Raises:
        RunError: columns differ in length.
    """
    lengths = {name: len(column) for name, column in columns.items()}
    lengths |= {} if groups is None else {"groups": len(groups)}
    if len(set(lengths.values())) > 1:
        raise RunError(f"columns differ in length: {lengths}. They come from different items; run eval again.")
    n_items = next(iter(lengths.values()), 0)
    draw = _ItemDraw(n_items) if groups is None else _GroupDraw(groups)
    whole = summarize(columns)
    if draw.n_units < 2:
        return dict.fromkeys(whole)
    rng = np.random.default_rng(seed)
    values = np.full((n_resamples, len(whole)), np.nan)
    for row in values:
        chosen = draw(rng)
        summary = summarize({name: column.take(chosen, axis=0) for name, column in columns.items()})
        row[:] = [np.nan if (value := summary.get(name)) is None else value for name in whole]
    return {name: None if undefined(whole[name]) else _interval(values[:, i]) for i, name in enumerate(whole)}


def mean_interval(
    values: NDArray[np.float64], *, n_resamples: int, seed: int, groups: np.ndarray | None = None
) -> Interval | None:
    """`bootstrap` of the mean of one column (N,) of finite numbers: much faster, as only sums of units are drawn."""
    sums, counts = values, np.ones(len(values))
    if groups is not None:
        _, unit = np.unique(groups, return_inverse=True)
        sums = np.bincount(unit, weights=values).astype(np.float64)
        counts = np.bincount(unit).astype(np.float64)
    n_units = len(sums)
    if n_units < 2:
        return None
    rng = np.random.default_rng(seed)
    step = max(1, BLOCK // n_units)
    means = []
    for start in range(0, n_resamples, step):
        drawn = rng.integers(0, n_units, (min(step, n_resamples - start), n_units))
        means.append(sums[drawn].sum(axis=1) / (n_units if groups is None else counts[drawn].sum(axis=1)))
    return _interval(np.concatenate([np.zeros(0), *means]))


def drawn_together(names: Sequence[str], groups: Sequence[str]) -> np.ndarray | None:
    """What `bootstrap` draws: groups, where an item without one stands alone; None where no item has one."""
    if not any(groups):
        return None
    return np.array([f"group {group}" if group else f"item {name}" for name, group in zip(names, groups, strict=True)])


def mean_defined(values: NDArray[np.floating]) -> tuple[float | None, int]:
    """Mean over the entries that are not NaN, None without any; and how many are NaN."""
    nan = np.isnan(values)
    n_undefined = int(np.count_nonzero(nan))
    if n_undefined == values.size:
        return None, n_undefined
    return float((values[~nan] if n_undefined else values).mean(dtype=np.float64)), n_undefined


def undefined(value: float | None) -> bool:
    """Whether a summary has no value: None or NaN."""
    return value is None or bool(np.isnan(value))


class _ItemDraw:
    def __init__(self, n_items: int):
        self.n_units = n_items

    def __call__(self, rng: np.random.Generator) -> NDArray[np.intp]:
        return rng.integers(0, self.n_units, self.n_units)


class _GroupDraw:
    def __init__(self, groups: np.ndarray):
        _, inverse, self.counts = np.unique(groups, return_inverse=True, return_counts=True)
        self.n_units = len(self.counts)
        self.order = np.argsort(inverse, kind="stable")  # items, group after group
        self.starts = np.cumsum(self.counts) - self.counts

    def __call__(self, rng: np.random.Generator) -> NDArray[np.intp]:
        drawn = rng.integers(0, self.n_units, self.n_units)
        counts = self.counts[drawn]
        ends = np.cumsum(counts)
        return self.order[np.arange(ends[-1]) + np.repeat(self.starts[drawn] - (ends - counts), counts)]


def _interval(values: NDArray[np.float64]) -> Interval | None:
    defined = np.sort(values[~np.isnan(values)])
    if 2 * len(defined) < len(values) or not len(defined):
        return None
    with np.errstate(invalid="ignore"):  # infinite neighbours
        low, high = np.quantile(defined, (0.025, 0.975))
    return (float(low), float(high)) if np.isfinite(low) and np.isfinite(high) else None
