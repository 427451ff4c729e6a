"""No backbone: the head reads the images themselves, as a matcher of two images at once does (`benchkit.heads.loftr`).

Images come at their own size, or with data.size (long side), data.resize_short (short side) or data.resize; not normalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchkit.errors import UsageError
from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone


@dataclass
class Settings:
    """What the head's input looks like, beside the data's size and resize."""

    multiple: int = setting(1, "images are padded at the right and the bottom until their sides are multiples of it")

    def __post_init__(self) -> None:
        if self.multiple < 1:
            raise ValueError(f"multiple is at least 1, not {self.multiple}")


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """A Backbone that gives no features.

    Args:
        settings: of the padding.
        size: not used: images come at their own size.
        random: refused.
        seed: not used.
        pad: not used.

    Raises:
        UsageError: random weights are asked for, which there are none of: a twin would be the trained model itself.
    """
    from benchkit.backbones.base import Backbone, Preprocess

    if random:
        raise UsageError(
            "model.random=true (--random): the backbone pixels has no weights. Ask the head for random ones, such as "
            "model.head.random=true with the head loftr."
        )
    backbone = Backbone()
    backbone.name = "pixels"
    backbone.pools = backbone.inner_pools = ()
    backbone.stride = settings.multiple
    backbone.preprocess = Preprocess(224, "bilinear", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 1.0, "native")
    backbone.tokens = lambda image, layers: []  # type: ignore[method-assign]
    return backbone
