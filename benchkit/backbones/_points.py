"""What all detectors of local features can be told."""

from __future__ import annotations

from dataclasses import dataclass

from benchkit.settings import setting


@dataclass
class PointSettings:
    """How many keypoints are kept."""

    max_points: int = setting(2048, "the strongest keypoints are kept")

    def __post_init__(self) -> None:
        if self.max_points < 1:
            raise ValueError(f"max_points is at least 1, not {self.max_points}")
