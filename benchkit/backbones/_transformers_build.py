"""Making a model of Hugging Face transformers: its class, seeded construction, weights, image processor."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchkit.backbones._checkpoint import SUFFIXES, find_checkpoint, load_state
from benchkit.backbones._hub import hub_folder
from benchkit.backbones._imagenet import labels_of
from benchkit.backbones._sizes import check_size, one_size
from benchkit.backbones._timm_build import seeded
from benchkit.backbones.base import Label, Preprocess
from benchkit.errors import UsageError, reason

try:
    import transformers
except ImportError as missing:
    raise UsageError(
        "model.backbone.name=transformers needs the Python package transformers: `pip install 'benchkit[hf]'`."
    ) from missing

from benchkit.backbones._transformers_images import preprocess_of
from benchkit.backbones._transformers_layers import TransformersBackbone
from benchkit.backbones._transformers_layouts import patch_of
from benchkit.backbones._transformers_masks import MASKS, TransformersSegmenter
from benchkit.backbones._transformers_source import Source, quiet

if TYPE_CHECKING:
    from benchkit.backbones.transformers import Settings

# Classes, by the end of their names, that a configuration may ask for; of any other, the model below its head is taken.
HEADS = ("ForImageClassification", "ForImageClassificationWithTeacher", "VisionModelWithProjection")
WRAPPERS = ("module.", "_orig_mod.")
POOLERS = ("pooler.", "vit.pooler.", "deit.pooler.")  # BERT's, which no classifier of images reads


def build_transformers(
    settings: Settings, *, size: int | None, random: bool, seed: int, pad: bool
) -> TransformersBackbone | TransformersSegmenter:
    """See `benchkit.backbones.transformers.build`."""
    path = None if random else find_checkpoint(settings.checkpoint)
    name = (settings.model_id or str(settings.config.get("model_type", ""))).rstrip("/").rpartition("/")[2]
    if not (random or path or (settings.pretrained and (settings.model_id or settings.folder))):
        raise UsageError(
            f"{name or 'the model'} has no weights: give model.backbone.model_id=NAME, checkpoint=FILE "
            f"({', '.join(SUFFIXES)}), or --random for random ones."
        )
    with quiet():
        source, published = Source(settings), not random and path is None
        config = source.config(of_files=published)
        if config.model_type == "vit_mae":
            config.mask_ratio = 0.0  # all patches are seen
        preprocess, notes = preprocess_for(source, config, name, random and bool(settings.config))
        preprocess = dataclasses.replace(preprocess, size=size or settings.size or preprocess.size)
        check_size(name, patch_of(getattr(config, "vision_config", config)) or 1, preprocess.size)
        net, said = seeded(
            seed, lambda: (_class_of(config)(config), ()) if random else _loaded(source, config, path, name)
        )
        if getattr(getattr(net, "pooler", None), "dense", None) is not None:
            net.pooler = None
        backbone = _understood(net.eval(), name, preprocess, source)
    backbone.notes = (*notes, *said)
    backbone.upstream = f"transformers {transformers.__version__}{_commit(settings, config)}"
    backbone.labels = _labels(net.config) if backbone.classifies else ()
    backbone.requires_grad_(False).eval()
    if pad:
        _try_shapes(backbone)
    return backbone


def fetch_transformers(settings: Settings) -> list[Path]:
    """See `benchkit.backbones.transformers.fetch`."""
    backbone = build_transformers(settings, size=None, random=False, seed=0, pad=False)
    if isinstance(backbone, TransformersBackbone) and backbone.logit_scale is not None:
        backbone.tokenizer()
    source = Source(settings)
    files = [Path(source.where)] if source.local and source.where else [hub_folder(settings.model_id or "")]
    path = find_checkpoint(settings.checkpoint)
    return [*files, path] if path else files


def _class_of(config: Any, *, head: bool = True) -> Any:
    """The model's class: with the head that the configuration names, if it is one that is used here.

    Raises:
        UsageError: the library has no such model.
    """
    named = str((getattr(config, "architectures", None) or [""])[0])
    if head and named.endswith((*HEADS, *MASKS)) and hasattr(transformers, named):
        return getattr(transformers, named)
    try:
        found = transformers.MODEL_MAPPING[type(config)]
    except KeyError as error:
        raise UsageError(f"transformers has no model of type {config.model_type} that gives features.") from error
    return found[0] if isinstance(found, tuple | list) else found


def preprocess_for(source: Source, config: Any, name: str, made_up: bool) -> tuple[Preprocess, tuple[str, ...]]:
    """What the image processor does; for random weights of a configuration alone, ImageNet's usual way.

    Args:
        source: the model's files.
        config: its configuration.
        name: for messages.
        made_up: random weights whose configuration does not come from files.

    Raises:
        UsageError: nothing says how images are prepared, or the processor cannot be followed.
    """
    processor = source.processor(of_files=not made_up)
    if processor is not None:
        return preprocess_of(processor, name)
    if not made_up:
        raise UsageError(f"nothing says how images of {name} are prepared: give model.backbone.processor={{...}}.")
    vision = getattr(config, "vision_config", config)
    side = getattr(vision, "image_size", None)
    if side is None and hasattr(vision, "num_patches"):
        side = math.isqrt(vision.num_patches) * vision.patch_size
    side = side if isinstance(side, int) else side[0] if side else 224
    return Preprocess(int(side)), ("no image processor is given: ImageNet's mean and std, 224 of 256",)


def _loaded(
    source: Source, config: Any, path: Path | None, name: str, *, head: bool = True
) -> tuple[Any, tuple[str, ...]]:
    """The net with its weights in float32, and what there is to say.

    Raises:
        UsageError: the files cannot be had, or leave a parameter without a value.
    """
    kind = _class_of(config, head=head)
    options: dict[str, Any] = {"config": config, "output_loading_info": True, "dtype": torch.float32}
    options["ignore_mismatched_sizes"] = True  # they are listed, and refused below
    notes: list[str] = []
    if path:
        state, notes = load_state(path)
        state = {_unwrapped(key): value for key, value in state.items()}
        try:
            net, info = kind.from_pretrained(None, state_dict=state, **options)
        except Exception as error:
            raise UsageError(f"{path} does not fit {kind.__name__}: {reason(error, 300)}.") from error
    else:
        net, info = source.load(kind, weights_only=True, **options)
    missing = sorted(key for key in info["missing_keys"] if not key.startswith(POOLERS))
    if head and missing and all("classifier" in key for key in missing):
        net, also = _loaded(source, config, path, name, head=False)
        return net, ("the file has no classifier: there are no logits", *also)
    wrong = [f"{key} {tuple(theirs)} for {tuple(ours)}" for key, theirs, ours in sorted(info["mismatched_keys"])]
    if missing or wrong:
        raise UsageError(
            f"{path or source.where} leaves {len(missing) + len(wrong)} tensors of {kind.__name__} without a value: "
            f"{', '.join([*wrong, *missing][:4])}. A partly random model is never scored."
        )
    unused = sorted(info["unexpected_keys"])
    return net, (*notes, *([f"not used of the file: {', '.join(unused[:4])} ({len(unused)} in all)"] if unused else []))


def _unwrapped(name: str) -> str:
    for wrapper in WRAPPERS:
        name = name.removeprefix(wrapper)
    return name


def _understood(
    net: Any, name: str, preprocess: Preprocess, source: Source
) -> TransformersBackbone | TransformersSegmenter:
    kind, size = type(net).__name__, preprocess.size
    try:
        if kind.endswith(MASKS):
            return TransformersSegmenter(net, name, preprocess)
        return TransformersBackbone(net, name, preprocess, source.tokenizer)
    except UsageError as error:
        raise UsageError(
            f"{name}, a {kind}, is not understood: {error}. Use model.backbone.name=module with a method of its own."
        ) from error
    except (RuntimeError, ValueError, TypeError, AttributeError, AssertionError) as error:
        own = getattr(getattr(net.config, "vision_config", net.config), "image_size", None)
        raise UsageError(
            f"{name}, a {kind}, does not take images of {size} pixels ({reason(error, 160)})"
            + (f"; its own size is {own}: use data.size={own}." if own else ".")
        ) from error


def _try_shapes(backbone: TransformersBackbone | TransformersSegmenter) -> None:
    size, step = backbone.preprocess.size, backbone.stride
    try:
        backbone.shapes(size, size + step, ["patch@final" if "patch" in backbone.pools else "masks@final"])
    except (RuntimeError, ValueError, UsageError) as error:
        raise one_size(backbone.name) from error


def _commit(settings: Settings, config: Any) -> str:
    """Of a model whose revision nobody pinned, the commit that the hub gave."""
    commit = getattr(config, "_commit_hash", None)
    return f", {settings.model_id}@{commit}" if commit and not settings.revision else ""


def _labels(config: Any) -> tuple[Label, ...]:
    names = [str(config.id2label[number]) for number in range(int(config.num_labels))]
    return () if all(name == f"LABEL_{number}" for number, name in enumerate(names)) else labels_of(names)
