"""DINOv2 by the code of its authors (torch.hub, one commit of facebookresearch/dinov2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone

COMMIT = "b8931f7bf91576930313be2c6d6af376033b35f0"  # 2025-08-14


@dataclass
class Settings:
    """Which DINOv2, which state of its code, and where its weights come from."""

    arch: str = setting("dinov2_vits14", "name of a backbone in hubconf.py: dinov2_vitb14, dinov2_vitl14_reg, ...")
    commit: str = setting(COMMIT, "commit of github.com/facebookresearch/dinov2 whose code runs, all 40 digits")
    # What runs enters the identity through the hash of its code; where it lies does not.
    repo: str | None = setting(
        None, "folder of a checkout of that commit, in place of torch.hub's download or cache", identity=False
    )
    pretrained: bool = setting(
        True, "without a file, use the published weights (downloaded or cached); false: a file must be given"
    )
    checkpoint: str | None = setting(
        None, "weights file (.safetensors, .pt, .pth, .th) in place of the published weights", identity=False
    )
    size: int = setting(224, "side of the images in pixels when data.size does not say: a multiple of 14")
    crop_pct: float = setting(0.875, "share of the resized short side that is kept (its evaluations: 224 of 256)")
    extra_kwargs: dict[str, Any] = setting({}, "further arguments of the entry in hubconf.py, such as img_size: 224")


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """The model as a Backbone in eval mode, on the CPU.

    Runs the code of the commit, or of `settings.repo`. Attention is always torch's own, with or without xFormers, so that
    features agree across machines.

    Args:
        settings: which model.
        size: side of the images in pixels; None for `settings.size`.
        random: random weights, from `seed` alone, in place of trained ones; the code is needed all the same.
        seed: of everything random while building; the global random state is neither read nor changed.
        pad: images of many shapes will come; any multiple of the patch is taken.

    Raises:
        UsageError: no such backbone, no code, no weights, weights that do not fit, or a size that leaves part of a patch.
    """
    from benchkit.backbones._dinov2_build import build_dinov2

    return build_dinov2(settings, size=size, random=random, seed=seed)


def fetch(settings: Settings) -> list[Path]:
    """The code, as a folder, and the weights, brought here where they are not yet.

    Raises:
        UsageError: they cannot be had.
    """
    from benchkit.backbones._checkpoint import find_checkpoint
    from benchkit.backbones._dinov2_build import code_folder, from_code, published
    from benchkit.backbones._hub import torch_file

    from_code(settings)
    code, path = code_folder(settings), find_checkpoint(settings.checkpoint)
    if path or not settings.pretrained:
        return [code, path] if path else [code]
    published(settings.arch)
    return [code, torch_file(f"{settings.arch.replace('_reg', '_reg4')}_pretrain.pth")]
