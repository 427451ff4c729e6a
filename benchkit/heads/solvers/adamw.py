"""One linear layer trained with AdamW on cross-entropy: VisBench's probe (visbench/tasks/high_level/classification.py).

The same start, the same order of rows and the same updates as there: nn.Linear's initialisation, then a permutation of all
rows per epoch, all drawn from one generator; batches of 256, the last one smaller; AdamW at a constant rate with torch's
betas, weight decay on the bias too; features as they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from benchkit.errors import RunError
from benchkit.heads.solvers.blocks import affine, check_labels, check_rows, fixed_threads
from benchkit.metrics.classification import rank
from benchkit.progress import track

if TYPE_CHECKING:
    import torch

BLOCK = 1024  # rows that are multiplied together when predicting
SMALL = 2**26  # multiplications of a batch below which one thread is faster than several that wait for each other
LEAST_STD = 1e-6  # VisBench's bound
_ROWS = 16384  # rows whose logits are held at once


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How the layer is trained: the settings of the head `linear`."""

    lr: float
    weight_decay: float
    epochs: int
    batch_size: int
    standardize: bool


@dataclasses.dataclass(frozen=True)
class Layer:
    """A trained layer: logits = features @ weight + bias.

    Attributes:
        weight: (D, K) float32; float64 where features were standardised, which is folded in.
        bias: (K,) likewise.
        losses: float64 (epochs,), mean cross-entropy in nats of the batches of each epoch, before each step.
        train_loss: mean cross-entropy of all rows after the last step.
        train_accuracy: share of rows whose class has the one largest logit (ties are wrong).
    """

    weight: np.ndarray
    bias: np.ndarray
    losses: np.ndarray
    train_loss: float
    train_accuracy: float

    @property
    def converged(self) -> bool:
        """Whether the loss has come to rest.

        The mean of the last tenth of the epochs differs from that of the tenth before by at most 1 % or 0.001 nats (of
        separable features the loss falls for ever, ever more slowly).
        """
        tenth = max(1, len(self.losses) // 10)
        if len(self.losses) < 2 * tenth:
            return False
        before, last = self.losses[-2 * tenth : -tenth].mean(), self.losses[-tenth:].mean()
        return bool(abs(last - before) <= max(0.01 * before, 0.001))


def train(
    features: np.ndarray, labels: np.ndarray, n_classes: int, recipe: Recipe, *, seed: int, threads: int
) -> Layer:
    """Train the layer; the same bits at every run with the same rows, recipe, seed and threads.

    Features are never copied as a whole: batches are gathered from the rows where they lie.
    Where a column is constant, standardising centres it and no more: divided by 1e-6 (VisBench), the untrained weight of
    such a column would decide about every item in which it is another number.

    Args:
        features: float32 or float16 (N, D), in name order.
        labels: int (N,), in 0..n_classes-1; classes may be missing.
        n_classes: K.
        recipe: how to train.
        seed: of the initialisation and of the order of the rows.
        threads: torch threads; layers small enough are trained on one, whatever is asked for.

    Raises:
        UsageError: shapes or labels out of range.
        RunError: features are not finite, or training did not stay finite.
    """
    check_rows(features, "train features")
    check_labels(labels, len(features), n_classes)
    work = recipe.batch_size * features.shape[1] * n_classes
    with fixed_threads(threads if work > SMALL else 1), _flushed():
        shift, scale = _standardisation(features) if recipe.standardize else (None, None)
        weight, bias, losses = _descend(
            _Batches(features, recipe.batch_size, shift, scale), labels, n_classes, recipe, seed
        )
    if shift is not None and scale is not None:
        weight = weight / scale[:, None].astype(np.float64)
        bias = bias - shift.astype(np.float64) @ weight
    with fixed_threads(threads):
        loss, accuracy = _score(features, labels, weight, bias)
    return Layer(weight, bias, losses, loss, accuracy)


def logits(layer: Layer, features: np.ndarray, *, threads: int = 1) -> np.ndarray:
    """Logits float32 (N, K), in blocks of a fixed shape: a row's bits do not depend on how many rows there are."""
    check_rows(features, "features")
    with fixed_threads(threads):
        return affine(features, layer.weight, layer.bias, BLOCK)


class _Batches:
    """Gathers rows into one buffer as float32, standardised if asked for."""

    def __init__(self, features: np.ndarray, size: int, shift: np.ndarray | None, scale: np.ndarray | None) -> None:
        import torch

        self.features = features
        self.buffer = np.empty((min(size, len(features)), features.shape[1]), features.dtype)
        self.standard = None if shift is None or scale is None else (torch.from_numpy(shift), torch.from_numpy(scale))

    def __call__(self, rows: np.ndarray) -> torch.Tensor:
        import torch

        np.take(self.features, rows, axis=0, out=self.buffer[: len(rows)], mode="clip")  # `raise` would copy once more
        batch = torch.from_numpy(self.buffer[: len(rows)]).float()
        return batch if self.standard is None else (batch - self.standard[0]) / self.standard[1]


@contextlib.contextmanager
def _flushed() -> Iterator[None]:
    """Numbers below 1e-38 count as 0: separable features leave little else in the gradient, and they are slow."""
    import torch

    before = (torch.tensor(1e-40) * 1).item() == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _standardisation(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (over N - 1) per column, float32 (D,), from float64 sums of blocks."""
    total = np.zeros(features.shape[1])
    for start in range(0, len(features), _ROWS):
        total += features[start : start + _ROWS].sum(axis=0, dtype=np.float64)
    mean = total / len(features)
    squares = np.zeros(features.shape[1])
    for start in range(0, len(features), _ROWS):
        squares += np.square(features[start : start + _ROWS] - mean).sum(axis=0)
    std = np.sqrt(squares / max(len(features) - 1, 1))
    constant = features.min(axis=0) == features.max(axis=0)
    return mean.astype(np.float32), np.where(constant, 1.0, np.maximum(std, LEAST_STD)).astype(np.float32)


def _descend(
    batch: Callable[[np.ndarray], torch.Tensor], labels: np.ndarray, n_classes: int, recipe: Recipe, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    import torch

    generator = torch.Generator().manual_seed(seed)
    weight, bias = _layer(batch(np.zeros(1, np.int64)).shape[1], n_classes, generator)
    optimiser = torch.optim.AdamW([weight, bias], recipe.lr, weight_decay=recipe.weight_decay, fused=True)
    targets, losses = torch.from_numpy(np.asarray(labels, np.int64)), np.zeros(recipe.epochs)
    for epoch in track(range(recipe.epochs), recipe.epochs, "linear probe", "epochs"):
        order, total = torch.randperm(len(labels), generator=generator), torch.zeros((), dtype=torch.float64)
        for rows in order.split(recipe.batch_size):
            outputs = torch.nn.functional.linear(batch(rows.numpy()), weight, bias)
            loss = torch.nn.functional.cross_entropy(outputs, targets[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.detach() * len(rows)
        losses[epoch] = float(total) / len(labels)
        if not (np.isfinite(losses[epoch]) and weight.isfinite().all() and bias.isfinite().all()):
            raise RunError(
                f"the linear probe is no longer finite in epoch {epoch + 1} of {recipe.epochs}: model.head.lr={recipe.lr:g} "
                "is too large for the scale of these features. Lower it, or set model.head.standardize=true."
            )
    return weight.detach().numpy().T.copy(), bias.detach().numpy(), losses


def _layer(width: int, n_classes: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight (K, D) and bias (K,) as nn.Linear's constructor draws them, from a generator of its own."""
    import torch

    weight, bias = torch.empty(n_classes, width), torch.empty(n_classes)
    torch.nn.init.kaiming_uniform_(weight, a=5**0.5, generator=generator)
    torch.nn.init.uniform_(bias, -(width**-0.5), width**-0.5, generator=generator)
    return weight.requires_grad_(), bias.requires_grad_()


def _score(features: np.ndarray, labels: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> tuple[float, float]:
    """Mean cross-entropy in nats, and the share of rows whose class has the one largest logit."""
    loss = right = 0.0
    for start in range(0, len(features), _ROWS):
        truth = labels[start : start + _ROWS]
        answers = affine(features[start : start + _ROWS], weight, bias, BLOCK)
        right += (rank(answers, truth) == 0).sum()
        wide = answers.astype(np.float64)
        wide -= wide.max(axis=1, keepdims=True)
        loss += (np.log(np.exp(wide).sum(axis=1)) - wide[np.arange(len(truth)), truth]).sum()
    return float(loss / len(features)), float(right / len(features))
