"""Making a torchvision model: arguments for the asked size, seeded construction, weights with their own transforms."""

from __future__ import annotations

import difflib
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torchvision
from torch import Tensor, nn
from torchvision import models
from torchvision.models.vision_transformer import interpolate_embeddings

from benchkit.backbones._checkpoint import chosen_file, load_into, load_state
from benchkit.backbones._imagenet import labels_of
from benchkit.backbones._sizes import check_size, one_size, trying
from benchkit.backbones._timm_build import seeded
from benchkit.backbones._torchvision_layers import TorchvisionBackbone, classifier_of, family_name, layers_of
from benchkit.backbones._torchvision_masks import TorchvisionSegmenter
from benchkit.backbones.base import Label, Preprocess
from benchkit.errors import UsageError, reason

if TYPE_CHECKING:
    from benchkit.backbones.torchvision import Settings

STRIDE_SIDE = 224  # of the image that shows the strides
# Architectures bound to one size, by the start of their names: the argument that says it. All others take any.
SIZED = {"vit_": "image_size", "maxvit_": "input_size"}
# Families whose published weights want arguments of their own (torchvision sets them when it loads those weights).
OWN_ARGUMENTS = {name: {"transform_input": True, "aux_logits": False} for name in ("googlenet", "inception_v3")}
_OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")  # names before torch forbade dots in them


def build_torchvision(
    settings: Settings, *, size: int | None, random: bool, seed: int, pad: bool
) -> TorchvisionBackbone | TorchvisionSegmenter:
    """See `benchkit.backbones.torchvision.build`."""
    arch = known_arch(settings.arch)
    if arch in models.list_models(module=models.segmentation):
        return _build_segmenter(settings, arch, size, random, seed)
    entry = known_weights(arch, settings.weights)
    path = chosen_file(arch, settings.checkpoint, pretrained=settings.pretrained, random=random)
    own_size = int(entry.transforms().crop_size[0])
    size = size or settings.size or own_size
    bound = size_arguments(arch, size, pad)
    arguments = {**OWN_ARGUMENTS.get(arch, {}), **settings.extra_kwargs, **bound}
    net = seeded(seed, lambda: _create(arch, arguments, random)).eval()
    layers, strides = layers_of(net, size if bound else STRIDE_SIDE)
    loaded = _Loaded(classifier_of(net)) if random else _load(net, entry, path, settings.checkpoint_match, size)
    preprocess = preprocess_of(entry, size, settings.crop_pct)
    backbone = TorchvisionBackbone(net, arch, preprocess, layers, strides, loaded.classifier, loaded.logits)
    backbone.notes = loaded.notes
    backbone.upstream = f"torchvision {torchvision.__version__}"
    # The names are those of the published classifier: another file's classes are only known where somebody says so.
    backbone.labels = published_labels(net, entry) if loaded.logits and (path is None or settings.weights) else ()
    backbone.requires_grad_(False).eval()
    if size != own_size:
        with trying(arch, size, own_size):
            backbone.shapes(size, size, ["patch@0", f"{backbone.own_pool}@final"])
    return backbone


def _build_segmenter(settings: Settings, arch: str, size: int | None, random: bool, seed: int) -> TorchvisionSegmenter:
    """A segmentation model: its masks and the map that they are made of."""
    entry = known_weights(arch, settings.weights)
    path = chosen_file(arch, settings.checkpoint, pretrained=settings.pretrained, random=random)
    categories, own = entry.meta["categories"], entry.transforms()
    arguments = {"weights_backbone": None, "num_classes": len(categories), **settings.extra_kwargs}
    net = seeded(seed, lambda: _create(arch, arguments, random)).eval()
    notes: tuple[str, ...] = ()
    if not random:
        state, said = load_state(path) if path else (published(entry), [])
        kept = {name: value for name, value in state.items() if not name.startswith("aux_classifier.")}  # trains only
        report = load_into(net, kept, source=str(path or entry), match=settings.checkpoint_match)
        notes = (*said, *report.notes)
    mean, std = tuple(own.mean), tuple(own.std)
    size = size or settings.size or own.resize_size[0]
    preprocess = Preprocess(size, own.interpolation.value, mean, std, settings.crop_pct or 1.0)
    backbone = TorchvisionSegmenter(net, arch, preprocess)
    backbone.notes, backbone.upstream = notes, f"torchvision {torchvision.__version__}"
    backbone.labels = labels_of(categories) if arguments["num_classes"] == len(categories) else ()
    backbone.requires_grad_(False).eval()
    return backbone


