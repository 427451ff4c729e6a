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


class Logreg(Head):
    """`scores`: logits, float32 (N, K)."""

    trains = True

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def fit(self, key: str, features: Items, truth: Items, seed: int, threads: int) -> None:
        """Choose the strength, then fit all of train."""
        from benchkit.heads.solvers import multinomial

        rows = np.asarray(features.read(key), dtype=np.float32)
        labels = np.asarray(truth.read("label"))
        n_classes = len(truth.meta["classes"])
        self.reason, strength = "given", self.settings.strength
        if strength is None:
            choice = multinomial.choose_strength(
                rows, labels, n_classes, holdout=self.settings.holdout, seed=seed, names=truth.names, threads=threads
            )
            strength, self.reason = choice.strength, choice.reason
        self.strength = strength
        self.solution = multinomial.fit_path(rows, labels, [strength], n_classes, threads=threads)
        answers = multinomial.logits(self.solution, rows, BLOCK)
        others = np.where(np.arange(n_classes) == labels[:, None], -np.inf, answers).max(axis=1)
        self.train_top1 = float((answers[np.arange(len(rows)), labels] > others).mean())

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """Logits in fixed blocks."""
        from benchkit.heads.solvers import multinomial

        return {"scores": multinomial.logits(self.solution, np.asarray(features.read(key), np.float32), BLOCK)}

    def log(self) -> dict[str, float]:
        """Score on train and the chosen strength."""
        return {"train_top1": self.train_top1, "strength": self.strength}

    def state(self) -> dict[str, np.ndarray]:
        """`weight` (C, K) and `bias` (K)."""
        return {"weight": self.solution.weights[0], "bias": self.solution.intercepts[0]}


build = Logreg
