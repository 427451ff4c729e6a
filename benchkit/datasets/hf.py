"""A Hugging Face image-classification data set: from a folder, or by its name on the hub at a pinned revision.

A folder holds what `save_to_disk` wrote, parquet files, or images in class folders. Image and label columns are found by
their types (`Image`, `ClassLabel`) or said; a label column of text or whole numbers can be said too. Images are read as
they are encoded, so a photo has the same row in the bank whether it lies in a parquet file or by itself. Items are named
`<split>/<path in the row>` where the rows have such paths, all different, else `<split>/<index>`. A set that has nothing
but `train` (or no splits) is divided as in `_splitting`. Code that comes with a data set never runs: the library has no
way to do so since version 4.
"""

from __future__ import annotations

import dataclasses
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

from benchkit.datasets._labelled import Labelled, joint
from benchkit.datasets._listing import check_name
from benchkit.datasets._splitting import SeededSplit, SplitSettings
from benchkit.errors import BenchkitError, UsageError, reason
from benchkit.settings import setting

LAYOUT = (
    "a folder that save_to_disk wrote (root/dataset_dict.json or root/state.json), of parquet files "
    "(root/data/train-00000-of-00001.parquet), or of images (root/train/<class>/<image>)"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")


EXTRA, NEEDS = "hf", ("datasets",)  # what `benchkit list` says has to be installed


@dataclasses.dataclass
class Settings(SplitSettings):
    """Settings of a Hugging Face data set."""

    dataset: str | None = setting(None, "name on the hub (owner/name), or a folder like data.root")
    config: str | None = setting(None, "which of the set's configurations, where it has several")
    revision: str | None = setting(None, "commit on the hub: 40 hexadecimal digits, so that the data stay the same")
    image_column: str | None = setting(None, "column of the images (default: the one of type Image)")
    label_column: str | None = setting(None, "column of the classes (default: the one of type ClassLabel)")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.revision is not None and not _COMMIT.fullmatch(self.revision):
            raise ValueError(f"revision is a commit of 40 hexadecimal digits, not {self.revision}: branches move")


class HuggingFaceSet(Labelled):
    """See the module.

    Raises:
        UsageError: nothing is named, it cannot be loaded, the library is missing, or columns are not clear.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if bool(settings.root) == bool(settings.dataset):
            given = f" (here data.root={settings.root}, data.dataset={settings.dataset})"
            raise UsageError(
                "a Hugging Face data set needs data.root=DIR, or data.dataset=NAME and data.revision=COMMIT of a set on the "
                f"hub, and not both{given}. Expected of a folder: {LAYOUT}."
            )
        named = settings.root or str(settings.dataset)
        self.folder = Path(named).expanduser() if settings.root or os.path.isdir(named) else None
        if self.folder is not None:
            check_name(str(self.folder))
        if self.folder is not None and not self.folder.is_dir():
            raise UsageError(f"data.root={settings.root} is no folder. Expected: {LAYOUT}.")
        if self.folder is None and not settings.revision:
            raise UsageError(
                f"data.dataset={named} is a name on the hub: pin its data with data.revision=COMMIT (its page, Files and "
                "versions, History); a branch would be other data tomorrow."
            )

    @cached_property
    def _loaded(self) -> dict[str, Any]:
        """The library's data set of each split; of data without splits, one called train."""
        library = _library()
        try:
            found = self._load(library)
        except BenchkitError:
            raise
        except Exception as error:  # the library's loaders raise whatever comes
            where = self.folder or f"{self.settings.dataset} at {self.settings.revision}"
            raise UsageError(
                f"datasets cannot load {where}: {reason(error, 400)}. Expected of a folder: {LAYOUT}."
            ) from error
        return dict(found) if isinstance(found, dict) else {"train": found}

    def _load(self, library: Any) -> Any:
        if self.folder is None:
            name, said = self.settings.dataset, self.settings
            return library.load_dataset(name, said.config, revision=said.revision, keep_in_memory=False)
        if any((self.folder / name).is_file() for name in ("dataset_dict.json", "state.json")):
            return library.load_from_disk(str(self.folder), keep_in_memory=False)
        return library.load_dataset(str(self.folder), self.settings.config, keep_in_memory=False)

    @cached_property
    def has_splits(self) -> bool:
        """Whether the set is divided; a lone `train` is what the library calls data without splits."""
        return list(self._loaded) != ["train"] or set(self.settings.wanted) <= {"train"}

    @cached_property
    def _parts(self) -> dict[str, Any]:
        """The splits that are asked for."""
        from benchkit.datasets._hf_rows import read_rows

        wanted = self.settings.wanted if self.has_splits else ["train"]
        lacking = [split for split in wanted if split not in self._loaded]
        if lacking:
            there = ", ".join(self._loaded)
            raise UsageError(
                f"{self.folder or self.settings.dataset} has no split {lacking[0]!r}; it has {there}: set data.split=NAME."
            )
        prefix = {split: f"{split}/" if self.has_splits else "" for split in wanted}
        return {s: read_rows(_library(), self._loaded[s], prefix[s], self.folder, self.settings) for s in wanted}

    @cached_property
    def _rows(self) -> dict[str, tuple[Any, int]]:
        return {name: (part, index) for part in self._parts.values() for index, name in enumerate(part.names)}

    def items(self, split: str) -> list[str]:
        """Item names in name order."""
        if not self.has_splits:
            return SeededSplit(self.settings, sorted(self._parts["train"].names), self.label).items(split)
        self.settings.refuse_fraction(str(self.folder or self.settings.dataset), list(self._loaded))
        if split not in self._parts:
            raise UsageError(f"split {split!r} was not asked for: set data.split={split}.")
        return sorted(self._parts[split].names)

    def notes(self) -> list[str]:
        """That a set without splits was divided here."""
        if self.has_splits or "none" in (self.settings.train_split, self.settings.split):
            return []
        return [f"{self.folder or self.settings.dataset} has no splits: benchkit divides it, by data.split_seed."]

    @cached_property
    def classes(self) -> list[str]:
        """Class names in the order of the ClassLabel; else in name order, or by number."""
        return joint([part.classes for part in self._parts.values()])

    def label(self, item: str) -> str:
        """The class's name."""
        part, index = self._rows[item]
        return part.labels[index]

    def path(self, view: str) -> Path | None:
        """The image file, where the row only says where it lies."""
        part, index = self._rows[view]
        return part.files.get(index)

    def archives(self, view: str) -> tuple[Path, ...]:
        """The Arrow files of the split."""
        return self._rows[view][0].archives

    def read(self, view: str) -> bytes | None:
        """The encoded image."""
        part, index = self._rows[view]
        return part.read(index) if index not in part.files else super().read(view)

    def source(self) -> str:
        """The folder, or name, configuration and revision; and the column of the images."""
        said = self.settings
        where = str(self.folder.resolve()) if self.folder else f"{said.dataset}\0{said.config}\0{said.revision}"
        return f"{where}\0{said.image_column}"


def _library() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise UsageError(
            "data.name=hf reads with the library datasets, which is not installed: pip install 'benchkit[hf]'."
        ) from error
    return datasets


build = HuggingFaceSet
