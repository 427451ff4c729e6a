"""open_clip models as Backbones: an image tower for the layers, the projections and the text tower beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from benchkit.backbones._timm_layers import TimmBackbone
from benchkit.backbones.base import Backbone, Preprocess, Tokens
from benchkit.features import FINAL, Layer

Tokenizer = Callable[[list[str]], Tensor]
_OF_THE_TOWER = ("depth", "layer_unit", "own_pool", "pools", "inner_pools", "patch", "stride", "can_norm")


class OpenClipBackbone(Backbone):
    """An open_clip model.

    Numbered layers and `final` are those of its image tower, before any projection; `proj@final` is what the model
    compares with `text`, not normalised.
    """

    def __init__(self, net: Any, name: str, preprocess: Preprocess, get_tokenizer: Callable[[], Tokenizer]) -> None:
        super().__init__()
        self.net = net
        self.name = name
        self.preprocess = preprocess
        self.get_tokenizer = get_tokenizer
        self.tower = tower(net.visual, name, preprocess)
        for attribute in _OF_THE_TOWER:
            setattr(self, attribute, getattr(self.tower, attribute))
        bias = getattr(net, "logit_bias", None)
        self.logit_scale = net.logit_scale.exp().item()  # the weights hold its logarithm
        self.logit_bias = None if bias is None else bias.item()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's own tokenizer, at its context length; got when it is first needed."""
        return self.get_tokenizer()

    def text(self, prompts: Sequence[str]) -> Tensor:
        """Embeddings (P, D) of prompts, in the space of `proj@final`, not normalised.

        Raises:
            UsageError: the tokenizer's files cannot be had.
        """
        tokens = self.tokenizer(list(prompts)).to(self.net.logit_scale.device)
        return self.net.encode_text(tokens, normalize=False)

    def inner_norm(self, values: Tensor) -> Tensor:
        """The image tower's final norm."""
        return self.tower.inner_norm(values)

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Tokens]:
        """Tokens of each layer from one forward of the image tower. image: (B, 3, H, W), normalised."""
        return self.tower.tokens(image, layers)


def tower(visual: Any, name: str, preprocess: Preprocess) -> Backbone:
    """The Backbone of an image tower: timm's, a CLIP ResNet, or a CLIP ViT."""
    if hasattr(visual, "trunk"):
        return TrunkTower(visual, name, preprocess)
    return ResNetTower(visual, name) if hasattr(visual, "attnpool") else VitTower(visual, name)


class TrunkTower(TimmBackbone):
    """A timm model under a projection, which may be timm's own classifier (EVA02) or nothing (SigLIP)."""

    def __init__(self, visual: Any, name: str, preprocess: Preprocess) -> None:
        super().__init__(visual.trunk, name, preprocess)
        self.head = visual.head
        self.pools = (*(pool for pool in self.pools if pool != "logits"), "proj")

    def _final(self, final: Any, last: Tensor | None) -> Tokens:
        tokens = super()._final(final, last)
        return tokens._replace(extra={"proj": lambda: self.head(self.net.forward_head(final))})


class VitTower(Backbone):
    """A CLIP ViT. `final` is after `ln_post`, or the last block where an attentional pooler stands between (CoCa)."""

    def __init__(self, visual: Any, name: str) -> None:
        super().__init__()
        self.net = visual
        self.name = name
        self.depth = len(visual.transformer.resblocks)
        self.patch = self.stride = int(visual.patch_size[0])
        self.can_norm = visual.attn_pool is None
        self.own_pool = {"tok": "cls", "avg": "mean"}[visual.pool_type] if self.can_norm else "attn"
        self.pools = ("cls", "mean", *(() if self.can_norm else ("attn",)), "patch", "proj")
        self.inner_pools = ("cls", "mean", "patch")

    def inner_norm(self, values: Tensor) -> Tensor:
        """`ln_post`, over the last axis."""
        return self.net.ln_post(values)

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Tokens]:
        """Tokens of each layer from one forward. image: (B, 3, H, W), normalised."""
        numbers = sorted({self.depth - 1 if layer == FINAL else int(layer) for layer in layers})
        given = self.net.forward_intermediates(
            image,
            indices=numbers,
            stop_early=True,
            intermediates_only=True,
            output_fmt="NLC",
            output_extra_tokens=True,
        )
        grid = tuple(side // self.stride for side in image.shape[2:])
        pairs = zip(given["image_intermediates_prefix"], given["image_intermediates"], strict=True)
        blocks = dict(zip(numbers, pairs, strict=True))
        return [
            self._final(*blocks[self.depth - 1], grid) if n == FINAL else _read(*blocks[int(n)], grid) for n in layers
        ]

    def _final(self, prefix: Tensor, patches: Tensor, grid: tuple[int, ...]) -> Tokens:
        own = self.net._pool(torch.cat([prefix, patches], 1))[0]
        norm = self.net.ln_post if self.can_norm else nn.Identity()
        projection = self.net.proj
        extra = {"proj": lambda: own if projection is None else own @ projection}
        return _read(norm(prefix), norm(patches), grid)._replace(own=own, extra=extra)


class ResNetTower(Backbone):
    """A CLIP ResNet: stem and four stages. Its attention pool ends in the projection: there is no pooled vector before
    it, so the own pool is the mean of the last map, and `proj` the attention pool."""

    layer_unit = "stage"
    depth = 5
    pools = ("mean", "patch", "proj")
    stride = 32

    def __init__(self, visual: Any, name: str) -> None:
        super().__init__()
        self.net = visual
        self.name = name

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Tokens]:
        """Maps of each layer from one forward. image: (B, 3, H, W), normalised."""
        numbers = sorted({self.depth - 1 if layer == FINAL else int(layer) for layer in layers})
        # Without stop_early: open_clip 3.3 stops after the last of `indices` then, and only then.
        given = self.net.forward_intermediates(image, indices=numbers, intermediates_only=True)
        maps = dict(zip(numbers, given["image_intermediates"], strict=True))
        return [self._final(maps[self.depth - 1]) if n == FINAL else Tokens(None, maps[int(n)]) for n in layers]

    def _final(self, last: Tensor) -> Tokens:
        return Tokens(None, last, extra={"proj": lambda: self.net.attnpool(last)})


def _read(prefix: Tensor, patches: Tensor, grid: tuple[int, ...]) -> Tokens:
    """Class token (B, 1, C) and patches (B, N, C) as Tokens."""
    return Tokens(prefix[:, 0], patches.transpose(1, 2).reshape(len(patches), -1, *grid))
