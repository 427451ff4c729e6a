"""AKAZE (Alcantarilla et al. 2013) as OpenCV 4 computes it: corners of a nonlinear scale space, 486 binary tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchkit.backbones._points import PointSettings
from benchkit.errors import UsageError
from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone

EXTRA, NEEDS = "geometry", ("cv2",)


@dataclass
class Settings(PointSettings):
    """Settings of the detector, by OpenCV's defaults but for the number of keypoints."""

    threshold: float = setting(0.001, "response below which a keypoint is dropped")
    octaves: int = setting(4, "octaves of the scale space")
    octave_layers: int = setting(4, "layers of each octave")


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """AKAZE as a Backbone. Nothing is trained, so `random` and `seed` change nothing.

    Raises:
        UsageError: OpenCV is not installed, or is one without AKAZE (5 has it among its contributed modules only).
    """
    from benchkit.backbones._opencv_points import OpenCVPoints

    numbers = [settings.threshold, settings.octaves, settings.octave_layers]
    return OpenCVPoints("akaze", lambda cv2: _detector(cv2, settings), settings.max_points, 488, numbers)


def _detector(cv2: object, settings: Settings) -> object:
    create = getattr(cv2, "AKAZE_create", None) or getattr(getattr(cv2, "xfeatures2d", None), "AKAZE_create", None)
    if create is None:
        raise UsageError(
            "this OpenCV has no AKAZE: OpenCV 4 has (pip install 'opencv-python-headless<5'), and OpenCV 5 in its "
            "contributed modules (pip install opencv-contrib-python-headless)."
        )
    return create(threshold=settings.threshold, nOctaves=settings.octaves, nOctaveLayers=settings.octave_layers)
