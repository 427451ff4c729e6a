"""Where the layers of Hugging Face's vision models lie: blocks over tokens, Swin's stages, stages of maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchkit.errors import UsageError

SWINS = ("swin", "swinv2")
NORMS = ("layernorm", "norm", "post_layernorm")  # what families call the norm after the last block


class Placed(NamedTuple):
    """A layer's class token (B, C) or None, and its map (B, C, h, w)."""

    cls: Tensor | None
    map: Tensor


class Layout:
    """How the layers of a vision model, the trunk, come out of its forward.

    Attributes:
        unit: "block" or "stage".
        strides: of each layer, in pixels.
        parts: names, inside the trunk, of the parts whose outputs are the layers; empty where the trunk's own output
            holds them.
        norm: the norm that ends a column of blocks.
    """

    unit = "stage"
    norm: nn.Module | None = None
    parts: tuple[str, ...] = ()
    strides: tuple[int, ...] = ()

    def inner(self, number: int, seen: Mapping[str, Any], output: Any, size: tuple[int, int]) -> Placed:
        """Layer `number`.

        Args:
            number: from 0.
            seen: outputs of `parts` by name, as far as they were asked for.
            output: the trunk's own, where `parts` is empty.
            size: height and width of the images.
        """
        raise NotImplementedError

    def final(self, seen: Mapping[str, Any], output: Any, size: tuple[int, int]) -> Placed:
        """The last tokens or map, the model's own norm included. Arguments: as of `inner`."""
        raise NotImplementedError


class Blocks(Layout):
    """A ViT: equal blocks over tokens (B, prefix + h * w, C). Registers are prefix tokens too, after the class token."""

    unit = "block"

    def __init__(self, trunk: Any) -> None:
        config, depth = trunk.config, int(trunk.config.num_hidden_layers)
        self.parts = tuple(f"{_list_of(trunk, depth)}.{number}" for number in range(depth))
        self.patch = patch_of(config)
        self.strides = (self.patch,) * depth
        own = {name.rpartition(".")[2] for name, _ in trunk.named_parameters()}
        self.has_cls = bool(own & {"cls_token", "class_embedding"})
        registers = int(getattr(config, "num_register_tokens", None) or 0)
        self.prefix = int(self.has_cls) + int("distillation_token" in own) + registers
        found = (getattr(trunk, name, None) for name in NORMS)
        self.norm = next((each for each in found if isinstance(each, nn.LayerNorm)), None)

    def inner(self, number: int, seen: Mapping[str, Any], output: Any, size: tuple[int, int]) -> Placed:
        """The output of a block."""
        return self._placed(_tensor(seen[self.parts[number]]), size)

    def final(self, seen: Mapping[str, Any], output: Any, size: tuple[int, int]) -> Placed:
        """The last block after the norm, which CLIP's own output lacks on all but the class token."""
        tokens = _tensor(seen[self.parts[-1]])
        return self._placed(tokens if self.norm is None else self.norm(tokens), size)

    def _placed(self, tokens: Tensor, size: tuple[int, int]) -> Placed:
        height, width = (side // self.patch for side in size)
        if tokens.ndim != 3 or tokens.shape[1] != self.prefix + height * width:
            raise UsageError(
                f"a block gives {tuple(tokens.shape)} for images of {size[0]} x {size[1]} pixels, where {self.prefix} tokens "
                f"and {height} x {width} patches were expected"
            )
        patches = tokens[:, self.prefix :].transpose(1, 2)
        return Placed(tokens[:, 0] if self.has_cls else None, patches.reshape(*patches.shape[:2], height, width))


def _list_of(trunk: nn.Module, depth: int) -> str:
    for name, part in trunk.named_modules():
        if isinstance(part, nn.ModuleList) and len(part) == depth:
            return name
    raise UsageError(f"it has no list of {depth} blocks")


class Swin(Layout):
    """Stages over tokens (B, h * w, C) without class token; a stage ends before its patches are merged for the next."""

    def __init__(self, trunk: Any) -> None:
        stages = trunk.encoder.layers
        self.parts = tuple(f"encoder.layers.{n}.blocks.{len(stage.blocks) - 1}" for n, stage in enumerate(stages))
        self.strides = tuple(int(trunk.config.patch_size) * 2**number for number in range(len(stages)))

    def inner(self, number: int, seen: Mapping[str, Any], output: Any, size: tuple[int, int]) -> Placed:
        """The output of a stage's last block."""
        return self._placed(_tensor(seen[self.parts[number]]), number, size)

    def final(self, seen: Mapping[str, Any], output: Any, size: tuple[int, int]) -> Placed:
        """The last stage after the norm."""
        return self._placed(output.last_hidden_state, len(self.parts) - 1, size)

    def _placed(self, tokens: Tensor, number: int, size: tuple[int, int]) -> Placed:
        height, width = (-(-side // self.strides[number]) for side in size)  # odd grids are filled up
        return Placed(None, tokens.transpose(1, 2).reshape(len(tokens), -1, height, width))


class Maps(Layout):
    """Hidden states that are maps (B, C, h, w): the last one at each stride is a stage.

    Args:
        hidden: those of one image.
        size: side of the image.
    """

    def __init__(self, hidden: Sequence[Tensor], size: int) -> None:
        strides = [2 ** round(math.log2(size / each.shape[2])) for each in hidden]
        last = {stride: number for number, stride in enumerate(strides) if stride > 1}  # at stride 1: the image
        self.numbers, self.strides = tuple(last.values()), tuple(last)

    def inner(self, number: int, seen: Mapping[str, Any], output: Any, size: tuple[int, int]) -> Placed:
        """A hidden state."""
        return Placed(None, output.hidden_states[self.numbers[number]])

    def final(self, seen: Mapping[str, Any], output: Any, size: tuple[int, int]) -> Placed:
        """The last map; of DINOv3's ConvNeXt, whose output is the pooled vector and the cells, the cells after the norm."""
        last = output.last_hidden_state
        if last.ndim == 3:
            last = last[:, 1:].transpose(1, 2).reshape(output.hidden_states[-1].shape)
        return Placed(None, last)


@torch.inference_mode()
def layout_of(trunk: Any, hidden_states: Callable[[Tensor], Any], size: int) -> Layout:
    """How the trunk's layers lie.

    Args:
        trunk: the vision model.
        hidden_states: image -> the trunk's hidden states.
        size: side of the images.

    Raises:
        UsageError: in none of the ways known here; the message is the end of a sentence.
    """
    if trunk.config.model_type in SWINS:
        return Swin(trunk)
    if patch_of(trunk.config):
        return Blocks(trunk)
    hidden = hidden_states(torch.zeros(1, 3, size, size))
    if not hidden or any(each.ndim != 4 for each in hidden):
        raise UsageError("its hidden states are neither tokens of equal blocks nor maps")
    return Maps(hidden, size)


def patch_of(config: Any) -> int:
    """Side of a patch in pixels by the configuration of a model of equal blocks; 0 for models of another kind."""
    if not all(hasattr(config, name) for name in ("hidden_size", "num_hidden_layers", "patch_size")):
        return 0
    side = config.patch_size
    return int(side if isinstance(side, int) else side[0])


def _tensor(value: Any) -> Tensor:
    return value[0] if isinstance(value, tuple) else value
