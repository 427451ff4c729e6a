"""What a dense head learns: per task the truth's field, the loss, and how its outputs become a prediction.

A task sees the head's output of one image as a map (channels, h, w) on a grid, and truth at pixels; what is linear is
resized to the pixels, and only depth, which is not, is made on a grid four times as fine (probe3d's linear head) first.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchkit.errors import UsageError
from benchkit.heads.solvers import dense_losses as losses
from benchkit.heads.solvers.dense_grid import WHOLE, Share, Size
from benchkit.store.items import Items

BINS, LEAST_DEPTH, MOST_DEPTH, BIN_SHIFT = 256, 0.001, 10.0, 0.1  # probe3d, evals/models/probes.py
FINER = 4
VOID = 255  # of binary masks
THIN = 4  # every so many pixels tell a map's median and spread well enough
LOW_KAPPA = 0.1  # the angle then weighs a tenth: what the uncertainty loss settles at when directions are chance


@dataclasses.dataclass(frozen=True)
class Output:
    """What the head says of one image: a map (channels, h, w), of which `share` shows the image."""

    raw: Tensor
    share: Share


Tally = defaultdict[str, float]  # sums over the pixels of the last epoch


class Task(Protocol):
    """One kind of truth.

    Attributes:
        field: of truth and predictions.
        channels: of the head's output.
        dtype: of the predictions.
        names: of the classes, where there are any.
    """

    field: str
    channels: int
    dtype: np.dtype
    names: Sequence[str]

    def valid(self, truth: np.ndarray) -> np.ndarray:
        """Bool (h, w): the pixels that count."""
        ...

    def loss(self, outputs: Sequence[Output], truths: Sequence[np.ndarray], tally: Tally | None) -> Tensor:
        """Mean over the valid pixels of a batch that has some; `tally` gets what the log tells of them."""
        ...

    def settled(self, output: Output, frame: Size) -> Output:
        """What is resized to the frame: the output itself, where it is linear."""
        ...

    def read(self, values: Tensor) -> np.ndarray:
        """Prediction (rows, W) or (rows, W, C) from settled values (C, rows, W) at the frame's size."""
        ...


class _Linear:
    """Outputs are resized as they are."""

    names: Sequence[str] = ()

    def settled(self, output: Output, frame: Size) -> Output:
        return output

    def _at_full_size(self, output: Output, truth: np.ndarray) -> Tensor:
        return losses.full_size(output.raw, (truth.shape[0], truth.shape[1]), output.share)


class Semantic(_Linear):
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
            labels = _on(output, np.where(valid, truth, 0).astype(np.int64))
            weight = _on(output, valid.astype(np.float32))
            parts.append(losses.cross_entropy(output.raw, labels, weight, output.share, right))
            pixels += int(valid.sum())
        if tally is not None and right is not None:
            tally["pixels"] += pixels
            tally["right"] += sum(int(each) for each in right)
        return sum(parts[1:], parts[0]) / pixels

    def read(self, values: Tensor) -> np.ndarray:
        return values.numpy().argmax(axis=0).astype(self.dtype)


class Binary(_Linear):
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
            valid = _on(output, self.valid(truth).astype(np.float32))
            foreground = _on(output, (truth == 1).astype(np.float32))
            logits = self._at_full_size(output, truth)[0]
            parts.append(losses.binary_cross_entropy(logits, foreground, valid))
            pixels += int(valid.sum())
            if tally is not None:
                tally["right"] += int((((logits > 0) == (foreground > 0)) & (valid > 0)).sum())
        if tally is not None:
            tally["pixels"] += pixels
        return sum(parts[1:], parts[0]) / pixels

    def read(self, values: Tensor) -> np.ndarray:
        return (values[0] > 0).numpy().astype(self.dtype)


class Depth:
    """Metres: the expectation over 256 uniform bins of the outputs' ReLU + .1, normalised (AdaBins, probe3d)."""

    field, channels, dtype = "depth", BINS, np.dtype(np.float32)
    names: Sequence[str] = ()

    def __init__(self, most: float | None = None) -> None:
        self.most = most or MOST_DEPTH
        bins = torch.linspace(LEAST_DEPTH, self.most, BINS)
        self._sums = torch.stack([bins, torch.ones(BINS)])  # of weighted depths, and of weights

    @classmethod
    def of(cls, truth: Items, loss: str) -> Depth:
        return cls(truth.meta.get("max_depth"))

    def valid(self, truth: np.ndarray) -> np.ndarray:
        return (truth > 0) & (truth <= self.most)

    def settled(self, output: Output, frame: Size) -> Output:
        height, width = (min(FINER * cells, side) for cells, side in zip(output.raw.shape[1:], frame, strict=True))
        scores = losses.full_size(output.raw, (height, width), output.share)
        weights = (functional.relu(scores) + BIN_SHIFT).flatten(1)
        total, count = self._sums.to(weights.device) @ weights
        return Output((total / count).view(1, height, width), WHOLE)

    def loss(self, outputs: Sequence[Output], truths: Sequence[np.ndarray], tally: Tally | None) -> Tensor:
        predicted, true, valid = [], [], []
        for output, truth in zip(outputs, truths, strict=True):
            frame = (truth.shape[0], truth.shape[1])
            settled = self.settled(output, frame)
            predicted.append(losses.full_size(settled.raw, frame, settled.share)[0])
            valid.append(_on(output, self.valid(truth)))
            true.append(_on(output, np.where(self.valid(truth), truth, 0).astype(np.float32)))
        return losses.depth_loss(predicted, true, valid)

    def read(self, values: Tensor) -> np.ndarray:
        return values[0].numpy()


