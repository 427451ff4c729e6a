"""Features and labels of a few items in memory, for tests of pooled heads."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchkit.store.items import ArrayItems

KEY = "cls@final"


def _names(count: int) -> list[str]:
    return [f"{i:04d}" for i in range(count)]


def features(rows: Any, names: list[str] | None = None) -> ArrayItems:
    """Rows (N, C) under KEY."""
    rows = np.asarray(rows, np.float32)
    return ArrayItems(names or _names(len(rows)), {KEY: rows})


def truth(labels: Any, classes: int, names: list[str] | None = None) -> ArrayItems:
    """Labels (N,) of `class 0`, `class 1` ..."""
    labels = np.asarray(labels)
    return ArrayItems(
        names or _names(len(labels)), {"label": labels}, {"classes": [f"class {i}" for i in range(classes)]}
    )
