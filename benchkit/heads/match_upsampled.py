"""Matches between two images' feature maps enlarged to the grid on which the truth is known: probe3d's protocol.

Both maps are interpolated to the grid of known points (a quarter of the image's sides), features normalised to length 1, and
each valid cell of the first view is matched to the most similar valid cell of the second. The matches with the smallest ratio of
cosine distances to the nearest and to the second nearest are kept, 1000 of them. Source: probe3d (El Banani et al. 2024),
evals/utils/correspondence.py: estimate_correspondence_xyz (NAVI, bicubic), estimate_correspondence_depth (ScanNet, bilinear). The
truth says which cells are valid; nothing else of it is read.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from benchkit.errors import UsageError
from benchkit.heads.base import Head, Wants
from benchkit.settings import setting
from benchkit.store.items import Items
from benchkit.store.points import MATCH_FIELDS


@dataclasses.dataclass
class Settings:
    """How maps are enlarged, and which nearest neighbours are kept."""

    interpolation: Literal["bicubic", "bilinear"] = setting("bicubic", "of the maps to the grid: bicubic or bilinear")
    max_matches: int = setting(1000, "so many are kept, those whose nearest stands out most from the second nearest")

    def __post_init__(self) -> None:
        if self.max_matches < 1:
            raise ValueError(f"max_matches is at least 1, not {self.max_matches}")


class MatchUpsampled(Head):
    """Only the matched cells: `keypoints0`: float32 (n, 2), centres of cells in original pixels, the surest match first;
    `keypoints1`: float32 (m, 2), each cell once; `matches0`: int32 (n,), rows of keypoints1; `matching_scores0`: float32 (n,),
    1 minus the ratio of distances, 0 to 1.
    """

    one_grid = True
    gives = MATCH_FIELDS

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.given: Items | None = None

    def wants(self) -> Wants:
        """The maps of both views."""
        return Wants("patch", views=2)

    def read_given(self, given: Items) -> None:
        """`valid0`, `valid1`: bool (h, w), the cells of each view that may be matched."""
        self.given = given

    def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
        """Of maps (a `benchkit.store.maps.Maps`) of the two views of each item, one after the other.

        Raises:
            UsageError: the data do not say which cells are valid.
        """
        from benchkit.heads.solvers import upsampled_matches

        if self.given is None or "valid0" not in self.given or "valid1" not in self.given:
            raise UsageError(
                "match_upsampled matches cells whose points in space are known, and these data do not say which they are "
                "(valid0, valid1): use data of known points (data.truth=xyz), or model.head.name=match."
            )
        return upsampled_matches.predict(features, self.given, self.settings, threads)

    def meta(self) -> dict[str, Any]:
        """Nothing."""
        return {}


build = MatchUpsampled
