"""Multinomial logistic regression on frozen features; its strength is chosen on a held-out part of train.

Source: Oquab et al. 2023, "DINOv2", and its logistic-regression evaluation: 45 strengths C = 10^linspace(-6, 5), 10 % of
train held out, refit on all of train at the best.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from benchkit.heads.base import Head
from benchkit.settings import setting
from benchkit.store.items import Items

BLOCK = 1024  # rows that are multiplied together: fixed, so that a row's bits do not depend on how many there are


@dataclasses.dataclass
class Settings:
    """Settings of the fit."""

    strength: float | None = setting(
        None, "C, the inverse of the regularisation; default: chosen among 45 on the hold-out"
    )
    holdout: float = setting(0.1, "share of train on which the strength is chosen, stratified")

    def __post_init__(self) -> None:
        if self.strength is not None and not 0 < self.strength < np.inf:
            raise ValueError(f"strength is a finite number above 0, not {self.strength}")
        if not 0 < self.holdout < 1:
            raise ValueError(f"holdout lies between 0 and 1, not {self.holdout}")


class Logreg(Head):
    """`scores`: logits, float32 (N, K)."""

    trains = True
    gives = ("scores",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def fit(self, key: str, features: Items, truth: Items, seed: int, threads: int) -> None:
        """Choose the strength, then fit all of train."""
        from benchkit.heads.solvers import multinomial

        rows = np.asarray(features.read(key), dtype=np.float32)
        labels = np.asarray(truth.read("label"))
        names, n_classes = list(truth.names), len(truth.meta["classes"])
        order = np.argsort(names, kind="stable")
        if (np.diff(order) < 0).any():  # sums in another order are other sums, and two strengths may be as good
            rows, labels, names = rows[order], labels[order], [names[place] for place in order]
        strength, self.holdout_items = self.settings.strength, 0
        if strength is None:
            choice = multinomial.choose_strength(
                rows, labels, n_classes, holdout=self.settings.holdout, seed=seed, names=names, threads=threads
            )
            strength, self.holdout_items = choice.strength, len(rows) - len(choice.train_rows)
        self.solution = multinomial.fit(rows, labels, strength, n_classes, threads=threads)

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """Logits in fixed blocks."""
        from benchkit.heads.solvers import multinomial

        return {"scores": multinomial.logits(self.solution, np.asarray(features.read(key), np.float32), BLOCK)}

    def log(self) -> dict[str, float]:
        """Score on train (ties are wrong), the strength, on how many held-out items it was chosen (0: it was given, or a
        class has one item and C = 1), and 1 if the fit converged.
        """
        return {
            "train_top1": float(self.solution.train_accuracy[0]),
            "strength": self.solution.strengths[0],
            "holdout_items": float(self.holdout_items),
            "converged": float(self.solution.converged[0]),
        }

    def state(self) -> dict[str, np.ndarray]:
        """`weight` (C, K) and `bias` (K)."""
        return {"weight": self.solution.weights[0], "bias": self.solution.intercepts[0]}


build = Logreg
