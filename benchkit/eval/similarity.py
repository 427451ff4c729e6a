"""Image similarity by two-alternative forced choice: which of two images is more like a third?

The answer is the image, left or right, at the smaller cosine distance to the reference; it is compared with people's vote
(or, of generated triplets, with how they were made). Cosines that differ by less than 2^-22 tie, and a tie is half a right
and half a left answer; a vector of zeros has cosine 0 to everything. f1, precision and recall take "right" as positive.
Source: NIGHTS, Fu et al. 2023, "DreamSim: Learning New Dimensions of Human Visual Similarity using Synthetic Data", and
its code (ssundaram21/dreamsim, dataset/dataset.py and evaluation/score.py). accuracy_imagenet_gap is a sign of
contamination: the accuracy on the triplets of ImageNet's categories less that on the others, undefined without both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval.base import Benchmark, Columns, Metric
from benchkit.metrics import similarity as choice
from benchkit.registry import NoSettings as Settings
from benchkit.store.items import ArrayItems, Items

__all__ = ["Settings", "Similarity", "build"]

COLORS = {1.0: "tab:green", 0.5: "tab:orange", 0.0: "tab:red"}  # by agreement


class Similarity(Benchmark):
    """See the module."""

    level = "mid"
    source = "2AFC as on NIGHTS (Fu et al. 2023, DreamSim)"
    defaults: Mapping[str, Any] = {"data": {"name": "scene_triplets"}, "model": {"head": {"name": "embed"}}}
    folder = "triplets"
    needs = ("embedding",)
    floor_head = None

    def metrics(self) -> list[Metric]:
        """The headline is accuracy."""
        return [
            Metric("accuracy", "higher", "share of answers that are the vote; a tie is half of one", column="accuracy"),
            Metric("f1", "higher", 'harmonic mean of precision and recall of the answer "right"'),
            Metric("precision", "higher", 'share of the answers "right" that are the vote'),
            Metric("recall", "higher", 'share of the votes "right" that are the answer'),
            Metric("tie_rate", "neither", "share of items without an answer: both images equally near", column="tie"),
            Metric("share_right", "neither", 'share of "right" among the votes: what always saying so would score'),
            Metric("accuracy_imagenet_gap", "neither", "accuracy on ImageNet's categories less that on the others"),
        ]

    def check(self, truth: Items) -> None:
        """Every item has three views and a vote."""
        views = truth.read("views") if "views" in truth else [""]
        if "vote" not in truth or any(each.count("\n") != 2 for each in views):
            raise UsageError(
                "similarity needs data whose items are three views (reference, left, right) and a vote: triplets, or "
                "scene_triplets (data.name=NAME)."
            )

    def score(self, predictions: Items, targets: Items) -> Columns:
        """From `embedding` (N, 3, C) and `vote` (N), 1 where people chose the right image."""
        cosines = choice.cosines(np.asarray(predictions.read("embedding")))
        return _columns(choice.answers(cosines), targets)

    def chance(self, targets: Items, predictions: Items) -> Columns:
        """One feature for every image: all items are ties."""
        return _columns(np.full(len(targets.names), 0.5), targets)

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means, and the scores of the answer "right" from the answers and votes themselves."""
        accuracy, votes = columns["accuracy"], columns["stats/vote"]
        return {
            "accuracy": float(accuracy.mean()),
            **choice.positives(columns["stats/answer"], votes),
            "tie_rate": float(columns["tie"].mean()),
            "share_right": float(votes.mean()),
            "accuracy_imagenet_gap": _gap(accuracy, columns["stats/imagenet"]),
        }

    def breakdown(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, float | None]:
        """accuracy/<kind> of triplets that come in kinds; None for a kind without items."""
        if "stats/kind" not in columns:
            return {}
        rows = [columns["accuracy"][columns["stats/kind"] == number] for number in range(len(meta["kinds"]))]
        named = zip(meta["kinds"], rows, strict=True)
        return {f"accuracy/{kind}": float(some.mean()) if len(some) else None for kind, some in named}

    def oracle(self, targets: Items) -> Items:
        """The chosen image has the reference's vector, the other one at a right angle."""
        right = np.asarray(targets.read("vote"))[:, None] == 1
        near, far = np.eye(2, dtype=np.float32)
        views = [np.broadcast_to(near, (len(right), 2)), np.where(right, far, near), np.where(right, near, far)]
        return ArrayItems(targets.names, {"embedding": np.stack(views, axis=1)})

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Reference, left and right side by side under vote and answer; right ones in green, wrong in red, ties orange."""
        cosines = choice.cosines(np.asarray(prediction["embedding"])[None])
        answer, vote = float(choice.answers(cosines)[0]), float(target["vote"])
        if image is not None:
            axes.imshow(image)
        axes.set_axis_off()
        said = {0.0: "left", 0.5: "tie", 1.0: "right"}
        title = f"vote {said[vote]}, answer {said[answer]}\ncosine {cosines[0, 0]:.3f} | {cosines[0, 1]:.3f}"
        color = COLORS[float(choice.agreement(np.array(answer), np.array(vote)))]
        axes.set_title(title, color=color, fontsize=8, parse_math=False)


def _columns(answers: np.ndarray, targets: Items) -> Columns:
    """Agreement and ties per item, and what the scores of the whole set are resampled from."""
    votes = np.asarray(targets.read("vote"), dtype=np.float64)
    columns = {"accuracy": choice.agreement(answers, votes), "tie": (answers == 0.5).astype(np.float64)}
    columns |= {"stats/answer": answers, "stats/vote": votes, "stats/imagenet": _imagenet(targets)}
    return {**columns, "stats/kind": np.asarray(targets.read("kind"))} if "kind" in targets else columns


def _imagenet(targets: Items) -> np.ndarray:
    """(N,) 1 for triplets of ImageNet's categories, 0 for others, NaN where the data do not say."""
    if "category/imagenet" not in targets:
        return np.full(len(targets.names), np.nan)
    return np.array([{"yes": 1.0, "no": 0.0}.get(each, np.nan) for each in targets.read("category/imagenet")])


def _gap(accuracy: np.ndarray, imagenet: np.ndarray) -> float | None:
    halves = [accuracy[imagenet == 1], accuracy[imagenet == 0]]
    return float(halves[0].mean() - halves[1].mean()) if all(len(half) for half in halves) else None


build = Similarity

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("similarity"))
