"""Any timm model by the name of its architecture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone


@dataclass
class Settings:
    """Which timm model, and where its weights come from."""

    arch: str = setting("", "timm's name of the architecture, with or without the tag of its weights")
    pretrained: bool = setting(
        True, "without a file, use timm's published weights (its hub or local cache); false: a file must be given"
    )
    # What a file holds enters the identity through the hash of the weights in memory; where it lies does not.
    checkpoint: str | None = setting(
        None, "weights file (.safetensors, .pt, .pth, .th) in place of the published weights", identity=False
    )
    weights: str | None = setting(
        None, "package:NAME: the weights file inside that Python package, when no checkpoint is given", identity=False
    )
    checkpoint_match: str = setting(
        "name", "name, or order: another library's names in timm's order (used when no name fits)", identity=False
    )
    size: int | None = setting(None, "side of the images in pixels when data.size does not say (default: timm's)")
    crop_pct: float | None = setting(None, "share of the resized short side that is kept (default: timm's)")
    extra_kwargs: dict[str, Any] = setting({}, "further arguments of timm.create_model, such as pad_type: same")


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """The timm model as a Backbone in eval mode, on the CPU.

    Args:
        settings: which model.
        size: side of the images in pixels; None for `settings.size`, or else timm's.
        random: random weights, from `seed` alone, in place of trained ones.
        seed: of everything random while building; the global random state is neither read nor changed.
        pad: images of many shapes will come, each a multiple of the patch.

    Raises:
        UsageError: no such architecture, no weights, weights that do not fit, or a size that the model cannot take.
    """
    from benchkit.backbones._timm_build import build_timm

    return build_timm(settings, size=size, random=random, seed=seed, pad=pad)


def fetch(settings: Settings) -> list[Path]:
    """Files that the model needs, brought here where they are not yet.

    Raises:
        UsageError: they cannot be had.
    """
    from benchkit.backbones._timm_build import fetch_timm

    return fetch_timm(settings)
