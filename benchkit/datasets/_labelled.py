"""What data sets of images with one class each share: targets, names of classes for tables and prompts."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.datasets._lists import read_pairs
from benchkit.datasets.base import Arrays, Dataset, DataSettings
from benchkit.errors import UsageError, some
from benchkit.settings import setting

_NUMBERED = re.compile(r"\d+\.\s*(?=\D)")  # 001.Black_footed_Albatross
_SHELVED = re.compile(r"/?(?:[a-z]/)?[a-z0-9_'-]+(?:/[a-z0-9_'-]+)*")  # /b/bow_window/indoor
_HUMPS = re.compile(r"(?:[A-Z][a-z]+){2,}")  # AnnualCrop


@dataclasses.dataclass
class LabelledSettings(DataSettings):
    """Settings of a data set with one class per image."""

    class_names: str | None = setting(
        None,
        "file of lines `<class> <name>[, synonyms]`, such as LOC_synset_mapping.txt: what prompts and tables call classes",
        identity=False,  # what it holds is part of the targets
    )


class Labelled(Dataset):
    """A dataset whose items have one class; subclasses say `classes` and `label`."""

    settings: Any

    @property
    def classes(self) -> list[str]:
        """Class names in the order of the labels."""
        raise NotImplementedError

    def label(self, item: str) -> str:
        """The item's class."""
        raise NotImplementedError

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.classes)}

    def target(self, item: str) -> Arrays:
        """`label`: index into the class names."""
        return {"label": np.int64(self._numbers[self.label(item)])}  # type: ignore[dict-item]

    def category(self, item: str) -> dict[str, str]:
        """The class's name."""
        return {"class": self.label(item)}

    def meta(self) -> dict[str, Any]:
        """`classes` in the order of the labels; `class_names`, how people call them, where that is known and differs."""
        names = self.class_names
        return {"classes": self.classes} | ({} if names is None else {"class_names": names})

    @cached_property
    def class_names(self) -> list[str] | None:
        """Names for people, class by class; None where underscores for spaces are all that keeps them from it."""
        said = self.settings.class_names
        return said_names(self.classes, Path(said).expanduser()) if said else readable(self.classes)

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return {name: hashlib.sha256(name.encode()).hexdigest() for name in self.classes}

    @cached_property
    def said_hash(self) -> list[str]:
        """sha256 of the names that a file gives the classes; empty without one."""
        return (
            [hashlib.sha256("\n".join(self.class_names or ()).encode()).hexdigest()]
            if self.settings.class_names
            else []
        )

    def target_files(self, item: str) -> list[str]:
        """sha256 of the class, which a list says and no name shows; and of what else people call the classes."""
        return [self._hashes[self.label(item)], *self.said_hash]


def joint(listed: Sequence[list[str]]) -> list[str]:
    """The classes of several splits: as they list them where they agree, else all of them in name order."""
    return (
        listed[0] if all(each == listed[0] for each in listed) else sorted({name for each in listed for name in each})
    )


def said_names(classes: Sequence[str], path: Path) -> list[str]:
    """The first name that a file gives each class.

    Raises:
        UsageError: the file cannot be read, or lacks a class.
    """
    pairs = read_pairs(path)
    lacking = [name for name in classes if name not in pairs]
    if lacking:
        raise UsageError(f"data.class_names={path} has no line for {some(lacking)}.")
    return [pairs[name].split(",")[0].strip() for name in classes]


def readable(classes: Sequence[str]) -> list[str] | None:
    """Names without what archives put around them: `001.Black_footed_Albatross`, `/b/bow_window/indoor`, `AnnualCrop`.

    Returns:
        None where that changes nothing beyond underscores, or would make two names one.
    """
    plain = [name.replace("_", " ") for name in classes]
    names = [_readable(name) for name in classes]
    return None if names == plain or len(set(names)) < len(set(classes)) else names


def _readable(name: str) -> str:
    if _SHELVED.fullmatch(name):
        name = re.sub(r"^/[a-z]/", "", name).strip("/").replace("/", " ")
    name = _NUMBERED.sub("", name, count=1) if _NUMBERED.match(name) else name
    if _HUMPS.fullmatch(name):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return name.replace("_", " ").strip()
