"""What the output of an unknown module means: vectors, a map or tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from benchkit.backbones.base import Tokens
from benchkit.errors import UsageError


@dataclass(frozen=True)
class Reading:
    """How an output is read.

    Attributes:
        kind: "vector" (B, C); "map" (B, C, h, w); "map_nhwc" (B, h, w, C); "tokens" (B, N, C); "pair" (vector, map); "masks"
            (B, K, h, w), a map per class.
        pools: what exists at `final`.
        stride: pixels per cell of the map; 1 without a map.
        prefix: tokens before those of the patches.
        note: the reading in words, for the record.
    """

    kind: str
    pools: tuple[str, ...]
    stride: int = 1
    prefix: int = 0
    has_cls: bool = False
    note: str = ""


def understand(
    output: Any, size: int, patch_size: int | None, has_cls_token: bool | None, name: str, masks: bool = False
) -> Reading:
    """How to read `output`, which the module gave for square images.

    Args:
        output: what the module returned for (2, 3, size, size).
        size: side of the images.
        patch_size, has_cls_token: what the user said; needed for tokens that can be read in more than one way.
        name: of the module, for messages.
        masks: a map is one of classes.

    Raises:
        UsageError: the output cannot be read, or can be read in several ways; says which setting decides.
    """
    value = unwrap(output)
    if masks or (isinstance(output, Mapping) and value is not output and "last_hidden_state" not in output):
        return _masks(value, size, name)
    if isinstance(value, tuple) and len(value) == 2 and [_ndim(v) for v in value] == [2, 4]:
        return Reading("pair", ("cls", "mean", "patch"), _stride(size, value[1].shape[2]), note="pair (vector, map)")
    if not isinstance(value, Tensor) or value.ndim not in (2, 3, 4) or len(value) != 2:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise UsageError(
            f"{name} returned {got}, which is none of (B, C), (B, C, h, w), (B, N, C) or a pair (vector, map): name the "
            "method that gives features with model.backbone.method, or pass feature_fn."
        )
    if value.ndim == 2:
        pool = "cls" if has_cls_token else "mean"
        return Reading("vector", (pool,), note="vector (B, C); if these are logits, name another method")
    if value.ndim == 4:
        return _map(value, size, name)
    return _tokens(value.shape[1], size, patch_size, has_cls_token, name)


def unwrap(output: Any) -> Any:
    """The tensor (or pair) in an output: `last_hidden_state`, or masks as `out` (torchvision) or `logits` (transformers), of
    a dict-like output; the only entry of a list."""
    if isinstance(output, Mapping):
        if isinstance(output.get("last_hidden_state"), Tensor):
            return output["last_hidden_state"]
        return next((output[name] for name in ("out", "logits") if _ndim(output.get(name)) == 4), output)
    if isinstance(output, list | tuple):
        return output[0] if len(output) == 1 else tuple(output)
    return output


def read_output(output: Any, reading: Reading, image: Tensor) -> Tokens:
    """`output` as tokens, by a reading found before. image: (B, 3, H, W), what the module was given."""
    value = unwrap(output)
    if reading.kind == "vector":
        return Tokens(None, None, value)
    if reading.kind == "masks":
        return Tokens(None, None, None, {"masks": lambda: value})
    if reading.kind == "pair":
        return Tokens(value[0], value[1])
    if reading.kind.startswith("map"):
        return Tokens(None, value.permute(0, 3, 1, 2) if reading.kind == "map_nhwc" else value)
    height, width = (side // reading.stride for side in image.shape[2:])
    patches = value[:, reading.prefix :]
    if patches.shape[1] != height * width:
        raise UsageError(f"the module gave {patches.shape[1]} patch tokens for a grid of {height} x {width}.")
    spatial = patches.transpose(1, 2).reshape(len(patches), -1, height, width)
    return Tokens(value[:, 0] if reading.has_cls else None, spatial)


def _map(value: Tensor, size: int, name: str) -> Reading:
    _, first, second, third = value.shape
    if second == third:  # square images have square maps
        return Reading("map", ("mean", "patch"), _stride(size, second), note="map (B, C, h, w)")
    if first == second:
        return Reading("map_nhwc", ("mean", "patch"), _stride(size, first), note="map (B, h, w, C)")
    raise UsageError(f"{name} returned {tuple(value.shape)} for square images: a map must be (B, C, h, w), h = w.")


def _masks(value: Any, size: int, name: str) -> Reading:
    if _ndim(value) != 4 or value.shape[2] != value.shape[3]:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise UsageError(f"{name} returned {got}, and masks of square images must be (B, K, h, w), h = w.")
    return Reading("masks", ("masks",), _stride(size, value.shape[2]), note="masks (B, K, h, w), a map per class")


def _tokens(count: int, size: int, patch_size: int | None, has_cls_token: bool | None, name: str) -> Reading:
    if patch_size is None:
        prefixes = [0, 1] if has_cls_token is None else [int(has_cls_token)]
        fits = [(prefix, math.isqrt(count - prefix)) for prefix in prefixes if _square(count - prefix)]
        sides = [(prefix, side) for prefix, side in fits if side and size % side == 0]
        if len(sides) != 1:
            raise UsageError(
                f"{name} returned {count} tokens for {size} x {size} images, which is no square grid with at most one "
                "class token: say patch_size and has_cls_token (registers between class token and patches are found)."
            )
        prefix, side = sides[0]
        stride = size // side
    else:
        stride, prefix = patch_size, count - (size // patch_size) ** 2
        if prefix < int(bool(has_cls_token)):
            raise UsageError(f"{name} returned {count} tokens, too few for patch_size={patch_size} at {size} pixels.")
        if prefix > 1 and has_cls_token is None:
            raise UsageError(f"{name} has {prefix} tokens before its patches: say has_cls_token=true or false.")
    has_cls = prefix == 1 if has_cls_token is None else has_cls_token
    note = (
        f"tokens (B, N, C): {prefix} before the patches, {'the first a class token' if has_cls else 'no class token'}"
    )
    return Reading("tokens", (*(["cls"] if has_cls else []), "mean", "patch"), stride, prefix, has_cls, note)


def _square(count: int) -> bool:
    return count > 0 and math.isqrt(count) ** 2 == count


def _stride(size: int, cells: int) -> int:
    return max(1, -(-size // cells))


def _ndim(value: Any) -> int | None:
    return value.ndim if isinstance(value, Tensor) else None
