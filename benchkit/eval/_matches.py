"""The matches of one item as files hold them, checked."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchkit.errors import RunError
from benchkit.store.items import Items
from benchkit.store.points import MATCH_FIELDS

if TYPE_CHECKING:
    from benchkit.eval.base import Benchmark

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Matches:
    """Keypoints of both views in original pixels, and which belong together.

    Attributes:
        keypoints0, keypoints1: float64 (n0, 2) and (n1, 2).
        matches0: (n0,), rows of keypoints1, -1 without a match; scores0: float64 (n0,).
        seed: of everything random about this item, from its name.
    """

    keypoints0: Array
    keypoints1: Array
    matches0: NDArray[np.integer]
    scores0: Array
    seed: int

    @property
    def matched(self) -> NDArray[np.intp]:
        """(m,): the keypoints of view 0 with a match, the surest first, as progressive sampling needs them."""
        found = np.flatnonzero(self.matches0 >= 0)
        return found[np.argsort(-self.scores0[found], kind="stable")]

    @property
    def points0(self) -> Array:
        """(m, 2), of the matches."""
        return self.keypoints0[self.matched]

    @property
    def points1(self) -> Array:
        """(m, 2), of the matches."""
        return self.keypoints1[self.matches0[self.matched]]

    @property
    def scores(self) -> Array:
        """(m,), of the matches."""
        return self.scores0[self.matched]


def read_matches(predictions: Items, row: int) -> Matches:
    """One item's matches.

    Raises:
        RunError: keypoints or scores are not finite, or a match names a keypoint that is not there.
    """
    first, second, matches, scores = (np.asarray(predictions.item(field, row)) for field in MATCH_FIELDS)
    name = predictions.names[row]
    where = f"row {row} ({name!r})"
    if not all(np.isfinite(each).all() for each in (first, second, scores)):
        raise RunError(f"{where}: keypoints or scores hold NaN or infinity: export again.")
    if not len(matches) == len(scores) == len(first) or (len(matches) and int(matches.max()) >= len(second)):
        raise RunError(f"{where}: matches0 names keypoints that are not there: the head that made them is wrong.")
    points0, points1 = (each.reshape(-1, 2).astype(np.float64) for each in (first, second))
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return Matches(points0, points1, matches, scores.astype(np.float64), seed)


def match_kinds(family: Benchmark) -> dict[str, Callable[[Any, Any], None]]:
    """Kinds of pictures of a pair (`Benchmark.kinds`) of a family that is told keypoints and matches."""
    return {
        "matches": lambda axes, item: family.draw(axes, item.prediction, item.target, item.image),
        "keypoints": _draw_keypoints,
    }


def _draw_keypoints(axes: Any, item: Any) -> None:
    from benchkit.viz import matches as viz

    points0, points1, matches = (np.asarray(item.prediction[name]) for name in MATCH_FIELDS[:3])
    found = matches >= 0
    matched1 = np.isin(np.arange(len(points1.reshape(-1, 2))), matches[found])
    sizes = (np.asarray(item.target["size0"]), np.asarray(item.target["size1"]))
    viz.draw_keypoints(axes, (points0.reshape(-1, 2), points1.reshape(-1, 2)), (found, matched1), sizes, item.image)
