"""timm models as Backbones: layers through `forward_intermediates`, and what timm's families do differently."""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn

from benchkit.backbones.base import Backbone, Preprocess, Tokens
from benchkit.features import FINAL, Layer

# What `model.global_pool` says -> our name of the pool. Everything else averages a map.
OWN_POOLS = {"token": "cls", "map": "attn"}
# Families whose final tokens are not in the order of the image; their last stage's map is.
UNORDERED = {"hiera"}


class TimmBackbone(Backbone):
    """A timm model. Numbered layers are raw outputs of blocks or stages; `final` is what enters timm's head."""

    def __init__(self, net: Any, name: str, preprocess: Preprocess) -> None:
        super().__init__()
        self.net = net
        self.name = name
        self.preprocess = preprocess
        reductions = [int(info["reduction"]) for info in net.feature_info]
        self.depth = len(reductions)
        # Blocks keep the grid, stages shrink it.
        self.layer_unit = "block" if len(set(reductions)) == 1 else "stage"
        self.stride = reductions[-1]
        self.patch = self.stride if self.layer_unit == "block" else None
        self.prefix = int(getattr(net, "num_prefix_tokens", 0) or 0)
        self.has_cls = class_token(net) is not None
        self.own_pool = own_pool(net, self.has_cls)
        # CaiT, ConViT, XCiT and VOLO drop the prefix from inner layers or add it after them.
        self.inner_prefix = self.prefix > 0 and "return_prefix_tokens" in _arguments(net.forward_intermediates)
        self.pools = tuple(self._final_pools())
        self.inner_pools = ("cls", "mean", "patch") if self.has_cls and self.inner_prefix else ("mean", "patch")
        self.can_norm = self.layer_unit == "block" and token_norm(net) is not None

    def _final_pools(self) -> list[str]:
        pools = ["cls"] if self.has_cls or self.own_pool == "cls" else []
        pools += ["mean", *(["attn"] if self.own_pool == "attn" else []), "patch"]
        return pools + (["logits"] if getattr(self.net, "num_classes", 0) > 0 else [])

    def inner_norm(self, values: Tensor) -> Tensor:
        """The norm after the last block, over the last axis."""
        return self.net.norm(values)

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Tokens]:
        """Tokens of each layer from one forward. image: (B, 3, H, W), normalised."""
        numbers = sorted({int(layer) for layer in layers if layer != FINAL})
        options: dict[str, Any] = {"return_prefix_tokens": True} if self.inner_prefix else {}
        if FINAL not in layers:
            inner = self.net.forward_intermediates(
                image, indices=numbers, intermediates_only=True, stop_early=True, **options
            )
            at: dict[Layer, Tokens] = {n: self._inner(entry) for n, entry in zip(numbers, inner, strict=True)}
            return [at[layer] for layer in layers]
        # The last layer tells the grid of the final tokens, so it is asked for in any case.
        numbers = sorted({*numbers, self.depth - 1})
        final, inner = self.net.forward_intermediates(image, indices=numbers, **options)
        at = {n: self._inner(entry) for n, entry in zip(numbers, inner, strict=True)}
        at[FINAL] = self._final(final, at[self.depth - 1].map)
        return [at[layer] for layer in layers]

    def _inner(self, entry: Any) -> Tokens:
        if isinstance(entry, tuple | list):
            spatial, prefix = entry
            return Tokens(prefix[:, 0] if self.has_cls else None, spatial)
        return Tokens(None, entry)

    def _final(self, final: Any, last: Tensor | None) -> Tokens:
        assert last is not None
        own = self.net.forward_head(final, pre_logits=True)
        ordered = type(self.net).__module__.rpartition(".")[2] not in UNORDERED
        is_tokens = isinstance(final, Tensor) and final.ndim == 3
        return Tokens(
            cls=final[:, 0] if is_tokens and self.has_cls else None,
            map=final_map(final, last, self.prefix) if ordered else last,
            own=own if own.ndim == 2 else None,
            extra={"logits": lambda: self.net.forward_head(final)} if "logits" in self.pools else {},
        )


def final_map(final: Any, last: Tensor, prefix: int) -> Tensor:
    """The model's last map (B, C, h, w), its norm or convolution included.

    Args:
        final: what timm's `forward_features` gives: NCHW, NHWC (Swin, MambaOut), tokens (B, N, C) with `prefix` tokens
            first, or a list of several streams (CoaT, CrossViT).
        last: map of the last layer (B, C', h, w): the grid of the tokens, and the answer where `final` is no map.
        prefix: number of class, distillation and register tokens.
    """
    grid = tuple(last.shape[2:])
    if isinstance(final, Tensor) and final.ndim == 4:
        return final.permute(0, 3, 1, 2) if tuple(final.shape[1:3]) == grid else final
    if isinstance(final, Tensor) and final.ndim == 3 and final.shape[1] == prefix + grid[0] * grid[1]:
        patches = final[:, prefix:]
        return patches.transpose(1, 2).reshape(len(patches), -1, *grid)
    return last


def class_token(net: Any) -> Any:
    """The class token's parameter, or None; registers are prefix tokens too, but none of them is it."""
    own = getattr(net, "cls_token", None)
    return own if own is not None else getattr(getattr(net, "embeds", None), "cls_token", None)  # NaFlexViT: in embeds


def own_pool(net: Any, has_cls: bool) -> str:
    """What the model's own head reads: cls, mean or attn."""
    head = getattr(net, "head", None)
    heads = (getattr(net, "attn_pool", None), getattr(net, "global_pool", None), head, getattr(head, "global_pool", 0))
    if any("AttentionPool" in type(part).__name__ for part in heads):
        return "attn"
    pool = getattr(net, "global_pool", None)
    if pool == "":  # no head at all
        return "cls" if has_cls else "mean"
    return OWN_POOLS.get(pool, "mean") if isinstance(pool, str) else "mean"


def token_norm(net: Any) -> nn.Module | None:
    """The norm that ends a column of equal blocks; None where there is none (it then acts on the pooled vector)."""
    norm = getattr(net, "norm", None)
    return norm if isinstance(norm, nn.Module) and not isinstance(norm, nn.Identity) else None


def _arguments(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)
