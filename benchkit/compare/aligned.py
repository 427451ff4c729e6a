"""Experiments on the items that all of them have: joined by name, never by position."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from benchkit.errors import UsageError, quoted
from benchkit.eval.base import Columns, Metric
from benchkit.experiments.experiment import Experiment
from benchkit.metrics.intervals import drawn_together


class Aligned:
    """Experiments of one benchmark, all cut to their common items, which are in name order.

    Attributes:
        experiments: in the order given.
        names: of the common items.
        alone: per experiment, those of its items that are not common, in name order.
        columns: per experiment, scores and statistics (N, ...) in the order of `names`.
        groups: (N,) what is drawn together, as the first experiment says; None where every item stands alone.

    Raises:
        UsageError: they have no item in common.
    """

    def __init__(self, experiments: Sequence[Experiment]) -> None:
        self.experiments = list(experiments)
        rows = [{name: row for row, name in enumerate(each.names)} for each in experiments]
        self.names = sorted(set.intersection(*map(set, rows)))
        if not self.names:
            tags = ", ".join(quoted(each.tag) for each in experiments)
            raise UsageError(f"{tags} of {experiments[0].benchmark} have no item in common: nothing can be compared.")
        self.alone = [sorted(each.keys() - set(self.names)) for each in rows]
        chosen = [np.array([each[name] for name in self.names]) for each in rows]
        self.columns = [_cut(each, taken) for each, taken in zip(experiments, chosen, strict=True)]
        labels = experiments[0].group
        self.groups = drawn_together(self.names, [labels[row] for row in chosen[0]])

    @property
    def complete(self) -> bool:
        """Whether all have the same items."""
        return not any(self.alone)

    @cached_property
    def summaries(self) -> list[dict[str, float | None]]:
        """Per experiment, every metric over the common items, but for those that only the files of a whole set tell."""
        return [self.experiments[0].family.summarize(each) for each in self.columns]

    def score(self, place: int, metric: Metric) -> float | None:
        """A metric of one experiment over the common items; where rows do not tell it the recorded one, if all are common."""
        if metric.name in self.summaries[0]:
            return self.summaries[place].get(metric.name)
        recorded = self.experiments[place].record["scores"].get(metric.name, {})
        return recorded.get("value") if self.complete else None


def _cut(experiment: Experiment, rows: np.ndarray) -> Columns:
    wanted = {name: each for name, each in experiment.columns.items() if not name.startswith("pictures/")}
    return {name: column[rows] for name, column in wanted.items()}
