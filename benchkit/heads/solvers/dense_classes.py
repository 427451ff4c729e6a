"""Classes of pixels: several (semantic), or foreground and background."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from benchkit.heads.solvers import dense_losses as losses
from benchkit.heads.solvers.dense_outputs import Linear, Output, Tally, on
from benchkit.store.items import Items

VOID = 255  # of binary masks


class Semantic(Linear):
    """Class indices; cross-entropy."""

    field = "mask"

    def __init__(self, names: Sequence[str], ignore: int | None) -> None:
        self.names, self.channels, self.ignore = names, len(names), ignore
        self.dtype = np.dtype(np.uint8 if len(names) <= 255 else np.uint16)

    @classmethod
    def of(cls, truth: Items, loss: str) -> Semantic:
        return cls(list(truth.meta["classes"]), truth.meta.get("ignore"))

    def valid(self, truth: np.ndarray) -> np.ndarray:
        return np.ones(truth.shape, bool) if self.ignore is None else truth != self.ignore

    def loss(self, outputs: Sequence[Output], truths: Sequence[np.ndarray], tally: Tally | None) -> Tensor:
        right: list[Tensor] | None = None if tally is None else []
        parts, pixels = [], 0
        for output, truth in zip(outputs, truths, strict=True):
            valid = self.valid(truth)
            labels = on(output, np.where(valid, truth, 0).astype(np.int64))
            weight = on(output, valid.astype(np.float32))
            parts.append(losses.cross_entropy(output.raw, labels, weight, output.share, right))
            pixels += int(valid.sum())
        if tally is not None and right is not None:
            tally["pixels"] += pixels
            tally["right"] += sum(int(each) for each in right)
        return sum(parts[1:], parts[0]) / pixels

    def read(self, values: Tensor) -> np.ndarray:
        return values.numpy().argmax(axis=0).astype(self.dtype)


class Binary(Linear):
    """Foreground or background; cross-entropy of the sigmoid, foreground above one half."""

    field, channels, dtype = "mask", 1, np.dtype(np.uint8)
    names = ("background", "foreground")

    def __init__(self, ignore: int | None) -> None:
        self.ignore = ignore

    @classmethod
    def of(cls, truth: Items, loss: str) -> Binary:
        return cls(truth.meta.get("ignore", VOID))

    def valid(self, truth: np.ndarray) -> np.ndarray:
        return np.ones(truth.shape, bool) if self.ignore is None else truth != self.ignore

    def loss(self, outputs: Sequence[Output], truths: Sequence[np.ndarray], tally: Tally | None) -> Tensor:
        parts, pixels = [], 0
        for output, truth in zip(outputs, truths, strict=True):
            valid = on(output, self.valid(truth).astype(np.float32))
            foreground = on(output, (truth == 1).astype(np.float32))
            logits = self.at_full_size(output, truth)[0]
            parts.append(losses.binary_cross_entropy(logits, foreground, valid))
            pixels += int(valid.sum())
            if tally is not None:
                tally["right"] += int((((logits > 0) == (foreground > 0)) & (valid > 0)).sum())
        if tally is not None:
            tally["pixels"] += pixels
        return sum(parts[1:], parts[0]) / pixels

    def read(self, values: Tensor) -> np.ndarray:
        return (values[0] > 0).numpy().astype(self.dtype)
