"""From an image to the model's input: one resize, one crop or padding, one normalisation (design: frames of reference).

An 8-bit antialiased resize on a channels-last view takes a third of the CPU time of the usual float pipeline and
differs from PIL's by at most 2/255 (more where bicubic overshoots in a tall, narrow image: PIL turns its passes round).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from benchkit.errors import UsageError

RESIZES = ("crop", "pad", "short", "native", "squash")
PADDED = ("pad", "short", "native")  # aspect kept, the whole image, padded to a multiple
INTERPOLATIONS = {"bilinear": "bilinear", "bicubic": "bicubic", "nearest": "nearest-exact"}  # torch's names; its
# "nearest" samples cell corners instead of centres, half a pixel beside PIL's
_STRETCHED = 16  # resized images of more than so many crops (1 x 5000 pixels) are only made where the crop will be


def channels_first(image: np.ndarray) -> Any:
    """uint8 (H, W, 3) -> tensor (1, 3, H, W) over the same memory; only what cannot be written to is copied."""
    import torch

    return torch.from_numpy(np.require(image, requirements=("C", "W"))).permute(2, 0, 1)[None]


@dataclasses.dataclass(frozen=True)
class Preprocess:
    """How images become inputs; all of it is part of the backbone's identity.

    Attributes:
        size: side of the input in pixels (the long side with `pad`).
        resize: crop: short side to `short`, then the central size x size. pad: long side to `size`, aspect kept, padded
            with the mean colour at the right and bottom to a multiple of `multiple`. short: the same with the short side to
            `short`. native: the same at the image's own size. squash: size x size, aspect not kept.
        short: short side before the crop, or of `short`.
        interpolation: bilinear, bicubic or nearest; always antialiased.
        mean, std: of the normalisation, three each, in the 0..1 range.
        multiple: patch size or stride that padded sides are a multiple of.
        decoder: fast or pil.

    Raises:
        UsageError: a value that makes no sense.
    """

    size: int
    resize: str
    short: int
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    multiple: int = 1
    decoder: str = "fast"

    def __post_init__(self) -> None:
        if self.resize not in RESIZES:
            raise UsageError(f"data.resize={self.resize} is not one of crop, pad, native, squash.")
        if self.interpolation not in INTERPOLATIONS:
            raise UsageError(f"model.preprocess.interpolation={self.interpolation}: use {', '.join(INTERPOLATIONS)}.")
        if self.decoder not in ("fast", "pil"):
            raise UsageError(f"data.decoder={self.decoder} is not one of fast, pil.")
        if self.size < 1 or self.multiple < 1:
            raise UsageError(f"data.size={self.size} and the multiple {self.multiple} of its sides must be positive.")
        if self.resize == "crop" and self.short < self.size:
            raise UsageError(f"data.resize_short={self.short} must be at least data.size={self.size}.")
        self._check_normalisation()

    def _check_normalisation(self) -> None:
        if not (len(self.mean) == len(self.std) == 3 and all(0 <= m <= 1 for m in self.mean)):
            raise UsageError(f"the mean {list(self.mean)} of the normalisation must be three numbers from 0 to 1.")
        if not all(0 < s <= 1 for s in self.std):
            raise UsageError(
                f"the std {list(self.std)} of the normalisation must be three numbers above 0, at most 1: of 0..1."
            )

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width after the resize, before crop or padding."""
        if self.resize == "squash":
            return self.size, self.size
        if self.resize == "native":
            return height, width
        if self.resize == "crop":
            ratio, target = min(height, width), self.short
            return (target, int(target * width / ratio)) if height <= width else (int(target * height / ratio), target)
        scale = self.short / min(height, width) if self.resize == "short" else self.size / max(height, width)
        return max(1, round(height * scale)), max(1, round(width * scale))

    def shape(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the model's input for an image of this size."""
        if self.resize not in PADDED:
            return self.size, self.size
        h, w = self.resized(height, width)
        return math.ceil(h / self.multiple) * self.multiple, math.ceil(w / self.multiple) * self.multiple

    def frame(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the scored frame of an image of this size: the crop, or the whole image."""
        return (self.size, self.size) if self.resize == "crop" else (height, width)

    def extent(self, height: int, width: int) -> tuple[float, float]:
        """The share of the input's height and width that shows the image; below 1 where it is padded."""
        if self.resize not in PADDED:
            return 1.0, 1.0
        (h, w), (padded_h, padded_w) = self.resized(height, width), self.shape(height, width)
        return h / padded_h, w / padded_w

    def framed(self, values: np.ndarray) -> np.ndarray:
        """A pixel map (H, W, ...) of the image in the scored frame: through the image's own resize and crop, by the
        nearest pixel centre, so that no label or depth is made up; untouched where the whole image is scored.
        """
        if self.resize != "crop":
            return values
        height, width = values.shape[:2]
        resized = self.resized(height, width)
        rows, columns = self._sources(height, resized[0]), self._sources(width, resized[1])
        return np.ascontiguousarray(values[rows[:, None], columns[None]])

    def _sources(self, side: int, resized: int) -> np.ndarray:
        """For every pixel of the crop along one axis, the pixel of the original whose area holds its centre."""
        first = round((resized - self.size) / 2)  # as torchvision's centre crop rounds
        centres = (np.arange(first, first + self.size) + 0.5) * (side / resized)
        return np.minimum(centres.astype(np.intp), side - 1)

    def apply(self, image: np.ndarray) -> Any:
        """uint8 (H, W, 3) -> uint8 tensor (3, h, w), not yet normalised."""
        import torch
        from torchvision.transforms.v2 import functional

        target = list(self.resized(*image.shape[:2]))
        if self.resize == "crop" and target[0] * target[1] > _STRETCHED * self.size**2:
            return torch.from_numpy(self._central(image, *target)).permute(2, 0, 1)
        view = channels_first(image)
        if target != list(image.shape[:2]):
            mode = functional.InterpolationMode(INTERPOLATIONS[self.interpolation])
            view = functional.resize(view, target, interpolation=mode, antialias=True)
        if self.resize == "crop":
            view = functional.center_crop(view, [self.size, self.size])
        elif self.resize in PADDED:
            view = self._padded(view, self.shape(*image.shape[:2]))
        return view[0]

    def _central(self, image: np.ndarray, height: int, width: int) -> np.ndarray:
        """The central crop of the image resized to (height, width), by PIL, which makes no pixel outside it."""
        from PIL import Image

        top, left = (round((side - self.size) / 2) for side in (height, width))
        x, y = image.shape[1] / width, image.shape[0] / height
        box = (left * x, top * y, (left + self.size) * x, (top + self.size) * y)
        method = Image.Resampling[self.interpolation.upper()]
        return np.array(Image.fromarray(image).resize((self.size, self.size), method, box=box))

    def _padded(self, view: Any, shape: tuple[int, int]) -> Any:
        import torch

        fill = torch.tensor([round(m * 255) for m in self.mean], dtype=torch.uint8)
        padded = fill[None, :, None, None].expand(1, 3, *shape).clone(memory_format=torch.channels_last)
        padded[..., : view.shape[2], : view.shape[3]] = view
        return padded

    def normalise(self, batch: Any, out: Any = None) -> Any:
        """uint8 (B, 3, h, w) on any device -> float32, (x / 255 - mean) / std, channels-last.

        Args:
            batch: channels-last is fastest.
            out: float32 (B * h, w * 3) that is written over and returned as a view; its allocation costs more than the
                arithmetic. Whole rows of pixels are one axis, since arithmetic over an axis of three is five times slower.
        """
        import torch

        count, channels, height, width = batch.shape
        rows = batch.permute(0, 2, 3, 1).reshape(count * height, width * channels)
        mean = (torch.tensor(self.mean, device=batch.device) * 255).repeat(width)
        std = (torch.tensor(self.std, device=batch.device) * 255).repeat(width)
        normal = torch.sub(rows, mean, out=out).div_(std)
        return normal.view(count, height, width, channels).permute(0, 3, 1, 2)
