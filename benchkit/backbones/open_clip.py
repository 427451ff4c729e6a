"""Any image-text model of open_clip: CLIP, SigLIP, CoCa and their like, image and text tower."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone


@dataclass
class Settings:
    """Which model of open_clip, and where its weights come from."""

    arch: str = setting("", "open_clip's name of the model, such as ViT-B-16, ViT-B-32-quickgelu or ViT-B-16-SigLIP")
    # Part of the identity: mean, std and resize are those of the tag, also for a file.
    weights: str | None = setting(
        None, "open_clip's tag of the weights, such as openai; for a file, the tag it is, or was trained like"
    )
    pretrained: bool = setting(
        True, "without a file, use the published weights (the hub or its local cache); false: a file must be given"
    )
    checkpoint: str | None = setting(
        None, "weights file (.safetensors, .pt, .pth, .th) in place of the published weights", identity=False
    )
    size: int | None = setting(None, "side of the images in pixels when data.size does not say (default: open_clip's)")


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """The open_clip model as a Backbone in eval mode, on the CPU.

    Args:
        settings: which model.
        size: side of the images in pixels; None for `settings.size`, or else open_clip's.
        random: random weights, from `seed` alone, in place of trained ones.
        seed: of everything random while building; the global random state is neither read nor changed.
        pad: images of many shapes will come; none of these models takes them.

    Raises:
        UsageError: no such architecture or tag, an activation that the weights were not trained with, no weights,
            weights that do not fit, or a size that the model cannot take.
    """
    from benchkit.backbones._open_clip_build import build_open_clip

    return build_open_clip(settings, size=size, random=random, seed=seed, pad=pad)


def fetch(settings: Settings) -> list[Path]:
    """Files that the model needs, brought here where they are not yet: weights, and the tokenizer's.

    Raises:
        UsageError: one of them cannot be had.
    """
    from benchkit.backbones._open_clip_build import fetch_open_clip

    return fetch_open_clip(settings)
