"""From the settings of a dense head to a trained network and what there is to say of its training."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchkit.errors import UsageError
from benchkit.heads.solvers.blocks import fixed_threads
from benchkit.heads.solvers.dense_labels import Labels
from benchkit.heads.solvers.dense_nets import DenseNet, initialised
from benchkit.heads.solvers.dense_numbers import Normals
from benchkit.heads.solvers.dense_outputs import Task
from benchkit.heads.solvers.dense_source import Sample, Samples
from benchkit.heads.solvers.dense_tasks import make_task
from benchkit.heads.solvers.dense_training import Recipe, Trained, check, digest, held_out_loss, train
from benchkit.heads.solvers.sizes import read_bytes
from benchkit.store.items import Items
from benchkit.store.maps import Maps

MANY_VALUES, MUCH_WORK = 1 << 21, 1 << 28  # numbers at full size, and multiplications, of an image

FEW = 8  # held-out items
CHANCE_DEGREES = 80.0  # chance is 90, and one constant direction is nearer on any real data

MakeNet = Callable[[Sequence[int], int], DenseNet]  # (channels per layer, channels of the output) -> untrained network


@dataclasses.dataclass
class Fit:
    """A trained head.

    Attributes:
        task: what it learned.
        trained: the network.
        log: numbers about the training.
    """

    task: Task
    trained: Trained
    log: dict[str, float]


def fit(
    head: str,
    settings: Any,
    make: MakeNet,
    task_name: str,
    features: Maps,
    truth: Items,
    seed: int,
    threads: int,
    say: Callable[[str], None],
) -> Fit:
    """Train a head.

    Args:
        head: its name, for messages.
        settings: a `DenseSettings`.
        make: builds the network.
        task_name: of the family.
        features, truth: of the train items.
        seed, threads: as of `Head.fit`.
        say: tells the user what there is to learn, and what went wrong.

    Raises:
        UsageError: there is nothing to learn, or a sweep of rates has no items to choose on.
        RunError: the loss does not stay finite; a file is damaged.
    """
    task = make_task(task_name, truth, settings.loss)
    samples = Samples(features, truth, task.field, settings.truth_side, read_bytes(settings.max_memory))
    labels = Labels(task)
    samples.scan(labels)
    labels.check()
    _tell(say, labels.summary(head, len(samples)))
    first = samples[0]
    build = functools.partial(make, [len(each) for each in first.maps], task.channels)
    threads = threads_for(initialised(build, torch.Generator()), task, first, threads)
    recipe = Recipe(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(Recipe)})
    with fixed_threads(threads), repeatable(settings.device):
        teach = functools.partial(train, build, task, samples)
        rate, chosen = _choose(head, settings, teach, task, samples, labels.taught, recipe, seed, say)
        (trained,) = teach(range(len(samples)), recipe, [rate], seed, f"training {head}")
    check(trained)
    log = {**_training_log(task, trained), "lr": rate, **chosen, **labels.log}
    _tell(say, _notes(head, log, settings))
    return Fit(task, trained, log)


def _choose(
    head: str,
    settings: Any,
    teach: Callable[..., list[Trained]],
    task: Task,
    samples: Samples,
    taught: set[str],
    recipe: Recipe,
    seed: int,
    say: Callable[[str], None],
) -> tuple[float, dict[str, float]]:
    """The learning rate: the only one given, or the best of several on held-out items; the head is then fitted on all.

    Held out are the first items by the hash of seed and name, `holdout` of those with a valid pixel (`taught`), at least one.
    """
    rates = list(dict.fromkeys(settings.lrs)) or [settings.lr]
    if len(rates) == 1:
        return rates[0], {}
    rows = [row for row, name in enumerate(samples.names) if name in taught]
    if len(rows) < 2:
        raise UsageError(
            "model.head.lrs needs at least two train items with a valid pixel, to choose on one: set model.head.lr instead."
        )
    order = sorted(rows, key=lambda row: digest(seed, "holdout", samples.names[row]))
    count = min(max(1, round(settings.holdout * len(order))), len(order) - 1)
    held, rest = sorted(order[:count]), sorted(order[count:])
    heads = teach(rest, recipe, rates, seed, f"choosing the rate of {head} among {len(rates)}")
    losses = [held_out_loss(each, task, samples, held, recipe) for each in heads]
    best = int(np.argmin(losses))
    told = ", ".join(f"{rate:g}: {loss:.4g}" for rate, loss in zip(rates, losses, strict=True))
    few = "; so few say little, more of model.head.holdout would say more" if count < FEW else ""
    say(f"{head}: loss on {count} held-out items by rate, {told}: {rates[best]:g} is taken{few}")
    check(heads[best])  # infinite are the losses of those that failed
    return rates[best], {"holdout_items": float(count), "holdout_loss": losses[best]}


def threads_for(net: DenseNet, task: Task, sample: Sample, threads: int) -> int:
    """One thread where an image is little work: several would wait for each other longer than they compute."""
    values = task.values(net.grid(sample.levels), sample.frame)
    return threads if values > MANY_VALUES or net.work(sample.levels) > MUCH_WORK else 1


def repeatable(device: str) -> contextlib.AbstractContextManager[Any]:
    """The same bits again on a GPU: algorithms are not chosen by speed, products are of float32."""
    if device == "cpu":
        return contextlib.nullcontext()
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)


def check_device(name: str) -> None:
    """See that the device is there.

    Raises:
        UsageError: it is not.
    """
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"model.head.device={name}: torch finds no such device here. Use cpu.") from error


def _training_log(task: Task, trained: Trained) -> dict[str, float]:
    pixels = max(trained.tally["pixels"], 1)
    log = {
        "train_loss": float(trained.epoch_losses[-1]),
        "train_loss_first": float(trained.epoch_losses[0]),
        "converged": float(trained.converged),
    }
    if math.isfinite(trained.still_falling):
        log["still_falling"] = trained.still_falling
    if task.names:
        log["train_pixel_acc"] = trained.tally["right"] / pixels
    if isinstance(task, Normals):
        log["train_degrees"] = float(np.degrees(trained.tally["radians"] / pixels))
        if task.with_uncertainty:
            dead = trained.tally["low_kappa"] > 0.5 * pixels
            log["collapsed"] = float(dead or log["train_degrees"] > CHANCE_DEGREES)
    return log


def _tell(say: Callable[[str], None], text: str) -> None:
    if text:
        say(text)


def _notes(head: str, log: dict[str, float], settings: Any) -> str:
    """What is wrong with the training, and what mends it; '' where nothing is."""
    if log.get("collapsed"):
        return (
            f"{head}: the uncertainty loss has collapsed to chance: it hardly supervises the direction any more (mean error on "
            f"train {log['train_degrees']:.0f} degrees). Set model.head.loss=angular, or give it a longer warm-up or "
            "another rate (model.head.warmup_epochs, model.head.lr)."
        )
    if log["converged"]:
        return ""
    more = (
        f", and falling: as much again may take off {log['still_falling']:.0%} of that"
        if "still_falling" in log
        else ""
    )
    few = f"{'' if settings.batchnorm else 'model.head.batchnorm=true and '}a higher model.head.lr, such as 0.01"
    mend = f"Few images need {few} (model.head.lrs tries several), or more model.head.epochs."
    if settings.batchnorm and log["lr"] >= 0.01:
        mend = "Give it more model.head.epochs."
    return (
        f"{head} did not converge: train loss {log['train_loss_first']:.4g} in the first epoch, {log['train_loss']:.4g} in "
        f"the last of {settings.epochs}{more}. {mend}"
    )
