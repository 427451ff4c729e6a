"""What a board is: rows that may be ranked together, best first, and what keeps other tags of the benchmark apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchkit.compare.differences import Difference
    from benchkit.experiments.experiment import Experiment


@dataclasses.dataclass(frozen=True)
class Row:
    """One scored tag on a board.

    Attributes:
        tag, model, head: names. They are whatever somebody called a folder: escape them where they are shown.
        value, low, high: headline and its 95 % interval; floor, ceiling: what it stands beside. None where undefined.
        scores: every metric as record.json has it: value, interval, floor, ceiling, better, unit.
        params: parameters of the backbone.
        images_per_s: forward images per second when this tag's features were made; None where the bank had them all.
        device: on which that was.
        bytes_per_item: features on disk for each item, train items counted too; None where the tag has no features.
        prediction_bytes: predictions on disk for each evaluated item.
        marks: what a reader has to know beside the numbers, in words.
        experiment: the tag itself.
        first, last: the places that it shares with the rows it is not significantly different from; 0 without a value.
        differences: to the baseline by metric, where one was asked for.
    """

    tag: str
    model: str
    head: str
    value: float | None
    low: float | None
    high: float | None
    floor: float | None
    ceiling: float | None
    scores: Mapping[str, Mapping[str, Any]]
    params: int
    images_per_s: float | None
    device: str
    bytes_per_item: int | None
    prediction_bytes: int | None
    marks: tuple[str, ...]
    experiment: Experiment
    first: int = 0
    last: int = 0
    differences: Mapping[str, Difference] = dataclasses.field(default_factory=dict)

    @property
    def place(self) -> str:
        """As it is shown: 3, or 1-3 where it is shared; "" without a value."""
        if not self.first:
            return ""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclasses.dataclass(frozen=True)
class Board:
    """Tags of one benchmark that follow one protocol.

    Attributes:
        benchmark, family, level: of which instance; families and levels are `benchkit list`'s.
        number: 1 for the benchmark's first board.
        metric, better, unit: the headline.
        protocol: dotted field -> value, of those fields in which the benchmark's boards differ; empty where it has one board.
        rows: best first, those without a value last.
        apart: tag -> why it is on no board of this benchmark; on its last board only.
        alone: rows of those in `apart` that are scored: values that are not to be ranked.
        untested: why no row shares a place with another; "" where significance was tested.
    """

    benchmark: str
    family: str
    level: str
    number: int
    metric: str
    better: str
    unit: str
    protocol: Mapping[str, Any]
    rows: tuple[Row, ...]
    apart: Mapping[str, str]
    alone: tuple[Row, ...] = ()
    untested: str = ""

    @property
    def same_items(self) -> bool:
        """Whether all rows are scored on the same items; else two of them are compared over those that both have."""
        return len({tuple(sorted(row.experiment.record["data"]["skipped"])) for row in self.rows}) < 2
