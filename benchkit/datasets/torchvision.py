"""Any classification set of torchvision.datasets by name: `data.dataset=CIFAR10 data.root=DIR`, read by the library.

Splits have the library's names, and `a+b` is both (`data.train_split=train+val`); where a set has none, or says them as
`train=True`, see `_torchvision_kinds`. Nothing is downloaded. Items are files, named by their path below the root, or
arrays inside an archive, named `<split>/<index>`; an array's bytes are those of the PPM file that holds its pixels, so
that equal images have one row in the bank, and other pixels another.

No code of strangers runs: CIFAR's batches are pickles, and the library opens them only after the MD5 of each was found to
be that of the original, which no other file can be made to have; all other formats are data. The library imports torch.
"""

from __future__ import annotations

import dataclasses
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from benchkit.datasets._labelled import Labelled, joint
from benchkit.datasets._listing import check_name
from benchkit.datasets._splitting import SeededSplit, SplitSettings
from benchkit.errors import UsageError
from benchkit.settings import setting

LAYOUT = (
    "root as torchvision.datasets has it, for example root/cifar-10-batches-py/data_batch_1 for data.dataset=CIFAR10, "
    "root/dtd/dtd/images/banded/banded_0002.jpg for DTD"
)
WHOLE = "all"  # what the one part of a set without splits is called


@dataclasses.dataclass
class Settings(SplitSettings):
    """Settings of a set of torchvision.datasets."""

    dataset: str | None = setting(None, "class in torchvision.datasets: CIFAR10, Flowers102, DTD, Food101, EuroSAT ...")
    options: dict[str, Any] = setting({}, "more arguments of that class: data.options.partition=2 of DTD")


class TorchvisionSet(Labelled):
    """See the module.

    Raises:
        UsageError: root or name are missing or wrong, or the library finds no whole copy.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if not settings.root or not settings.dataset:
            given = f" (here data.root={settings.root}, data.dataset={settings.dataset})"
            raise UsageError(f"a torchvision set needs data.root=DIR and data.dataset=NAME{given}. Expected: {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        if not os.path.isdir(self.root):
            raise UsageError(f"data.root={settings.root} is no folder. Expected: {LAYOUT}.")
        self._parts: dict[str, Any] = {}
        self._labels: dict[str, str] = {}

    @cached_property
    def _kind(self) -> Any:
        from benchkit.datasets._torchvision_kinds import kind

        assert self.settings.dataset
        return kind(self.settings.dataset)

    @cached_property
    def has_splits(self) -> bool:
        """Whether the library divides the set."""
        return self._kind.split_argument is not None

    def _part(self, split: str) -> Any:
        """What the library reads of one split; read once."""
        if split not in self._parts:
            part = self._kind.read(self.root, split, self.settings.options)
            for name, label in zip(part.names, part.labels, strict=True):
                if self._labels.setdefault(name, label) != label:
                    raise UsageError(
                        f"{self.settings.dataset} below {self.root}: {name} is of class {self._labels[name]!r} in one split "
                        f"and of class {label!r} in {split!r}. Restore the original lists."
                    )
            self._parts[split] = part
        return self._parts[split]

    def _parts_of(self, split: str) -> list[Any]:
        if not self.has_splits:
            return [self._part(WHOLE)]
        named = [split] if split in self._kind.compound else split.split("+")
        return [self._part(each) for each in dict.fromkeys(named)]

    def items(self, split: str) -> list[str]:
        """Item names in name order; with `a+b`, those of both."""
        names = sorted({name for part in self._parts_of(split) for name in part.names})
        if not self.has_splits:
            return SeededSplit(self.settings, names, self.label).items(split)
        self.settings.refuse_fraction(str(self.settings.dataset), [split])
        return names

    @cached_property
    def classes(self) -> list[str]:
        """Class names in the library's order; in name order where its splits do not list the same ones."""
        return joint([part.classes for split in self.settings.wanted for part in self._parts_of(split)])

    def meta(self) -> dict[str, Any]:
        """As of all labelled sets; the library's own readable names where classes are WordNet ids."""
        names = {name: text for part in self._parts.values() for name, text in part.class_names.items()}
        known = not self.settings.class_names and set(self.classes) <= names.keys()
        return super().meta() | ({"class_names": [names[name] for name in self.classes]} if known else {})

    def label(self, item: str) -> str:
        """The class's name."""
        return self._labels[item]

    def _holder(self, view: str) -> Any:
        """The part that holds a view in an archive; None for a file."""
        split = view.partition("/")[0]
        part = self._parts.get(split) if self.has_splits else self._parts.get(WHOLE)
        return part if part is not None and part.archives else None

    def path(self, view: str) -> Path | None:
        """The image file; None where the set is arrays."""
        return None if self._holder(view) else self.root / view

    def archives(self, view: str) -> tuple[Path, ...]:
        """The set's own files."""
        part = self._holder(view)
        return part.archives if part else ()

    def read(self, view: str) -> bytes | None:
        """The file's bytes, or the pixels as a PPM file."""
        part = self._holder(view)
        return part.read(int(view.rpartition("/")[2])) if part else super().read(view)

    def source(self) -> str:
        """The root, the set, and how it is read."""
        options = sorted(self.settings.options.items())
        return f"{super().source()}\0{self.settings.dataset}\0{options}"


build = TorchvisionSet
