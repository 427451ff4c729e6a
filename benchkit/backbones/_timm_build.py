"""Making a timm model: arguments for the asked size, seeded construction, weights."""

from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import timm
import torch

from benchkit.backbones._checkpoint import chosen_file, find_checkpoint, load_into, load_state
from benchkit.backbones._hub import from_hub, refused, to_copy
from benchkit.backbones._sizes import check_size, one_size, trying
from benchkit.backbones._timm_labels import labels_of
from benchkit.backbones._timm_layers import TimmBackbone
from benchkit.backbones.base import Preprocess
from benchkit.errors import UsageError

if TYPE_CHECKING:
    from benchkit.backbones.timm import Settings

# Families that resample positions in every forward: made at their own size, which is that of the weights' positions.
RESAMPLING = {"vision_transformer_sam"}


def build_timm(settings: Settings, *, size: int | None, random: bool, seed: int, pad: bool) -> TimmBackbone:
    """See `benchkit.backbones.timm.build`."""
    arch = known_arch(settings.arch)
    path = chosen_file(arch, settings.checkpoint, settings.weights, pretrained=settings.pretrained, random=random)
    published = path is None and not random
    outline = seeded(seed, lambda: _create(arch, settings.extra_kwargs, meta=True))
    own_size = int(outline.pretrained_cfg["input_size"][-1])
    size = size or settings.size or own_size
    arguments = {**settings.extra_kwargs, **size_arguments(outline, arch, size, own_size, pad)}
    net = seeded(seed, lambda: _create(arch, arguments, published=published)).eval()
    notes = _load(net, path, settings.checkpoint_match) if path else ()
    backbone = TimmBackbone(net, arch, preprocess_of(net, size, settings.crop_pct)).eval()
    backbone.notes = (*notes, *resize_notes(net))
    backbone.labels = labels_of(net) if "logits" in backbone.pools else ()
    backbone.upstream = f"timm {timm.__version__}"
    backbone.requires_grad_(False)
    if size != own_size:
        with trying(arch, size, own_size):
            backbone.shapes(size, size, ["patch@0", f"{backbone.own_pool}@final"])
    return backbone


