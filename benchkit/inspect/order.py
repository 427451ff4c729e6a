"""In which order items follow each other, and which of them a search finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchkit.inspect.view import ITEM, View

if TYPE_CHECKING:
    from benchkit.experiments.joined import Joined


def ordered(joined: Joined, view: View) -> list[int]:
    """Rows of `joined.names` in the order of the view; those without a number come last, equal ones by name."""
    keys = _keys(joined, view)
    return np.argsort(np.where(np.isnan(keys), np.inf, keys), kind="stable").tolist()


def _keys(joined: Joined, view: View) -> np.ndarray:
    """Float64 (N,), the lowest first."""
    names = np.arange(len(joined.names), dtype=np.float64)
    if view.order == "x" and view.x in joined.categories:
        labels = joined.categories[view.x]
        place = {label: k for k, label in enumerate(sorted(set(labels)))}
        return np.array([place[label] for label in labels], np.float64)
    column = view.x if view.order == "x" else view.y if view.y in joined.columns else (joined.columns or [ITEM])[0]
    if view.order == "name" or column not in joined.columns:
        return names
    scores = joined.scores(column)
    seen = [row for row, tag in enumerate(joined.tags) if tag not in view.hidden] or [0]
    first, second = scores[seen[0]], scores[seen[min(1, len(seen) - 1)]]
    made = {"difference": lambda: second - first, "spread": lambda: -_spread(scores[seen])}
    return made.get(view.order, lambda: first)()


def _spread(scores: np.ndarray) -> np.ndarray:
    """Highest less lowest of the defined scores (E, N), NaN where fewer than two are."""
    known = ~np.isnan(scores)
    high, low = np.where(known, scores, -np.inf).max(axis=0), np.where(known, scores, np.inf).min(axis=0)
    with np.errstate(invalid="ignore"):
        return np.where(known.sum(axis=0) > 1, high - low, np.nan)


def found_by(joined: Joined, text: str) -> list[str]:
    """Names that hold the text, in any case of letters; nothing for no text. A name that is the text comes first."""
    wanted = text.casefold()
    hits = [name for name in joined.names if wanted and wanted in name.casefold()]
    return sorted(hits, key=lambda name: name != text)
