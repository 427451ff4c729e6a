"""Numbers of pixels: depth, normals, and maps of any kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchkit.heads.solvers import dense_losses as losses
from benchkit.heads.solvers.dense_grid import WHOLE, Size
from benchkit.heads.solvers.dense_outputs import Linear, Output, Tally, on
from benchkit.store.items import Items

BINS, LEAST_DEPTH, MOST_DEPTH, BIN_SHIFT = 256, 0.001, 10.0, 0.1  # probe3d, evals/models/probes.py
FINER = 4
LOW_KAPPA = 0.1  # the angle then weighs a tenth: what the uncertainty loss settles at when directions are chance
SAMPLED = 1 << 21  # pixels of train, about, that tell a map's median and spread


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

    def beyond(self, truth: np.ndarray) -> int:
        return int((truth > self.most).sum())

    def values(self, grid: Size, frame: Size) -> int:
        height, width = _finer(grid, frame)
        return self.channels * height * width

    def settled(self, output: Output, frame: Size) -> Output:
        height, width = _finer((output.raw.shape[1], output.raw.shape[2]), frame)
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
            valid.append(on(output, self.valid(truth)))
            true.append(on(output, np.where(self.valid(truth), truth, 0).astype(np.float32)))
        return losses.depth_loss(predicted, true, valid)

    def read(self, values: Tensor) -> np.ndarray:
        return values[0].numpy()


def _finer(grid: Size, frame: Size) -> Size:
    return min(FINER * grid[0], frame[0]), min(FINER * grid[1], frame[1])


class Normals(Linear):
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
            weight = on(output, self.valid(truth).astype(np.float32)).flatten()
            true = on(output, truth.astype(np.float32)).permute(2, 0, 1).flatten(1)
            values = self.at_full_size(output, truth).flatten(1)
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


class Maps(Linear):
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
        values = _sampled(truth, cls.field)
        flat = np.ndim(truth.item(cls.field, 0)) == 2
        if not len(values):
            return cls(flat, np.zeros(values.shape[1]), np.ones(values.shape[1]))
        centre = np.median(values, axis=0)
        spread = np.abs(values - centre).mean(axis=0, dtype=np.float64)
        return cls(flat, centre, np.where(spread > 0, spread, 1.0))

    def valid(self, truth: np.ndarray) -> np.ndarray:
        return np.isfinite(truth) if truth.ndim == 2 else np.isfinite(truth).all(axis=2)

    def loss(self, outputs: Sequence[Output], truths: Sequence[np.ndarray], tally: Tally | None) -> Tensor:
        parts, pixels = [], 0
        for output, truth in zip(outputs, truths, strict=True):
            valid = self.valid(truth)
            true = on(output, np.where(valid if truth.ndim == 2 else valid[..., None], truth, 0).astype(np.float32))
            true = true[None] if truth.ndim == 2 else true.permute(2, 0, 1)
            true = (true - self.centre.to(true.device)) / self.scale.to(true.device)
            apart = (self.at_full_size(output, truth) - true).abs()
            parts.append((apart * on(output, valid)).sum())
            pixels += int(valid.sum()) * self.channels
        return sum(parts[1:], parts[0]) / pixels

    def read(self, values: Tensor) -> np.ndarray:
        numbers = values * self.scale + self.centre
        return numbers[0].numpy() if self.flat else numbers.permute(1, 2, 0).numpy()


def _sampled(truth: Items, field: str) -> np.ndarray:
    """Finite values float32 (P, C) of every so many pixels of all items, as many of each image."""
    count = max(1, SAMPLED // len(truth.names))
    found = []
    for row in range(len(truth.names)):
        values = np.asarray(truth.item(field, row), np.float32)
        values = values.reshape(values.shape[0] * values.shape[1], -1)
        values = values[:: -(-len(values) // count) | 1]  # odd: not one column of an image of even width
        found.append(values[np.isfinite(values).all(axis=1)])
    return np.concatenate(found)
