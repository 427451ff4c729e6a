"""Edges: how strong is the change of brightness at each pixel?

Taskonomy's edge_texture (Zamir et al. 2018): Canny's edge strength before non-maximum suppression. Every pixel has a truth:
0 is no edge, not a hole. Scores as in `_magnitude`. BSDS's human boundaries are another benchmark: `boundaries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit.eval._magnitude import Magnitude
from benchkit.registry import NoSettings as Settings

__all__ = ["Edges", "Settings", "build"]


class Edges(Magnitude):
    """See the module."""

    level = "low"
    source = "Taskonomy edge_texture (Zamir et al. 2018); correlation, L1 and schedule as VisBench's edge"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scenes", "truth": "edges"},
        "model": {"head": {"name": "dense_linear"}},
    }


build = Edges

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("edges"))
