"""Occlusion edges: where does one surface hide another, whatever their colours?

Taskonomy's edge_occlusion (Zamir et al. 2018): edges of depth, blind to texture and light. It comes from a reconstruction with
holes, where the truth is unknown (NaN) and nothing is scored. Scores as in `_magnitude`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit.eval._magnitude import Magnitude
from benchkit.registry import NoSettings as Settings

__all__ = ["OcclusionEdges", "Settings", "build"]


class OcclusionEdges(Magnitude):
    """See the module."""

    level = "mid"
    source = "Taskonomy edge_occlusion (Zamir et al. 2018); correlation, L1 and schedule as VisBench's occlusion_edge"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scenes", "truth": "occlusion_edges"},
        "model": {"head": {"name": "dense_linear"}},
    }


build = OcclusionEdges

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("occlusion_edges"))
