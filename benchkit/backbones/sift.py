"""SIFT (Lowe 2004) as OpenCV computes it, with keypoints that are not a quarter of a pixel off."""

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
    """Settings of the detector, by OpenCV's defaults."""

    octave_layers: int = setting(3, "layers of each octave")
    contrast: float = setting(0.04, "contrast below which a keypoint is dropped")
    edge: float = setting(10.0, "ratio of curvatures above which a keypoint lies on an edge and is dropped")
    sigma: float = setting(1.6, "blur of the first octave in pixels")
    root: bool = setting(False, "RootSIFT: square roots of L1-normalised descriptors")


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """SIFT as a Backbone. Nothing is trained, so `random` and `seed` change nothing.

    Raises:
        UsageError: OpenCV is not installed, or older than 4.8, whose keypoints are .24 pixels off.
    """
    from benchkit.backbones._opencv_points import OpenCVPoints

    numbers = [settings.octave_layers, settings.contrast, settings.edge, settings.sigma]
    return OpenCVPoints("sift", lambda cv2: _detector(cv2, settings), settings.max_points, 128, numbers, settings.root)


def _detector(cv2: object, settings: Settings) -> object:
    from benchkit.errors import UsageError

    try:
        return cv2.SIFT_create(  # type: ignore[attr-defined]
            nfeatures=settings.max_points,
            nOctaveLayers=settings.octave_layers,
            contrastThreshold=settings.contrast,
            edgeThreshold=settings.edge,
            sigma=settings.sigma,
            enable_precise_upscale=True,
        )
    except TypeError as error:
        raise UsageError(
            "this OpenCV has no SIFT with enable_precise_upscale, and its keypoints are .24 pixels off: take 4.8 or later "
            "(pip install 'benchkit[geometry]')."
        ) from error
