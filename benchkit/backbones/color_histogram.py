"""A baseline that has learned nothing: the colours of an image, and where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.backbones.base import Backbone


@dataclass
class Settings:
    """Size of the histogram and of the cells."""

    bins: int = setting(8, "bins per colour channel: a histogram has bins^3 entries")
    cell: int = setting(16, "side in pixels of a cell of the map")


def build(
    settings: Settings, *, size: int | None = None, random: bool = False, seed: int = 0, pad: bool = False
) -> Backbone:
    """The baseline as a Backbone. `random` and `seed` change nothing: there are no weights.

    Raises:
        UsageError: bins or cell below 1.
    """
    from benchkit.backbones._color_layers import ColorHistogram

    return ColorHistogram(settings.bins, settings.cell, size or 224)
