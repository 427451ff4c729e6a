"""One trainer of all dense heads: AdamW, linear warm-up, cosine to zero (VisBench, tasks/dense_base.py and schedule.py).

The schedule is probe3d's (configs/optimizer/ten_epoch.yaml: 5e-4, 10 epochs, 1.5 of them warm-up; batch 8) with VisBench's
cosine. Everything random is a function of the seed and of a name: the first weights, the order of an epoch, the channels that
dropout drops of an item. Several heads can be trained in one pass over the data; each is as if it were alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from benchkit.allocation import keep_freed_memory
from benchkit.errors import RunError, reason
from benchkit.heads.solvers.dense_nets import DenseNet, Group, initialised
from benchkit.heads.solvers.dense_outputs import Tally, Task
from benchkit.heads.solvers.dense_source import Sample, Samples
from benchkit.progress import Progress

LAST = 0.75  # of the epochs
AT_REST = 0.15  # of the fall so far
NOTHING_LEFT = 0.05  # of the loss in the first epoch


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How heads are trained: the settings of the same names of `heads._dense.DenseSettings`."""

    weight_decay: float
    epochs: int
    batch_size: int
    warmup_epochs: float
    dropout: float
    device: str


@dataclasses.dataclass
class Trained:
    """A head and how its training went.

    Attributes:
        net: the network.
        lr: peak learning rate.
        epochs: passes over train.
        losses: of every step, the mean over the batch's valid pixels before the step; NaN for a batch without any.
        rates: of every step, the learning rate.
        tally: sums over the pixels of the last epoch.
        failed: where the loss ceased to be finite, '' where it never did.
    """

    net: DenseNet
    lr: float
    epochs: int
    losses: list[float] = dataclasses.field(default_factory=list)
    rates: list[float] = dataclasses.field(default_factory=list)
    tally: Tally = dataclasses.field(default_factory=lambda: defaultdict(float))
    failed: str = ""

    @property
    def epoch_losses(self) -> np.ndarray:
        """(epochs,) mean loss of each epoch's batches; none where training failed or has not ended."""
        if self.failed or not self.losses or len(self.losses) % self.epochs:
            return np.zeros(0)
        return np.nanmean(np.reshape(self.losses, (self.epochs, -1)), axis=1)

    @property
    def still_falling(self) -> float:
        """How much further as much training again would lower the loss, as a share of its fall so far; infinite if it rose.

        Each epoch sees the same items, so means of epochs have little noise of the draw. Against the learning rate spent, since
        a cosine makes every curve look flat at its end, such losses fall by about as much at each doubling: the slope over the
        last three quarters of the epochs, and one standard error of it, tells how much. Measured on 72 trainings of five losses
        on generated scenes, this lies a little above what doubling the epochs then did (.25-.30 against .18-.28, .10-.15
        against .03-.12).
        """
        losses = self.epoch_losses
        if len(losses) < 2 or not losses[-1] < losses[0]:
            return math.inf
        spent = np.log2(np.cumsum(self.rates).reshape(self.epochs, -1).mean(axis=1))
        last = max(2, math.ceil(LAST * len(losses)))
        x, y = spent[-last:] - spent[-last:].mean(), losses[-last:] - losses[-last:].mean()
        slope = (x * y).sum() / (x * x).sum()
        error = math.sqrt(((y - slope * x) ** 2).sum() / max(1, last - 2) / (x * x).sum())
        return float(max(0.0, error - slope) / (losses[0] - losses[-1]))

    @property
    def converged(self) -> bool:
        """Whether the loss has come to rest: at most AT_REST is left, or it is within NOTHING_LEFT of its first from 0."""
        losses = self.epoch_losses
        nothing_left = len(losses) > 1 and 0 <= losses[-1] < NOTHING_LEFT * losses[0]
        return bool(nothing_left or self.still_falling <= AT_REST)


