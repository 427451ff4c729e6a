"""Walls, windows and paint: the Painting Vision taxonomy 1.0, what other labels become in it, and how much is painted.

Ten classes: 0 other, 1 wall_unpainted, 2 wall_painted, 3 wall_uncertain, 8 window; 4 to 7 and 9 are neither wall nor window
(skirting, fixtures, obstacles ...), and no score tells them apart but the mean over all ten. Three shared classes, which any
model can express: other, wall (1, 2, 3) and window (8).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

TAXONOMY_VERSION = "1.0"
N_CLASSES, VOID = 10, 255
INFERENCE_SIZE = 640  # of the long side, aspect kept, padded to the model's stride
OTHER, UNPAINTED, PAINTED, WINDOW = 0, 1, 2, 8
SHARED = ("other", "wall", "window")
SHARED_OF = np.array([0, 1, 1, 1, 0, 0, 0, 0, 2, 0], np.uint8)  # shared class of each of the ten
SYNONYMS = {"wall": 1, "window": 2, "windowpane": 2}  # names of labels that are no `other`

_TABLE = np.full(256, VOID, np.uint8)
_TABLE[:N_CLASSES] = SHARED_OF


def shared(mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Shared classes (0 to 2, 255 void) of a mask of the ten, of any shape."""
    return _TABLE[mask]


@dataclasses.dataclass(frozen=True)
class Projection:
    """A model's own labels in the shared classes.

    Attributes:
        classes: the shared class of each label.
        told: wall and window -> their labels, by name; all others are `other`.
        near: labels that speak of a wall or a window and are neither by exact name, so they are `other`.
    """

    classes: NDArray[np.uint8]
    told: dict[str, list[str]]
    near: list[str]


def project(labels: Sequence[Sequence[str]]) -> Projection:
    """Map labels by name: `wall` is wall, `window` and `windowpane` are window, everything else is other.

    A name is split at commas and semicolons, and one synonym has to be exactly one of the three, case aside: ADE20K's
    `windowpane;window` is a window, COCO-Stuff's `wall-brick` and `window-other` are other.

    Args:
        labels: per label its names.
    """
    names = [[part for name in each for part in _synonyms(name)] for each in labels]
    classes = np.array([max((SYNONYMS.get(part, 0) for part in each), default=0) for each in names], np.uint8)
    shown = [" / ".join(each) for each in labels]
    near = [
        text
        for text, each, found in zip(shown, names, classes, strict=True)
        if not found and any(word in part for part in each for word in SYNONYMS)
    ]
    told = {SHARED[k]: [t for t, found in zip(shown, classes, strict=True) if found == k] for k in (1, 2)}
    return Projection(classes, told, near)


def _synonyms(name: str) -> Iterator[str]:
    return (part.strip().lower() for part in re.split("[,;]", name) if part.strip())


def painted(mask: NDArray[np.uint8], truth: NDArray[np.uint8]) -> tuple[int, int]:
    """Painted and decided (painted or unpainted) pixels of a mask of the ten classes, where the truth is not void."""
    known = truth != VOID
    count = int(((mask == PAINTED) & known).sum())
    return count, count + int(((mask == UNPAINTED) & known).sum())


def coverage_error(predicted: tuple[int, int], true: tuple[int, int]) -> float:
    """|painted share predicted - painted share true| of a frame, each share over its own decided pixels.

    NaN where no wall is decided in the truth. A prediction that decides none gets the worst error that there can be,
    max(s, 1 - s) of the true share s: saying nothing earns nothing.
    """
    if not true[1]:
        return float("nan")
    share = true[0] / true[1]
    return abs(predicted[0] / predicted[1] - share) if predicted[1] else max(share, 1 - share)


def ious_of_present(positives: NDArray, predicted: NDArray, true: NDArray) -> NDArray[np.float64]:
    """Intersection over union per class, (..., K) from counts (..., K); NaN for classes that are absent from the truth."""
    union = predicted.astype(np.int64) + true - positives
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(true > 0, positives / union, np.nan)


def mean_of_present(values: NDArray[np.float64]) -> float:
    """Mean over the classes that are present in the truth; NaN without any."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")
