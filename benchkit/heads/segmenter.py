"""The mask head a model already has: its own classes, mapped to the data set's, pixel by pixel.

The model's maps of its own classes (logits before they are enlarged, as a rule) are resized bilinearly to the scored frame and
the largest class wins, as segmentation models are evaluated (torchvision's references/segmentation, MMSegmentation). Labels
are matched by name as the head classifier does; of several labels for one class the probabilities are added (the logarithm
of the sum of exponentials of their logits). Only matched labels compete: a class of the data set without a label is never
predicted, and is counted. Of a binary task every label that is not background is foreground. A benchmark with a taxonomy of its
own says what labels become (`Benchmark.project`): unless the model has exactly the data set's classes, or the conf maps them,
the largest label wins and is then projected.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from benchkit.errors import UsageError, some
from benchkit.heads._labels import REST, Matching, counts, plain
from benchkit.heads.base import Head, ModelSide, Wants
from benchkit.settings import setting


@dataclasses.dataclass
class Settings:
    """How labels are matched."""

    map: dict[str, str] = setting(
        {},
        "class -> label of the model where their names differ; several with commas, * for all labels that are no other class's",
    )


class Segmenter(Head):
    """`mask`: class indices in each item's frame; `grid`: rows and columns of the model's own maps."""

    gives = ("mask",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.projection: Any = None

    def wants(self) -> Wants:
        """The model's maps of its classes."""
        return Wants("patch", pool="masks")

    def prepare(self, model: ModelSide, meta: Mapping[str, Any]) -> list[str]:
        """Match the classes.

        Raises:
            UsageError: the benchmark scores no masks, nobody names the model's classes, too few are the data set's, or the
                map is wrong.
        """
        task = meta.get("task")
        if task not in ("semantic", "binary"):
            raise UsageError(
                "the head segmenter predicts masks, and this benchmark does not score them: use it with "
                "semantic_segmentation or generic_segmentation."
            )
        if not model.labels:
            raise UsageError(
                f"nobody says what the classes of {model.name}'s masks are, so they cannot be matched to the data set's: name "
                "them with model.backbone.labels (names, a list that ships with benchkit such as voc, or a file of them), or "
                "train a head (model.head.name=dense_linear)."
            )
        classes, said = list(meta["classes"]), dict(self.settings.map)
        self.adds, self.projection, project = model.masks_are, None, meta.get("project")
        if project and not said and not _same_names(model.labels, classes):
            self.projection, self.n_labels = project([names for _, names in model.labels]), len(model.labels)
            self._say_near(model.name, self.projection.near)
            return []
        if task == "binary":
            said.setdefault(classes[1], REST)
        self.matching = Matching(model, classes, list(meta.get("class_names") or classes), said)
        lacking = [name for number, name in enumerate(classes) if number not in self.matching.matched]
        if lacking:
            self.say(
                f"{model.name} has no label for {some(lacking)}, so "
                f"{'they are' if len(lacking) > 1 else 'it is'} never predicted; model.head.map.CLASS=LABEL names one."
            )
        return []

    def _say_near(self, name: str, near: Sequence[str]) -> None:
        if near:
            self.say(
                f"{name}: labels are mapped by exact name, so {some(near)} {'are' if len(near) > 1 else 'is'} neither wall nor "
                "window; model.head.map.CLASS=LABEL says otherwise."
            )

    def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
        """Of maps (a `benchkit.store.maps.Maps`): `mask`, uint8 (uint16 above 255 classes) (h, w), and `grid`, int32 (N, 2).

        Raises:
            UsageError: the maps have another number of classes than there are names.
        """
        from benchkit.heads.solvers import dense_masks

        if self.projection is not None:
            each = {label: [label] for label in range(self.n_labels)}
            classes = self.projection.classes
            return dense_masks.predict(features, each, self.n_labels, self.n_labels, self.adds, threads, classes)
        known = self.matching
        return dense_masks.predict(features, known.matched, len(known.names), len(known.classes), self.adds, threads)

    def meta(self) -> dict[str, Any]:
        """`covered`: the classes that have a label; `map`: which. Of projected labels `labels: shared`, and what they became."""
        if self.projection is not None:
            return {"labels": "shared", "map": self.projection.told}
        known = self.matching
        return {"covered": sorted(known.matched), "map": known.told(), "ambiguous": known.ambiguous}

    def protocol(self) -> dict[str, Any]:
        """Other labels give other masks."""
        return {"map": self.projection.told if self.projection is not None else self.matching.told()}

    def log(self) -> dict[str, float]:
        """How many of the data set's classes can be predicted, of how many, and how many classes the model has; of projected
        labels how many are wall or window, of how many.
        """
        if self.projection is not None:
            return {"mapped_labels": float((self.projection.classes > 0).sum()), "model_classes": float(self.n_labels)}
        return counts(getattr(self, "matching", None))


def _same_names(labels: Sequence[tuple[str, tuple[str, ...]]], classes: Sequence[str]) -> bool:
    """Whether a model has the data set's classes and no other, in whatever order."""
    return sorted(plain(names[0]) for _, names in labels if names) == sorted(map(plain, classes))


build = Segmenter
