"""What a set of torchvision.datasets says of its images, once the library has read a split.

Most sets take a `loader`: given `str`, an item is (path, label) and no image is opened. Some open their files themselves:
`_OWN` says where their paths are. All others hold arrays: an item is (PIL image, label).
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.errors import UsageError, some


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


def read_part(name: str, data: Any, root: Path, split: str) -> Part:
    """What the library's object of the set `name` says of its items, checked.

    Raises:
        UsageError: no classification set, no labels, an image or class twice, or not whole.
    """
    entries = _entries(name, data)
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


def _entries(name: str, data: Any) -> list[tuple[str | None, Any]]:
    """(path, or None for an array; label) of every item."""
    own = _OWN.get(name)
    if own is not None:
        return [(None if path is None else str(path), label) for path, label in own(data)]
    if not len(data):
        return []
    image, _ = data[0]
    if not isinstance(image, str) and not hasattr(image, "convert"):
        raise UsageError(f"it is no set of images: an item holds {type(image).__name__}.")
    if isinstance(image, str):
        return [data[index] for index in range(len(data))]
    labels = getattr(data, "targets", getattr(data, "labels", None))
    if labels is not None and np.ndim(labels) == 1 and len(labels) == len(data):  # no image need be made to know them
        return [(None, label) for label in np.asarray(labels).tolist()]
    return [(None, data[index][1]) for index in range(len(data))]


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
