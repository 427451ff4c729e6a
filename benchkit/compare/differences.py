"""The paired difference of two experiments in one metric: its interval, and whether chance alone could make it.

Metrics that are the mean of a column are compared over the items on which both have a value; all others (mIoU, an area
under a curve, a median) are made again from resampled or swapped rows by the family's own `summarize`. Groups, where the
items have one, are drawn and swapped whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from benchkit.compare.aligned import Aligned
from benchkit.errors import UsageError, printable
from benchkit.eval.base import Benchmark, Metric
from benchkit.experiments.experiment import Experiment
from benchkit.metrics.intervals import Columns, Interval, Summary, mean_interval
from benchkit.metrics.paired import holm, intervals, mcnemar, permuted, permuted_mean

PER_TEST = 40  # permutations for each of several tests: p after Holm's correction can then be as small as .025
LEVEL = 0.05  # p below which a difference is called significant
OUTER = 0.1  # of an interval, at either end, where its own value is not to be expected


@dataclasses.dataclass(frozen=True)
class Chance:
    """How often chance is tried, and its only source: equal experiments and chances give equal numbers.

    Attributes:
        resamples: of the bootstrap; 0: no interval.
        permutations: of a mean over items; all ways to swap are tried where there are no more.
        set_permutations: of a score of the whole set, which is made anew for each.
        seed: of both.
    """

    resamples: int = 1000  # as for the interval of a single score
    permutations: int = 9999
    set_permutations: int = 999
    seed: int = 0

    def for_tests(self, count: int) -> Chance:
        """With permutations enough for so many tests, as the smallest p that n of them can give is 1 / (n + 1)."""
        least = PER_TEST * count
        more = {"permutations": max(self.permutations, least), "set_permutations": max(self.set_permutations, least)}
        return dataclasses.replace(self, **more)


@dataclasses.dataclass(frozen=True)
class McNemar:
    """McNemar's exact test of a column of 0 and 1: items that are 1 in one alone, and the two-sided p."""

    only_first: int
    only_second: int
    p: float


@dataclasses.dataclass(frozen=True)
class Difference:
    """One metric of two experiments: the second minus the first. None: undefined, or nothing that rows could tell.

    Attributes:
        metric, better, unit: as the family declares it.
        first, second: scores over the items compared.
        low, high: 95 % interval of the difference, by the paired percentile bootstrap.
        p: two-sided, by paired permutation.
        n_items: items compared.
        n_units: what was drawn and swapped: groups where items have one, else items.
        n_undefined: common items that are left out, since one side has no value.
        adjusted: p after Holm's correction for all tests shown together; None where there is no other.
        mcnemar: where the metric's column holds 0 and 1 only.
    """

    metric: str
    better: str
    unit: str
    first: float | None
    second: float | None
    low: float | None
    high: float | None
    p: float | None
    n_items: int
    n_units: int
    n_undefined: int = 0
    adjusted: float | None = None
    mcnemar: McNemar | None = None

    @property
    def value(self) -> float | None:
        """The difference, second - first."""
        return None if self.first is None or self.second is None else self.second - self.first

    @property
    def significant(self) -> bool:
        """Whether p, after Holm's correction where there is one, is below .05."""
        p = self.p if self.adjusted is None else self.adjusted
        return p is not None and p < LEVEL

    @property
    def lopsided(self) -> bool:
        """Whether the interval lies to one side of the difference, so that p alone is to be trusted: see `lopsided`."""
        return lopsided(self.value, self.low, self.high)

    @property
    def winner(self) -> str:
        """`first` or `second`, whichever has the better score; "" where neither: equal, undefined, or no direction."""
        sign = {"higher": 1, "lower": -1}.get(self.better, 0) * (self.value or 0)
        return "second" if sign > 0 else "first" if sign < 0 else ""


def lopsided(value: float | None, low: float | None, high: float | None) -> bool:
    """Whether a value lies outside its own percentile interval, or in the outer tenth of it at either end.

    Resampled items repeat, which adds noise; a score that noise moves in one direction (a calibration error is a mean of
    magnitudes) is then larger in nearly every resample than it is. Efron and Tibshirani, An Introduction to the Bootstrap,
    1993, chapters 10 and 13.
    """
    if value is None or low is None or high is None:
        return False
    margin = OUTER * (high - low)
    return value < low + margin or value > high - margin


