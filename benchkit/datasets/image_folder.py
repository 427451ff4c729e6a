"""A folder of images, a folder per class: `root/<split>/<class>/<image>`, or `root/<class>/<image>` split by benchkit.

Without splits on disk, `data.test_fraction` of every class is evaluated (see `_splitting`). Classes are the folders in
name order, and images may lie in folders below them; hidden folders and what archivers leave behind are not classes.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from benchkit.datasets._labelled import Labelled
from benchkit.datasets._listing import check_name, inode, scan, walk
from benchkit.datasets._splitting import SeededSplit, SplitSettings
from benchkit.errors import UsageError

LAYOUT = "root/<split>/<class>/<image> (for example root/train/cat/1.jpg, root/test/cat/2.jpg) or root/<class>/<image>"
SPLIT_NAMES = frozenset(("train", "training", "test", "testing", "val", "valid", "validation", "dev"))


@dataclasses.dataclass
class Settings(SplitSettings):
    """Settings of an image folder."""


class ImageFolder(Labelled):
    """See the module.

    Raises:
        UsageError: root is missing or empty, has fewer than two classes, or lacks the split.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if not settings.root:
            raise UsageError(f"an image folder needs data.root=DIR, laid out as {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        if not os.path.isdir(self.root):
            raise UsageError(f"data.root={settings.root} is no folder. Expected: {LAYOUT}.")
        self._others: Counter[str] = Counter()

    @property
    def _wanted(self) -> set[str]:
        return set(self.settings.wanted)

    @cached_property
    def has_splits(self) -> bool:
        """Whether the first level of folders are splits: by name, or since images are in the folders below only."""
        children = {os.path.basename(path): scan(path) for path in scan(self.root).folders}
        if children and all(name.lower() in SPLIT_NAMES for name in children):
            return True
        nested = {name for name, below in children.items() if below.folders}
        return bool(nested) and (self._wanted <= nested or not any(below.images for below in children.values()))

    @cached_property
    def _all(self) -> dict[str, list[str]]:
        """Item names by split on disk ('' where the folder has none)."""
        here = scan(self.root)
        splits = [os.path.basename(path) for path in here.folders] if self.has_splits else [""]
        found = {split: sorted(self._below(split)) for split in splits}
        astray = [*here.images, *(image for s in splits if s in self._wanted for image in scan(self.root / s).images)]
        if astray:
            raise UsageError(
                f"{len(astray)} images lie outside any class folder ({', '.join(sorted(astray)[:3])}): move them into "
                f"one, or away. Expected: {LAYOUT}."
            )
        if not any(found.values()):
            raise UsageError(f"{self.root} holds no images below class folders. {self._left_out()}Expected: {LAYOUT}.")
        return found

    def _below(self, split: str) -> Iterator[str]:
        top = self.root / split
        for folder in scan(top).folders:
            name = os.path.relpath(folder, self.root).replace(os.sep, "/")
            yield from walk(folder, name, frozenset(map(inode, (self.root, top))), self._others)

    def _left_out(self) -> str:
        if not self._others:
            return ""
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self._others.items()))
        return f"{self._others.total()} files are no images by their names, and are left out ({kinds}). "

    def notes(self) -> list[str]:
        """How many files of which suffix are left out."""
        return [f"{self.root}: {self._left_out()}".strip()] if any(self._all.values()) and self._others else []

    def items(self, split: str) -> list[str]:
        """Item names (paths below root) of a split, in name order."""
        names = self._all.get(split, [])
        if not self.has_splits:
            return self._seeded.items(split)
        if not names:
            there = ", ".join(s for s, found in self._all.items() if found)
            raise UsageError(f"{self.root} has no images in split {split!r}; it has {there}: set data.split=NAME.")
        self.settings.refuse_fraction(str(self.root), list(self._all))
        return names

    @cached_property
    def _seeded(self) -> SeededSplit:
        return SeededSplit(self.settings, self._all[""], self.label)

    @cached_property
    def classes(self) -> list[str]:
        """Class names of the evaluated and the train split in name order.

        Raises:
            UsageError: fewer than two.
        """
        used = self._wanted if self.has_splits else {""}
        found = sorted({self.label(name) for split in used for name in self._all.get(split, [])})
        if len(found) < 2:
            only = f"one class only ({found[0]!r})" if found else "no class"
            raise UsageError(f"{self.root} has {only}; scores need two. Expected: {LAYOUT}.")
        return found

    def label(self, item: str) -> str:
        """The class folder's name."""
        return item.split("/")[1 if self.has_splits else 0]

    def target_files(self, item: str) -> list[str]:
        """Names say the classes; a file may say what else people call them."""
        return self.said_hash

    @property
    def below(self) -> Path:
        """The root."""
        return self.root


build = ImageFolder
