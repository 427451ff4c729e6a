"""Two experiments on the items that both have: joined by name, never by position."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval.base import Columns, Metric
from benchkit.experiments.experiment import Experiment
from benchkit.metrics.intervals import drawn_together


class Aligned:
    """Two experiments of one benchmark, both cut to their common items, which are in name order.

    Attributes:
        names: of the common items.
        only_first, only_second: items of one alone, in name order.
        first, second: columns of scores and statistics, (N, ...) in the order of `names`.
        groups: (N,) what is drawn together, as the first experiment says; None where every item stands alone.

    Raises:
        UsageError: they have no item in common.
    """

    def __init__(self, first: Experiment, second: Experiment) -> None:
        self.experiments = first, second
        one, other = ({name: row for row, name in enumerate(each.names)} for each in self.experiments)
        self.names = sorted(one.keys() & other.keys())
        if not self.names:
            raise UsageError(f"{first.tag} and {second.tag} of {first.benchmark} have no item in common.")
        self.only_first, self.only_second = sorted(one.keys() - other.keys()), sorted(other.keys() - one.keys())
        self.first, self.second = self._cut(first, one), self._cut(second, other)
        labels = first.group
        self.groups = drawn_together(self.names, [labels[one[name]] for name in self.names])

    def _cut(self, experiment: Experiment, rows: dict[str, int]) -> Columns:
        chosen = np.array([rows[name] for name in self.names])
        wanted = {name: each for name, each in experiment.columns.items() if not name.startswith("pictures/")}
        return {name: column[chosen] for name, column in wanted.items()}

    @property
    def complete(self) -> bool:
        """Whether both have the same items."""
        return not self.only_first and not self.only_second

    @cached_property
    def summaries(self) -> tuple[dict[str, float | None], dict[str, float | None]]:
        """Every metric of both over the common items; without those that only the files of a whole set tell."""
        family = self.experiments[0].family
        return family.summarize(self.first), family.summarize(self.second)

    def scores(self, metric: Metric) -> tuple[float | None, float | None]:
        """A metric of both over the common items; of a metric that rows do not tell the recorded one, if all are common."""
        if metric.name in self.summaries[0]:
            first, second = (values.get(metric.name) for values in self.summaries)
        elif self.complete:
            first, second = (each.record["scores"].get(metric.name, {}).get("value") for each in self.experiments)
        else:
            first = second = None
        return first, second
