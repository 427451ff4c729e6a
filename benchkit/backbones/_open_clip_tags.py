"""What open_clip's tables say of a model and its weights: activation, preprocessing, files."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import open_clip
from open_clip.transform import PreprocessCfg

from benchkit.backbones._hub import from_hub, refused
from benchkit.backbones.base import Preprocess
from benchkit.errors import UsageError, some

if TYPE_CHECKING:
    from benchkit.backbones.open_clip import Settings

QUICK = "-quickgelu"
RESIZES = {"shortest": "crop", "squash": "squash"}
# What a tag says beside where its files lie; open_clip's own values where it says nothing.
TRAINED = ("mean", "std", "interpolation", "resize_mode", "quick_gelu")
DEFAULTS = {**asdict(PreprocessCfg()), "quick_gelu": False}


def known_arch(arch: str) -> str:
    """`arch`, if open_clip has it.

    Raises:
        UsageError: it has not; the message names the nearest.
    """
    if arch in open_clip.list_models():
        return arch
    near = difflib.get_close_matches(arch.replace("/", "-"), open_clip.list_models(), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "open_clip.list_models() lists them."
    raise UsageError(
        f"model.backbone.arch={arch or '(not set)'}: open_clip {open_clip.__version__} has no such model; {hint}"
    )


def trained_with(arch: str, tag: str | None) -> dict[str, Any]:
    """The entries TRAINED for the weights `tag` of `arch`; without a tag, what all tags of `arch` have in common.

    The weights do not show with which activation they were trained: OpenAI's need QuickGELU, and give worse features
    without a word when it is GELU. So the architecture must be the one of the two that the tag was trained with.

    Raises:
        UsageError: no such tag, the architecture has another activation, or a tag has to be named.
    """
    entries = [_trained(open_clip.get_pretrained_cfg(arch, t)) for t in ([tag] if tag else _tags(arch))]
    if tag and tag not in _tags(arch):
        raise UsageError(_no_such_tag(arch, tag))
    differ = [key for key in TRAINED if any(entry[key] != entries[0][key] for entry in entries)]
    if differ:
        raise UsageError(
            f"say how the weights of {arch} were trained: model.backbone.weights=TAG, for a file the tag whose "
            f"{' and '.join(differ)} are the file's. There are {some(_tags(arch), 6)}."
        )
    entry = entries[0] if entries else {**_trained(DEFAULTS), "quick_gelu": _quick(arch)}  # a config of the user's own
    # One architecture (roberta-ViT-B-32) has no twin: its configuration is right, and its tag forgets to say so.
    if entry["quick_gelu"] != _quick(arch) and _twin(arch) in open_clip.list_models():
        has, needs = ("GELU", "QuickGELU") if entry["quick_gelu"] else ("QuickGELU", "GELU")
        raise UsageError(
            f"model.backbone.arch={arch} has {has}, and its weights {tag or some(_tags(arch), 6)} were trained with "
            f"{needs}: use model.backbone.arch={_twin(arch)}."
        )
    return entry


def preprocess_of(arch: str, tag: str | None, size: int | None = None) -> Preprocess:
    """The preprocessing that the weights were trained with, at the asked size or else the model's own.

    `crop` has no margin: the short side is resized to the size of the crop.

    Raises:
        UsageError: see `trained_with`; or a resize that benchkit has not.
    """
    entry = trained_with(arch, tag)
    if entry["resize_mode"] not in RESIZES:
        raise UsageError(f"open_clip resizes images of {arch} by {entry['resize_mode']!r}, which benchkit has not.")
    resize: Any = RESIZES[entry["resize_mode"]]
    mean, std = tuple(entry["mean"]), tuple(entry["std"])
    return Preprocess(size or own_size(arch), entry["interpolation"], mean, std, 1.0, resize)


def own_size(arch: str) -> int:
    """Side in pixels of the images that the model was trained with."""
    size = config(arch)["vision_cfg"].get("image_size", 224)
    return int(size[0] if isinstance(size, list | tuple) else size)


def config(arch: str) -> dict[str, Any]:
    """open_clip's configuration of the architecture."""
    return open_clip.get_model_config(arch)


def published_file(arch: str, settings: Settings) -> Path:
    """The published weights, from the local cache or else the hub.

    Raises:
        UsageError: no tag is given, or the file cannot be had.
    """
    if not settings.weights or not settings.pretrained:
        raise UsageError(
            f"{arch} has no weights: name a tag with model.backbone.weights=TAG ({some(_tags(arch), 6) or 'it has none'}), "
            "leave model.backbone.pretrained=true, give model.backbone.checkpoint=FILE, or --random for random ones."
        )
    entry = open_clip.get_pretrained_cfg(arch, settings.weights)
    try:
        return Path(from_hub(lambda: open_clip.download_pretrained(entry)))
    except Exception as error:
        otherwise = "pass model.backbone.checkpoint=FILE, or run with --random for random weights"
        raise refused(f"the weights {settings.weights} of {arch}", error, otherwise) from error


def _tags(arch: str) -> list[str]:
    return open_clip.list_pretrained_tags_by_model(arch)


def _trained(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry.get(key, DEFAULTS[key]) for key in TRAINED}


def _quick(arch: str) -> bool:
    return bool(config(arch).get("quick_gelu", False))


def _twin(arch: str) -> str:
    """The same architecture with the other activation."""
    return arch.removesuffix(QUICK) if arch.endswith(QUICK) else arch + QUICK


def _no_such_tag(arch: str, tag: str) -> str:
    there = f"its tags are {some(_tags(arch), 6)}" if _tags(arch) else "it has no published weights"
    also = f"; {tag} belongs to model.backbone.arch={_twin(arch)}" if tag in _tags(_twin(arch)) else ""
    return f"model.backbone.weights={tag}: open_clip has no such weights of {arch}; {there}{also}."
