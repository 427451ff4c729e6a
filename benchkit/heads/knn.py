"""k nearest neighbours as in DINO's evaluation: cosine, k = 20, votes weighted by exp(similarity / 0.07).

Source: Caron et al. 2021, "Emerging Properties in Self-Supervised Vision Transformers", and its eval_knn code.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.heads.base import Head
from benchkit.settings import setting
from benchkit.store.items import Items


@dataclasses.dataclass
class Settings:
    """Settings of the vote."""

    k: int = setting(20, "neighbours that vote; more than there are train items means all of them, which is recorded")
    temperature: float = setting(0.07, "a vote weighs exp(cosine / temperature)")


class Knn(Head):
    """`scores`: votes per class. An item that is also in train never sees itself."""

    votes = True
    scores_are = "votes"

    def __init__(self, settings: Settings) -> None:
        if settings.k < 1 or settings.temperature <= 0:
            raise UsageError(
                f"model.head.k={settings.k} and model.head.temperature={settings.temperature} must be above 0."
            )
        self.settings = settings

    def fit(self, key: str, features: Items, truth: Items, seed: int, threads: int) -> None:
        """Keep the train items: there is nothing to learn."""
        self.train = np.asarray(features.read(key), dtype=np.float32)
        self.labels = np.asarray(truth.read("label"))
        self.rows = {name: row for row, name in enumerate(truth.names)}
        self.n_classes = len(truth.meta["classes"])

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """Votes, float32 (N, K)."""
        from benchkit.heads.solvers import neighbours

        itself = np.array([self.rows.get(name, -1) for name in features.names], dtype=np.int64)
        scores = neighbours.vote(
            self.train,
            self.labels,
            np.asarray(features.read(key), dtype=np.float32),
            self.n_classes,
            k=self.settings.k,
            temperature=self.settings.temperature,
            skip_self=itself,
            threads=threads,
        )
        return {"scores": scores}

    def log(self) -> dict[str, float]:
        """How many neighbours could vote."""
        return {"k": float(min(self.settings.k, len(self.train)))}


build = Knn
