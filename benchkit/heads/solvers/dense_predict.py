"""Predictions of a trained dense head, item by item while they are written: all of them would not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from benchkit.errors import RunError
from benchkit.heads.solvers.blocks import fixed_threads
from benchkit.heads.solvers.dense_fit import Fit, repeatable, threads_for
from benchkit.heads.solvers.dense_grid import Size, blocks
from benchkit.heads.solvers.dense_nets import DenseNet
from benchkit.heads.solvers.dense_numbers import Normals
from benchkit.heads.solvers.dense_outputs import Output, Task
from benchkit.heads.solvers.dense_source import Samples
from benchkit.heads.solvers.dense_training import grouped
from benchkit.progress import track
from benchkit.store.columns import Column, Ragged, Rows
from benchkit.store.maps import Maps

READ_AHEAD = 8  # items read together


def predict(fitted: Fit, features: Maps, threads: int, device: str = "cpu") -> dict[str, Column]:
    """Columns of the task's field, made item by item while they are written, and of `grid`, int32 (N, 2).

    Each item goes through the network alone, so its bits do not depend on the others.
    """
    samples, task = Samples(features), fitted.task
    count = len(samples)
    frames = [samples.frame(row) for row in range(count)]
    extra = _extra(task)

    def each() -> Iterator[np.ndarray]:
        numbers = samples.batches(range(count), READ_AHEAD)
        for sample in track((one for batch in numbers for one in batch), count, "predicting", "items"):
            several = threads_for(fitted.trained.net, task, sample, threads)
            with fixed_threads(several), torch.no_grad(), repeatable(device):
                (output,) = fitted.trained.net(grouped([sample], device))
                if not torch.isfinite(output.raw).all():
                    raise RunError(
                        f"the head says NaN or infinity of {sample.name!r}: it diverged in its last step, or the features "
                        "overflowed. Lower model.head.lr; else export with model.precision=fp32."
                    )
                yield _answer(task, output, sample.frame, extra)

    columns: dict[str, Column] = {"grid": _grids(fitted.trained.net, samples)}
    if len(set(frames)) == 1:
        columns[task.field] = Rows(task.dtype, (*frames[0], *extra), (one[None] for one in each()))
    else:
        shapes = [(*frame, *extra) for frame in frames]
        columns[task.field] = Ragged(task.dtype, 2 + len(extra), each, shapes)
    return columns


def _extra(task: Task) -> tuple[int, ...]:
    """What a prediction's shape has after height and width."""
    if isinstance(task, Normals):
        return (3,)
    return () if getattr(task, "flat", True) else (task.channels,)


def _answer(task: Task, output: Output, frame: Size, extra: tuple[int, ...]) -> np.ndarray:
    settled = task.settled(output, frame)
    answer = np.empty((*frame, *extra), task.dtype)
    for which, values in blocks(settled.raw, frame, settled.share):
        answer[which] = task.read(values.cpu())
    return answer


def _grids(net: DenseNet, samples: Samples) -> np.ndarray:
    """Rows and columns of every item's output; read once where all maps have one shape."""

    def grid(row: int) -> tuple[int, int]:
        return net.grid(samples[row].levels)

    if (samples.features.extents == 1).all() and len(samples):
        return np.tile(np.array(grid(0), np.int32), (len(samples), 1))
    return np.array([grid(row) for row in range(len(samples))], np.int32).reshape(-1, 2)
