"""Masks from a model's own maps of its classes, item by item while they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from benchkit.errors import UsageError
from benchkit.heads.solvers.blocks import fixed_threads
from benchkit.heads.solvers.dense_grid import blocks
from benchkit.heads.solvers.dense_source import Sample, Samples
from benchkit.progress import track
from benchkit.store.columns import Column, Ragged, Rows
from benchkit.store.maps import Maps

READ_AHEAD = 8  # items read together
MANY_VALUES = 1 << 22  # scores of an item above which several threads are faster than one


def predict(
    features: Maps,
    matched: Mapping[int, Sequence[int]],
    n_labels: int,
    n_classes: int,
    adds: str,
    threads: int,
    classes: np.ndarray | None = None,
) -> dict[str, Column]:
    """Columns of `mask` (h, w), class indices, and of `grid`, int32 (N, 2).

    Args:
        features: maps (K, h, w) of K = `n_labels` classes of the model.
        matched: class of the data set -> labels of the model.
        n_classes: of the data set (where `classes` is given: of the model).
        adds: what the maps are: "logits", whose exponentials are added where a class has several labels, or
            "probabilities", which are added themselves.
        threads: at most.
        classes: what each class becomes after the largest has won; None: it stays.

    Raises:
        UsageError: the maps have another number of classes.
    """
    samples, count = Samples(features), len(features.names)
    frames = [samples.frame(row) for row in range(count)]
    dtype = np.dtype(np.uint8 if n_classes <= 255 else np.uint16)

    def each() -> Iterator[np.ndarray]:
        numbers = samples.batches(range(count), READ_AHEAD)
        for sample in track((one for batch in numbers for one in batch), count, "predicting", "items"):
            work = len(sample.maps[0]) * sample.frame[0] * sample.frame[1]
            with fixed_threads(threads if work > MANY_VALUES else 1), torch.no_grad():
                mask = mask_of(_checked(sample, n_labels), sample, matched, adds)
                yield (mask if classes is None else classes[mask]).astype(dtype)

    grid = np.array([_grid(samples, row) for row in _rows(samples)], np.int32).reshape(-1, 2)
    columns: dict[str, Column] = {"grid": grid if len(grid) == count else np.repeat(grid, count, axis=0)}
    if len(set(frames)) == 1:
        columns["mask"] = Rows(dtype, frames[0], (one[None] for one in each()))
    else:
        columns["mask"] = Ragged(dtype, 2, each, frames)
    return columns


def mask_of(maps: Tensor, sample: Sample, matched: Mapping[int, Sequence[int]], adds: str) -> np.ndarray:
    """(h, w) of the sample's frame: the class whose labels' maps (K, rows, columns), resized, are largest together."""
    used = [label for labels in matched.values() for label in labels]
    parts = np.split(np.arange(len(used)), np.cumsum([len(labels) for labels in matched.values()])[:-1])
    classes, answer = np.array(list(matched)), np.empty(sample.frame, np.int64)
    for which, values in blocks(maps[used], sample.frame, sample.levels[0].share):
        scores = torch.stack([_together(values[part[0] : part[-1] + 1], adds) for part in parts])
        answer[which] = classes[scores.argmax(dim=0).numpy()]
    return answer


def _together(values: Tensor, adds: str) -> Tensor:
    if len(values) == 1:
        return values[0]
    return values.logsumexp(dim=0) if adds == "logits" else values.sum(dim=0)


def _checked(sample: Sample, n_labels: int) -> Tensor:
    maps = sample.maps[0]
    if len(maps) != n_labels:
        raise UsageError(
            f"the model's masks have {len(maps)} classes and {n_labels} names: they are another list's. See "
            "model.backbone.labels."
        )
    return torch.from_numpy(np.asarray(maps, np.float32))


def _rows(samples: Samples) -> range:
    """The items whose grid has to be looked up: one where all maps have one shape."""
    alike = len(samples) and (samples.features.extents == 1).all()
    return range(1 if alike else len(samples))


def _grid(samples: Samples, row: int) -> tuple[int, int]:
    return samples[row].levels[0].cut
