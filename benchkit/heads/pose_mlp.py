"""Relative pose from two pooled vectors: a small network that says how the second camera stands to the first.

VisBench's protocol (visbench 0.27: tasks/mid_level/pose.py, heads/pose.py): both views' features side by side through a batch
normalisation, layers of 512, 256 and 128 with ReLU, and seven numbers, a quaternion (w first) and a translation in metres; mean
squared error of the seven, AdamW at 1e-3 falling to 0 along a cosine by epochs, weight decay 1e-4, 30 epochs in batches of 128.
A quaternion and its negative are one rotation: by default the loss takes the nearer of the two, VisBench's takes the one whose
largest component is positive. More pairs help to the end (VisBench measured up to 16 partners per photo), so numbers are only
comparable on the same train pairs; `train_loss` tells an underfitting head from one that has learned its pairs by heart.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from benchkit.heads.base import Head, Wants
from benchkit.settings import setting
from benchkit.store.items import Items


@dataclasses.dataclass
class Settings:
    """Settings of the network and its training."""

    hidden: list[int] = setting(
        [512, 256, 128], "widths between the pair's features and the seven numbers; []: one layer"
    )
    lr: float = setting(1e-3, "rate of AdamW at the start; it falls to 0 along a cosine")
    weight_decay: float = setting(1e-4, "weight decay of AdamW")
    epochs: int = setting(30, "passes over train")
    batch_size: int = setting(128, "train pairs per step")
    either_sign: bool = setting(
        True, "true: of q and -q the loss takes the nearer; false: the one with its largest component positive"
    )

    def __post_init__(self) -> None:
        if not 0 < self.lr < np.inf:
            raise ValueError(f"lr is a finite number above 0, not {self.lr}")
        if not 0 <= self.weight_decay < np.inf:
            raise ValueError(f"weight_decay is a finite number, 0 or above, not {self.weight_decay}")
        if self.epochs < 1 or self.batch_size < 2 or any(each < 1 for each in self.hidden):
            raise ValueError("epochs and widths are at least 1, and batch_size at least 2: one pair has no variance")


class PoseMlp(Head):
    """`quaternion`: float32 (N, 4), w first, of length 1; `translation`: float32 (N, 3), metres: X1 = R X0 + t."""

    trains = True
    gives = ("quaternion", "translation")

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def wants(self) -> Wants:
        """Pooled vectors of both views."""
        return Wants(views=2)

    def fit(self, key: str, features: Items, truth: Items, seed: int, threads: int) -> None:
        """Train on all of train, pairs in name order.

        Raises:
            UsageError: there is one pair only.
            RunError: the loss did not stay finite; names lr.
        """
        from benchkit.geometry.rotation import to_quaternion
        from benchkit.heads.solvers import pose_net

        rotations, moves = (np.asarray(truth.read(name), np.float64) for name in ("R", "t"))
        target = np.concatenate([to_quaternion(rotations), moves], axis=1).astype(np.float32)
        recipe = pose_net.Recipe(**{**dataclasses.asdict(self.settings), "hidden": tuple(self.settings.hidden)})
        self.net = pose_net.train(_side_by_side(features, key), target, recipe, seed=seed, threads=threads)

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """In fixed blocks."""
        from benchkit.heads.solvers import pose_net

        said = pose_net.predict(self.net, _side_by_side(features, key), threads=threads)
        length = np.linalg.norm(said[:, :4], axis=1, keepdims=True)
        none = np.array([1, 0, 0, 0], np.float32)  # of length 0 it says nothing: no turn
        turn = np.where(length > 0, said[:, :4] / np.where(length > 0, length, 1), none)
        return {"quaternion": turn, "translation": said[:, 4:]}

    def meta(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def log(self) -> dict[str, float]:
        """Mean squared error of the seven numbers on train after the last step, train pairs, epochs."""
        return {
            "train_loss": self.net.train_loss,
            "train_pairs": float(self.net.pairs),
            "epochs": float(self.settings.epochs),
        }

    def state(self) -> dict[str, np.ndarray]:
        """`norm.*` of the batch normalisation, `<i>.weight` and `<i>.bias` of the layers in their order."""
        return dict(self.net.state)


def _side_by_side(features: Items, key: str) -> np.ndarray:
    """(N, 2, C) -> (N, 2 C)."""
    rows = np.asarray(features.read(key))
    return rows.reshape(len(rows), -1)


build = PoseMlp
