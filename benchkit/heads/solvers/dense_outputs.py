"""What a task of a dense head is, and what it gets from the network.

A task sees the head's output of one image as a map (channels, h, w) on a grid, and truth at pixels; what is linear is
resized to the pixels, and only depth, which is not, is made on a grid four times as fine (probe3d's linear head) first.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from benchkit.heads.solvers import dense_losses as losses
from benchkit.heads.solvers.dense_grid import Share, Size


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
        most: the largest truth that the head can say.
    """

    field: str
    channels: int
    dtype: np.dtype
    names: Sequence[str]
    most: float

    def valid(self, truth: np.ndarray) -> np.ndarray:
        """Bool (h, w): the pixels that count."""
        ...

    def beyond(self, truth: np.ndarray) -> int:
        """Pixels with a truth that the head cannot say, which are no valid ones."""
        ...

    def loss(self, outputs: Sequence[Output], truths: Sequence[np.ndarray], tally: Tally | None) -> Tensor:
        """Mean over the valid pixels of a batch that has some; `tally` gets what the log tells of them."""
        ...

    def values(self, grid: Size, frame: Size) -> int:
        """How many numbers an image's loss is computed on, about."""
        ...

    def settled(self, output: Output, frame: Size) -> Output:
        """What is resized to the frame: the output itself, where it is linear."""
        ...

    def read(self, values: Tensor) -> np.ndarray:
        """Prediction (rows, W) or (rows, W, C) from settled values (C, rows, W) at the frame's size."""
        ...


class Linear:
    """Outputs are resized as they are."""

    channels: int
    names: Sequence[str] = ()
    most = math.inf

    def beyond(self, truth: np.ndarray) -> int:
        """None."""
        return 0

    def values(self, grid: Size, frame: Size) -> int:
        """Of all channels at full size."""
        return self.channels * frame[0] * frame[1]

    def settled(self, output: Output, frame: Size) -> Output:
        """The output."""
        return output

    def at_full_size(self, output: Output, truth: np.ndarray) -> Tensor:
        """(channels, H, W) in the truth's frame."""
        return losses.full_size(output.raw, (truth.shape[0], truth.shape[1]), output.share)


def on(output: Output, values: np.ndarray) -> Tensor:
    """Values as a tensor where the output is."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(output.raw.device)
