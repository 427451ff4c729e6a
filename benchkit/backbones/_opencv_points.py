"""OpenCV's local features as a Backbone: grey images in, keypoints and descriptors out.

OpenCV counts from the centre of the top-left pixel: half a pixel is added. Binary descriptors become vectors of +-1, whose
cosine is 1 - 2 x the share of bits that differ: their order is that of the Hamming distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchkit.backbones.base import Backbone, Preprocess
from benchkit.errors import UsageError

SIZE = 640  # of the images that a model is tried on; photos come at their own size


def opencv(name: str) -> Any:
    """The library, on one thread.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import cv2
    except ImportError as missing:
        raise UsageError(f"{name} needs OpenCV: pip install 'benchkit[geometry]'.") from missing
    return cv2


class OpenCVPoints(Backbone):
    """A detector and descriptor of OpenCV.

    Args:
        name: for tables.
        make: the library -> its detector.
        most: keypoints of an image.
        width: numbers of a descriptor.
        settings: numbers of the detector, so that the hash of the state tells two settings apart.
        root: descriptors are square roots of L1-normalised ones (RootSIFT, Arandjelovic and Zisserman 2012).
    """

    pools = ("keypoints", "descriptors")
    inner_pools = ()
    preprocess = Preprocess(SIZE, "bilinear", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 1.0, "native")

    def __init__(
        self, name: str, make: Callable[[Any], Any], most: int, width: int, settings: list[float], root: bool = False
    ) -> None:
        super().__init__()
        self.name = self.local_features = name
        self.max_points, self.descriptor_size, self.root = most, width, root
        self.library = opencv(name)
        self.detector = make(self.library)
        self.upstream = f"opencv {self.library.__version__}"
        self.register_buffer("layout", torch.tensor([most, width, root, *settings], dtype=torch.float64))

    def points(self, image: Tensor) -> list[tuple[Tensor, Tensor]]:
        """One image after the other, on the CPU."""
        pixels = (image.detach().cpu().float() * 255).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)
        return [self._of(np.ascontiguousarray(each.numpy())) for each in pixels]

    def _of(self, pixels: np.ndarray) -> tuple[Tensor, Tensor]:
        grey = self.library.cvtColor(pixels, self.library.COLOR_RGB2GRAY)
        found, descriptors = self.detector.detectAndCompute(grey, None)
        if not found:
            return torch.zeros(0, 5), torch.zeros(0, self.descriptor_size)
        rows = np.array([(*k.pt, k.response, k.size, np.deg2rad(k.angle)) for k in found], np.float32)
        rows[:, :2] += 0.5
        rows[:, 4] *= rows[:, 4] >= 0  # -1: the detector gives none
        order = np.argsort(-rows[:, 2], kind="stable")[: self.max_points]
        return torch.from_numpy(rows[order]), torch.from_numpy(self._comparable(descriptors[order]))

    def _comparable(self, descriptors: np.ndarray) -> np.ndarray:
        """float32 of length 1."""
        if descriptors.dtype == np.uint8:
            values = np.unpackbits(descriptors, axis=1).astype(np.float32) * 2 - 1
        else:
            values = descriptors.astype(np.float32)
            if self.root:
                values = np.sqrt(values / np.maximum(values.sum(axis=1, keepdims=True), 1e-12))
        return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
