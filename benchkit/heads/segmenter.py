"""The mask head a model already has: its own classes, mapped to the data set's, pixel by pixel.

The model's maps of its own classes (logits before they are enlarged, as a rule) are resized bilinearly to the scored frame and
the largest class wins, as segmentation models are evaluated (torchvision's references/segmentation, MMSegmentation). Labels
are matched by name as the head classifier does; of several labels for one class the probabilities are added (the logarithm
of the sum of exponentials of their logits). Only matched labels compete: a class of the data set without a label is never
predicted, and is counted. Of a binary task every label that is not background is foreground.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from benchkit.errors import UsageError
from benchkit.heads._labels import REST, Matching, counts
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
        if task == "binary":
            said.setdefault(classes[1], REST)
        self.matching = Matching(model, classes, list(meta.get("class_names") or classes), said)
        self.adds = model.masks_are
        return []

    def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
        """Of maps (a `benchkit.store.maps.Maps`): `mask`, uint8 (uint16 above 255 classes) (h, w), and `grid`, int32 (N, 2).

        Raises:
            UsageError: the maps have another number of classes than there are names.
        """
        from benchkit.heads.solvers import dense_masks

        known = self.matching
        return dense_masks.predict(features, known.matched, len(known.names), len(known.classes), self.adds, threads)

    def meta(self) -> dict[str, Any]:
        """`covered`: the classes that have a label; `map`: which."""
        known = self.matching
        return {"covered": sorted(known.matched), "map": known.told(), "ambiguous": known.ambiguous}

    def protocol(self) -> dict[str, Any]:
        """Other labels give other masks."""
        return {"map": self.matching.told()}

    def log(self) -> dict[str, float]:
        """How many of the data set's classes can be predicted, of how many, and how many classes the model has."""
        return counts(getattr(self, "matching", None))


build = Segmenter
