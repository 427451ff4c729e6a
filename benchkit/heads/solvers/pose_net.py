"""A small network from a pair of pooled vectors to a relative pose (VisBench 0.27, heads/pose.py and tasks/mid_level/pose.py)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from benchkit.errors import RunError, UsageError
from benchkit.heads.solvers.adamw import SMALL
from benchkit.heads.solvers.blocks import check_rows, fixed_threads, padded_blocks
from benchkit.progress import track

BLOCK = 1024  # pairs that are predicted together
OUTPUTS = 7  # quaternion and translation


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How the network is trained: the settings of the head `pose_mlp`."""

    hidden: tuple[int, ...]
    lr: float
    weight_decay: float
    epochs: int
    batch_size: int
    either_sign: bool


@dataclasses.dataclass(frozen=True)
class Net:
    """A trained network: its parameters by name, the mean squared error on train after the last step, and train pairs."""

    layers: nn.Sequential
    train_loss: float
    pairs: int

    @property
    def state(self) -> dict[str, np.ndarray]:
        """Parameters and running statistics."""
        norm, *rest = self.layers
        found = {f"norm.{name}": value for name, value in norm.state_dict().items() if name != "num_batches_tracked"}
        linear = [each for each in rest if isinstance(each, nn.Linear)]
        found |= {f"{i}.{name}": value for i, each in enumerate(linear) for name, value in each.state_dict().items()}
        return {name: value.numpy() for name, value in found.items()}


def train(features: np.ndarray, target: np.ndarray, recipe: Recipe, *, seed: int, threads: int) -> Net:
    """Train the network; the same bits at every run with the same pairs, recipe, seed and threads.

    A permutation of all pairs per epoch, drawn with the start from one generator; a last batch of a single pair, which has no
    variance, is left out. The rate falls by epochs (VisBench).

    Args:
        features: float (N, 2 C), both views' side by side, in name order.
        target: float32 (N, 7), unit quaternion with its largest component positive, translation in metres.
        recipe: how to train.
        seed: of the start and of the order of the pairs.
        threads: torch threads; small networks are trained on one, whatever is asked for.

    Raises:
        UsageError: there is one pair only.
        RunError: features are not finite, or training did not stay finite.
    """
    check_rows(features, "train features")
    if len(features) < 2:
        raise UsageError("the head pose_mlp learns from at least two train pairs: raise data.limit, or give more.")
    widths = [features.shape[1], *recipe.hidden, OUTPUTS]
    work = recipe.batch_size * max(a * b for a, b in itertools.pairwise(widths))
    generator = torch.Generator().manual_seed(seed)
    layers = _layers(widths, generator)
    rows, truth = torch.from_numpy(np.asarray(features, np.float32)), torch.from_numpy(target)
    with fixed_threads(threads if work > SMALL else 1):
        _descend(layers, rows, truth, recipe, generator)
        said = _said(layers, features)
    loss = _errors(torch.from_numpy(said), truth, recipe.either_sign).double().mean().item()
    return Net(layers, loss, len(features))


def predict(net: Net, features: np.ndarray, *, threads: int) -> np.ndarray:
    """float32 (N, 7), in blocks of a fixed shape: a pair's bits do not depend on how many there are."""
    check_rows(features, "features")
    with fixed_threads(threads):
        return _said(net.layers, features)


def _said(layers: nn.Sequential, features: np.ndarray) -> np.ndarray:
    layers.eval()
    with torch.no_grad():
        found = [layers(torch.from_numpy(part)).numpy()[:used] for used, part in padded_blocks(features, BLOCK)]
    return np.concatenate(found)


def _layers(widths: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """As the constructors of torch draw them, from a generator of its own."""
    parts: list[nn.Module] = [nn.BatchNorm1d(widths[0])]
    for k, (before, after) in enumerate(itertools.pairwise(widths)):
        layer = nn.utils.skip_init(nn.Linear, before, after)
        nn.init.kaiming_uniform_(layer.weight, a=5**0.5, generator=generator)
        nn.init.uniform_(layer.bias, -(before**-0.5), before**-0.5, generator=generator)
        parts += [layer, nn.ReLU()] if k < len(widths) - 2 else [layer]
    return nn.Sequential(*parts)


def _errors(said: Tensor, truth: Tensor, either_sign: bool) -> Tensor:
    """(N,): mean squared error of the seven numbers; of a quaternion and its negative the nearer one counts."""
    turn = (said[:, :4] - truth[:, :4]).square().sum(dim=1)
    if either_sign:
        turn = torch.minimum(turn, (said[:, :4] + truth[:, :4]).square().sum(dim=1))
    return (turn + (said[:, 4:] - truth[:, 4:]).square().sum(dim=1)) / OUTPUTS


def _descend(layers: nn.Sequential, rows: Tensor, truth: Tensor, recipe: Recipe, generator: torch.Generator) -> None:
    optimiser = torch.optim.AdamW(layers.parameters(), recipe.lr, weight_decay=recipe.weight_decay)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, recipe.epochs)
    layers.train()
    for epoch in track(range(recipe.epochs), recipe.epochs, "pose probe", "epochs"):
        order = torch.randperm(len(rows), generator=generator)
        for some in order.split(recipe.batch_size):
            if len(some) > 1:
                optimiser.zero_grad()
                _errors(layers(rows[some]), truth[some], recipe.either_sign).mean().backward()
                optimiser.step()
        rate.step()
        if not all(bool(value.isfinite().all()) for value in layers.parameters()):
            raise RunError(
                f"the pose probe is no longer finite in epoch {epoch + 1} of {recipe.epochs}: model.head.lr={recipe.lr:g} "
                "is too large for these features and translations. Lower it."
            )
