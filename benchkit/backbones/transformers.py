"""Vision models, segmentation models and image towers of image-text models, of Hugging Face transformers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone

EXTRA, NEEDS = "hf", ("transformers",)  # what `benchkit list` says has to be installed


@dataclass
class Settings:
    """Which model of the hub or of a folder, and what its files would say where they are not there."""

    model_id: str | None = setting(None, "name on the hub, such as facebook/dinov2-small, or a local folder")
    revision: str | None = setting(None, "commit on the hub, all 40 digits (default: the newest)")
    folder: str | None = setting(
        None, "folder with the files of that model, in place of the hub's download or cache", identity=False
    )
    config: dict[str, Any] = setting(
        {},
        "fields of the configuration, model_type among them: a random twin is made from them without a download, and a "
        "model that is loaded must agree with them",
    )
    processor: dict[str, Any] = setting(
        {}, "fields of the image processor that go before its file; with image_processor_type they stand in its place"
    )
    tokenizer: str | None = setting(None, "name on the hub or folder of the tokenizer (default: the model's own)")
    pretrained: bool = setting(True, "load the model's weights; false: a file must be given")
    checkpoint: str | None = setting(
        None, "weights file (.safetensors, .pt, .pth, .th) in place of the model's own", identity=False
    )
    size: int | None = setting(
        None, "side of the images in pixels when data.size does not say (default: the processor's)"
    )


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """The model as a Backbone in eval mode, in float32, on the CPU. Code from the hub is never run.

    Args:
        settings: which model.
        size: side of the images in pixels; None for `settings.size`, or else the image processor's.
        random: random weights, from `seed` alone, in place of trained ones.
        seed: of everything random while building; the global random state is neither read nor changed.
        pad: images of many shapes will come, each a multiple of the patch.

    Raises:
        UsageError: transformers is not installed, no such model, weights that do not fit, an image processor that
            cannot be followed, outputs that cannot be understood, or a size that the model cannot take.
    """
    from benchkit.backbones._transformers_build import build_transformers

    return build_transformers(settings, size=size, random=random, seed=seed, pad=pad)


def fetch(settings: Settings) -> list[Path]:
    """The model's folder with its weights, image processor and tokenizer, brought here where it is not yet.

    Raises:
        UsageError: something cannot be had.
    """
    from benchkit.backbones._transformers_build import fetch_transformers

    return fetch_transformers(settings)
