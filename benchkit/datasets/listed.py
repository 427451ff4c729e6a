"""Images named in a list: a table with a column `image`, a column `label` and, where there are splits, a column `split`.

The table is text: commas, semicolons or tabs between columns, as its first line has them; line ends of any system, a byte
order mark and blank lines are read over. Paths are relative to the root. Without a column `split` the items are divided as
in `_splitting`. Classes are the labels in name order.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from benchkit.datasets._labelled import Labelled
from benchkit.datasets._listing import check_name
from benchkit.datasets._lists import refuse_twice
from benchkit.datasets._splitting import SeededSplit, SplitSettings
from benchkit.datasets._tables import read_table
from benchkit.errors import UsageError, some
from benchkit.settings import setting

LAYOUT = (
    "a table root/list.csv with the columns image,label,split (or another path as data.list_file), and the images at the "
    "paths it says, relative to root"
)


@dataclasses.dataclass
class Settings(SplitSettings):
    """Settings of listed images."""

    list_file: str = setting("list.csv", "the table of image,label[,split]; relative to data.root", identity=False)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A line of a list: the image's path below the root, its class, its split ('' where there are none)."""

    image: str
    label: str
    split: str


class Listed(Labelled):
    """See the module; a subclass reads lists of another form by overriding `_entries` and `_lists`.

    Raises:
        UsageError: root or list are missing, or the list is not as it should be.
    """

    layout = LAYOUT

    def __init__(self, settings: SplitSettings) -> None:
        self.settings = settings
        if not settings.root:
            raise UsageError(f"listed images need data.root=DIR. Expected: {self.layout}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        lacking = [path for path in self._lists if not path.is_file()]
        if lacking:
            raise UsageError(
                f"data.root={settings.root}: {some(map(str, lacking))} is not there. Expected: {self.layout}."
            )

    @property
    def _lists(self) -> list[Path]:
        """The files that the items and their classes are read from."""
        return [self.root / self.settings.list_file]

    def _entries(self) -> Iterator[Entry]:
        """All items."""
        path = self._lists[0]
        seen: dict[str, int] = {}
        for number, row in read_table(path, ("image", "label")):
            empty = [column for column in ("image", "label", "split") if row.get(column) == ""]
            if empty:
                raise UsageError(f"{path}:{number}: this line has no {empty[0]}.")
            name = below_root(row["image"], f"{path}:{number}")
            refuse_twice(path, number, name, seen)
            yield Entry(name, row["label"], row.get("split", ""))

    @cached_property
    def _all(self) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for entry in self._entries():
            if entry.image in found:
                raise UsageError(f"{self._lists[0]} lists {entry.image} twice: drop one.")
            found[entry.image] = entry
        if not found:
            raise UsageError(f"{self._lists[0]} names no image. Expected: {self.layout}.")
        return dict(sorted(found.items()))

    @cached_property
    def splits(self) -> list[str]:
        """Names of the splits; empty where the list has none."""
        return sorted({entry.split for entry in self._all.values()} - {""})

    def items(self, split: str) -> list[str]:
        """Item names (paths below root) of a split, in name order."""
        if not self.splits:
            return SeededSplit(self.settings, list(self._all), self.label).items(split)
        if split not in self.splits:
            there = ", ".join(self.splits)
            raise UsageError(f"{self._lists[0]} has no split {split!r}; it has {there}: set data.split=NAME.")
        self.settings.refuse_fraction(str(self._lists[0]), self.splits)
        return [name for name, entry in self._all.items() if entry.split == split]

    @cached_property
    def classes(self) -> list[str]:
        """Labels of the evaluated and the train split in name order."""
        used = set(self.settings.wanted) if self.splits else {""}
        return sorted({entry.label for entry in self._all.values() if entry.split in used})

    def label(self, item: str) -> str:
        """The class that the list says."""
        return self._all[item].label

    @property
    def below(self) -> Path:
        """The root."""
        return self.root


def below_root(name: str, where: str) -> str:
    """The image's path, as a list says it, as an item's name.

    Raises:
        UsageError: it leads out of the root; `where` it stands is said.
    """
    check_name(name)
    plain = os.path.normpath(name).replace(os.sep, "/")
    if os.path.isabs(name) or plain in (".", "..") or plain.startswith("../"):
        raise UsageError(f"{where}: {name!r} leads out of data.root: list paths relative to it.")
    return plain


build = Listed
