"""What a benchmark family is: a declaration of metrics, and pure functions from predictions and truth to scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.store.items import ArrayItems, Items

Columns = dict[str, np.ndarray]
LEVELS = ("high", "mid", "low", "geometry")  # of what a family asks about an image, in the order of tables
# Fields of the protocol that have to agree where what is compared is a method as a whole: how views are resized, what is read
# of them and how it is matched is its own affair.
METHOD = ("benchmark", "family", "version", "dataset_id", "targets", "skipped", "eval")


@dataclasses.dataclass(frozen=True)
class Metric:
    """One score: its name in summaries.json, which direction is better, its unit, and a line on what it is."""

    name: str
    better: str  # "higher", "lower", or "neither" for a number that only informs
    help: str
    unit: str = ""
    column: str = ""  # the per-item column it is the mean of, where there is one


class Benchmark:
    """A family of benchmarks. Instances are yaml files that set its data, model and eval defaults.

    Attributes:
        version: raised when a number could change; part of the fingerprint.
        level: high, mid, low or geometry.
        source: where the protocol is defined.
        defaults: sections data, model and eval below every conf.
        folder: the dataset that `data.root=DIR` alone selects.
        needs: prediction fields without which nothing can be scored.
        floor_head: the head whose one prediction is the floor; None when chance is known by arithmetic.
        dense: scores are per pixel: the crop then keeps the whole short side, and truth goes through the image's frame.
        whole_views: keypoints are in pixels of whole views, so that a crop would lose where they lie.
        trial: settings with which a few generated items show something: what the demo runs with.
        task: what a dense head learns (semantic, binary, depth, normals, maps); "" for other families.
        derive: makes the truth from the image itself, uint8 (h, w, 3) in the scored frame; None: the data set knows it.
        comparable: fields of the protocol that have to agree where scores are ranked; None: all.
        project: what a model's own labels become where the family says so itself (`heads.segmenter`); None: matched by name.
        complete: adds to the data set's truth in the scored frame the field that heads learn; None: it is there.
        unit: of the errors of items that no metric is the mean of.
    """

    version = 1
    level = "high"
    source = ""
    defaults: Mapping[str, Any] = {}
    folder = "image_folder"
    needs: tuple[str, ...] = ()
    floor_head: str | None = "constant"
    dense = False
    whole_views = False
    trial: tuple[str, ...] = ()
    task = ""
    derive: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = None
    comparable: tuple[str, ...] | None = None
    project: Callable[[Sequence[Sequence[str]]], Any] | None = None
    complete: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]] | None = None
    unit = ""

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    def metrics(self) -> list[Metric]:
        """The metrics that `summarize` can return, in the order of tables; the first is the headline."""
        raise NotImplementedError

    def check(self, truth: Items) -> None:
        """Refuse truth that this family cannot score (UsageError), before the first forward."""

    def check_head(self, name: str, gives: Sequence[str]) -> None:
        """Refuse a head that says what it gives, and gives nothing this family can score.

        Raises:
            UsageError: names what is missing.
        """
        absent = [field for field in self.needs if gives and field not in gives]
        if absent:
            raise UsageError(
                f"the head {name} gives {', '.join(gives)}, and this benchmark scores {absent[0]}: choose another with "
                "model.head.name=NAME; `benchkit list` shows them."
            )

    def score(self, predictions: Items, targets: Items) -> Columns:
        """Per-item columns in the order of `targets.names`; keys under 'stats/' are sufficient statistics, those under
        'pictures/' are read by `pictures` alone and never resampled.
        """
        raise NotImplementedError

    def constant(self, fields: Mapping[str, np.ndarray], targets: Items) -> Items:
        """The floor as predictions: what the constant head knows, the same for every item."""
        count = len(targets.names)
        columns = {name: np.broadcast_to(value, (count, *value.shape)) for name, value in fields.items()}
        return ArrayItems(targets.names, columns, {"scores_are": "logits"})

    def ceiling(self, predictions: Items, targets: Items) -> Items | None:
        """The best predictions that the head's grid allows, as predictions; None where there is no such limit."""
        return None

    def chance(self, targets: Items, predictions: Items) -> Columns | None:
        """The columns of a random answer by arithmetic, where no constant predictor was learned; None: there is none.

        Args:
            targets: the truth.
            predictions: what is scored; only its `meta` may matter (which classes compete).
        """
        raise NotImplementedError

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Numbers of the whole set from (resampled) columns; pure. None where a number is undefined."""
        raise NotImplementedError

    def whole(self, predictions: Items, targets: Items) -> dict[str, float | None]:
        """Metrics of the whole set that cannot come from resampled columns (a rank: rows drawn twice lower it).

        They have no interval. None where a number is undefined.
        """
        return {}

    def whole_chance(self, targets: Items) -> dict[str, float | None]:
        """The floor of the metrics that `whole` gives, by arithmetic."""
        return {}

    def breakdown(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, float | None]:
        """Further numbers per class or category, named <metric>/<class>; pure, like `summarize`. `meta`: the targets'."""
        return {}

    def pictures(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, Callable[[Any], None]]:
        """Pictures of the whole set by name: each draws on an empty matplotlib Figure. `meta`: the targets'."""
        return {}

    def compared(self, scores: Mapping[str, np.ndarray]) -> dict[str, Callable[[Any], None]]:
        """Pictures of several tags together by name; `scores`: of each tag the column that `order` names."""
        return {}

    def order(self, columns: Columns) -> tuple[str, str]:
        """The column by which pictures order items, and which direction is better; "" and "" where none tells.

        Args:
            columns: what `score` found of every item, but for statistics; some of it where another version scored.
        """
        return next(((each.column, each.better) for each in self.metrics() if each.column in columns), ("", ""))

    def told(self, column: str, row: Mapping[str, float]) -> str:
        """What the caption of an item's picture says: by default the number in the column by which items are ordered."""
        name, unit = next(((m.name, m.unit) for m in self.metrics() if m.column == column), (column, ""))
        return f"{name} {row[column]:.3g} {unit}".rstrip()

    def legend(self) -> str:
        """What the colours of its pictures mean, in a line; "" where they say it themselves."""
        return ""

    def submission(self, summaries: Mapping[str, Any]) -> dict[str, Any]:
        """The scores in the form that the benchmark's board takes.

        Raises:
            UsageError: it has no board.
        """
        raise UsageError("this benchmark has no form of submission; painting_vision has one.")

    def oracle(self, targets: Items) -> Items:
        """The targets as predictions: reaches the optimum of every metric."""
        raise NotImplementedError

    def pictured(
        self, prediction: np.ndarray, target: np.ndarray, meta: Mapping[str, Any], said: Mapping[str, Any]
    ) -> tuple[np.ndarray, np.ndarray, Mapping[str, Any]]:
        """Prediction, target and the target's meta as pictures compare them. `said`: the predictions' meta."""
        return prediction, target, meta

    def kinds(self) -> dict[str, Callable[[Any, Any], None]]:
        """Kinds of pictures of an item by name, the one that is shown by itself first.

        Each draws on matplotlib axes from a `benchkit.experiments.draw.Item`.
        """
        return {"item": lambda axes, item: self.draw(axes, item.prediction, item.target, item.image)}

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """One picture of one item on matplotlib axes. `target` has `meta`.

        `image` is None or uint8 (H, W, 3): of a pair a list of two, which may differ in scale; of more views side by side.
        """
        raise NotImplementedError
