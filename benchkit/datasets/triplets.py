"""Triplets of images with people's votes: which of two images, left or right, is more like a reference?

The layout is that of NIGHTS (Fu et al. 2023, "DreamSim"; ssundaram21/dreamsim, dataset/dataset.py): `root/data.csv` names
three images below root per line, and how many chose the left and the right one; the larger number is the vote, and lines
where they are even are left out and said. Triplets with fewer than `data.min_votes` votes are left out too.

Your own triplets: the same file; only id, the three paths and the two votes are needed. Without a column `split` all are
`test`; without `votes` all count; with `is_imagenet` (true or false) there are also the splits test_imagenet and
test_no_imagenet, and the score shows the gap between them. Other columns are not read. Paths are below root, with either
slash; an item's name is `<split>/<id>`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from benchkit.datasets._listing import check_name
from benchkit.datasets._lists import refuse_twice
from benchkit.datasets._tables import read_table
from benchkit.datasets.base import Arrays, Dataset, DataSettings
from benchkit.errors import UsageError
from benchkit.settings import setting

LAYOUT = (
    "root/data.csv with the columns id, ref_path, left_path, right_path, left_vote, right_vote (split, votes and "
    "is_imagenet if there are any), and the images that it names below root (ref/000/000.png, distort/000/000_0.png ...)"
)
PATHS = ("ref_path", "left_path", "right_path")
NEEDED = ("id", *PATHS, "left_vote", "right_vote")
YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
KINDS = {True: "imagenet", False: "no_imagenet"}


@dataclasses.dataclass
class Settings(DataSettings):
    """Settings of triplets."""

    min_votes: int = setting(6, "triplets with fewer votes are left out, where the list has a column votes")


@dataclasses.dataclass(frozen=True)
class Triplet:
    """One line of the list.

    Attributes:
        split: test, val, train, or whatever the list says.
        views: paths of reference, left and right below root.
        votes: for the left and for the right image.
        count: how many people voted; infinite where the list does not say.
        imagenet: whether the images show a category of ImageNet; None where the list does not say.
    """

    split: str
    views: tuple[str, str, str]
    votes: tuple[float, float]
    count: float
    imagenet: bool | None


class Triplets(Dataset):
    """See the module.

    Raises:
        UsageError: root or its list is missing; a line of the list is wrong (says which).
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if not settings.root:
            raise UsageError(f"triplets need data.root=DIR, laid out as {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        self.list = self.root / "data.csv"
        if not os.path.isfile(self.list):
            raise UsageError(f"data.root={settings.root} holds no file data.csv. Expected: {LAYOUT}.")

    @cached_property
    def _all(self) -> dict[str, Triplet]:
        """Every line of the list by item name."""
        found: dict[str, Triplet] = {}
        seen: dict[str, int] = {}
        for number, row in read_table(self.list, NEEDED):
            split = row.get("split", "test")
            name = f"{split}/{row['id']}"
            if not split or not row["id"]:
                raise UsageError(f"{self.list}:{number}: {'id' if split else 'split'} is empty.")
            check_name(name)
            refuse_twice(self.list, number, name, seen)
            found[name] = self._triplet(number, split, row)
        return found

    def _triplet(self, number: int, split: str, row: dict[str, str]) -> Triplet:
        ref, left, right = (self._below(number, column, row[column]) for column in PATHS)
        votes = self._votes(number, "left_vote", row), self._votes(number, "right_vote", row)
        count = self._votes(number, "votes", row) if "votes" in row else math.inf
        imagenet = YES_NO.get(row["is_imagenet"].lower()) if "is_imagenet" in row else None
        if "is_imagenet" in row and imagenet is None:
            raise UsageError(f"{self.list}:{number}: is_imagenet is true or false, not {row['is_imagenet']!r}.")
        return Triplet(split, (ref, left, right), votes, count, imagenet)

    def _below(self, number: int, column: str, text: str) -> str:
        path = PurePosixPath(text.replace("\\", "/"))
        if not path.parts or path.is_absolute() or ".." in path.parts:
            raise UsageError(f"{self.list}:{number}: {column} is a path below root, not {text!r}.")
        check_name(str(path))
        return str(path)

    def _votes(self, number: int, column: str, row: dict[str, str]) -> float:
        try:
            votes = float(row[column])
        except ValueError:
            votes = math.nan
        if not 0 <= votes < math.inf:
            raise UsageError(f"{self.list}:{number}: {column} is a number of votes, not {row[column]!r}.")
        return votes

    @cached_property
    def _kept(self) -> dict[str, Triplet]:
        return {
            name: each
            for name, each in self._all.items()
            if each.count >= self.settings.min_votes and each.votes[0] != each.votes[1]
        }

    def notes(self) -> list[str]:
        """How many triplets are left out, and why."""
        few = sum(each.count < self.settings.min_votes for each in self._all.values())
        even = len(self._all) - len(self._kept) - few
        said = [f"{few} have fewer than {self.settings.min_votes} votes (data.min_votes)"] if few else []
        said += [f"{even} have as many votes for the left as for the right image"] if even else []
        return [f"{self.list}: of {len(self._all)} triplets {' and '.join(said)}: left out."] if said else []

    def items(self, split: str) -> list[str]:
        """Item names (`<split>/<id>`) of a split, in name order; test_imagenet and test_no_imagenet are parts of test."""
        splits: dict[str, list[str]] = {}
        for name, each in self._kept.items():
            splits.setdefault(each.split, []).append(name)
            if each.imagenet is not None:
                splits.setdefault(f"{each.split}_{KINDS[each.imagenet]}", []).append(name)
        if split not in splits:
            there = f"there are {', '.join(sorted(splits))}" if splits else "nothing is left of it"
            raise UsageError(f"{self.list} has no triplets in split {split!r}: {there}. Set data.split=NAME.")
        return sorted(splits[split])

    def views(self, item: str) -> tuple[str, ...]:
        """Paths of reference, left and right image below root."""
        return self._all[item].views

    def path(self, view: str) -> Path:
        """The image file."""
        return self.root / view

    def target(self, item: str) -> Arrays:
        """`vote`: 1 where the right image was chosen, else 0; `kind`: index into meta's `kinds`, where there are any."""
        found = self._all[item]
        target = {"vote": np.array(int(found.votes[1] > found.votes[0]))}
        return target if found.imagenet is None else {**target, "kind": np.array(int(not found.imagenet))}

    def target_files(self, item: str) -> list[str]:
        """The hash of what the item's line says beside its images: another vote is another data set."""
        found = self._all[item]
        return [hashlib.sha256(f"{found.votes} {found.imagenet}".encode()).hexdigest()]

    def category(self, item: str) -> dict[str, str]:
        """`imagenet`: yes or no, where the list says it."""
        imagenet = self._all[item].imagenet
        return {} if imagenet is None else {"imagenet": "yes" if imagenet else "no"}

    def meta(self) -> dict[str, Any]:
        """`kinds`, where the list says which triplets show categories of ImageNet."""
        known = any(each.imagenet is not None for each in self._all.values())
        return {"kinds": list(KINDS.values())} if known else {}


build = Triplets
