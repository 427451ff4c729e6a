"""Any image classification or segmentation model of torchvision by the name of its architecture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone


@dataclass
class Settings:
    """Which torchvision model, and where its weights come from."""

    arch: str = setting("", "torchvision's name of the architecture, such as resnet50 or vit_b_16")
    weights: str | None = setting(
        None,
        "which of its published weights (DEFAULT, IMAGENET1K_V1, ...): also their preprocessing and names of classes; of a "
        "checkpoint, say it only where it was trained with these (default: DEFAULT)",
    )
    pretrained: bool = setting(
        True, "without a file, use the published weights (downloaded or cached); false: a file must be given"
    )
    # What a file holds enters the identity through the hash of the weights in memory; where it lies does not.
    checkpoint: str | None = setting(
        None, "weights file (.safetensors, .pt, .pth, .th) in place of the published weights", identity=False
    )
    checkpoint_match: str = setting(
        "name",
        "name, or order: another library's names in torchvision's order (used when no name fits)",
        identity=False,
    )
    size: int | None = setting(None, "side of the images in pixels when data.size does not say (default: the weights')")
    crop_pct: float | None = setting(None, "share of the resized short side that is kept (default: the weights')")
    extra_kwargs: dict[str, Any] = setting({}, "further arguments of torchvision's builder, such as num_classes: 10")


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """The torchvision model as a Backbone in eval mode, on the CPU.

    Args:
        settings: which model.
        size: side of the images in pixels; None for `settings.size`, or else that of the weights' own transforms.
        random: random weights, from `seed` alone, in place of trained ones.
        seed: of everything random while building; the global random state is neither read nor changed.
        pad: images of many shapes will come.

    Raises:
        UsageError: no such architecture or weights, weights that do not fit, or a size that the model cannot take.
    """
    from benchkit.backbones._torchvision_build import build_torchvision

    return build_torchvision(settings, size=size, random=random, seed=seed, pad=pad)


def fetch(settings: Settings) -> list[Path]:
    """Files that the model needs, brought here where they are not yet.

    Raises:
        UsageError: they cannot be had.
    """
    from benchkit.backbones._checkpoint import find_checkpoint
    from benchkit.backbones._hub import torch_file
    from benchkit.backbones._torchvision_build import known_arch, known_weights, published

    entry, path = known_weights(known_arch(settings.arch), settings.weights), find_checkpoint(settings.checkpoint)
    if path or not settings.pretrained:
        return [path] if path else []
    published(entry)
    return [torch_file(entry.url)]
