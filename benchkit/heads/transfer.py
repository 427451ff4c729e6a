"""Keypoint transfer: where in the second image is what a given point of the first one shows? The most similar cell's centre.

The first image's feature at the point is interpolated between its cells; of the second image's cells the one with the largest
cosine is the answer (probe3d, evaluate_spair_correspondence.py). With `upsample` the second image's features are interpolated
to every pixel first (DIFT, eval_spair.py). Without weights of its own.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from benchkit.errors import UsageError
from benchkit.heads.base import Head, Wants
from benchkit.settings import setting
from benchkit.store.items import Items


@dataclasses.dataclass
class Settings:
    """What the second image's places are."""

    upsample: bool = setting(False, "the second image's features are interpolated to every pixel, which then compete")


class Transfer(Head):
    """`predicted`: float32 (k, 2), x and y in original pixels of the second view, one per given query point; `scores`:
    float32 (k,), cosines; `grid`: float32 (4,), columns, rows, width and height in original pixels of the cells that competed.
    """

    one_grid = True
    gives = ("predicted", "scores", "grid")

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.given: Items | None = None

    def wants(self) -> Wants:
        """The maps of both views."""
        return Wants("patch", views=2)

    def read_given(self, given: Items) -> None:
        """`queries`: float64 (k, 2), x and y in original pixels of the first view.

        Raises:
            UsageError: the data set gives none.
        """
        if "queries" not in given:
            raise UsageError(
                "the head transfer needs points to look for, and this data set gives no `queries`: data.name=scene_pairs "
                "with data.truth=keypoints and data.name=spair do (a data set of your own: given = ('queries',))."
            )
        self.given = given

    def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
        """Of maps (a `benchkit.store.maps.Maps`) of the two views of each item, one after the other."""
        from benchkit.heads.solvers import point_transfer

        assert self.given is not None, "read_given comes first"
        return point_transfer.predict(features, self.given, self.settings.upsample, threads)

    def meta(self) -> dict[str, Any]:
        """Nothing."""
        return {}


build = Transfer
