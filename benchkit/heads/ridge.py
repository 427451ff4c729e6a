"""Few-shot ridge regression: a few train items per class, closed form (big_vision's few-shot probe).

Standardised features, targets +1 and -1, a bias column of 100, strength 2^10, three draws of the shots. Source: big_vision,
big_vision/evaluators/fewshot_lsr.py and big_vision/configs/common_fewshot.py (Zhai et al. 2022, "Scaling Vision
Transformers"). Its predecessors in Scenic and V-MoE tried 2^-10 to 2^19 and took the strength that ranked best on the
test sets; what is picked on the evaluated items is no score of them, so benchkit does not. model.head.strength=null
chooses among the same 30 on the shots alone: the least squared error over items left out one by one.

Outputs are regressions, not likelihoods: they order the classes, and no probability is read from them.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.heads.base import Head
from benchkit.metrics.classification import rank
from benchkit.settings import setting
from benchkit.store.items import Items


@dataclasses.dataclass
class Settings:
    """Settings of the fit."""

    shots: list[int] = setting(
        [], "train items per class; several values make a tag each; default: all of train", sweep="shot"
    )
    draws: int = setting(3, "random sets of shots, over which scores are averaged; 1 where all of train is used")
    strength: float | None = setting(
        1024.0, "weight of the penalty, as big_vision's; null: chosen among 2^-10..2^19 by leave-one-out on the shots"
    )

    def __post_init__(self) -> None:
        if any(each < 1 for each in self.shots):
            raise ValueError(f"shots are whole numbers, 1 or above, not {', '.join(map(str, self.shots))}")
        if self.draws < 1:
            raise ValueError(f"draws is at least 1, not {self.draws}")
        if self.strength is not None and not 0 < self.strength < np.inf:
            raise ValueError(f"strength is a finite number above 0, not {self.strength}")


class Ridge(Head):
    """`scores`: regression outputs, float32 (N, K), or (N, D, K) of D > 1 draws."""

    trains = True
    gives = ("scores",)
    scores_are = "margins"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def fit(self, key: str, features: Items, truth: Items, seed: int, threads: int) -> None:
        """Draw the shots and fit each draw by itself.

        Raises:
            UsageError: shots has several values.
        """
        if len(self.settings.shots) > 1:
            raise UsageError(
                f"model.head.shots={','.join(map(str, self.settings.shots))}: one fit has one number of shots, and an "
                "export makes a tag of each. Give one value."
            )
        rows, labels = np.asarray(features.read(key)), np.asarray(truth.read("label"))
        counts = np.bincount(labels, minlength=len(truth.meta["classes"]))
        self.shots = self.settings.shots[0] if self.settings.shots else 0
        self.short_classes = int((counts < self.shots).sum())
        whole = not self.shots or self.shots >= counts.max()
        sets = [slice(None)] if whole else _draws(labels, truth.names, self.shots, self.settings.draws, seed)
        found = [self._fit_set(rows[taken], labels[taken], len(counts), threads) for taken in sets]
        self.fits, self.train_accuracies = [one for one, _ in found], [accuracy for _, accuracy in found]

    def _fit_set(self, rows: np.ndarray, labels: np.ndarray, n_classes: int, threads: int) -> tuple[Any, float]:
        from benchkit.heads.solvers import least_squares

        ready = least_squares.decompose(rows, labels, n_classes, threads=threads)
        strength = self.settings.strength
        if strength is None:
            strength = least_squares.choose_strength(ready, threads=threads)
        found = least_squares.fit(ready, strength, threads=threads)
        scores = least_squares.outputs(found, rows, threads=threads)
        return found, float((rank(scores, labels) == 0).mean())

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """Outputs in fixed blocks; draws are the second axis where there are several."""
        from benchkit.heads.solvers import least_squares

        rows = np.asarray(features.read(key))
        scores = [least_squares.outputs(one, rows, threads=threads) for one in self.fits]
        return {"scores": scores[0] if len(scores) == 1 else np.stack(scores, axis=1)}

    def log(self) -> dict[str, float]:
        """Of the draws: mean score on their own shots (ties are wrong) and geometric mean of the strengths. Shots per
        class (0: all of train), draws, and how many classes have fewer items than shots.
        """
        return {
            "train_top1": float(np.mean(self.train_accuracies)),
            "strength": float(np.exp(np.mean([np.log(one.strength) for one in self.fits]))),
            "shots": float(self.shots),
            "draws": float(len(self.fits)),
            "short_classes": float(self.short_classes),
        }

    def state(self) -> dict[str, np.ndarray]:
        """`weight` float64 (D, C, K) and `bias` (D, K) for features as they are, D draws; without D when there is one."""
        weight, bias = (np.stack([getattr(one, name) for one in self.fits]) for name in ("weight", "bias"))
        return {"weight": weight, "bias": bias} if len(self.fits) > 1 else {"weight": weight[0], "bias": bias[0]}


def _draws(labels: np.ndarray, names: Sequence[str], shots: int, draws: int, seed: int) -> list[np.ndarray]:
    """Rows of each draw, ascending: of each class the first `shots` in the order of the sha256 of (seed, draw, name).

    So fewer shots of a draw are a part of more, and an item's place depends on no other item.
    """
    return [_draw(labels, names, shots, f"{seed}\0{draw}") for draw in range(draws)]


def _draw(labels: np.ndarray, names: Sequence[str], shots: int, salt: str) -> np.ndarray:
    digests = np.array([hashlib.sha256(f"{salt}\0{name}".encode()).hexdigest() for name in names])
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return np.sort(np.concatenate([rows[np.argsort(digests[rows])[:shots]] for rows in classes]))


build = Ridge
