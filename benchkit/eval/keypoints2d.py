"""2-D keypoints: how much of an interest point is each pixel, by brightness alone?

Taskonomy's keypoints2d (Zamir et al. 2018): SURF's response before non-maximum suppression. Every pixel has a truth. Scores
as in `_magnitude`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit.eval._magnitude import Magnitude
from benchkit.registry import NoSettings as Settings

__all__ = ["Keypoints2d", "Settings", "build"]


class Keypoints2d(Magnitude):
    """See the module."""

    level = "low"
    source = "Taskonomy keypoints2d (Zamir et al. 2018); correlation, L1 and schedule as VisBench's keypoints2d"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scenes", "truth": "keypoints2d"},
        "model": {"head": {"name": "dense_linear"}},
    }


build = Keypoints2d

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("keypoints2d"))
