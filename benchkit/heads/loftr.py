"""LoFTR (Sun et al. 2021): dense matches of two images, each cell of a grid of 8 pixels with its place in the other image.

It takes both images at once, so nothing of it is banked: the backbone is `pixels`. Code and published weights are kornia's.
The images are grey, 0 to 1, and as large as data.size (the long side), data.resize_short or the images themselves are; time
and memory grow with the product of both images' pixels. The paper's sizes: long side 840 on MegaDepth, 640 x 480 on ScanNet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from benchkit.heads.base import Head, ModelSide, Wants
from benchkit.settings import setting
from benchkit.store.points import MATCH_FIELDS

EXTRA, NEEDS = "lightglue", ("kornia",)  # the extra brings it


@dataclasses.dataclass
class Settings:
    """Which weights, and how sure a match has to be."""

    pretrained: Literal["outdoor", "indoor", "indoor_new"] = setting(
        "outdoor",
        "outdoor (MegaDepth), indoor or indoor_new (ScanNet); downloaded by kornia, or of a checkpoint what it is like",
    )
    checkpoint: str | None = setting(None, "weights file in place of a download, such as loftr_outdoor.ckpt")
    random: bool = setting(False, "random weights, from the seed alone")
    seed: int = setting(0, "of random weights")
    threshold: float = setting(0.2, "smallest confidence of a match, 0 to 1")
    max_matches: int | None = setting(None, "so many of the surest ones are kept (default: all)")

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold lies from 0 to below 1, not {self.threshold}")
        if self.max_matches is not None and self.max_matches < 1:
            raise ValueError(f"max_matches is at least 1, not {self.max_matches}")
        if self.random and self.checkpoint:
            raise ValueError("weights are random or of a checkpoint, not both")


class LoFTR(Head):
    """Fields as of `benchkit.heads.match`: keypoints0, keypoints1 (the surest first), matches0 (each row the same of the other
    image), matching_scores0 (LoFTR's coarse confidence, 0 to 1).
    """

    gives = MATCH_FIELDS

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.net: Any = None

    def wants(self) -> Wants:
        """Both views themselves."""
        return Wants("images", views=2)

    def prepare(self, model: ModelSide, meta: Mapping[str, Any]) -> list[str]:
        """Load the weights.

        Raises:
            UsageError: kornia is not installed, or the weights cannot be had or do not fit.
        """
        from benchkit.heads.solvers import loftr

        if self.net is None:
            self.net = loftr.load(self.settings)
        return []

    def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
        """Of a `benchkit.export.views.Views` with the two views of each item, one after the other."""
        from benchkit.heads.solvers import dense_matcher, loftr

        net = self.net.to(features.device)
        return dense_matcher.predict(
            features, lambda *pair: loftr.match(net, *pair), self.settings.max_matches, threads
        )

    def protocol(self) -> dict[str, Any]:
        """Which weights."""
        from benchkit.heads.solvers.lightglue import weights_hash

        return {"weights": weights_hash(self.net)}

    def meta(self) -> dict[str, Any]:
        """Nothing."""
        return {}


build = LoFTR
