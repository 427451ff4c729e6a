"""Matches that somebody else's run found: predictions.h5 as Glue Factory writes it, a group per pair.

A group holds keypoints0 and keypoints1 (n, 2), matches0 (n0,) and, as a rule, matching_scores0. Scores of keypoints, and lines
with their matches, are kept where every pair has them, and not scored; other fields are left alone.
Groups are found by benchkit's name of the item or by Glue Factory's (`Dataset.also_called`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from benchkit.heads.base import Head, Wants
from benchkit.settings import setting
from benchkit.store.points import MATCH_FIELDS


@dataclasses.dataclass
class Settings:
    """The file, and what its numbers mean."""

    file: str | None = setting(None, "predictions.h5", identity=False)
    pixels: Literal["corner", "centre"] = setting(
        "corner",
        "where (0, 0) is: the corner of the top-left pixel (Glue Factory, COLMAP), or its centre (OpenCV)",
    )


class Imported(Head):
    """Fields as of `benchkit.heads.match`."""

    gives = MATCH_FIELDS

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.groups: dict[str, str] = {}

    def wants(self) -> Wants:
        """Nothing of the image."""
        return Wants(None, views=2)

    def read_names(self, others: Mapping[str, Sequence[str]]) -> None:
        """Find the group of every item.

        Raises:
            UsageError: the file is missing or damaged, or lacks an item or one of its fields.
        """
        from benchkit.heads.solvers import imported

        if self.groups:  # asked before the forward and again when the tag is finished
            return
        self.groups, notes = imported.find(self.settings.file, others)
        for note in notes:
            self.say(note)

    def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
        """The file's own numbers, in original pixels from the corner."""
        from benchkit.heads.solvers import imported

        groups = [self.groups[name] for name in features.names]
        return imported.read(str(self.settings.file), groups, 0.5 if self.settings.pixels == "centre" else 0.0)

    def meta(self) -> dict[str, Any]:
        """Nothing."""
        return {}


build = Imported
