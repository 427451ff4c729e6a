"""No model: predictions were made elsewhere and come in a file (`benchkit import`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone


@dataclass
class Settings:
    """Where the predictions come from."""

    # Its content decides, and is compared as that of any checkpoint is.
    checkpoint: str | None = setting(None, "the file of predictions", identity=False)
    made_by: str = setting("", "what made them, in words")


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """A Backbone that gives no features; views are read for their thumbnails alone."""
    from benchkit.backbones.base import Backbone, Preprocess

    backbone = Backbone()
    backbone.name = "imported"
    backbone.pools = backbone.inner_pools = ()
    backbone.reads_images = False
    backbone.preprocess = Preprocess(8, "bilinear", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 1.0, "squash")
    backbone.tokens = lambda image, layers: []  # type: ignore[method-assign]
    return backbone
