"""ORB (Rublee et al. 2011) as OpenCV computes it: oriented FAST corners with 256 binary tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchkit.backbones._points import PointSettings
from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone

EXTRA, NEEDS = "geometry", ("cv2",)


@dataclass
class Settings(PointSettings):
    """Settings of the detector, by OpenCV's defaults but for the number of keypoints."""

    scale_factor: float = setting(1.2, "ratio of sides between two levels of the pyramid")
    levels: int = setting(8, "levels of the pyramid")
    fast_threshold: int = setting(20, "difference of brightness that makes a corner")


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """ORB as a Backbone. Nothing is trained, so `random` and `seed` change nothing.

    Raises:
        UsageError: OpenCV is not installed.
    """
    from benchkit.backbones._opencv_points import OpenCVPoints

    def make(cv2: object) -> object:
        return cv2.ORB_create(  # type: ignore[attr-defined]
            nfeatures=settings.max_points,
            scaleFactor=settings.scale_factor,
            nlevels=settings.levels,
            fastThreshold=settings.fast_threshold,
        )

    numbers = [settings.scale_factor, settings.levels, settings.fast_threshold]
    return OpenCVPoints("orb", make, settings.max_points, 256, numbers)
