"""k nearest neighbours as in DINO's evaluation: cosine, k = 20, votes weighted by exp(similarity / 0.07).

Source: Caron et al. 2021, "Emerging Properties in Self-Supervised Vision Transformers", and its eval_knn code.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from benchkit.heads.base import Head
from benchkit.settings import setting
from benchkit.store.items import Items


@dataclasses.dataclass
class Settings:
    """Settings of the vote."""

    k: int = setting(20, "neighbours that vote; more than there are train items means all of them, which is recorded")
    temperature: float = setting(0.07, "a vote weighs exp(cosine / temperature)")

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k is at least 1, not {self.k}")
        if not 0 < self.temperature < np.inf:
            raise ValueError(f"temperature is a finite number above 0, not {self.temperature}")


class Knn(Head):
    """`scores`: votes per class. An item that is also in train never sees itself."""

    votes = True
    gives = ("scores",)
    scores_are = "votes"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def fit(self, key: str, features: Items, truth: Items, seed: int, threads: int) -> None:
        """Keep the train items: there is nothing to learn."""
        from benchkit.heads.solvers import neighbours

        self.train = np.asarray(features.read(key), dtype=np.float32)
        self.labels = np.asarray(truth.read("label"))
        self.rows = {name: row for row, name in enumerate(truth.names)}
        self.n_classes = len(truth.meta["classes"])
        self.k = neighbours.effective_k(self.settings.k, len(self.train))

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """Votes, float32 (N, K)."""
        from benchkit.heads.solvers import neighbours

        itself = np.array([self.rows.get(name, -1) for name in features.names], dtype=np.int64)
        self.k = neighbours.effective_k(self.settings.k, len(self.train), skip_self=bool((itself >= 0).any()))
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
        """How many neighbours vote: fewer than `model.head.k` where train has no more, the item itself left out."""
        return {"k": float(self.k)}


build = Knn