def difference(
    first: Experiment,
    second: Experiment,
    metric: str,
    *,
    resamples: int = Chance.resamples,
    permutations: int | None = None,
    seed: int = 0,
) -> Difference:
    """Compare two experiments of one benchmark in one metric, over the items that both have.

    Whether they may be compared at all is not looked at here: see `experiments.experiment.unequal`.

    Args:
        first, second: the difference is the second's score minus the first's.
        metric: name of one of the family's metrics.
        resamples, seed: see `Chance`.
        permutations: default 9999 for a mean over items, 999 for a score of the whole set.

    Raises:
        UsageError: the metric does not exist, or they have no item in common.
    """
    both = {} if permutations is None else {"permutations": permutations, "set_permutations": permutations}
    chance = Chance(resamples=resamples, seed=seed, **both)
    return differences(Aligned([first, second]), (0, 1), [metric_named(first.family, metric)], chance)[0]


def metric_named(family: Benchmark, name: str) -> Metric:
    """One metric of a family by its name, in any case where no other has the same.

    Raises:
        UsageError: there is none; names those there are.
    """
    declared = family.metrics()
    exact = [each for each in declared if each.name == name]
    alike = [each for each in declared if each.name.lower() == name.lower()]
    if not exact and len(alike) != 1:
        known = ", ".join(each.name for each in declared)
        raise UsageError(f"there is no metric {printable(name, 80)!r} here; there are {known}.")
    return (exact or alike)[0]


def differences(aligned: Aligned, pair: tuple[int, int], metrics: Sequence[Metric], chance: Chance) -> list[Difference]:
    """The difference of two of several experiments in each metric; those of whole sets share their resamples.

    Args:
        aligned: the experiments.
        pair: places of the first and of the second.
        metrics: of their family.
        chance: see `Chance`.
    """
    sides = [aligned.columns[place] for place in pair]
    means = [each for each in metrics if all(each.column in side for side in sides)]
    found = {each.name: _of_mean(aligned, pair, each, chance) for each in means}
    others = [each for each in metrics if each.name not in found]
    if others:
        found |= _of_sets(aligned, pair, others, chance)
    return [found[each.name] for each in metrics]


def adjusted(found: Sequence[Difference]) -> list[Difference]:
    """The same differences with `adjusted` for all of them being looked at."""
    ps = holm([each.p for each in found])
    return [dataclasses.replace(each, adjusted=p) for each, p in zip(found, ps, strict=True)]


def _of_mean(aligned: Aligned, pair: tuple[int, int], metric: Metric, chance: Chance) -> Difference:
    one, other = (aligned.columns[place][metric.column].astype(np.float64) for place in pair)
    known = np.isfinite(one) & np.isfinite(other)
    one, other = one[known], other[known]
    groups = None if aligned.groups is None else aligned.groups[known]
    scores = (float(one.mean()), float(other.mean())) if len(one) else (None, None)
    found = _untested(metric, scores, groups, len(one))
    left_out = int(np.count_nonzero(~known))
    if not len(one):
        return dataclasses.replace(found, n_undefined=left_out)
    apart = other - one
    drawn = mean_interval(apart, n_resamples=chance.resamples, seed=chance.seed, groups=groups)
    low, high = drawn or (None, None)
    p = permuted_mean(apart, permutations=chance.permutations, seed=chance.seed, groups=groups)
    both = np.concatenate([one, other])
    test = McNemar(*mcnemar(one, other)) if ((both == 0) | (both == 1)).all() else None
    return dataclasses.replace(found, low=low, high=high, p=p, n_undefined=left_out, mcnemar=test)


def _of_sets(
    aligned: Aligned, pair: tuple[int, int], metrics: Sequence[Metric], chance: Chance
) -> dict[str, Difference]:
    """Of metrics that are no mean of a column: made anew by the family's `summarize` each time."""
    family = aligned.experiments[0].family
    names = {each.name for each in metrics} & aligned.summaries[0].keys()

    def summarize(columns: Columns) -> Summary:
        return {name: value for name, value in family.summarize(columns).items() if name in names}

    first, second = (aligned.columns[place] for place in pair)
    around: dict[str, Interval | None] = {}
    ps: dict[str, float | None] = {}
    if names:
        n_swaps, seed, groups = chance.set_permutations, chance.seed, aligned.groups
        around = intervals(first, second, summarize, resamples=chance.resamples, seed=seed, groups=groups)
        ps = permuted(first, second, summarize, permutations=n_swaps, seed=seed, groups=groups)
    found = {}
    for each in metrics:
        low, high = around.get(each.name) or (None, None)
        scores = aligned.score(pair[0], each), aligned.score(pair[1], each)
        untested = _untested(each, scores, aligned.groups, len(aligned.names))
        found[each.name] = dataclasses.replace(untested, low=low, high=high, p=ps.get(each.name))
    return found


def _untested(
    metric: Metric, scores: tuple[float | None, float | None], groups: np.ndarray | None, n_items: int
) -> Difference:
    n_units = n_items if groups is None else len(np.unique(groups))
    return Difference(metric.name, metric.better, metric.unit, *scores, None, None, None, n_items, n_units)
