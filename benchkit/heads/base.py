"""What a head is: features -> prediction, trained on the bank or not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

Arrays = dict[str, np.ndarray]


class Rows(Protocol):
    """Features of named views, read from disk by feature key (the bank or a tag's features.h5)."""

    names: list[str]

    def read(self, key: str) -> np.ndarray:
        """All rows of one key in the order of `names`: float32 (N, C) or (N, C, h, w)."""
        ...


@dataclasses.dataclass
class Truth:
    """Targets of named items: `fields[name][i]` belongs to `names[i]`; `meta` holds class names and the like."""

    names: list[str]
    fields: dict[str, Any]
    meta: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Wants:
    """What a head reads: pooled vectors ('pool'), dense maps ('patch'), or nothing of the image (None)."""

    kind: str | None = "pool"


class Head:
    """A prediction from features. `trains`: learns parameters; `votes`: reads train items without learning."""

    trains = False
    votes = False
    scores_are = "logits"  # what `scores` of a classifier mean: logits, votes or log_priors

    def wants(self) -> Wants:
        """What is read of the bank."""
        return Wants()

    def fit(self, key: str, rows: Rows, truth: Truth, seed: int, threads: int) -> None:
        """Learn from the train items (heads with `trains` or `votes`)."""

    def predict(self, key: str, rows: Rows, progress: Callable[[int, int], None] | None = None) -> Arrays:
        """One array per field, first axis = `rows.names`."""
        raise NotImplementedError

    def log(self) -> dict[str, float]:
        """Numbers about the fit (train score, chosen strength): stored under `fit/` and printed beside scores."""
        return {}

    def state(self) -> Arrays:
        """Parameters for head.safetensors; empty when there are none."""
        return {}
