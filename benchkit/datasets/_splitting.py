"""A split where the data have none: `data.test_fraction` of every class, chosen by the hash of seed and item name.

The choice is the same in whatever order files are listed; one item more in a class moves at most one other item of that
class between the splits. With no train split (leave-one-out) every item is evaluated.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from benchkit.datasets._labelled import LabelledSettings
from benchkit.datasets.base import DataSettings
from benchkit.errors import UsageError
from benchkit.settings import setting

NOT_NAMES = ("auto", "none")  # values of train_split that name no split


@dataclasses.dataclass
class FractionSettings(DataSettings):
    """Settings of data that may have no splits of their own."""

    test_fraction: float | None = setting(
        None, "share of every class that is evaluated where the data have no splits (.25; all without a train split)"
    )
    split_seed: int = setting(0, "seed of that split")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.test_fraction is not None and not 0 < self.test_fraction <= 1:
            raise UsageError(f"data.test_fraction={self.test_fraction} must be above 0 and at most 1.")

    @property
    def wanted(self) -> list[str]:
        """The splits that are asked for, evaluated one first; `a+b` is both."""
        return [s for s in dict.fromkeys((self.split, self.train_split)) if s not in NOT_NAMES]

    def refuse_fraction(self, where: str, splits: Sequence[str]) -> None:
        """Raises UsageError when a fraction is set of data that have splits."""
        if self.test_fraction is not None:
            raise UsageError(f"{where} has splits ({', '.join(splits)}): data.test_fraction has no use, drop it.")


@dataclasses.dataclass
class SplitSettings(FractionSettings, LabelledSettings):
    """The same of data with one class per image."""


class SeededSplit:
    """The items of data without splits, divided.

    Args:
        settings: the fraction, the seed, and what the two splits are called.
        names: all items in name order.
        label: an item's class, the same of all where there are none.
    """

    def __init__(self, settings: FractionSettings, names: Sequence[str], label: Callable[[str], str]) -> None:
        self.settings = settings
        self.names = list(names)
        self.label = label

    def items(self, split: str) -> list[str]:
        """Names of a split in name order; all of them for any other name, or when train and test are one."""
        wanted = {self.settings.split: True, self.settings.train_split: False}
        if self.settings.split == self.settings.train_split or split not in wanted:
            return self.names
        return [name for name in self.names if (name in self.evaluated) == wanted[split]]

    @cached_property
    def evaluated(self) -> frozenset[str]:
        """The chosen items of all classes."""
        by_class = defaultdict(list)
        for name in self.names:
            by_class[self.label(name)].append(name)
        return frozenset(name for members in by_class.values() for name in self._chosen(members))

    def _chosen(self, members: list[str]) -> Iterator[str]:
        fraction = self.settings.test_fraction
        if fraction is None:
            fraction = 1.0 if self.settings.train_split == "none" else 0.25
        yield from sorted(members, key=self._draw)[: round(fraction * len(members))]

    def _draw(self, name: str) -> bytes:
        return hashlib.sha256(f"{self.settings.split_seed}\0{name}".encode()).digest()
