"""The model's own classifier, on the classes that it and the data set share.

Its labels are matched to the data set's classes by WordNet id or by name (any of a label's names; case, `_` and `-` aside).
Only matched labels compete, as is usual on subsets of ImageNet (Hendrycks et al. 2021, "Natural Adversarial Examples" and
ImageNet-R); a class of several labels has the sum of their probabilities. Items of a class without a label have no score,
and are counted. A name that fits several labels (crane: a bird, a machine) is no match until model.head.map says which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.heads._labels import Matching, counts
from benchkit.heads.base import Head, ModelSide, Wants
from benchkit.settings import setting
from benchkit.store.items import Items


@dataclasses.dataclass
class Settings:
    """How labels are matched."""

    map: dict[str, str] = setting(
        {}, "class -> label of the model, by WordNet id or name, where they cannot be matched; several with commas"
    )


class Classifier(Head):
    """`scores`: log-probabilities (N, K) up to a constant; -inf in the columns of classes without a label."""

    gives = ("scores",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def wants(self) -> Wants:
        """The model's logits."""
        return Wants(pool="logits")

    def prepare(self, model: ModelSide, meta: Mapping[str, Any]) -> list[str]:
        """Match the classes.

        Raises:
            UsageError: nobody names the model's classes, none is a class of the data set, or the map is wrong.
        """
        if not model.labels:
            raise UsageError(
                f"nobody says what the classes of {model.name}'s classifier are, so they cannot be matched to the data set's: "
                "use a trained head (model.head.name=logreg)."
            )
        classes = list(meta["classes"])
        self.matching = Matching(model, classes, list(meta.get("class_names") or classes), self.settings.map)
        return []

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """Log of the summed probabilities of each class's labels, up to one constant a row."""
        logits = np.asarray(features.read(key), np.float64)
        known = self.matching
        if logits.shape[1] != len(known.names):
            raise UsageError(
                f"the model's logits have {logits.shape[1]} classes and {len(known.names)} names: they are another list's."
            )
        scores = np.full((len(logits), len(known.classes)), -np.inf, np.float32)
        for number, labels in known.matched.items():
            scores[:, number] = np.logaddexp.reduce(logits[:, labels], axis=1)
        return {"scores": scores}

    def meta(self) -> dict[str, Any]:
        """`covered`: the classes that have a label; `map`: which."""
        known = self.matching
        return {
            **super().meta(),
            "covered": sorted(known.matched),
            "map": known.told(),
            "ambiguous": known.ambiguous,
        }

    def protocol(self) -> dict[str, Any]:
        """Scores on other classes are other scores."""
        return {"covered": list(self.matching.told())}

    def log(self) -> dict[str, float]:
        """How many of the data set's classes are scored, of how many, and how many classes the model has."""
        return counts(getattr(self, "matching", None))


build = Classifier
