"""What a backbone is: a frozen model, images -> vectors and maps, one forward for all that is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from benchkit.errors import UsageError
from benchkit.features import FINAL, FeatureKey, Layer

Features = dict[str, Any]  # tensors by feature key; of keypoints and descriptors a list of one per image


@dataclass(frozen=True)
class Preprocess:
    """How a model wants its images: RGB in 0..1, resized, cropped, normalised.

    `resize` crop: the short side to size / crop_pct, then the central size x size. squash: the whole image to
    size x size. native: as it is, at any size. `data.resize`, where somebody sets it, goes first.
    """

    size: int = 224
    interpolation: str = "bicubic"
    mean: tuple[float, ...] | None = (0.485, 0.456, 0.406)  # None: nobody said it, and it cannot be inferred
    std: tuple[float, ...] | None = (0.229, 0.224, 0.225)
    crop_pct: float = 0.875
    resize: Literal["crop", "squash", "native"] = "crop"


class Label(NamedTuple):
    """A class of a model's own classifier: WordNet id ("n02124075", "" where there is none) and its English names."""

    wnid: str
    names: tuple[str, ...]


class Tokens(NamedTuple):
    """What one layer gives.

    Attributes:
        cls: class token (B, C), or None.
        map: patch map (B, C, h, w) without class and register tokens; None for a model that only pools.
        own: at `final`, the vector (B, D) that the model's own classifier sees; else None.
        extra: further vectors of this layer by pool name (logits, proj) and maps (masks), made only when they are asked for.
    """

    cls: Tensor | None
    map: Tensor | None
    own: Tensor | None = None
    extra: Mapping[str, Callable[[], Tensor]] = {}