def known_arch(arch: str) -> str:
    """`arch`, if timm has it.

    Raises:
        UsageError: it has not; the message names the nearest.
    """
    import difflib

    if arch and timm.is_model(arch):
        return arch
    near = difflib.get_close_matches(arch.split(".")[0], timm.list_models(), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "timm.list_models() lists them."
    raise UsageError(f"model.backbone.arch={arch or '(not set)'}: timm {timm.__version__} has no such model; {hint}")


def seeded(seed: int, make: Any) -> Any:
    """`make()` with torch's generator at `seed`; the global random state is as before afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


OTHER_WEIGHTS = (
    "checkpoint_path",
    "pretrained_cfg",
    "pretrained_cfg_overlay",
)  # arguments that name files or addresses


def _create(arch: str, arguments: dict[str, Any], *, published: bool = False, meta: bool = False) -> Any:
    odd = [name for name in OTHER_WEIGHTS if name in arguments]
    if odd:  # timm would load them by itself, in some versions with whatever code is in them
        raise UsageError(
            f"model.backbone.extra_kwargs.{odd[0]}: other weights are given as model.backbone.checkpoint=FILE."
        )
    try:
        with torch.device("meta" if meta else "cpu"):
            make = functools.partial(timm.create_model, arch, pretrained=published, **arguments)
            net = from_hub(make) if published else make()
    except TypeError as error:
        raise UsageError(
            f"timm cannot make {arch} with {arguments}: {error}. See model.backbone.extra_kwargs."
        ) from error
    except Exception as error:
        if not published:
            raise
        raise _no_weights(arch, error) from error
    if not hasattr(net, "forward_intermediates"):
        raise UsageError(f"timm's {arch} gives no intermediate features (no forward_intermediates): use another arch.")
    return net


def fetch_timm(settings: Settings) -> list[Path]:
    """See `benchkit.backbones.timm.fetch`."""
    from huggingface_hub import hf_hub_download

    arch, path = known_arch(settings.arch), find_checkpoint(settings.checkpoint, settings.weights)
    if path or not settings.pretrained:
        return [path] if path else []
    cfg: Any = timm.models.get_pretrained_cfg(arch)
    try:
        file = from_hub(lambda: hf_hub_download(cfg.hf_hub_id, cfg.hf_hub_filename or "model.safetensors"))
        return [to_copy(Path(file))]
    except Exception as error:
        raise _no_weights(arch, error) from error


def _no_weights(arch: str, error: Exception) -> UsageError:
    cfg = timm.models.get_pretrained_cfg(arch)
    if cfg is None or not cfg.has_weights:
        return UsageError(
            f"timm publishes no weights for {arch}: name one of its tags ({', '.join(_tags(arch)) or 'it has none'}), give "
            "model.backbone.checkpoint=FILE, or run with --random for random weights."
        )
    otherwise = "pass model.backbone.checkpoint=FILE, or run with --random for random weights"
    return refused(f"the published weights of {arch}", error, otherwise)


def _tags(arch: str) -> list[str]:
    return timm.list_models(arch.split(".")[0] + ".*", pretrained=True)[:4]


def size_arguments(outline: Any, arch: str, size: int, own_size: int, pad: bool) -> dict[str, Any]:
    """Arguments of create_model for images of another size than the model's own, or of many sizes.

    Raises:
        UsageError: the size leaves part of a patch over (positions would be resampled to a grid that is off by one),
            or the model is bound to one size and `pad` asks for many.
    """
    accepted = {
        name for kind in type(outline).__mro__ if kind is not object for name in inspect.signature(kind).parameters
    }
    if "img_size" not in accepted:
        return {}
    stride = int(outline.feature_info[-1]["reduction"])
    if size != own_size:
        check_size(arch, stride, size)
    family = type(outline).__module__.rpartition(".")[2]
    if family in RESAMPLING:
        return {}
    if pad and "dynamic_img_size" not in accepted and family != "byobnet":
        raise one_size(arch)
    arguments: dict[str, Any] = {"img_size": size} if size != own_size else {}
    return {**arguments, "dynamic_img_size": True} if pad and "dynamic_img_size" in accepted else arguments


def preprocess_of(net: Any, size: int, crop_pct: float | None = None) -> Preprocess:
    """The preprocessing in timm's table for the weights, at the asked size."""
    cfg = net.pretrained_cfg
    crop = float(cfg["crop_pct"] if crop_pct is None else crop_pct)
    resize: Any = "squash" if cfg.get("crop_mode") == "squash" else "crop"
    return Preprocess(size, cfg["interpolation"], tuple(cfg["mean"]), tuple(cfg["std"]), crop, resize)


def resize_notes(net: Any) -> list[str]:
    """What to say where timm's own resize is none of benchkit's."""
    mode, share = net.pretrained_cfg.get("crop_mode", "center"), net.pretrained_cfg["crop_pct"]
    if mode == "squash" and share != 1:
        return [f"timm squashes its images and crops {share} of them; benchkit squashes the whole image"]
    if mode == "border":
        return ["timm keeps the long side of its images between borders; benchkit crops a square: see data.resize"]
    return []


def _load(net: Any, path: Any, match: str) -> tuple[str, ...]:
    state, notes = load_state(path)
    module = sys.modules[type(net).__module__]
    # timm's own renaming of upstream names and resampling of positions to another grid.
    convert = getattr(module, "checkpoint_filter_fn", None) or getattr(module, "_checkpoint_filter_fn", None)
    classifier = net.pretrained_cfg.get("classifier") or ()
    optional = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    report = load_into(net, state, source=str(path), convert=convert, match=match, optional=optional)
    if report.left_out:
        net.reset_classifier(0)  # no untrained classifier stays behind
    return (*notes, *report.notes)
