"""Image classification: what class is shown?

Top-1, top-5 and mean class accuracy; negative log-likelihood in nats; expected calibration error over 15 equal bins (Guo
et al. 2017, "On Calibration of Modern Neural Networks"). Ties count against the prediction. Default head: logistic
regression (DINOv2's protocol). Likelihood is undefined for heads that vote; top-5 where there are five classes or fewer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchkit.errors import RunError, UsageError
from benchkit.eval.base import Benchmark, Columns, Metric
from benchkit.metrics import classification as scores_of
from benchkit.metrics.intervals import mean_defined
from benchkit.settings import setting
from benchkit.store.items import ArrayItems, Items


@dataclasses.dataclass
class Settings:
    """Settings of the scores."""

    ece_bins: int = setting(15, "equal-width bins of the expected calibration error")

    def __post_init__(self) -> None:
        if self.ece_bins < 1:
            raise ValueError(f"ece_bins is at least 1, not {self.ece_bins}")


class Classification(Benchmark):
    """See the module."""

    level = "high"
    source = "top-1 as on ImageNet (Russakovsky et al. 2015); logistic regression as in DINOv2 (Oquab et al. 2023)"
    defaults: Mapping[str, Any] = {"data": {"name": "scenes"}, "model": {"head": {"name": "logreg"}}}
    needs = ("scores",)

    def metrics(self) -> list[Metric]:
        """The headline is top1."""
        return [
            Metric("top1", "higher", "share of items whose own class scores highest", column="top1"),
            Metric("top5", "higher", "share of items whose own class is among the five highest", column="top5"),
            Metric("mean_class_acc", "higher", "top-1 per class, then the mean over the classes that occur"),
            Metric("nll", "lower", "mean negative log-likelihood of the true class", "nats", column="nll"),
            Metric("ece", "lower", "expected calibration error of the highest class's probability"),
        ]

    def check(self, truth: Items) -> None:
        """Labels need at least two classes."""
        if "label" not in truth or len(truth.meta.get("classes", ())) < 2:
            raise UsageError("classification needs data with a label per image and at least two classes.")

    def score(self, predictions: Items, targets: Items) -> Columns:
        """From `scores` (N, K) and `label` (N)."""
        scores, labels = np.asarray(predictions.read("scores")), np.asarray(targets.read("label"))
        _check(scores, len(targets.meta["classes"]), predictions.meta["scores_are"])
        votes = predictions.meta["scores_are"] == "votes"
        columns: Columns = {}
        for name, k in (("top1", 1), ("top5", 5)):
            hit = scores_of.top_k(scores, labels, k)
            if hit is not None:
                columns[name] = hit.astype(np.float64)
        if not votes:
            columns["nll"] = scores_of.nll(scores, labels)
        sure = scores_of.confidence(scores, votes=votes)
        return {**columns, "stats/confidence": sure, "stats/label": labels}

    def chance(self, targets: Items) -> Columns:
        """A class at random, all equally likely: the floor of heads that learn nothing from train."""
        labels, n_classes = np.asarray(targets.read("label")), len(targets.meta["classes"])
        share = np.full(len(labels), 1 / n_classes)
        columns = {"top1": share, "nll": -np.log(share), "stats/confidence": share, "stats/label": labels}
        return {**columns, "top5": 5 * share} if n_classes > 5 else columns

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means, and the two scores that are no mean over items."""
        correct, labels = columns["top1"], columns["stats/label"]
        return {
            **{name: mean_defined(columns[name])[0] if name in columns else None for name in ("top1", "top5", "nll")},
            "mean_class_acc": scores_of.mean_class_accuracy(correct, labels),
            "ece": scores_of.ece(columns["stats/confidence"], correct, self.settings.ece_bins),
        }

    def oracle(self, targets: Items) -> Items:
        """Certainty in the true class."""
        n_classes = len(targets.meta["classes"])
        scores = np.where(np.arange(n_classes) == np.asarray(targets.read("label"))[:, None], 100.0, 0.0)
        return ArrayItems(targets.names, {"scores": scores}, {"scores_are": "logits"})

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """The image under its class, and under the answer where that is another; right ones in green, wrong in red."""
        classes = target["meta"]["classes"]
        truth = classes[int(target["label"])]
        scores = np.asarray(prediction["scores"])
        others = np.delete(scores, int(target["label"]))
        right = bool((scores[int(target["label"])] > others).all())
        if image is not None:
            axes.imshow(image)
        axes.set_axis_off()
        title = truth if right else f"{truth}\ntaken for {classes[int(scores.argmax())]}"
        axes.set_title(title, color="tab:green" if right else "tab:red", fontsize=8, parse_math=False)


def _check(scores: np.ndarray, n_classes: int, scores_are: str) -> None:
    if scores.ndim != 2 or scores.shape[1] != n_classes:
        raise RunError(
            f"the head gave scores of shape {scores.shape}, and there are {n_classes} classes: (items, classes) is due."
        )
    if scores_are not in ("logits", "votes"):
        raise RunError(f"the head calls its scores {scores_are!r}; classification reads logits and votes.")


build = Classification

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("classification"))
