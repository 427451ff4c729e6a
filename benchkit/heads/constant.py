"""The best prediction that looks at no image: what every score has to beat."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchkit.heads.base import Head, Wants
from benchkit.registry import NoSettings as Settings
from benchkit.store.items import Items

__all__ = ["Constant", "Settings", "build"]


class Constant(Head):
    """For classes: the log of their share in train, so the commonest class is always the answer.

    Classes that never occur in train count half an item. Equal shares are told apart by class order, by the least
    step that float32 has, since ties count against a prediction and a constant answer is one class, not none.
    """

    votes = True
    gives = ("scores",)

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings
        self.scores = np.zeros(0, np.float32)

    def wants(self) -> Wants:
        """Nothing of the image."""
        return Wants(None)

    def fit(self, key: str, features: Items | None, truth: Items, seed: int, threads: int) -> None:
        """Count the classes of the train items."""
        n_classes = len(truth.meta["classes"])
        counts = np.bincount(np.asarray(truth.read("label")), minlength=n_classes)
        self.scores = np.log(np.maximum(counts, 0.5) / max(counts.sum(), 1)).astype(np.float32)
        order = np.argsort(-counts, kind="stable")
        for better, worse in itertools.pairwise(order):
            below = np.nextafter(self.scores[better], np.float32(-np.inf))
            self.scores[worse] = min(self.scores[worse], below)

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """`scores`: float32 (N, K), every row the same."""
        return {"scores": np.tile(self.scores, (len(features.names), 1))}

    def state(self) -> dict[str, np.ndarray]:
        """The one row of scores."""
        return {"scores": self.scores}


build = Constant
