"""Local features of named views, a few in memory at a time: what heads of keypoints read; and what matches are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchkit.store.features import TagFeatures

KEYPOINTS, DESCRIPTORS = "keypoints@final", "descriptors@final"
MATCH_FIELDS = (
    "keypoints0",
    "keypoints1",
    "matches0",
    "matching_scores0",
)  # of predictions of pairs, as Glue Factory has them


class LocalFeatures(NamedTuple):
    """Of one view, n points.

    Attributes:
        points: float32 (n, 2), x and y in original pixels, the corner of the top-left pixel at (0, 0).
        scores: float32 (n,); scales: float32 (n,), original pixels; angles: float32 (n,), radians.
        descriptors: float32 (n, C).
        size: width and height of the view in pixels.
    """

    points: np.ndarray
    scores: np.ndarray
    scales: np.ndarray
    angles: np.ndarray
    descriptors: np.ndarray
    size: tuple[int, int]


class Points:
    """Local features by view, read one by one from the tag's own parts; use it as a context manager.

    Args:
        folder: of the tag.
        names: of views.
        factors: float (N, 2), from pixels of the model's input to original ones, along x and y.
        sizes: (N, 2), height and width of each view.

    Raises:
        RunError: features.h5 or a part is missing, damaged or of another identity; a view is not there.
    """

    def __init__(self, folder: Path, names: Sequence[str], factors: np.ndarray, sizes: np.ndarray) -> None:
        self.names, self.factors, self.sizes = list(names), factors, sizes
        self._features = TagFeatures(folder, names)

    def view(self, row: int) -> LocalFeatures:
        """The local features of one view."""
        found = np.asarray(self._features.item(KEYPOINTS, row), np.float32)
        factor = self.factors[row]
        scales = found[:, 3] * np.float32(np.sqrt(factor.prod()))
        height, width = map(int, self.sizes[row])
        descriptors = np.asarray(self._features.item(DESCRIPTORS, row), np.float32)
        points = (found[:, :2] * factor).astype(np.float32)
        return LocalFeatures(points, found[:, 2], scales, found[:, 4], descriptors, (width, height))

    def close(self) -> None:
        """Close the files."""
        self._features.close()

    def __enter__(self) -> Points:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