def known_arch(arch: str) -> str:
    """`arch`, if torchvision has a classification or segmentation model of that name.

    Raises:
        UsageError: it has not; the message names the nearest.
    """
    there = models.list_models(module=models) + models.list_models(module=models.segmentation)
    if arch in there:
        return arch
    near = difflib.get_close_matches(arch, there, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "torchvision.models.list_models() lists them."
    if arch in models.list_models():
        hint = "it is a model for another task, and only models of classification and segmentation can be used here."
    raise UsageError(
        f"model.backbone.arch={arch or '(not set)'}: torchvision {torchvision.__version__} has no such model of "
        f"classification or segmentation; {hint}"
    )


def known_weights(arch: str, name: str | None) -> Any:
    """The entry of torchvision's weights enum; DEFAULT where nobody names one.

    Raises:
        UsageError: there is none of that name; the message names those there are.
    """
    entries = models.get_model_weights(arch)
    wanted = (name or "DEFAULT").rpartition(".")[2]
    if wanted not in entries.__members__:
        raise UsageError(f"model.backbone.weights={name}: {arch} has {', '.join(entries.__members__)}.")
    return entries[wanted]


def size_arguments(arch: str, size: int, pad: bool) -> dict[str, Any]:
    """Arguments of the builder for images of that size: none where the model takes any.

    Raises:
        UsageError: the size leaves part of a patch over, or the model is bound to one size and `pad` asks for many.
    """
    name = next((name for start, name in SIZED.items() if arch.startswith(start)), None)
    if name is None:
        return {}
    if pad:
        raise one_size(arch)
    patch = (
        int(arch.rpartition("_")[2]) if arch.startswith("vit_") else 224
    )  # MaxViT: 7 windows after each of 5 halvings
    check_size(arch, patch, size)
    return {name: (size, size) if name == "input_size" else size}


def _create(arch: str, arguments: dict[str, Any], initialised: bool) -> nn.Module:
    if arch in OWN_ARGUMENTS:  # their initialisation takes long
        arguments = {"init_weights": initialised, **arguments}
    try:
        return models.get_model(arch, weights=None, **arguments)
    except TypeError as error:
        raise UsageError(
            f"torchvision cannot make {arch} with {arguments}: {error}. See model.backbone.extra_kwargs."
        ) from error


class _Loaded(NamedTuple):
    """Name of the classifier (None: nothing of it is left), whether it is trained, what there is to say."""

    classifier: str | None
    logits: bool = True
    notes: tuple[str, ...] = ()


def _load(net: nn.Module, entry: Any, path: Path | None, match: str, size: int) -> _Loaded:
    state, notes = load_state(path) if path else (published(entry), [])
    classifier = classifier_of(net)
    convert = functools.partial(_converted, size=size)
    # Of VGG16's weights without names of classes, the whole classifier holds NaN.
    headless = not path and not entry.meta["categories"]
    if headless:
        state = {name: value for name, value in state.items() if not name.startswith("classifier.")}
    optional = "classifier" if headless else classifier
    report = load_into(net, state, source=str(path or entry), convert=convert, match=match, optional=(optional,))
    if report.left_out:
        net.set_submodule(optional, nn.Identity())  # no untrained classifier stays behind
    return _Loaded(None if headless else classifier, not report.left_out, (*notes, *report.notes))


def published(entry: Any) -> dict[str, Tensor]:
    """The tensors of published weights, downloaded or from torch.hub's cache.

    Raises:
        UsageError: they could not be had; the message says where to put them.
    """
    try:
        return dict(entry.get_state_dict(progress=False, check_hash=True, weights_only=True, map_location="cpu"))
    except Exception as error:
        raise UsageError(
            f"torchvision's weights {entry} could not be had ({reason(error)}). On a machine with network get {entry.url}, put "
            f"the file into {torch.hub.get_dir()}/checkpoints or pass model.backbone.checkpoint=FILE with "
            f"model.backbone.weights={entry.name}; or run with --random for random weights."
        ) from error


def _converted(state: dict[str, Tensor], net: nn.Module, size: int) -> dict[str, Tensor]:
    """DenseNets in their old names; positions of a ViT resampled to the grid of `size`, by torchvision's own function."""
    if family_name(net) == "densenet":
        return {_OLD_DENSENET.sub(r"\1\2", name): value for name, value in state.items()}
    if "encoder.pos_embedding" in state:
        return dict(interpolate_embeddings(size, net.patch_size, dict(state)))  # type: ignore[arg-type]
    return state


def preprocess_of(entry: Any, size: int, crop_pct: float | None = None) -> Preprocess:
    """The transforms of published weights, at the asked size."""
    own = entry.transforms()
    crop = own.crop_size[0] / own.resize_size[0] if crop_pct is None else crop_pct
    return Preprocess(size, own.interpolation.value, tuple(own.mean), tuple(own.std), crop)


def published_labels(net: nn.Module, entry: Any) -> tuple[Label, ...]:
    """The classes of published weights; empty where the classifier has another number of them."""
    names = entry.meta["categories"] or ()
    return labels_of(names) if len(net.get_submodule(classifier_of(net)).weight) == len(names) else ()  # type: ignore
