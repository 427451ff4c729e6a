"""What a head is: features -> prediction, trained on the bank or not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from benchkit.store.items import Items

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Wants:
    """What a head reads: pooled vectors ('pool'), dense maps ('patch'), or nothing of the image (None)."""

    kind: str | None = "pool"


class Head:
    """A prediction from features. `trains`: learns parameters; `votes`: reads train items without learning."""

    trains = False
    votes = False
    gives: tuple[str, ...] = ()  # the fields of `predict`, by which a benchmark knows beforehand whether they fit
    scores_are = "logits"  # what `scores` of a classifier mean: logits, votes or log_priors

    def wants(self) -> Wants:
        """What is read of the bank."""
        return Wants()

    def fit(self, key: str, features: Items, truth: Items, seed: int, threads: int) -> None:
        """Learn from the train items (heads with `trains` or `votes`).

        Args:
            key: the feature key to read.
            features: `read(key)` gives float32 (N, C) or (N, C, h, w).
            truth: the same items' targets, in the same order.
            seed: of everything random, together with item names.
            threads: fixed number of threads, recorded: bits may depend on it.
        """

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """One column per field, first axis = `features.names`."""
        raise NotImplementedError

    def log(self) -> dict[str, float]:
        """Numbers about the fit (train score, chosen strength): stored under `fit/` and printed beside scores."""
        return {}

    def state(self) -> Arrays:
        """Parameters for head.safetensors; empty when there are none."""
        return {}
