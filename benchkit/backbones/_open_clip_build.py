"""Making an open_clip model: seeded construction at the asked size, weights, tokenizer."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import open_clip
import timm

from benchkit.backbones._checkpoint import find_checkpoint, load_into, load_state
from benchkit.backbones._hub import from_hub, hub_folder, refused, to_copy
from benchkit.backbones._open_clip_layers import OpenClipBackbone
from benchkit.backbones._open_clip_tags import config, known_arch, own_size, preprocess_of, published_file
from benchkit.backbones._sizes import check_size, one_size, trying
from benchkit.backbones._timm_build import seeded
from benchkit.errors import UsageError
from benchkit.provenance.identity import identity_hash

if TYPE_CHECKING:
    from torch import Tensor

    from benchkit.backbones.open_clip import Settings


def build_open_clip(settings: Settings, *, size: int | None, random: bool, seed: int, pad: bool) -> OpenClipBackbone:
    """See `benchkit.backbones.open_clip.build`."""
    arch = known_arch(settings.arch)
    preprocess = preprocess_of(arch, settings.weights, size or settings.size)
    if pad:
        raise one_size(arch)
    path = None if random else find_checkpoint(settings.checkpoint) or published_file(arch, settings)
    net = seeded(seed, lambda: create(arch, preprocess.size)).eval()
    notes = load(net, path) if path else []
    name = arch if settings.weights is None else f"{arch}.{settings.weights}"
    by_bytes = random and bool(config(arch)["text_cfg"].get("hf_tokenizer_name"))
    tokenizer = (lambda: bytes_of(net.context_length)) if by_bytes else (lambda: get_tokenizer(arch))
    backbone = OpenClipBackbone(net, name, preprocess, tokenizer).eval()
    if preprocess.size != own_size(arch):
        _resize(backbone, preprocess.size, own_size(arch))
    backbone.notes = tuple(notes)
    # The configuration too: it holds what weights do not show, such as the activation.
    libraries = f"open_clip {open_clip.__version__}, timm {timm.__version__}"
    backbone.upstream = (
        f"{libraries}, {arch} {identity_hash(config(arch))[:8]}{', prompts as bytes' if by_bytes else ''}"
    )
    backbone.requires_grad_(False)
    return backbone


def create(arch: str, size: int) -> Any:
    """The model with random weights; a CLIP ViT for images of that size, any other for those of its own."""
    vision = config(arch)["vision_cfg"]
    is_vit = "timm_model_name" not in vision and isinstance(vision.get("layers", 12), int)
    options: dict[str, Any] = {"load_weights": False, "pretrained_text": False}
    try:
        with _quiet():
            return from_hub(lambda: open_clip.create_model(arch, force_image_size=size if is_vit else None, **options))
    except OSError as error:  # the text tower is a model of the hub
        raise refused(f"the text tower's configuration of {arch}", error, "use another model") from error


def load(net: Any, path: Path) -> list[str]:
    """Fill the model from a file; returns what there was to say.

    Raises:
        UsageError: the file does not fit.
    """
    state, notes = load_state(path)
    return [*notes, *load_into(net, state, source=str(path), convert=_converted).notes]


def _converted(state: dict[str, Tensor], net: Any) -> dict[str, Tensor]:
    """Older names as open_clip's own loading reads them, and positions of another grid resampled, bicubic."""
    from open_clip.convert import convert_state_dict
    from open_clip.model import convert_to_custom_text_state_dict, resize_pos_embed, resize_text_pos_embed

    # In single precision: half-precision values cannot be resampled on every CPU.
    state = {name: value.float() if value.is_floating_point() else value for name, value in state.items()}
    state = convert_state_dict(net, state)
    if not hasattr(net, "positional_embedding"):  # a text tower of its own
        state = convert_to_custom_text_state_dict(state)
    for name in {"logit_scale", "logit_bias"} & state.keys():
        own = getattr(net, name, None)
        state[name] = state[name] if own is None else state[name].reshape(own.shape)
    resize_pos_embed(state, net)
    resize_text_pos_embed(state, net)
    return state


def _resize(backbone: OpenClipBackbone, size: int, own: int) -> None:
    """Ready for images of another size than the model's own: the grid fits, and one forward runs.

    Raises:
        UsageError: the model cannot take them.
    """
    visual = backbone.net.visual
    if hasattr(visual, "attnpool"):
        raise UsageError(f"{backbone.name} has positions for images of {own} pixels only: use data.size={own}.")
    if backbone.patch:
        check_size(backbone.name, backbone.patch, size)
    with trying(backbone.name, size, own):
        if hasattr(visual, "trunk"):
            with _quiet():
                visual.set_input_size(size)
        backbone.shapes(size, size, [f"{backbone.own_pool}@final", "proj@final"])


def bytes_of(length: int) -> Callable[[list[str]], Tensor]:
    """The UTF-8 bytes of a prompt as its tokens, 1 to 256, filled up with 0: for random weights, to which no vocabulary
    means anything, so that a random twin needs no files of a hub.
    """
    import torch

    def tokens(prompts: list[str]) -> Tensor:
        rows = torch.zeros(len(prompts), length, dtype=torch.long)
        for row, prompt in zip(rows, prompts, strict=True):
            ids = torch.tensor(list(prompt.encode()[:length]), dtype=torch.long) + 1
            row[: len(ids)] = ids
        return rows

    return tokens


def get_tokenizer(arch: str) -> Callable[[list[str]], Tensor]:
    """open_clip's tokenizer of the architecture, at its context length.

    Raises:
        UsageError: its files, or the library that reads them, are not there.
    """
    try:
        with _quiet():
            return from_hub(lambda: open_clip.get_tokenizer(arch))
    except ImportError as error:
        raise UsageError(
            f"the tokenizer of {arch} needs the Python package transformers: `pip install 'benchkit[hf]'`."
        ) from error
    except Exception as error:
        raise refused(f"the tokenizer of {arch}", error, "use a head that reads no text") from error


def fetch_open_clip(settings: Settings) -> list[Path]:
    """See `benchkit.backbones.open_clip.fetch`."""
    arch = known_arch(settings.arch)
    preprocess_of(arch, settings.weights)
    weights = find_checkpoint(settings.checkpoint) or published_file(arch, settings)
    get_tokenizer(arch)
    repository = config(arch)["text_cfg"].get("hf_tokenizer_name")
    return [to_copy(weights), *([hub_folder(repository)] if repository else [])]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No log of open_clip's on the screen; without a handler at the root, it would install one that stays."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
