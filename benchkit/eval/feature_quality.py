"""Feature quality: what the features are like by themselves, before any head learns from them.

silhouette (Rousseeuw 1987): how much nearer an item is to its own class than to the nearest other one, by cosine distance,
from -1 to 1, 0 where equal; 0 for features that are all alike. An item alone in its class has none, and neither has any
where there are no two classes. The other numbers need no labels, or are of no use alone:
rankme (Garrido et al. 2023): exp of the entropy of the singular values, the number of directions that the features use. It
is at most the number of items and of columns, and noise has a high one too: compare models on the same items only.
uniformity and alignment (Wang and Isola 2020, on the unit sphere): log of the mean of exp(-2 |x - y|^2) over all pairs, and
the mean of |x - y|^2 over pairs of one class (there: two crops of one image), item by item. Read them together: features
that are all alike align perfectly (0) and are not uniform at all (0); noise is the other way round.
rankme and uniformity belong to the whole set. Rows drawn twice change them, so no resampling gives them an interval.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval._neighbours import draw_neighbours
from benchkit.eval.base import Benchmark, Columns, Metric
from benchkit.metrics import embedding as numbers_of
from benchkit.metrics.classification import class_accuracies
from benchkit.metrics.intervals import mean_defined
from benchkit.settings import setting
from benchkit.store.items import ArrayItems, Items


@dataclasses.dataclass
class Settings:
    """Settings of the scores."""

    max_items: int = setting(25600, "items that rankme and uniformity look at, chosen by the hash of their names")

    def __post_init__(self) -> None:
        if self.max_items < 2:
            raise ValueError(f"max_items is at least 2, not {self.max_items}")


class FeatureQuality(Benchmark):
    """See the module."""

    level = "high"
    source = "silhouette (Rousseeuw 1987), RankMe (Garrido et al. 2023), uniformity and alignment (Wang and Isola 2020)"
    defaults: Mapping[str, Any] = {"data": {"name": "scenes"}, "model": {"head": {"name": "embed"}}}
    needs = ("embedding",)
    floor_head = None

    def metrics(self) -> list[Metric]:
        """The headline is the silhouette."""
        return [
            Metric("silhouette", "higher", "how much nearer the own class is than any other", column="silhouette"),
            Metric("rankme", "higher", "directions that the features use (effective rank)", unit="dimensions"),
            Metric("uniformity", "neither", "lower: features are spread more evenly over the sphere", unit="log"),
            Metric("alignment", "neither", "mean squared distance within a class, on the sphere", column="alignment"),
        ]

    def check(self, truth: Items) -> None:
        """One view per item, and two items."""
        if len(truth.names) < 2 or ("views" in truth and any("\n" in each for each in truth.read("views"))):
            raise UsageError("feature_quality needs two items or more, each of a single image.")

    def score(self, predictions: Items, targets: Items) -> Columns:
        """From `embedding` (N, C) and, where there is one, `label` (N)."""
        embedding, labels = np.asarray(predictions.read("embedding")), _labels(targets)
        own, nearest = numbers_of.class_distances(embedding, labels)
        return {
            "silhouette": numbers_of.silhouette(own, nearest),
            "alignment": 2 * own,  # |x - y|^2 = 2 (1 - cosine) on the sphere
            "stats/label": labels,
        }

    def chance(self, targets: Items, predictions: Items) -> Columns:
        """One feature for every image; undefined where the score is."""
        labels = _labels(targets)
        own, nearest = numbers_of.class_distances(np.ones((len(labels), 1)), labels)
        return {"silhouette": numbers_of.silhouette(own, nearest), "alignment": 2 * own, "stats/label": labels}

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means over the items that have a value."""
        return {name: mean_defined(columns[name])[0] for name in ("silhouette", "alignment")}

    def whole(self, predictions: Items, targets: Items) -> dict[str, float | None]:
        """rankme and uniformity."""
        keys = [hashlib.sha256(name.encode()).digest() for name in targets.names]
        chosen = sorted(sorted(range(len(keys)), key=keys.__getitem__)[: self.settings.max_items])
        embedding = np.asarray(predictions.read("embedding"))[chosen]
        return {"rankme": numbers_of.rankme(embedding), "uniformity": numbers_of.uniformity(embedding)}

    def whole_chance(self, targets: Items) -> dict[str, float | None]:
        """One feature for every image: one direction, and no spread."""
        return {"rankme": 1.0, "uniformity": 0.0}

    def breakdown(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, float | None]:
        """silhouette/<class>, None for a class without one."""
        classes = meta.get("classes")
        if not classes:
            return {}
        means = class_accuracies(columns["silhouette"], columns["stats/label"], len(classes)).tolist()
        return {f"silhouette/{name}": None if m != m else m for name, m in zip(classes, means, strict=True)}

    def oracle(self, targets: Items) -> Items:
        """Every class on an axis of its own."""
        labels = _labels(targets)
        return ArrayItems(targets.names, {"embedding": np.eye(labels.max() + 1, dtype=np.float32)[labels]})

    def kinds(self) -> dict[str, Callable[[Any, Any], None]]:
        """The image, and those whose embeddings are nearest to its own."""
        return {**super().kinds(), "neighbours": draw_neighbours}

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """The image under its class, if it has one."""
        if image is not None:
            axes.imshow(image)
        axes.set_axis_off()
        if "label" in target:
            axes.set_title(target["meta"]["classes"][int(target["label"])], fontsize=8, parse_math=False)


def _labels(targets: Items) -> np.ndarray:
    """(N,) classes; one for all where the data have none, which leaves the scores that need classes undefined."""
    if "label" in targets:
        return np.asarray(targets.read("label"))
    return np.zeros(len(targets.names), dtype=np.int64)


build = FeatureQuality

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("feature_quality"))
