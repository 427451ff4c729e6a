"""Images alone, for benchmarks whose truth is made from the image: `root/<split>/<image>`, or `root/<image>` split by benchkit.

Images may lie in folders below; hidden folders and what archivers leave behind are left out. The first level of folders are
splits when all of them have the name of one, or when the evaluated and the train split are among them. Without splits on disk
`data.test_fraction` of all images is evaluated (see `_splitting`).
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from functools import cached_property
from pathlib import Path

from benchkit.datasets._listing import check_name, inode, scan, walk
from benchkit.datasets._splitting import FractionSettings, SeededSplit
from benchkit.datasets.base import Arrays, Dataset
from benchkit.datasets.image_folder import SPLIT_NAMES
from benchkit.errors import UsageError

LAYOUT = "root/<split>/<image> (for example root/train/1.jpg, root/test/2.jpg) or root/<image>, in folders or not"


@dataclasses.dataclass
class Settings(FractionSettings):
    """Settings of a folder of images."""


class Images(Dataset):
    """See the module.

    Raises:
        UsageError: root is missing or holds no images, or lacks the split.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if not settings.root:
            raise UsageError(f"a folder of images needs data.root=DIR, laid out as {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        if not os.path.isdir(self.root):
            raise UsageError(f"data.root={settings.root} is no folder. Expected: {LAYOUT}.")
        self._others: Counter[str] = Counter()

    @cached_property
    def has_splits(self) -> bool:
        """Whether the first level of folders are splits."""
        names = {os.path.basename(path) for path in scan(self.root).folders}
        wanted = set(self.settings.wanted)
        return bool(names) and (all(name.lower() in SPLIT_NAMES for name in names) or wanted <= names)

    @cached_property
    def _all(self) -> dict[str, list[str]]:
        """Item names by split on disk ('' where the folder has none), each in name order."""
        here = scan(self.root)
        found: dict[str, list[str]] = {"": [os.path.basename(path) for path in here.images]}
        if self.has_splits and here.images:
            raise UsageError(
                f"{len(here.images)} images lie beside the splits ({', '.join(sorted(found[''])[:3])}): move them into "
                f"one, or away. Expected: {LAYOUT}."
            )
        for folder in here.folders:
            name = os.path.basename(folder)
            below = walk(folder, name, frozenset([inode(self.root)]), self._others)
            found.setdefault(name if self.has_splits else "", []).extend(below)
        if not any(found.values()):
            raise UsageError(f"{self.root} holds no images. Expected: {LAYOUT}.")
        return {split: sorted(names) for split, names in found.items()}

    def items(self, split: str) -> list[str]:
        """Item names (paths below root) of a split, in name order."""
        if not self.has_splits:
            return SeededSplit(self.settings, self._all[""], lambda item: "").items(split)
        if not self._all.get(split):
            there = ", ".join(name for name, found in self._all.items() if found)
            raise UsageError(f"{self.root} has no images in split {split!r}; it has {there}: set data.split=NAME.")
        self.settings.refuse_fraction(str(self.root), [name for name in self._all if name])
        return self._all[split]

    @property
    def below(self) -> Path:
        """The root."""
        return self.root

    def target(self, item: str) -> Arrays:
        """Nothing: the truth is made from the image."""
        return {}


build = Images
