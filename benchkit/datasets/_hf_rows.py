"""The rows of one split of a Hugging Face data set: names, classes, and where the encoded images are."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from benchkit.datasets._listing import is_nameable
from benchkit.errors import UsageError


@dataclasses.dataclass
class Rows:
    """One split.

    Attributes:
        names: item names by row; labels: their classes by name; classes: all of them in the order of the labels.
        files: image files by row, of rows that hold no bytes.
        archives: the Arrow files.
        images: the library's data set of the image column, not decoded.
    """

    names: list[str]
    labels: list[str]
    classes: list[str]
    files: dict[int, Path]
    archives: tuple[Path, ...]
    images: Any
    column: str

    def read(self, index: int) -> bytes:
        """The encoded image of a row."""
        return self.images[index][self.column]["bytes"] or b""


def read_rows(library: Any, data: Any, prefix: str, folder: Path | None, settings: Any) -> Rows:
    """Read one split; no image is read.

    Args:
        library: the module `datasets`.
        data: its Dataset.
        prefix: of item names.
        folder: where it was loaded from, if not from the hub.
        settings: `image_column` and `label_column`.

    Raises:
        UsageError: columns are not clear, a row has no class, or images are elsewhere.
    """
    column = _column(data, settings.image_column, library.Image, "image_column")
    images = data.select_columns([column]).cast_column(column, library.Image(decode=False))
    stored = images.with_format("arrow")[:].column(column)
    held, paths = _fields(stored)
    files = {row: _file(paths[row], folder, row) for row, there in enumerate(held) if not there}
    labels, classes = _labels(library, data, settings.label_column)
    archives = tuple(Path(each["filename"]) for each in data.cache_files)
    return Rows(_names(paths, prefix, folder), labels, classes, files, archives, images, column)


def _fields(stored: Any) -> tuple[list[bool], list[str | None]]:
    """Whether each row holds bytes, and its path."""
    from pyarrow import compute

    there = compute.is_valid(compute.struct_field(stored, "bytes"))
    return there.to_pylist(), compute.struct_field(stored, "path").to_pylist()


def _column(data: Any, said: str | None, kind: type, key: str) -> str:
    """The column that is said, or the only one of its type."""
    there = list(data.features)
    if said is not None and said not in there:
        raise UsageError(f"data.{key}={said}: the set has the columns {', '.join(there)}.")
    found = [said] if said else [name for name in there if isinstance(data.features[name], kind)]
    if len(found) != 1:
        what = f"columns of type {kind.__name__}: {', '.join(found)}" if found else f"no column of type {kind.__name__}"
        raise UsageError(f"the set has {what}; say which is meant with data.{key}=NAME (it has {', '.join(there)}).")
    return found[0]


def _file(path: str | None, folder: Path | None, row: int) -> Path:
    """Where the image of a row without bytes is."""
    if not path or "://" in path:
        raise UsageError(f"row {row} holds no image, only {path or 'nothing'}: use a copy of the set that holds them.")
    whole = os.path.normpath((folder or Path()).absolute() / path)
    if folder is not None and not Path(whole).is_relative_to(folder.absolute()):
        raise UsageError(
            f"row {row} names {path}, which lies outside {folder}: use a copy of the set that holds its images."
        )
    return Path(whole)


def _labels(library: Any, data: Any, said: str | None) -> tuple[list[str], list[str]]:
    """The class of every row, and all classes in order."""
    column = _column(data, said, library.ClassLabel, "label_column")
    values = data.select_columns([column]).with_format("arrow")[:].column(column).to_pylist()
    kind = data.features[column]
    bare = next((row for row, value in enumerate(values) if value is None or value == -1), None)
    if bare is not None:
        raise UsageError(f"row {bare} has no class in column {column}: choose another split with data.split=NAME.")
    if isinstance(kind, library.ClassLabel):
        return [kind.names[value] for value in values], list(kind.names)
    odd = next((value for value in values if not isinstance(value, str | int)), None)
    if odd is not None:
        raise UsageError(f"column {column} holds {type(odd).__name__}, and classes are text or whole numbers.")
    return [str(value) for value in values], [str(value) for value in sorted(set(values))]


def _names(paths: list[str | None], prefix: str, folder: Path | None) -> list[str]:
    """The rows' own paths where all have different ones that results can show; else their numbers."""
    own = [name for name in (_below(path, folder) for path in paths) if name is not None]
    if len(set(own)) < len(paths):
        return [f"{prefix}{row:06d}" for row in range(len(paths))]
    return own if all(name.startswith(prefix) for name in own) else [prefix + name for name in own]


def _below(path: str | None, folder: Path | None) -> str | None:
    """The path as an item's name; None when it is none: it leads elsewhere, or has characters that no name may have."""
    if not path or not is_nameable(path) or "://" in path:
        return None
    if os.path.isabs(path):
        path = os.path.relpath(path, folder.absolute()) if folder else ".."
    name = path.replace("\\", "/")
    return None if ".." in name.split("/") else name
