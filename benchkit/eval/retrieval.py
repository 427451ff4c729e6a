"""Image retrieval: do images of one class lie together?

Every item queries all others by cosine; the same class is a positive. recall@k: any positive among the k nearest. AP:
mean over the positives of the precision at their rank, over the whole ranking; mAP its mean (VisBench's protocol). An item
without a positive is left out and counted. Items of another class that tie with a positive come before it. The floor is a
random order, by arithmetic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval._neighbours import draw_neighbours
from benchkit.eval.base import Benchmark, Columns, Metric
from benchkit.metrics import ranking
from benchkit.metrics.intervals import mean_defined
from benchkit.progress import Progress
from benchkit.settings import setting
from benchkit.store.items import ArrayItems, Items

RECALLS = (1, 5, 10)


@dataclasses.dataclass
class Settings:
    """Settings of the scores."""

    num_workers: int = setting(0, "threads that sort; 0: as many as there are cores", identity=False)


class Retrieval(Benchmark):
    """See the module."""

    level = "high"
    source = "leave-one-out retrieval as in VisBench; average precision as in Manning et al. 2008, ch. 8"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scenes"},
        "model": {"head": {"name": "embed"}},
    }
    needs = ("embedding",)
    floor_head = None

    def metrics(self) -> list[Metric]:
        """The headline is mAP."""
        recalls = [
            Metric(
                f"recall@{k}", "higher", f"share of items with a positive among the {k} nearest", column=f"recall@{k}"
            )
            for k in RECALLS
        ]
        return [Metric("mAP", "higher", "mean average precision over the whole ranking", column="AP"), *recalls]

    def check(self, truth: Items) -> None:
        """Labels need two classes, and one class at least two items."""
        labels = np.asarray(truth.read("label")) if "label" in truth else np.zeros(0, int)
        if len(set(labels.tolist())) < 2 or np.bincount(labels).max() < 2:
            raise UsageError("retrieval needs a label per image, two classes, and two images of some class.")

    def score(self, predictions: Items, targets: Items) -> Columns:
        """From `embedding` (N, C) and `label` (N)."""
        import os

        progress = Progress(len(targets.names), "retrieval", "queries")
        columns = ranking.retrieval(
            np.asarray(predictions.read("embedding"), dtype=np.float32),
            np.asarray(targets.read("label")),
            recalls=RECALLS,
            threads=self.settings.num_workers or os.cpu_count() or 1,
            progress=lambda done, _: progress.advance(done - progress.done),
        )
        progress.finish()
        return columns

    def chance(self, targets: Items, predictions: Items) -> Columns:
        """A random order of the other items; undefined where there is no positive."""
        positives = ranking.count_positives(np.asarray(targets.read("label")))
        expected = ranking.chance(np.maximum(positives, 1), len(positives) - 1, RECALLS)
        return {name: np.where(positives > 0, column, np.nan) for name, column in expected.items()}

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means over the items with a positive."""
        return {m.name: mean_defined(columns[m.column])[0] for m in self.metrics()}

    def oracle(self, targets: Items) -> Items:
        """Every class on an axis of its own."""
        labels = np.asarray(targets.read("label"))
        return ArrayItems(targets.names, {"embedding": np.eye(labels.max() + 1, dtype=np.float32)[labels]})

    def kinds(self) -> dict[str, Callable[[Any, Any], None]]:
        """The image, and those whose embeddings are nearest to its own."""
        return {**super().kinds(), "neighbours": draw_neighbours}

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """The query under its class."""
        if image is not None:
            axes.imshow(image)
        axes.set_axis_off()
        axes.set_title(target["meta"]["classes"][int(target["label"])], fontsize=8, parse_math=False)


build = Retrieval

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("retrieval"))