def digest(*parts: object) -> int:
    """A number below 2^63 that depends on nothing but the parts."""
    text = "\0".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def multiplier(step: int, steps: int, warmup: int) -> float:
    """Of the peak rate at a step from 0: linear to 1 over `warmup` steps, then half a cosine to 0 (VisBench)."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def train(
    make: Callable[[], DenseNet],
    task: Task,
    samples: Samples,
    rows: Sequence[int],
    recipe: Recipe,
    rates: Sequence[float],
    seed: int,
    what: str = "training",
) -> list[Trained]:
    """Train one head per rate on the same batches; one whose loss is no longer finite stops alone.

    Args:
        make: builds an untrained network; all heads start from the same weights.
        task: gives the loss.
        samples, rows: the items, and those of them to train on.
        recipe: the schedule.
        rates: peak learning rates.
        seed: of everything random.
        what: is shown while it goes on.
    """
    keep_freed_memory()
    steps = math.ceil(len(rows) / recipe.batch_size)
    heads = [_head(make, rate, recipe, seed) for rate in rates]
    progress = Progress(steps * recipe.epochs, what, "batches")
    try:
        for epoch in range(recipe.epochs):
            order = sorted(rows, key=lambda row: digest(seed, "order", epoch, samples.names[row]))
            for number, batch in enumerate(samples.batches(order, recipe.batch_size)):
                step = epoch * steps + number
                factor = multiplier(step, steps * recipe.epochs, int(recipe.warmup_epochs * steps))
                groups = grouped(batch, recipe.device)
                _drop(groups, batch, recipe.dropout, (seed, "dropout", epoch))
                going = [head for head in heads if not head[0].failed]
                for trained, optimiser in going:
                    tally = trained.tally if epoch == recipe.epochs - 1 else None
                    _step(trained, optimiser, factor, task, batch, groups, tally)
                progress.advance()
            if all(trained.failed for trained, _ in heads):
                break
    finally:
        progress.finish()
    for trained, _ in heads:
        trained.net.eval()
    return [trained for trained, _ in heads]


def _head(
    make: Callable[[], DenseNet], rate: float, recipe: Recipe, seed: int
) -> tuple[Trained, torch.optim.Optimizer]:
    net = initialised(make, torch.Generator().manual_seed(digest(seed, "weights"))).to(recipe.device).train()
    return Trained(net, rate, recipe.epochs), torch.optim.AdamW(
        net.parameters(), lr=rate, weight_decay=recipe.weight_decay
    )


def _step(
    trained: Trained,
    optimiser: torch.optim.Optimizer,
    factor: float,
    task: Task,
    batch: Sequence[Sample],
    groups: Sequence[Group],
    tally: Tally | None,
) -> None:
    """One update; a batch without a valid pixel teaches nothing and updates nothing."""
    optimiser.param_groups[0]["lr"] = trained.lr * factor
    trained.rates.append(trained.lr * factor)
    loss = batch_loss(trained.net, task, batch, groups, tally)
    trained.losses.append(math.nan if loss is None else loss.item())
    if loss is None:
        return
    if not math.isfinite(trained.losses[-1]):
        trained.failed = f"in step {len(trained.losses)} ({', '.join(sample.name for sample in batch[:3])}, ...)"
        return
    optimiser.zero_grad()
    loss.backward()
    try:
        optimiser.step()
    except RuntimeError as error:  # a step that is no float32
        trained.failed = f"in step {len(trained.losses)} ({reason(error)})"


def batch_loss(
    net: DenseNet, task: Task, batch: Sequence[Sample], groups: Sequence[Group], tally: Tally | None = None
) -> Tensor | None:
    """Loss of a batch; None where no pixel is valid."""
    truths = [sample.truth for sample in batch if sample.truth is not None]
    if not any(task.valid(truth).any() for truth in truths):
        return None
    return task.loss(net(groups), truths, tally)


def grouped(batch: Sequence[Sample], device: str = "cpu") -> list[Group]:
    """The batch's maps as float32, those of equal shapes together."""
    places: dict[object, list[int]] = defaultdict(list)
    for place, sample in enumerate(batch):
        places[tuple((level.full, level.cut) for level in sample.levels)].append(place)
    found = []
    for rows in places.values():
        samples = [batch[row] for row in rows]
        maps = [
            torch.from_numpy(np.stack(layer)).to(device).float()
            for layer in zip(*(s.maps for s in samples), strict=True)
        ]
        shares = [tuple(level.share for level in sample.levels) for sample in samples]
        found.append(Group(rows, maps, samples[0].levels, shares))
    return found


def _drop(groups: Sequence[Group], batch: Sequence[Sample], share: float, key: tuple[object, ...]) -> None:
    """Choose the channels that dropout drops, per item and layer (whole channels, as DINOv2's heads drop them)."""
    if not share:
        return
    for group in groups:
        group.kept = [
            torch.stack([_kept(x.shape[1], share, digest(*key, layer, batch[row].name)) for row in group.rows]).to(
                x.device
            )
            for layer, x in enumerate(group.maps)
        ]


def _kept(channels: int, share: float, seed: int) -> Tensor:
    drawn = torch.rand(channels, 1, 1, generator=torch.Generator().manual_seed(seed))
    return (drawn >= share).float() / (1 - share)


def held_out_loss(trained: Trained, task: Task, samples: Samples, rows: Sequence[int], recipe: Recipe) -> float:
    """Mean over the batches of held-out items with a valid pixel; infinite where training failed."""
    if trained.failed:
        return math.inf
    losses = []
    with torch.no_grad():
        for batch in samples.batches(rows, recipe.batch_size):
            loss = batch_loss(trained.net, task, batch, grouped(batch, recipe.device))
            losses += [] if loss is None else [loss.item()]
    mean = float(np.mean(losses)) if losses else 0.0
    return mean if math.isfinite(mean) else math.inf


def check(trained: Trained) -> None:
    """Stop unless the training stayed finite.

    Raises:
        RunError: it did not; names the step and what helps.
    """
    if trained.failed:
        raise RunError(
            f"the head's loss is no longer finite {trained.failed}: model.head.lr={trained.lr:g} is too large for "
            "the scale of these features, or they overflowed. Lower model.head.lr; else export with model.precision=fp32."
        )
