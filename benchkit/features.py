"""Feature keys: which vector or map of which layer, and how a conf's request becomes a list of them.

A key is `<pool>@<layer>[+norm]`: `cls@11`, `mean@final`, `patch@8+norm`. A layer is a block (ViT) or a stage (others),
counted from 0; `final` is the model's own last output, its head's norm or convolution included.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchkit.errors import UsageError

Layer = int | str  # a number, or FINAL
FINAL = "final"
POOLS = ("cls", "mean", "attn", "proj", "patch", "masks", "logits", "text", "keypoints", "descriptors")
DENSE = ("patch", "masks")  # pools that are maps
POINTS = ("keypoints", "descriptors")  # pools of local features: as many rows as the image has points
_KEY = re.compile(rf"(?P<pool>{'|'.join(POOLS)})@(?P<layer>\d+|{FINAL})(?P<norm>\+norm)?")


@dataclass(frozen=True)
class FeatureKey:
    """One kind of feature.

    Attributes:
        pool: one of POOLS; `patch` is the dense map and `masks` that of a segmentation model's classes, `keypoints` and
            `descriptors` are rows of local features, the others are vectors.
        layer: block or stage from 0, or "final".
        norm: the model's final norm is applied to this inner layer; never with "final", which includes it.
    """

    pool: str
    layer: Layer = FINAL
    norm: bool = False

    def __post_init__(self) -> None:
        if _KEY.fullmatch(str(self)) is None or (self.norm and self.layer == FINAL):
            raise UsageError(
                f"{str(self)!r} is no feature key: write <pool>@<layer>[+norm] with a pool of {', '.join(POOLS)} and a "
                "layer that is a number from 0 or 'final' (which includes the norm), such as cls@11 or patch@8+norm."
            )

    def __str__(self) -> str:
        return f"{self.pool}@{self.layer}" + ("+norm" if self.norm else "")

    @property
    def dense(self) -> bool:
        """Whether the feature is a map (B, C, h, w) rather than a vector (B, C)."""
        return self.pool in DENSE

    @property
    def points(self) -> bool:
        """Whether the feature is a row per keypoint, (n, C), of its own length for each image."""
        return self.pool in POINTS

    @classmethod
    def parse(cls, text: str) -> FeatureKey:
        """The key that `str` wrote as `text`.

        Raises:
            UsageError: `text` is no feature key.
        """
        pool, _, rest = text.partition("@")
        layer, norm = rest.removesuffix("+norm"), rest.endswith("+norm")
        # Only what str() writes is a key: "cls@07" is not one.
        canonical = layer.isascii() and layer.isdigit() and str(int(layer)) == layer
        return cls(pool, int(layer) if canonical else layer if layer == FINAL else f"{layer}?", norm)


def resolve_layers(request: Any, depth: int) -> list[Layer]:
    """The layers that a conf asks for, in its order, none twice.

    Args:
        request: `final`; `last4` (the last four); `quarters` (the last layer of each quarter, ceil(k x depth / 4) - 1
            for k = 1..4: 2, 5, 8, 11 of 12 and 5, 11, 17, 23 of 24, as probe3d and VisBench take them; of a CNN's stem
            and four stages the four stages); `all`; a number, or several as a list or as text "3,7,11".
        depth: how many blocks or stages the backbone has.

    Raises:
        UsageError: the request is none of these, or asks for a layer that does not exist.
    """
    if isinstance(request, str) and request in ("last4", "quarters", "all"):
        return list(_named(request, depth))
    parts = request.split(",") if isinstance(request, str) else request
    layers = [_layer(part, depth) for part in (parts if isinstance(parts, Sequence) else [parts])]
    if not layers:
        raise UsageError("model.features.layers is empty: ask for final, last4, quarters, all, or numbers such as 3,7.")
    return list(dict.fromkeys(layers))


def _named(request: str, depth: int) -> Sequence[int]:
    if request == "all":
        return range(depth)
    if depth < 4:
        raise UsageError(
            f"model.features.layers={request} needs four layers and the backbone has {depth}: use all or numbers."
        )
    if request == "last4":
        return range(depth - 4, depth)
    return [-(-k * depth // 4) - 1 for k in (1, 2, 3, 4)]


def _layer(part: Any, depth: int) -> Layer:
    text = part.strip() if isinstance(part, str) else part
    if text == FINAL:
        return FINAL
    if isinstance(text, str) and re.fullmatch(r"-?[0-9]+", text):
        text = int(text)
    if isinstance(text, bool) or not isinstance(text, int):
        raise UsageError(
            f"model.features.layers: {part!r} is no layer; use final, last4, quarters, all, or numbers from 0."
        )
    if not 0 <= text < depth:
        raise UsageError(
            f"model.features.layers: there is no layer {text}; the backbone's depth is {depth}, so layers are "
            f"0 to {depth - 1}, and `final` is the model's own last output."
        )
    return text


class BackboneInfo(Protocol):
    """What planning needs to know of a backbone."""

    name: str
    depth: int
    own_pool: str
    pools: tuple[str, ...]
    inner_pools: tuple[str, ...]
    can_norm: bool


def plan_keys(request: Any, pool: str, norm: bool, kind: str, backbone_info: BackboneInfo) -> list[FeatureKey]:
    """The feature keys for a conf's request.

    Args:
        request: see `resolve_layers`.
        pool: `default` for the model's own, else cls, mean, attn or proj; not used for maps.
        norm: apply the model's final norm to inner layers too.
        kind: "pool" for vectors, "patch" for maps.
        backbone_info: the backbone, or anything with its descriptive attributes.

    Raises:
        UsageError: the backbone has no such layer, pool or norm; the message names what exists.
    """
    layers = resolve_layers(request, backbone_info.depth)
    chosen = "patch" if kind == "patch" else backbone_info.own_pool if pool == "default" else pool
    for layer in layers:
        _check(chosen, layer, norm, backbone_info)
    return [FeatureKey(chosen, layer, norm and layer != FINAL) for layer in layers]


def plan_points(request: Any, head: str, backbone_info: BackboneInfo) -> list[FeatureKey]:
    """The keys of a head that reads local features.

    Raises:
        UsageError: the backbone finds no keypoints, or the conf asks for layers.
    """
    if any(pool not in backbone_info.pools for pool in POINTS):
        raise UsageError(
            f"the head {head} reads local features, and {backbone_info.name} finds no keypoints: take a model that does "
            "(such as --conf sift), or the head match, which compares the cells of a grid."
        )
    if request != FINAL:
        raise UsageError(
            f"model.features.layers={request}: {backbone_info.name} finds keypoints, which have no layers; leave it out."
        )
    return [FeatureKey(pool) for pool in POINTS]


def plan_fixed(pool: str, request: Any, chosen_pool: str, head: str, backbone_info: BackboneInfo) -> list[FeatureKey]:
    """The one key of a head that reads a fixed pool of the final output, such as logits or proj.

    Raises:
        UsageError: the backbone has no such output, or the conf asks for other features.
    """
    if request != FINAL or chosen_pool not in ("default", pool):
        raise UsageError(
            f"the head {head} reads {pool}@final, so model.features.layers={request} and "
            f"model.features.pool={chosen_pool} have no use: drop them."
        )
    if pool not in backbone_info.pools:
        raise UsageError(
            f"the head {head} reads {pool}@final, and {backbone_info.name} gives {', '.join(backbone_info.pools)} only: "
            "take another head or another model."
        )
    return [FeatureKey(pool)]


def _check(pool: str, layer: Layer, norm: bool, info: BackboneInfo) -> None:
    here = info.pools if layer == FINAL else info.inner_pools
    if pool not in here:
        where = "its final output" if layer == FINAL else f"layer {layer}"
        also = f" ({pool} exists at final only)" if pool in info.pools else ""
        there = f"there are {', '.join(here)}{also}" if here else f"there is nothing{also}"
        raise UsageError(
            f"{info.name} has no {pool} at {where}: {there}. Choose with model.features.pool and model.features.layers."
        )
    if norm and layer != FINAL and not info.can_norm:
        raise UsageError(
            f"model.features.norm=true: {info.name} has no norm that fits its inner layers, so nothing would change "
            "there; leave it false. `final` includes the model's own norm anyway."
        )
