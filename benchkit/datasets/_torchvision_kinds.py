"""Which sets of torchvision.datasets there are, what they can be asked, and what is said when their files are not there."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import os
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchkit.datasets._torchvision_parts import Part, read_part
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
_PICKLE = "it unpickles a file that nobody has checked, which can run any code"
REFUSED = {
    "LSUN": _PICKLE,
    "LSUNClass": _PICKLE,
    "ImageFolder": "data.name=image_folder reads folders",
    "DatasetFolder": "data.name=image_folder reads folders",
    "FakeData": "its images are random noise; data.name=scenes generates ones that mean something",
    "ImageNet": "it unpacks archives where they lie; unpack it once and use data.name=image_folder (benchmark imagenet1k)",
}
_DOWNLOAD_HINT = re.compile(r"\s*You can (use|set) download=True to download it\.?")


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
            return read_part(self.name, data, folder, split)
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
    from torchvision import datasets as library

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
    from torchvision.datasets import VisionDataset

    found: dict[str, inspect.Parameter] = {}
    for each in build.__mro__[: build.__mro__.index(VisionDataset)]:
        for name, parameter in inspect.signature(each.__init__).parameters.items():  # type: ignore[misc]
            found.setdefault(name, parameter)
    return found
