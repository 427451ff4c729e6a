"""How the sets of torchvision.datasets are asked for a split, and what they say of its images.

Most sets take a `loader`: given `str`, an item is (path, label) and no image is opened. Some open their files themselves:
`_OWN` says where their paths are. All others hold arrays: an item is (PIL image, label).
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import os
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torchvision import datasets as library

from benchkit.datasets._lists import some
from benchkit.datasets.torchvision import LAYOUT
from benchkit.errors import BenchkitError, UsageError

SPLIT_ARGUMENTS: dict[str, dict[str, Any] | None] = {  # by argument: its values by split name, None when it takes names
    "train": {"train": True, "test": False},
    "split": None,
    "image_set": None,
    "version": None,
}
RESERVED = {"self", "root", "download", "loader", "transform", "target_transform", "transforms", "kwargs", "args"}
RESERVED |= {"extensions", "is_valid_file", "allow_empty"}
REFUSED = {
    "ImageFolder": "data.name=image_folder reads folders",
    "DatasetFolder": "data.name=image_folder reads folders",
    "FakeData": "its images are random noise; data.name=scenes generates ones that mean something",
    "ImageNet": "it unpacks archives where they lie; unpack it once and use data.name=image_folder (benchmark imagenet1k)",
}
_DOWNLOAD_HINT = re.compile(r"\s*You can (use|set) download=True to download it\.?")


def _caltech(folder: str, name: str) -> Callable[[Any], Iterator[tuple[str, int]]]:
    return lambda s: (
        (os.path.join(s.root, folder, s.categories[label], name.format(label + 1, index)), label)
        for index, label in zip(s.index, s.y, strict=True)
    )


def _pcam(s: Any) -> list[tuple[None, int]]:
    """Labels alone: an item at a time costs two openings of HDF5 files."""
    with s.h5py.File(s._base_folder / s._FILES[s._split]["targets"][0]) as file:
        return [(None, int(label)) for label in file["y"][:, 0, 0, 0]]


_OWN: dict[str, Callable[[Any], Iterable[tuple[Any, Any]]]] = {
    "OxfordIIITPet": lambda s: zip(s._images, s._labels, strict=True),
    "GTSRB": lambda s: s._samples,
    "Caltech101": _caltech("101_ObjectCategories", "image_{1:04d}.jpg"),
    "Caltech256": _caltech("256_ObjectCategories", "{0:03d}_{1:04d}.jpg"),
    "PCAM": _pcam,
}


@dataclasses.dataclass
class Part:
    """One split as the library reads it.

    Attributes:
        names: item names in the library's order; labels: their classes by name.
        classes: all classes of the set in the order of its labels.
        class_names: readable names by class, where the library has them.
        archives: the files that hold the images; empty when every image is a file.
        data: the library's object.
    """

    names: list[str]
    labels: list[str]
    classes: list[str]
    class_names: dict[str, str]
    archives: tuple[Path, ...]
    data: Any

    def read(self, index: int) -> bytes:
        """The pixels of an array as a PPM file."""
        pixels = np.asarray(self.data[index][0].convert("RGB"))
        return f"P6\n{pixels.shape[1]} {pixels.shape[0]}\n255\n".encode() + pixels.tobytes()


@dataclasses.dataclass
class Kind:
    """A class of the library: what it is called, and what it can be asked.

    Attributes:
        split_argument: the argument that names the split, None when the set has none.
        compound: split names with a plus sign that the set itself knows.
    """

    name: str
    build: type
    parameters: Mapping[str, inspect.Parameter]

    @property
    def split_argument(self) -> str | None:
        """See the class; what has to be said besides (a version of EMNIST) is one of the options."""
        return next((name for name in SPLIT_ARGUMENTS if name in self.parameters), None)

    @property
    def compound(self) -> tuple[str, ...]:
        """See the class."""
        return tuple(name for name in getattr(self.build, "splits", ()) if "+" in name)

    def read(self, root: Path, split: str, options: Mapping[str, Any]) -> Part:
        """One split, checked.

        Raises:
            UsageError: no such split or option, no whole copy, no labels, an image twice, or no classification set.
        """
        arguments = {**self.arguments(split), **self._options(options)}
        asked = {name: value for name, value in (("loader", str), ("download", False)) if name in self.parameters}
        folder = Path(os.path.abspath(root))
        try:
            data = self.build(folder, **arguments, **asked)
            return _part(data, _entries(self.name, data), folder, split)
        except BenchkitError as error:
            raise UsageError(f"{self.name} below {root}, split {split!r}: {error}") from error
        except Exception as error:  # the library's readers raise whatever comes
            raise UsageError(self._absent(root, split, arguments, error)) from error

    def arguments(self, split: str) -> dict[str, Any]:
        """How the class is asked for a split.

        Raises:
            UsageError: it says its splits as true or false, and this is none of them.
        """
        if self.split_argument is None:
            return {}
        values = SPLIT_ARGUMENTS[self.split_argument]
        if values is not None and split not in values:
            raise UsageError(f"{self.name} has the splits {' and '.join(values)}, not {split!r}: set data.split=NAME.")
        return {self.split_argument: split if values is None else values[split]}

    def _options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        known = [name for name in self.parameters if name not in {*RESERVED, self.split_argument}]
        odd = next((name for name in options if name not in known), None)
        if odd is not None:
            raise UsageError(f"data.options.{odd}: {self.name} takes {', '.join(known) or 'no further arguments'}.")
        return options

    def _absent(self, root: Path, split: str, arguments: Mapping[str, Any], error: Exception) -> str:
        lacking = error if isinstance(error, ImportError) else error.__context__
        if isinstance(lacking, ImportError):
            return f"{self.name} is read with {lacking.name}: pip install 'benchkit[mat]' (or {lacking.name} alone)."
        why = textwrap.shorten(_DOWNLOAD_HINT.sub("", str(error)), 240) or type(error).__name__
        said = f"torchvision cannot read split {split!r} of {self.name} below data.root={root}: {why.rstrip('.')}."
        if not isinstance(error, RuntimeError | OSError):
            said += " The split is none of the set, or one of its files is not as published: restore it."
        elif "download" in self.parameters:
            given = "".join(f", {name}={value!r}" for name, value in arguments.items())
            call = f"from torchvision.datasets import {self.name}; {self.name}({str(root)!r}{given}, download=True)"
            said += f' Where the library can, this downloads it: python -c "{call}".'
        return f"{said} Expected: {LAYOUT}."


def kind(name: str) -> Kind:
    """The class of that name.

    Raises:
        UsageError: there is none, or it is no set that can be read here.
    """
    build = getattr(library, name, None)
    sets = [each for each in library.__all__ if each != "VisionDataset"]
    if not (name in sets and isinstance(build, type) and issubclass(build, library.VisionDataset)):
        near = difflib.get_close_matches(
            name.lower(), {each.lower(): each for each in library.__all__}, n=1, cutoff=0.6
        )
        hint = next((f"did you mean {each}? " for each in library.__all__ if each.lower() in near), "")
        raise UsageError(
            f"data.dataset={name}: torchvision.datasets has no such set. {hint}Names are as in its manual."
        )
    if name in REFUSED:
        raise UsageError(f"data.dataset={name} is not read: {REFUSED[name]}.")
    return Kind(name, build, _parameters(build))


def _parameters(build: type) -> dict[str, inspect.Parameter]:
    """Arguments of the class and, since some pass the rest on, of those above it."""
    found: dict[str, inspect.Parameter] = {}
    for each in build.__mro__[: build.__mro__.index(library.VisionDataset)]:
        for name, parameter in inspect.signature(each.__init__).parameters.items():  # type: ignore[misc]
            found.setdefault(name, parameter)
    return found


def _entries(name: str, data: Any) -> list[tuple[str | None, Any]]:
    """(path, or None for an array; label) of every item."""
    own = _OWN.get(name)
    if own is not None:
        return [(None if path is None else str(path), label) for path, label in own(data)]
    found: list[tuple[str | None, Any]] = []
    for index in range(len(data)):
        image, label = data[index]
        if not isinstance(image, str) and not hasattr(image, "convert"):
            raise UsageError(f"it is no set of images: an item holds {type(image).__name__}.")
        found.append((image if isinstance(image, str) else None, label))
    return found


def _part(data: Any, entries: list[tuple[str | None, Any]], root: Path, split: str) -> Part:
    if not entries:
        raise UsageError("it is empty.")
    numbers = [_number(label) for _, label in entries]
    classes, class_names = _classes(data, max(numbers))
    files = [path for path, _ in entries if path is not None]
    names = [os.path.relpath(path, root).replace(os.sep, "/") for path in files]
    if not files:
        names = [f"{split}/{index:06d}" for index in range(len(entries))]
    _check(names, classes)
    held = () if files else _own_files(data, root)
    return Part(names, [classes[number] for number in numbers], classes, class_names, held, data)


def _number(label: Any) -> int:
    if isinstance(label, int | np.integer) and label >= 0:
        return int(label)
    if label is None or isinstance(label, int | np.integer):
        raise UsageError("it has no labels; choose another split with data.split=NAME.")
    raise UsageError(f"this is no classification set: an item's target is {type(label).__name__}, not one class.")


def _classes(data: Any, highest: int) -> tuple[list[str], dict[str, str]]:
    """Classes in the order of the labels, and readable names by class where classes are WordNet ids."""
    spoken = getattr(data, "classes", None)
    listed = next((v for v in (getattr(data, n, None) for n in ("wnids", "classes", "categories")) if v), None)
    listed = listed or getattr(data, "all_categories", None) or [str(number) for number in range(highest + 1)]
    if len(listed) <= highest:
        raise UsageError(f"a label is {highest}, but the set lists {len(listed)} classes only: it is not whole.")
    index = getattr(data, "class_to_idx", {})
    if all(isinstance(name, str) for name in listed) and set(index) == set(listed):
        listed = sorted(listed, key=index.__getitem__)  # Places365 lists names in name order, whatever their numbers
    classes = [str(name) for name in listed]
    if getattr(data, "wnids", None) and spoken:
        return classes, {wnid: str(names[0]) for wnid, names in zip(classes, spoken, strict=True)}
    return classes, {}


def _check(names: list[str], classes: list[str]) -> None:
    odd = [name for name in (*names, *classes) if "\ufeff" in name]
    if odd:
        raise UsageError(f"one of its lists begins with a byte order mark ({odd[0]!a}): restore the original file.")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise UsageError(f"its list names images twice ({some(twice)}): restore the original file.")
    if len(set(classes)) < len(classes):
        raise UsageError("two of its classes have one name.")


def _own_files(data: Any, root: Path) -> tuple[Path, ...]:
    """The files beside each other that an array set is read from."""
    named = [getattr(data, name, None) for name in ("raw_folder", "_base_folder", "base_folder")]
    folders = [root / each for each in (*filter(None, named), type(data).__name__.lower(), ".")]
    for folder in folders:
        files = tuple(sorted(path for path in folder.glob("*") if path.is_file()))
        if files:
            return files
    raise UsageError("its files are not where they are expected.")
