"""Linear probe: one nn.Linear on frozen features, AdamW on cross-entropy (VisBench's protocol).

lr 1e-2, weight decay 1e-4, 200 epochs in batches of 256 at a constant rate, features as they are. Source: VisBench,
visbench/tasks/high_level/classification.py. `train_top1` tells an underfitting probe (both scores low) from features that
do not separate the classes (train_top1 near 1). Linear numbers of DINOv2's paper are another thing: the best of many heads
trained with augmentation, picked on the evaluated items.
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
    """Settings of the training."""

    lr: float = setting(1e-2, "rate of AdamW, constant")
    weight_decay: float = setting(1e-4, "weight decay of AdamW")
    epochs: int = setting(200, "passes over train")
    batch_size: int = setting(256, "train items per step")
    standardize: bool = setting(False, "true: features with mean 0 and standard deviation 1 on train")

    def __post_init__(self) -> None:
        if not 0 < self.lr < np.inf:
            raise ValueError(f"lr is a finite number above 0, not {self.lr}")
        if not 0 <= self.weight_decay < np.inf:
            raise ValueError(f"weight_decay is a finite number, 0 or above, not {self.weight_decay}")
        if self.epochs < 1:
            raise ValueError(f"epochs is at least 1, not {self.epochs}")
        if self.batch_size < 1:
            raise ValueError(f"batch_size is at least 1, not {self.batch_size}")


class Linear(Head):
    """`scores`: logits, float32 (N, K)."""

    trains = True
    gives = ("scores",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def fit(self, key: str, features: Items, truth: Items, seed: int, threads: int) -> None:
        """Train on all of train, rows in name order.

        Raises:
            RunError: the loss did not stay finite; names lr.
        """
        from benchkit.heads.solvers import adamw

        rows, labels = np.asarray(features.read(key)), np.asarray(truth.read("label"))
        recipe = adamw.Recipe(**dataclasses.asdict(self.settings))
        self.layer = adamw.train(rows, labels, len(truth.meta["classes"]), recipe, seed=seed, threads=threads)

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """Logits in fixed blocks."""
        from benchkit.heads.solvers import adamw

        return {"scores": adamw.logits(self.layer, np.asarray(features.read(key)), threads=threads)}

    def log(self) -> dict[str, float]:
        """Score on train (ties are wrong), cross-entropy on train in nats, epochs, and 1 if the loss has come to rest."""
        return {
            "train_top1": self.layer.train_accuracy,
            "train_loss": self.layer.train_loss,
            "epochs": float(self.settings.epochs),
            "converged": float(self.layer.converged),
        }

    def state(self) -> dict[str, np.ndarray]:
        """`weight` (C, K) and `bias` (K) for features as they are; float64 where they were standardised."""
        return {"weight": self.layer.weight, "bias": self.layer.bias}


build = Linear
