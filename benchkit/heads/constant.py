"""The best prediction that looks at no image: what every score has to beat.

Of classes the shares in train; of pixels, by the field of the truth: the commonest class (mask), the median (depth), the mean
direction (normals), the mean (map), over the valid pixels of train. Of poses the mean rotation and the mean translation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchkit.geometry import rotation
from benchkit.heads import _constant_maps
from benchkit.heads.base import PIXELS, Head, Wants
from benchkit.registry import NoSettings as Settings
from benchkit.store.columns import Column, Ragged, Rows
from benchkit.store.items import Items

__all__ = ["Constant", "Settings", "build"]


class Constant(Head):
    """For classes: the log of their share in train, so the commonest class is always the answer.

    Classes that never occur in train count half an item. Equal shares are told apart by class order, by the least
    step that float32 has, since ties count against a prediction and a constant answer is one class, not none.
    """

    votes = True
    gives = ("scores", *PIXELS, "quaternion", "translation")  # what the truth asks for

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings
        self.values: dict[str, np.ndarray] = {}

    def wants(self) -> Wants:
        """Nothing of the image."""
        return Wants(None)

    def fit(self, key: str, features: Items | None, truth: Items, seed: int, threads: int) -> None:
        """Count the classes of the train items, or find the best constant of their pixels or poses."""
        field = _constant_maps.field_of(truth)
        if field is not None:
            self.values = {field: _constant_maps.constant_of(truth, field)}
        else:
            self.values = _mean_pose(truth) if "R" in truth else {"scores": _shares(truth)}

    def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
        """`scores`: float32 (N, K), or `quaternion` (N, 4) and `translation` (N, 3), every row the same; or the field of pixels
        in every item's frame, one value all over.
        """
        if self.values.keys() & set(PIXELS):
            return {field: _spread(value, features.frames) for field, value in self.values.items()}
        return {field: np.tile(value, (len(features.names), 1)) for field, value in self.values.items()}

    def state(self) -> dict[str, np.ndarray]:
        """The one row of scores, the one pose, or the one value of a pixel: `mask` (), `depth` (), `normals` (3,), `map` () or
        (C,).
        """
        return dict(self.values)


def _shares(truth: Items) -> np.ndarray:
    counts = np.bincount(np.asarray(truth.read("label")), minlength=len(truth.meta["classes"]))
    scores = np.log(np.maximum(counts, 0.5) / max(counts.sum(), 1)).astype(np.float32)
    order = np.argsort(-counts, kind="stable")
    for better, worse in itertools.pairwise(order):
        below = np.nextafter(scores[better], np.float32(-np.inf))
        scores[worse] = min(scores[worse], below)
    return scores


def _mean_pose(truth: Items) -> dict[str, np.ndarray]:
    """`quaternion` (4,), w first, of the rotation nearest to all of train; `translation` (3,): their mean."""
    turn = rotation.to_quaternion(rotation.mean(np.asarray(truth.read("R"))))
    move = np.asarray(truth.read("t"), np.float64).mean(axis=0)
    return {"quaternion": turn.astype(np.float32), "translation": move.astype(np.float32)}


def _spread(value: np.ndarray, frames: np.ndarray) -> Column:
    """A value over frames (N, 2) of one or of several sizes."""
    shapes: list[tuple[int, ...]] = [(int(height), int(width), *value.shape) for height, width in frames]

    def each() -> Iterator[np.ndarray]:
        return (np.broadcast_to(value, shape) for shape in shapes)

    if len(set(shapes)) == 1:
        return Rows(value.dtype, shapes[0], (one[None] for one in each()))
    return Ragged(value.dtype, 2 + value.ndim, each, shapes)


build = Constant
