"""Image classification: what class is shown?

Top-1, top-5 and mean class accuracy; negative log-likelihood in nats; expected calibration error over 15 equal bins (Guo
et al. 2017, "On Calibration of Modern Neural Networks"). Ties count against the prediction. Default head: logistic
regression (DINOv2's protocol). Likelihood is undefined for heads that vote, and calibration too for margins (ridge); top-5
where there are five classes or fewer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchkit.errors import RunError, UsageError
from benchkit.eval.base import Benchmark, Columns, Metric
from benchkit.metrics import classification as scores_of
from benchkit.metrics.intervals import mean_defined
from benchkit.settings import setting
from benchkit.store.items import ArrayItems, Items

KINDS = ("logits", "votes", "margins")  # what scores can be; margins have an order and no probabilities


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
        """From `scores` (N, K), or (N, D, K) of D draws whose mean counts, and `label` (N).

        Where the predictions' meta says which classes are `covered`, only those compete, and items of others have no score.
        """
        scores, labels = np.asarray(predictions.read("scores")), np.asarray(targets.read("label"))
        kind = predictions.meta["scores_are"]
        _check(scores, len(targets.meta["classes"]), kind)
        covered = predictions.meta.get("covered")
        if covered is None:
            return {**_columns(scores, labels, kind), "stats/label": labels}
        classes = np.asarray(covered, dtype=np.int64)
        kept = np.isin(labels, classes)
        found = _columns(scores[kept][..., classes], np.searchsorted(classes, labels[kept]), kind)
        found["stats/predicted"] = classes[found["stats/predicted"]]
        return {**{name: _spread(column, kept) for name, column in found.items()}, "stats/label": labels}

    def chance(self, targets: Items, predictions: Items) -> Columns:
        """A class at random, all that compete equally likely: the floor of heads that learn nothing from train."""
        labels, covered = np.asarray(targets.read("label")), predictions.meta.get("covered")
        n_classes = len(targets.meta["classes"] if covered is None else covered)
        share = np.full(len(labels), 1 / n_classes)
        if covered is not None:
            share[~np.isin(labels, covered)] = np.nan
        columns = {"top1": share, "nll": -np.log(share), "stats/confidence": share, "stats/label": labels}
        return {**columns, "top5": 5 * share} if n_classes > 5 else columns

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means, and the two scores that are no mean over items."""
        scored = ~np.isnan(columns["top1"])
        correct, labels = columns["top1"][scored], columns["stats/label"][scored]
        sure = columns.get("stats/confidence")
        return {
            **{name: mean_defined(columns[name])[0] if name in columns else None for name in ("top1", "top5", "nll")},
            "mean_class_acc": scores_of.mean_class_accuracy(correct, labels),
            "ece": None if sure is None else scores_of.ece(sure[scored], correct, self.settings.ece_bins),
        }

    def breakdown(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, float | None]:
        """top1/<class>, None for a class that does not occur or is not scored."""
        shares = scores_of.class_accuracies(columns["top1"], columns["stats/label"], len(meta["classes"]))
        named = zip(meta["classes"], shares.tolist(), strict=True)
        return {f"top1/{name}": None if share != share else share for name, share in named}

    def pictures(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, Callable[[Any], None]]:
        """The confusion matrix and the reliability diagram, where the head gives one answer, and probabilities."""
        from benchkit.viz import classification as viz

        found: dict[str, Callable[[Any], None]] = {}
        if "stats/predicted" in columns:
            answers = columns["stats/predicted"].astype(np.int64)
            counts = scores_of.confusion(columns["stats/label"], answers, len(meta["classes"]))
            found["confusion"] = lambda figure: viz.confusion(figure, counts, meta["classes"])
        if "stats/confidence" in columns:
            scored = ~np.isnan(columns["top1"])
            sure, right = columns["stats/confidence"][scored], columns["top1"][scored]
            bins = scores_of.calibration(sure, right, self.settings.ece_bins)
            found["reliability"] = lambda figure: viz.reliability(figure, *bins)
        return found

    def oracle(self, targets: Items) -> Items:
        """Certainty in the true class."""
        n_classes = len(targets.meta["classes"])
        scores = np.where(np.arange(n_classes) == np.asarray(targets.read("label"))[:, None], 100.0, 0.0)
        return ArrayItems(targets.names, {"scores": scores}, {"scores_are": "logits"})

    def kinds(self) -> dict[str, Callable[[Any, Any], None]]:
        """The image, and the highest scores."""
        return {**super().kinds(), "scores": _draw_scores}

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """The image under its class, and under the answer where that is another; right ones in green, wrong in red.

        Of several draws of the training items the commonest wrong answer is shown, and how many of them are right.
        """
        classes, label = target["meta"]["classes"], int(target["label"])
        draws = np.atleast_2d(np.asarray(prediction["scores"]))
        right = (draws[:, [label]] > np.delete(draws, label, axis=1)).all(axis=1)
        if image is not None:
            axes.imshow(image)
        axes.set_axis_off()
        title = classes[label]
        if not right.all():
            title += f"\ntaken for {classes[int(np.bincount(draws[~right].argmax(axis=1)).argmax())]}"
        if len(draws) > 1:
            title += f"\nright in {right.sum()} of {len(draws)} draws"
        colour = "tab:green" if 2 * right.sum() > len(draws) else "tab:red"
        axes.set_title(title, color=colour, fontsize=8, parse_math=False)


def _draw_scores(axes: Any, item: Any) -> None:
    from benchkit.viz import classification as viz

    scores = np.atleast_2d(np.asarray(item.prediction["scores"], np.float64)).mean(axis=0)
    covered = item.said.get("covered")
    competing = np.arange(len(scores)) if covered is None else np.asarray(covered, np.int64)
    viz.highest(
        axes, scores, competing, int(item.target["label"]), item.target["meta"]["classes"], item.said["scores_are"]
    )


def _columns(scores: np.ndarray, labels: np.ndarray, kind: str) -> Columns:
    """Per-item columns of scores (N, K), or the means of (N, D, K) over the draws, which are not one answer any more."""
    if scores.ndim == 3:
        draws = [_columns(scores[:, draw], labels, kind) for draw in range(scores.shape[1])]
        return {name: np.mean([each[name] for each in draws], axis=0) for name in draws[0] if "/" not in name}
    columns: Columns = {}
    for name, k in (("top1", 1), ("top5", 5)):
        hit = scores_of.top_k(scores, labels, k)
        if hit is not None:
            columns[name] = hit.astype(np.float64)
    if kind == "logits":
        columns["nll"] = scores_of.nll(scores, labels)
    if kind != "margins":
        columns["stats/confidence"] = scores_of.confidence(scores, votes=kind == "votes")
    return {**columns, "stats/predicted": scores_of.predicted(scores, labels)}


def _spread(column: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The column over all items: NaN, or -1 of whole numbers, where an item was left out."""
    empty = np.nan if column.dtype.kind == "f" else -1
    full = np.full(len(kept), empty, column.dtype)
    full[kept] = column
    return full


def _check(scores: np.ndarray, n_classes: int, scores_are: str) -> None:
    if scores.ndim not in (2, 3) or scores.shape[-1] != n_classes or 0 in scores.shape[1:]:
        raise RunError(
            f"the head gave scores of shape {scores.shape}, and there are {n_classes} classes: (items, classes) or (items, "
            "draws, classes) is due."
        )
    if scores_are not in KINDS:
        raise RunError(f"the head calls its scores {scores_are!r}; classification reads {', '.join(KINDS)}.")


build = Classification

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("classification"))
