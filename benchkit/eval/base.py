"""What a benchmark family is: a declaration of metrics, and pure functions from predictions and truth to scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

Columns = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Metric:
    """One score: its name in summaries.json, which direction is better, its unit, and a line on what it is."""

    name: str
    better: str  # "higher" or "lower"
    help: str
    unit: str = ""


class Benchmark:
    """A family of benchmarks. Instances are yaml files that set its data, model and eval defaults.

    Attributes:
        version: raised when a number could change; part of the fingerprint.
        level: high, mid, low or geometry.
        source: where the protocol is defined.
        defaults: sections data, model and eval below every conf.
        folder: the dataset that `data.root=DIR` alone selects.
    """

    version = 1
    level = "high"
    source = ""
    defaults: Mapping[str, Any] = {}
    folder = "image_folder"
    leave_one_out = False  # train and evaluated items are the same; an item never sees itself

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    def metrics(self) -> list[Metric]:
        """The metrics that `summarize` can return, in the order of tables; the first is the headline."""
        raise NotImplementedError

    def score(self, predictions: Any, targets: Any) -> Columns:
        """Per-item columns: scalars are metrics; keys under 'stats/' are sufficient statistics."""
        raise NotImplementedError

    def floor(self, predictions: Any, targets: Any) -> Columns:
        """The same columns for the constant predictor (or chance by arithmetic)."""
        raise NotImplementedError

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Numbers of the whole set from (resampled) columns; pure."""
        raise NotImplementedError

    def oracle(self, targets: Any) -> Any:
        """The targets as predictions: reaches the optimum of every metric."""
        raise NotImplementedError

    def draw(self, axes: Any, prediction: Any, target: Any, image: Any = None) -> None:
        """One picture of one item for inspector, report and show."""
        raise NotImplementedError
