"""The features themselves as the prediction: for retrieval and whatever compares images directly."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchkit.heads.base import Head
from benchkit.registry import NoSettings as Settings
from benchkit.store.items import Items

__all__ = ["Embed", "Settings", "build"]


class Embed(Head):
    """`embedding`: float32 (N, C), as the backbone gave it."""

    gives = ("embedding",)
    scores_are = "embedding"

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """The pooled features."""
        return {"embedding": np.asarray(features.read(key), dtype=np.float32)}


build = Embed