class Backbone(nn.Module):
    """A frozen model. A subclass sets the attributes and writes `tokens`; `forward` pools, names and checks.

    A class named in a conf by its dotted path is called as `build` of the modules here is: with its settings (an
    instance of its own dataclass `Settings`) and size, random, seed and pad by keyword.

    Attributes:
        name: for tables and folders.
        depth: how many layers can be asked for by number.
        layer_unit: what a layer is, "block" or "stage".
        own_pool: the pool that the model's own classifier reads: "cls", "mean" or "attn".
        pools, inner_pools: what exists at `final`, and at numbered layers.
        patch: side of a patch in pixels, None for a model without patches; stride: of the last map.
        preprocess: the model's own preprocessing.
        can_norm: whether `inner_norm`, the model's final norm, fits inner layers.
        labels: classes of `logits@final` (or `masks@final`) in their order; empty where there are none or nobody names them.
        logit_scale, logit_bias: of an image-text model: its logits are scale x cosine + bias; else None.
        reads_images: False where no feature is asked of it: views are then made small, for their thumbnails alone.
        local_features: what kind of keypoints and descriptors `points` gives (sift, aliked); "" for none.
        max_points, descriptor_size: the most keypoints of an image, and numbers of a descriptor.
        masks_are: what `masks@final`, a map per class, holds: "logits", or "probabilities" (any numbers that are added).
    """

    name: str = "backbone"
    depth: int = 1
    layer_unit: str = "block"
    own_pool: str = "mean"
    pools: tuple[str, ...] = ("mean", "patch")
    inner_pools: tuple[str, ...] = ("mean", "patch")
    patch: int | None = None
    stride: int = 1
    preprocess: Preprocess = Preprocess()
    can_norm: bool = False
    notes: tuple[str, ...] = ()  # what the loading of the weights had to say
    upstream: str | None = None  # the library and version whose code runs, where one does
    labels: tuple[Label, ...] = ()
    logit_scale: float | None = None
    logit_bias: float | None = None
    masks_are: Literal["logits", "probabilities"] = "logits"
    reads_images: bool = True
    local_features: str = ""
    max_points: int = 0
    descriptor_size: int = 0

    def inner_norm(self, values: Tensor) -> Tensor:
        """The model's final norm over the last axis of an inner layer's tokens; only where `can_norm`."""
        raise NotImplementedError

    def text(self, prompts: Sequence[str]) -> Tensor:
        """Embeddings (P, D) of prompts in the space of `proj@final`, not normalised; image-text models only.

        The model's own tokenizer and context length; called without gradients, on the model's device.
        """
        raise UsageError(
            f"{self.name} has no text tower: zero-shot needs an image-text model, such as a CLIP or SigLIP."
        )

    def points(self, image: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Local features of each image, the surest first: keypoints (n, 5) and descriptors (n, descriptor_size).

        A keypoint is x and y in pixels of the input, the corner of the top-left pixel at (0, 0); score; scale in pixels and
        angle in radians, 0 where the detector gives none. Descriptors are compared by their cosine.

        Args:
            image: (B, 3, H, W) float, normalised.
        """
        raise NotImplementedError

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Any]:
        """One `Tokens` (or a pair cls, map) per layer, in order, from one forward.

        Args:
            image: (B, 3, H, W) float, normalised.
            layers: numbers below `depth`, or "final"; none twice.
        """
        raise NotImplementedError

    def forward(self, image: Tensor, keys: Iterable[FeatureKey | str]) -> Features:
        """All features asked for, from one forward of the net.

        Args:
            image: (B, 3, H, W) float, normalised.
            keys: feature keys.

        Returns:
            {key: (B, C) vector or (B, C, h, w) map; of keypoints and descriptors a list of B (n, C)}. Whether the values
            are finite is left to the caller, who knows the names of the rows.

        Raises:
            UsageError: the model gives no such feature, or something of another shape or dtype than it should.
        """
        parsed = [FeatureKey.parse(key) if isinstance(key, str) else key for key in keys]
        if any(key.points for key in parsed):
            others = [key for key in parsed if not key.points]
            rest = self.forward(image, others) if others else {}
            return {**rest, **self._points(image, [key for key in parsed if key.points])}
        layers = list(dict.fromkeys(key.layer for key in parsed))
        given = self.tokens(image, layers)
        if not isinstance(given, list | tuple) or len(given) != len(layers):
            raise UsageError(f"{self.name}: tokens() must return a list with one entry for each of {layers}.")
        at = {layer: self._as_tokens(layer, entry) for layer, entry in zip(layers, given, strict=True)}
        features = {str(key): self._pooled(key, at[key.layer]) for key in parsed}
        for key in parsed:
            self._check(key, features[str(key)], len(image))
        return features

    def _points(self, image: Tensor, keys: list[FeatureKey]) -> dict[str, Any]:
        found = self.points(image)
        if len(found) != len(image):
            raise UsageError(f"{self.name}: points() gave {len(found)} results for {len(image)} images.")
        for keypoints, descriptors in found:
            shapes = tuple(keypoints.shape), tuple(descriptors.shape)
            if shapes != ((len(keypoints), 5), (len(keypoints), self.descriptor_size)):
                raise UsageError(
                    f"{self.name}: keypoints and descriptors have shapes {shapes[0]} and {shapes[1]}, not (n, 5) and "
                    f"(n, {self.descriptor_size})."
                )
        return {str(key): [pair[key.pool == "descriptors"] for pair in found] for key in keys}

    def _as_tokens(self, layer: Layer, entry: Any) -> Tokens:
        if isinstance(entry, tuple | list) and 2 <= len(entry) <= 4:
            return Tokens(*entry)
        raise UsageError(f"{self.name}: tokens() gave {type(entry).__name__} for layer {layer}, not a pair (cls, map).")

    def _pooled(self, key: FeatureKey, tokens: Tokens) -> Tensor:
        if key.layer == FINAL and key.pool == self.own_pool and tokens.own is not None:
            return tokens.own
        if key.pool in tokens.extra:
            return tokens.extra[key.pool]()
        if key.pool == "cls" and tokens.cls is not None:
            return self._normed(key, tokens.cls)
        if key.pool in ("mean", "patch") and tokens.map is not None:
            if tokens.map.ndim != 4:
                raise UsageError(f"{self.name}: the map of {key} is {tuple(tokens.map.shape)}, not (B, C, h, w).")
            patches = self._normed(key, tokens.map.permute(0, 2, 3, 1)) if key.norm else tokens.map.permute(0, 2, 3, 1)
            return patches.float().mean((1, 2)) if key.pool == "mean" else patches.permute(0, 3, 1, 2).contiguous()
        raise UsageError(f"{self.name} gives no {key}: at final there are {', '.join(self.pools)}.")

    def _normed(self, key: FeatureKey, values: Tensor) -> Tensor:
        if not key.norm:
            return values
        if not self.can_norm:
            raise UsageError(f"{self.name} has no norm that fits inner layers: ask for {key.pool}@{key.layer}.")
        return self.inner_norm(values)

    def _check(self, key: FeatureKey, value: Tensor, rows: int) -> None:
        shape = tuple(value.shape)
        expected = "(B, C, h, w)" if key.dense else "(B, C)"
        if len(shape) != (4 if key.dense else 2) or shape[0] != rows or 0 in shape:
            raise UsageError(f"{self.name}: {key} has shape {shape}, not {expected} with B = {rows}.")
        if not value.is_floating_point():
            raise UsageError(f"{self.name}: {key} is {value.dtype}, not a floating type.")
        known = self.__dict__.setdefault("_channels", {}).setdefault(str(key), shape[1])
        if known != shape[1]:
            raise UsageError(f"{self.name}: {key} has {shape[1]} channels in one batch and {known} in another.")

    @torch.inference_mode()
    def shapes(self, height: int, width: int, keys: Iterable[FeatureKey | str]) -> dict[str, tuple[int, ...]]:
        """The shape of one row of each feature for images of that size, found by one forward of one black image; of
        keypoints and descriptors the largest there can be.
        """
        parsed = [FeatureKey.parse(key) if isinstance(key, str) else key for key in keys]
        widths = {"keypoints": 5, "descriptors": self.descriptor_size}
        points: dict[str, tuple[int, ...]] = {str(k): (self.max_points, widths[k.pool]) for k in parsed if k.points}
        if not (others := [key for key in parsed if not key.points]):
            return points
        some = next(self.parameters(), None)
        device, dtype = ("cpu", torch.float32) if some is None else (some.device, some.dtype)
        features = self(torch.zeros(1, 3, height, width, device=device, dtype=dtype), others)
        return {**points, **{key: tuple(value.shape[1:]) for key, value in features.items()}}


def module_state_hash(module: nn.Module) -> str:
    """sha256 (hex) of the weights in memory: names, dtypes, shapes and bytes of parameters and buffers, by name.

    Buffers that are not saved with the model count too: they can change a result.
    """
    digest = hashlib.sha256()
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        digest.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    return digest.hexdigest()
