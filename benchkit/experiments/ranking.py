"""What results.h5 says of each item of a tag: the order of pictures, and their captions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from benchkit.eval.base import Benchmark


class Ranking:
    """Items in the order that their family says; without one before eval, and where no item has a score of its own.

    Args:
        folder: of the tag.
        family: as the tag was scored.
    """

    def __init__(self, folder: Path, family: Benchmark) -> None:
        self.family = family
        self.names, self.columns = _numbers(folder / "results.h5")
        self.column, self.better = family.order(self.columns) if self.columns else ("", "")
        scores = self.columns.get(self.column, np.zeros(len(self.names)))
        self.rows = {name: row for row, name in enumerate(self.names) if not np.isnan(scores[row])}

    def worst(self) -> list[str]:
        """Items with a score, the worst first; of equal ones, or where none has a score of its own, in name order."""
        scores = self.columns.get(self.column, np.zeros(len(self.names)))
        sign = -1 if self.better == "lower" else 1
        return sorted(self.rows, key=lambda name: (sign * scores[self.rows[name]], self.rows[name]))

    def caption(self, item: str) -> str:
        """What the item scored; "" where it did not."""
        if item not in self.rows or not self.column:
            return ""
        row = self.rows[item]
        return self.family.told(self.column, {name: float(column[row]) for name, column in self.columns.items()})


def _numbers(path: Path) -> tuple[list[str], dict[str, np.ndarray]]:
    """Names of the items, and the columns that hold one number of each."""
    from benchkit.store.table import Table

    if not path.exists():
        return [], {}
    with Table(path, "results") as results:
        columns = [name for name in results.columns if results.shape(name) == () and results.dtype(name).kind in "fiub"]
        return list(results.names), {name: results.read(name) for name in columns}
