"""SuperPoint (DeTone et al. 2018) as transformers has it; the weights are for non-commercial research only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchkit.backbones._points import PointSettings
from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone

EXTRA, NEEDS = "hf", ("transformers",)


@dataclass
class Settings(PointSettings):
    """Which of SuperPoint's keypoints, and where its weights come from."""

    threshold: float = setting(0.005, "score below which a keypoint is dropped")
    nms_radius: int = setting(4, "pixels within which only the surest keypoint is kept")
    border: int = setting(4, "pixels along the image's edges where no keypoint is kept")
    model_id: str = setting("magic-leap-community/superpoint", "name on the hub, or a folder")
    checkpoint: str | None = setting(None, "weights file in place of the hub's", identity=False)


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """SuperPoint as a Backbone in eval mode, on the CPU.

    Args:
        settings: which keypoints.
        size: not used: images come as they are.
        random: random weights, from `seed` alone.
        seed: of the random weights.
        pad: not used.

    Raises:
        UsageError: transformers is not installed, or the weights cannot be had or do not fit.
    """
    from benchkit.backbones._learned_points import build_superpoint

    return build_superpoint(settings, random=random, seed=seed)