class Normals(_Linear):
    """Unit vectors; the mean angle, or Bae's likelihood of it with a fourth channel for the concentration."""

    field, dtype = "normals", np.dtype(np.float32)

    def __init__(self, with_uncertainty: bool) -> None:
        self.with_uncertainty = with_uncertainty
        self.channels = 4 if with_uncertainty else 3

    @classmethod
    def of(cls, truth: Items, loss: str) -> Normals:
        return cls(loss == "uncertainty")

    def valid(self, truth: np.ndarray) -> np.ndarray:
        return (truth != 0).any(axis=2)

    def loss(self, outputs: Sequence[Output], truths: Sequence[np.ndarray], tally: Tally | None) -> Tensor:
        parts, pixels = [], 0
        for output, truth in zip(outputs, truths, strict=True):
            weight = _on(output, self.valid(truth).astype(np.float32)).flatten()
            true = _on(output, truth.astype(np.float32)).permute(2, 0, 1).flatten(1)
            values = self._at_full_size(output, truth).flatten(1)
            angle = losses.angles(values[:3], true)
            kappa = losses.concentration(values[3]) if self.with_uncertainty else None
            each = angle if kappa is None else losses.uncertainty(angle, kappa)
            parts.append((each * weight).sum())
            pixels += int(weight.sum())
            if tally is not None:
                tally["radians"] += float((angle.detach() * weight).sum())
                tally["low_kappa"] += 0 if kappa is None else int(((kappa < LOW_KAPPA) & (weight > 0)).sum())
        if tally is not None:
            tally["pixels"] += pixels
        return sum(parts[1:], parts[0]) / pixels

    def read(self, values: Tensor) -> np.ndarray:
        return functional.normalize(values[:3], dim=0).permute(1, 2, 0).numpy()


class Maps(_Linear):
    """Any numbers, such as the strength of edges; L1, outputs as they are (VisBench, tasks/magnitude_base.py).

    The head learns them in units of their own: less their median over train, by their mean distance from it, channel by
    channel. VisBench divides each data set's values by a number of its own (1000, 30, 50), without which L1 at the usual
    rate does not move; this needs no such table.
    """

    field, dtype = "map", np.dtype(np.float32)

    def __init__(self, flat: bool, centre: np.ndarray, scale: np.ndarray) -> None:
        self.channels, self.flat = len(centre), flat
        self.centre, self.scale = (torch.from_numpy(np.float32(each)).view(-1, 1, 1) for each in (centre, scale))

    @classmethod
    def of(cls, truth: Items, loss: str) -> Maps:
        flat = np.ndim(truth.item(cls.field, 0)) == 2
        thinned = [truth.item(cls.field, row)[::THIN, ::THIN] for row in range(len(truth.names))]
        rows = [each.reshape(each.shape[0] * each.shape[1], -1) for each in thinned]
        values = np.concatenate([row[np.isfinite(row).all(axis=1)] for row in rows]).astype(np.float64)
        if not len(values):
            return cls(flat, np.zeros(rows[0].shape[1]), np.ones(rows[0].shape[1]))
        centre = np.median(values, axis=0)
        spread = np.abs(values - centre).mean(axis=0)
        return cls(flat, centre, np.where(spread > 0, spread, 1.0))

    def valid(self, truth: np.ndarray) -> np.ndarray:
        return np.isfinite(truth) if truth.ndim == 2 else np.isfinite(truth).all(axis=2)

    def loss(self, outputs: Sequence[Output], truths: Sequence[np.ndarray], tally: Tally | None) -> Tensor:
        parts, pixels = [], 0
        for output, truth in zip(outputs, truths, strict=True):
            valid = self.valid(truth)
            true = _on(output, np.where(valid if truth.ndim == 2 else valid[..., None], truth, 0).astype(np.float32))
            true = true[None] if truth.ndim == 2 else true.permute(2, 0, 1)
            true = (true - self.centre.to(true.device)) / self.scale.to(true.device)
            apart = (self._at_full_size(output, truth) - true).abs()
            parts.append((apart * _on(output, valid)).sum())
            pixels += int(valid.sum()) * self.channels
        return sum(parts[1:], parts[0]) / pixels

    def read(self, values: Tensor) -> np.ndarray:
        numbers = values * self.scale + self.centre
        return numbers[0].numpy() if self.flat else numbers.permute(1, 2, 0).numpy()


def _on(output: Output, values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(output.raw.device)


TASKS: dict[str, Any] = {"semantic": Semantic, "binary": Binary, "depth": Depth, "normals": Normals, "maps": Maps}


def make_task(task: str, truth: Items, loss: str) -> Task:
    """The task of that name.

    Args:
        task: semantic, binary, depth, normals or maps.
        truth: of the train items.
        loss: of normals: uncertainty or angular.

    Raises:
        UsageError: there is no such task, or the truth lacks its field.
    """
    if task not in TASKS:
        raise UsageError(f"there is no dense task {task!r}: there are {', '.join(TASKS)}.")
    if TASKS[task].field not in truth or not truth.names:
        raise UsageError(f"a dense head learns {TASKS[task].field}, and the truth of the train items holds none.")
    made: Task = TASKS[task].of(truth, loss)
    return made
