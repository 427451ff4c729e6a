"""Scores of several experiments at the same items, joined by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from benchkit.experiments.experiment import Experiment

GROUP = "group"


class Joined:
    """E experiments and the N items that any of them has, in name order.

    Args:
        experiments: of one benchmark, at least one.

    Attributes:
        names: of the items.
        tags: of the experiments; a second one of the same name is numbered.
        columns: scores of single items that any experiment has, the headline's first.
    """

    def __init__(self, experiments: Sequence[Experiment]) -> None:
        self.experiments = list(experiments)
        self.names = sorted({name for each in experiments for name in each.names})
        self.tags = _numbered([each.tag for each in experiments])
        self.columns = list(dict.fromkeys(column for each in experiments for column in each.item_scores))
        self._scores: dict[str, np.ndarray] = {}

    @cached_property
    def position(self) -> dict[str, int]:
        """Column of each name in `scores`."""
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def places(self) -> list[np.ndarray]:
        """Of each experiment, where its items stand in `names`: int64 (its N,)."""
        return [np.array([self.position[name] for name in each.names], np.int64) for each in self.experiments]

    @cached_property
    def has(self) -> np.ndarray:
        """Bool (E, N): whether an item is one of an experiment's."""
        found = np.zeros((len(self.experiments), len(self.names)), bool)
        for row, places in enumerate(self.places):
            found[row, places] = True
        return found

    def scores(self, column: str) -> np.ndarray:
        """Float64 (E, N), NaN where an experiment has no such item or no score of it."""
        if column not in self._scores:
            found = np.full((len(self.experiments), len(self.names)), np.nan)
            for row, each in enumerate(self.experiments):
                if column in each.item_scores:
                    found[row, self.places[row]] = each.item_scores[column]
            self._scores[column] = found
        return self._scores[column]

    @cached_property
    def categories(self) -> dict[str, list[str]]:
        """Labels of the items by category, "" where nobody says it; those that tell items apart."""
        found: dict[str, list[str]] = {}
        for places, each in zip(self.places, self.experiments, strict=True):
            for name, labels in {**each.categories, GROUP: each.group}.items():
                told = found.setdefault(name, [""] * len(self.names))
                for place, label in zip(places.tolist(), labels, strict=True):
                    told[place] = told[place] or label
        return {name: labels for name, labels in found.items() if len(set(labels)) > 1}


def _numbered(tags: Sequence[str]) -> list[str]:
    found: list[str] = []
    for tag in tags:
        again = tags[: len(found)].count(tag)
        found.append(f"{tag} ({again + 1})" if again else tag)
    return found
