"""What a Hugging Face image processor does, as a Preprocess; tried on an image, since processors differ in their ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchkit import preprocess as inputs
from benchkit.backbones.base import Preprocess
from benchkit.errors import UsageError

INTERPOLATIONS = {0: "nearest", 2: "bilinear", 3: "bicubic"}  # by PIL's numbers
OTHERS = {1: "lanczos", 4: "box", 5: "hamming"}
WARP_FROM = 384  # ConvNeXt's processor crops below this side, and squashes from it on
TOLERANCE = 6 / 255  # mean difference of pixels: resizes differ by 2/255, another crop or normalisation by more
MEND = (
    "Say in model.backbone.processor what it should be, such as {image_processor_type: BitImageProcessor, size: "
    "{shortest_edge: 256}, crop_size: {height: 224, width: 224}, image_mean: [...], image_std: [...], resample: 3}"
)


def preprocess_of(processor: Any, name: str) -> tuple[Preprocess, tuple[str, ...]]:
    """The preprocessing that an image processor does, and what differs from it.

    Args:
        processor: of Hugging Face transformers.
        name: of the model, for messages.

    Raises:
        UsageError: it does what benchkit's preprocessing does not do.
    """
    side, crop_pct, resize, notes = _geometry(processor, name)
    mean, std = _normalisation(processor, name)
    code = int(getattr(processor, "resample", None) or 0)
    if code not in INTERPOLATIONS:
        raise UsageError(
            f"the image processor of {name} resizes by {OTHERS.get(code, code)}, which benchkit does not. Choose another with "
            "model.backbone.processor={resample: 3} (bicubic) or 2 (bilinear)."
        )
    own = Preprocess(side, INTERPOLATIONS[code], mean, std, crop_pct, resize)  # type: ignore[arg-type]
    difference = _difference(processor, own, square=bool(notes))
    if difference > TOLERANCE:
        raise UsageError(
            f"the image processor of {name}, a {type(processor).__name__}, does more than resize, crop and normalise: its "
            f"pixels are {difference * 255:.0f}/255 away from what its settings say. {MEND}."
        )
    return own, notes


def _geometry(processor: Any, name: str) -> tuple[int, float, str, tuple[str, ...]]:
    """Side, crop_pct, crop or squash, and what there is to say."""
    if patches := getattr(processor, "max_num_patches", None):  # NaFlex: as many patches as fit, aspect kept
        said = f"its processor keeps the aspect in up to {patches} patches, and here whole images are squashed"
        return int(patches**0.5) * int(processor.patch_size), 1.0, "squash", (said,)
    size = dict(processor.size or {}) if processor.do_resize else {}
    if processor.do_center_crop:
        return _cropped(processor, size, name)
    short, pct = size.get("shortest_edge"), getattr(processor, "crop_pct", None)
    if short and pct:
        return (short, pct, "crop", ()) if short < WARP_FROM else (short, 1.0, "squash", ())
    if short:
        return short, 1.0, "crop", ("its processor does not crop, and here the centre is taken",)
    return _square(size, name), 1.0, "squash", ()


def _cropped(processor: Any, size: dict[str, Any], name: str) -> tuple[int, float, str, tuple[str, ...]]:
    side = _square(dict(processor.crop_size), name)
    short, pct = size.get("shortest_edge"), getattr(processor, "crop_pct", None)
    resized = (int(short / pct) if pct else short) if short else _square(size, name)
    if resized < side:
        raise UsageError(
            f"the image processor of {name} crops {side} pixels from {resized} and fills up the rest. {MEND}."
        )
    if short:
        return side, side / resized, "crop", ()
    if resized == side:
        return side, 1.0, "squash", ()
    said = f"its processor squashes to {resized} x {resized} before it crops, and here the aspect is kept"
    return side, side / resized, "crop", (said,)


def _square(size: dict[str, Any], name: str) -> int:
    height, width = size.get("height"), size.get("width")
    if not height or height != width:
        shown = {key: value for key, value in size.items() if value} or "no size"
        raise UsageError(f"the image processor of {name} gives images of {shown}, not of one square size. {MEND}.")
    return int(height)


def _normalisation(processor: Any, name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and std on pixels in 0..1, whatever the processor rescales to."""
    scale = 255 * (float(processor.rescale_factor) if processor.do_rescale else 1.0)
    offset = 1.0 if getattr(processor, "rescale_offset", False) else 0.0  # EfficientNet: pixel * factor - 1
    mean, std = (processor.image_mean, processor.image_std) if processor.do_normalize else ([0.0] * 3, [1.0] * 3)
    means, stds = (np.broadcast_to(np.asarray(values, float), 3) for values in (mean, std))
    if getattr(processor, "include_top", False):  # EfficientNet's divides by std once more
        stds = stds * np.asarray(processor.image_std, float)
    given = tuple((means + offset) / scale), tuple(stds / scale)
    if not all(0 <= m <= 1 and 0 < s <= 1 for m, s in zip(*given, strict=True)):
        raise UsageError(
            f"the image processor of {name} normalises to mean {given[0]} and std {given[1]} of pixels in 0..1, which cannot "
            f"be right: both lie in that range. {MEND}."
        )
    return tuple(map(float, given[0])), tuple(map(float, given[1]))


def _difference(processor: Any, own: Preprocess, square: bool) -> float:
    """Mean difference, in the 0..1 range, between the processor's input and benchkit's for one image."""
    image = _pattern(own.size + 64, own.size + (64 if square else 160))
    short = int(own.size / own.crop_pct)
    ours = inputs.Preprocess(
        own.size, own.resize, short, own.interpolation, own.mean or (), own.std or (), decoder="pil"
    )
    expected = ours.normalise(ours.apply(image)[None])[0]
    try:
        given = torch.as_tensor(processor(images=image, return_tensors="pt")["pixel_values"][0]).float()
    except (KeyError, ValueError, TypeError, RuntimeError):
        return 1.0  # no pixels
    if given.ndim == 2 and getattr(processor, "patch_size", None):
        given = unpatchified(given, own.size // int(processor.patch_size), int(processor.patch_size))
    if given.shape != expected.shape:
        return 1.0
    return float(((given - expected).abs().mean((1, 2)) * torch.tensor(own.std)).max())


def _pattern(height: int, width: int) -> np.ndarray:
    """uint8 (H, W, 3): waves along x and along y, and a ramp: no two places and no two channels are alike."""
    y, x = np.mgrid[:height, :width]
    waves = [127.5 + 120 * np.sin(2 * np.pi * along / 160) for along in (x, y)]
    return np.stack([*waves, 255 * (x + y) / (height + width)], axis=-1).astype(np.uint8)


def patchified(image: torch.Tensor, patch: int) -> torch.Tensor:
    """(B, 3, H, W) -> (B, h * w, patch * patch * 3), rows of patches from the top left, channels last in each."""
    rows, channels, height, width = image.shape
    cells = image.reshape(rows, channels, height // patch, patch, width // patch, patch)
    return cells.permute(0, 2, 4, 3, 5, 1).reshape(rows, (height // patch) * (width // patch), -1)


def unpatchified(patches: torch.Tensor, side: int, patch: int) -> torch.Tensor:
    """The square image (3, H, W) whose patches these are: (side * side, patch * patch * 3)."""
    cells = patches.reshape(side, side, patch, patch, 3)
    return cells.permute(4, 0, 2, 1, 3).reshape(3, side * patch, side * patch)
