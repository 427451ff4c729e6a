"""Caltech-UCSD Birds-200-2011 and what is laid out like it: numbered images, classes and splits in one list each.

`images.txt`, `image_class_labels.txt`, `classes.txt` and `train_test_split.txt` (1: train, 0: test) are joined by their
numbers (Wah et al. 2011, "The Caltech-UCSD Birds-200-2011 Dataset", README). Classes keep the order of `classes.txt`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from benchkit.datasets._lists import read_pairs
from benchkit.datasets._splitting import SplitSettings
from benchkit.datasets.listed import Entry, Listed, below_root
from benchkit.errors import UsageError, some

LISTS = ("images.txt", "image_class_labels.txt", "classes.txt", "train_test_split.txt")
LAYOUT = f"root/{', root/'.join(LISTS)}, and root/images/001.Black_footed_Albatross/<image>.jpg"
SPLITS = {"1": "train", "0": "test"}


@dataclasses.dataclass
class Settings(SplitSettings):
    """Settings of a set laid out like CUB-200-2011."""


class Cub(Listed):
    """See the module.

    Raises:
        UsageError: a list is missing, or the lists do not fit together.
    """

    layout = LAYOUT

    @property
    def _lists(self) -> list[Path]:
        return [self.root / name for name in LISTS]

    @cached_property
    def _columns(self) -> list[dict[str, str]]:
        return [read_pairs(path) for path in self._lists]

    def _entries(self) -> Iterator[Entry]:
        images, labels, classes, splits = self._columns
        for name, column in zip(LISTS[1::2], (labels, splits), strict=True):
            lacking = [number for number in images if number not in column]
            if lacking:
                raise UsageError(f"{self.root / name} has no line for image {some(lacking)} of images.txt.")
        for number, path in images.items():
            if labels[number] not in classes or splits[number] not in SPLITS:
                raise UsageError(
                    f"image {number} ({path}) is of class {labels[number]} and split {splits[number]} by the lists in "
                    f"{self.root}: classes are those of classes.txt, and splits are 1 (train) and 0 (test)."
                )
            name = below_root(f"images/{path}", f"{self.root / LISTS[0]}: image {number}")
            yield Entry(name, classes[labels[number]], SPLITS[splits[number]])

    @cached_property
    def classes(self) -> list[str]:
        """Class names in the order of `classes.txt`."""
        return list(self._columns[2].values())


build = Cub
