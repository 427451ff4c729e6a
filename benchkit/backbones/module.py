"""Any torch.nn.Module, by dotted path or as an object: what its forward returns is inferred, or has to be said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone


@dataclass
class Settings:
    """How to make the module, what its output means, and how its images are prepared."""

    path: str = setting("", "dotted path of a class or function that returns the module: mypackage.models.Net")
    kwargs: dict[str, Any] = setting({}, "its arguments")
    checkpoint: str | None = setting(None, "weights file (.safetensors, .pt, .pth, .th)", identity=False)
    method: str = setting("forward", "the method that is called with the images, such as forward_features")
    output: Literal["auto", "masks"] = setting(
        "auto",
        "masks: an output (B, K, h, w) is a map per class, not of features; so is `out` or `logits` of a dict-like one",
    )
    labels: list[str] | None = setting(
        None,
        "names of the classes of masks in their order; or one list: voc, ade20k, ..., or a file, a name a line",
    )
    patch_size: int | None = setting(None, "side of a patch in pixels, for outputs (B, N, C)")
    has_cls_token: bool | None = setting(None, "whether the first token is a class token, for outputs (B, N, C)")
    size: int | None = setting(None, "side of the images in pixels; has to be said here or as data.size")
    mean: list[float] | None = setting(None, "means of the training images, range 0..1; has to be said")
    std: list[float] | None = setting(None, "standard deviations of the training images, range 0..1; has to be said")
    interpolation: str = setting("bicubic", "bilinear, bicubic or nearest")
    crop_pct: float = setting(0.875, "share of the resized short side that the centre crop keeps")


def build(
    settings: Settings,
    *,
    size: int | None = None,
    random: bool = False,
    seed: int = 0,
    pad: bool = False,
    module: Any = None,
    feature_fn: Callable[..., Any] | None = None,
) -> Backbone:
    """The module as a Backbone in eval mode.

    Args:
        settings: see the class.
        size: side of the images in pixels; None for `settings.size`.
        random: random weights from `seed` in place of those it has; an object given is copied, never changed.
        seed: of everything random while building; the global random state is neither read nor changed.
        pad: images of many shapes will come, each a multiple of the patch.
        module: an nn.Module in place of `settings.path`.
        feature_fn: called with (image) or (module, image) in place of `settings.method`.

    Raises:
        UsageError: no module, weights that do not fit, or an output that cannot be understood as it is.
    """
    from benchkit.backbones._module_build import build_module

    return build_module(settings, size or settings.size, random, seed, module, feature_fn)
