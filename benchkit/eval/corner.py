"""Corners: how much does brightness change in both directions around each pixel?

The truth is made from the image after the crop, so any images will do and nothing can slip: log(1 + 1e4 x the smaller
eigenvalue of the structure tensor), Shi and Tomasi's corner strength (1994), with VisBench's window and compression (see
`benchkit.metrics.structure`). Corners and edges are no independent evidence: where both gradients are large, one is. Scores
as in `_magnitude`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchkit.eval._magnitude import Magnitude
from benchkit.metrics.structure import corner_strength
from benchkit.registry import NoSettings as Settings

__all__ = ["Corner", "Settings", "build"]


class Corner(Magnitude):
    """See the module."""

    level = "low"
    folder = "images"
    source = "Shi and Tomasi 1994; window, compression and scores as VisBench's corner"
    defaults: Mapping[str, Any] = {"data": {"name": "scenes"}, "model": {"head": {"name": "dense_linear"}}}

    def derive(self, image: np.ndarray) -> dict[str, np.ndarray]:
        """`map`: corner strength, float32 (h, w), from 0."""
        return {"map": corner_strength(image)}


build = Corner

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("corner"))
