"""Matches between two images' local features, or the cells of their feature maps: nearest neighbours by cosine.

Of a model without keypoints the features of every cell are points at the cell's centre, (i + .5) strides from the image's
corner. All are normalised to length 1. Each point of the first image is matched to the most similar one of the second, unless
the second most similar is nearly as near (Lowe's ratio test on distances), or, of mutual matches, another point of the first
image is nearer to it; of the matches the most similar ones are kept. Without weights of its own.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from benchkit.heads.base import Head, Wants
from benchkit.settings import setting
from benchkit.store.points import MATCH_FIELDS


@dataclasses.dataclass
class Settings:
    """Which nearest neighbours are matches."""

    ratio: float = setting(0.9, "largest distance to the nearest over that to the second nearest; 1: no test")
    mutual: bool = setting(False, "both points are each other's nearest")
    distance: float | None = setting(None, "largest distance between features of length 1, 0 to 2 (default: any)")
    max_matches: int | None = setting(1000, "so many of the most similar ones are kept (none: all)")

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise ValueError(f"ratio lies above 0 and up to 1, not {self.ratio}")
        if self.max_matches is not None and self.max_matches < 1:
            raise ValueError(f"max_matches is at least 1, not {self.max_matches}")
        if self.distance is not None and not 0 < self.distance <= 2:
            raise ValueError(f"distance lies above 0 and up to 2, not {self.distance}")


class Match(Head):
    """`keypoints0`, `keypoints1`: float32 (n, 2), x and y in original pixels; `matches0`: int32 (n0,), the row of keypoints1
    or -1; `matching_scores0`: float32 (n0,), cosines, 0 without a match. Named as Glue Factory names them.
    """

    one_grid = True
    gives = MATCH_FIELDS

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def wants(self) -> Wants:
        """Both views' local features, else their maps."""
        return Wants("patch", views=2, points="rather")

    def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
        """Of local features (a `benchkit.store.points.Points`) or maps (a `benchkit.store.maps.Maps`) of the two views of each
        item, one after the other.
        """
        from benchkit.heads.solvers import grid_matches

        return grid_matches.predict(features, self.settings, threads)

    def meta(self) -> dict[str, Any]:
        """Nothing."""
        return {}


build = Match
