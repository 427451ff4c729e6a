"""A folder of images, a folder per class: `root/<split>/<class>/<image>`, or `root/<class>/<image>` split by benchkit.

Without splits on disk, `data.test_fraction` of every class is evaluated, chosen by the hash of seed and item name; with
no train split (leave-one-out) every image is evaluated. Classes are the folders in name order; hidden folders and what
archivers leave behind are not classes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.datasets.base import Arrays, Dataset, DataSettings
from benchkit.errors import UsageError
from benchkit.images import DECODERS, SUFFIXES
from benchkit.settings import setting

LAYOUT = "root/<split>/<class>/<image> (for example root/train/cat/1.jpg, root/test/cat/2.jpg) or root/<class>/<image>"
_DEPTH = 16  # folders below a class; a loop of links ends here


@dataclasses.dataclass
class Settings(DataSettings):
    """Settings of an image folder."""

    test_fraction: float | None = setting(
        None, "share of every class that is evaluated where the folder has no splits (.25; all without a train split)"
    )
    split_seed: int = setting(0, "seed of that split")


class ImageFolder(Dataset):
    """See the module.

    Raises:
        UsageError: root is missing or empty, has fewer than two classes, or lacks the split.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if settings.root is None:
            raise UsageError(f"an image folder needs data.root=DIR, laid out as {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        if not self.root.is_dir():
            raise UsageError(f"data.root={settings.root} is no folder. Expected: {LAYOUT}.")
        if settings.test_fraction is not None and not 0 < settings.test_fraction <= 1:
            raise UsageError(f"data.test_fraction={settings.test_fraction} must be above 0 and at most 1.")

    @cached_property
    def has_splits(self) -> bool:
        """Whether the first level of folders are splits: no images in them, but in the folders below them."""
        children = _folders(self.root)
        direct = any(any(_images(child, 0)) for child in children)
        return bool(children) and not direct and any(_folders(child) for child in children)

    @cached_property
    def _all(self) -> dict[str, list[str]]:
        """Item names by split on disk ('' where the folder has none)."""
        tops = {s.name: s for s in _folders(self.root)} if self.has_splits else {"": self.root}
        found = {name: self._below(top) for name, top in tops.items()}
        if not any(found.values()):
            raise UsageError(f"data.root={self.root} holds no images below class folders. Expected: {LAYOUT}.")
        return found

    def _below(self, folder: Path) -> list[str]:
        names = (p.relative_to(self.root).as_posix() for c in _folders(folder) for p in _images(c, _DEPTH))
        return sorted(names)

    def items(self, split: str) -> list[str]:
        """Item names (paths below root) of a split, in name order."""
        if self.has_splits:
            if split not in self._all or not self._all[split]:
                there = ", ".join(s for s, names in self._all.items() if names)
                raise UsageError(f"{self.root} has no images in split {split!r}; it has {there}: set data.split=NAME.")
            return self._all[split]
        return self._seeded(split)

    def _seeded(self, split: str) -> list[str]:
        wanted = {self.settings.split: True, self.settings.train_split: False}
        if self.settings.split == self.settings.train_split or split not in wanted:
            return self._all[""]
        evaluated = self._evaluated
        return [name for name in self._all[""] if (name in evaluated) == wanted[split]]

    @cached_property
    def _evaluated(self) -> set[str]:
        fraction = self.settings.test_fraction
        if fraction is None:
            fraction = 1.0 if self.settings.train_split == "none" else 0.25
        chosen: set[str] = set()
        by_class = defaultdict(list)
        for name in self._all[""]:
            by_class[self.label(name)].append(name)
        for members in by_class.values():
            members.sort(key=self._draw)
            chosen.update(members[: round(fraction * len(members))])
        return chosen

    def _draw(self, name: str) -> bytes:
        return hashlib.sha256(f"{self.settings.split_seed}\0{name}".encode()).digest()

    @cached_property
    def classes(self) -> list[str]:
        """Class names of all splits in name order.

        Raises:
            UsageError: fewer than two.
        """
        found = sorted({self.label(name) for names in self._all.values() for name in names})
        if len(found) < 2:
            raise UsageError(f"{self.root} has one class only ({found[0]!r}); scores need two. Expected: {LAYOUT}.")
        return found

    def label(self, item: str) -> str:
        """The class folder's name."""
        return item.split("/")[1 if self.has_splits else 0]

    def path(self, view: str) -> Path:
        """The image file."""
        return self.root / view

    def image(self, view: str) -> np.ndarray:
        """Decoded as `data.decoder` says."""
        return DECODERS[self.settings.decoder](self.path(view).read_bytes())

    def target(self, item: str) -> Arrays:
        """`label`: index into the class names."""
        return {"label": np.int64(self.classes.index(self.label(item)))}  # type: ignore[dict-item]

    def category(self, item: str) -> dict[str, str]:
        """The class's name."""
        return {"class": self.label(item)}

    def meta(self) -> dict[str, Any]:
        """Class names in the order of the labels."""
        return {"classes": self.classes}


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX" or name.endswith("~")


def _folders(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return sorted(Path(e.path) for e in entries if not _hidden(e.name) and e.is_dir())


def _images(folder: Path, depth: int) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        children = [e for e in entries if not _hidden(e.name)]
    for entry in children:
        if entry.is_dir():
            if depth > 0:
                yield from _images(Path(entry.path), depth - 1)
        elif entry.name.lower().endswith(SUFFIXES):
            yield Path(entry.path)


build = ImageFolder
