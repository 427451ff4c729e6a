"""Dense features of named items, a few in memory at a time: what dense heads read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.store.features import TagFeatures


class Maps:
    """Patch maps by item, read row by row from the tag's own parts; use it as a context manager.

    Args:
        folder: of the tag.
        names: N item names; views: the name of each one's image.
        keys: feature keys, all of maps.
        frames: int (N, 2), height and width of each item's scored frame in pixels.
        extents: float (N, 2), the share of the map's height and width that shows the image (below 1 where it was padded).

    Raises:
        RunError: features.h5 or a part is missing, damaged or of another identity; a view is not there.
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        views: Sequence[str],
        keys: Sequence[str],
        frames: np.ndarray,
        extents: np.ndarray,
    ) -> None:
        self.names, self.keys = list(names), list(keys)
        self.frames, self.extents = frames, extents
        self._features = TagFeatures(folder, views)

    @property
    def meta(self) -> dict[str, Any]:
        """What holds for all items."""
        return self._features.meta

    def __contains__(self, key: str) -> bool:
        return key in self._features

    def item(self, key: str, row: int) -> np.ndarray:
        """One map (C, h, w)."""
        return self._features.item(key, row)

    def rows(self, key: str, positions: Sequence[int]) -> list[np.ndarray]:
        """Maps of some items, each (C, h, w)."""
        return self._features.rows(key, positions)

    def read(self, key: str) -> np.ndarray:
        """All maps, (N, C, h, w), where they have one shape."""
        return np.stack(self.rows(key, range(len(self.names))))

    def grid(self, row: int) -> tuple[int, int]:
        """Rows and columns of an item's last map."""
        height, width = self.item(self.keys[-1], row).shape[1:]
        return int(height), int(width)

    def bytes_per_item(self) -> int:
        """Of all keys together, by the first item."""
        first = [self.item(key, 0) for key in self.keys] if self.names else []
        return sum(math.prod(each.shape) * each.dtype.itemsize for each in first)

    def close(self) -> None:
        """Close the files."""
        self._features.close()

    def __enter__(self) -> Maps:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
