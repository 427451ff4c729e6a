"""Frames of Painting Vision: how large a model sees them, and the table of a folder: which frame has which mask, in which
split, of which wall."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from benchkit.datasets._listing import check_name
from benchkit.datasets._tables import read_table
from benchkit.datasets.base import DataSettings
from benchkit.errors import UsageError, reason
from benchkit.metrics.painting import INFERENCE_SIZE
from benchkit.provenance import strict
from benchkit.settings import setting

LARGEST = 256 << 20  # bytes of a table in JSON
LONGEST = 1000  # characters of a path
COLUMNS = ("file", "mask", "split", "wall_id")
TABLES = ("frames.csv", "frames.json", "data_manifest.json")  # looked for in this order
LAYOUT = (
    "a table root/frames.csv with the columns file,mask,split,wall_id (or frames.json: a list of objects with these keys; "
    "or data_manifest.json), images and index masks at the paths it says, relative to root"
)


@dataclasses.dataclass
class FrameSettings(DataSettings):
    """Settings of frames, the protocol's unless said."""

    size: int | None = setting(
        INFERENCE_SIZE, "the long side of the model's input in pixels (null: the model's own size)"
    )
    resize: Literal["crop", "pad", "squash"] | None = setting(
        "pad", "pad (aspect kept, scored on whole frames: the only one that can be submitted), crop or squash"
    )


@dataclasses.dataclass(frozen=True)
class Frame:
    """One frame: paths of image and mask below the root, its split, and the wall that it shows."""

    file: str
    mask: str
    split: str
    wall_id: str


def find_table(root: Path, given: str | None = None) -> Path:
    """The table that was named, or the first of TABLES that is there.

    Raises:
        UsageError: there is none.
    """
    places = [root / given] if given else [root / name for name in TABLES]
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        named = str(places[0]) if given else f"{root} has no table {' or '.join(TABLES)}"
        raise UsageError(f"{named}{' is not there' if given else ''}. Expected: {LAYOUT}.")
    return found


def read_frames(path: Path) -> list[Frame]:
    """The frames that a table names, in the order of their files.

    Raises:
        UsageError: it is no such table; a cell is empty or leads out of the folder; a file or a mask is named twice.
    """
    rows = _json_rows(path) if path.suffix.lower() == ".json" else _csv_rows(path)
    found: dict[str, Frame] = {}
    masks: dict[str, str] = {}
    for where, row in rows:
        empty = [column for column in COLUMNS if not row[column]]
        if empty:
            raise UsageError(f"{where}: this frame has no {empty[0]}.")
        frame = Frame(below(row["file"], where), below(row["mask"], where), row["split"], row["wall_id"])
        for text in (frame.split, frame.wall_id):
            check_name(text)
        if frame.file in found:
            raise UsageError(f"{where}: {frame.file} is listed a second time. Drop one.")
        if frame.mask in masks:
            raise UsageError(f"{where}: {frame.mask} is the mask of {masks[frame.mask]} already. Drop one.")
        found[frame.file], masks[frame.mask] = frame, frame.file
    if not found:
        raise UsageError(f"{path} names no frame. Expected: {LAYOUT}.")
    return [found[file] for file in sorted(found)]


def _csv_rows(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    return ((f"{path}:{number}", row) for number, row in read_table(path, COLUMNS))


def _json_rows(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    try:
        rows: Any = strict.read(path, LARGEST)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as JSON ({reason(error)}).") from error
    rows = rows.get("frames") if isinstance(rows, dict) else rows
    if not isinstance(rows, list):
        raise UsageError(f"{path} is no list of frames. Expected: {LAYOUT}.")
    for number, row in enumerate(rows):
        where = f"{path}, frame {number}"
        odd = [c for c in COLUMNS if not isinstance(row, dict) or not isinstance(row.get(c), str)]
        if odd:
            raise UsageError(f"{where}: {odd[0]} should be text. Expected: {LAYOUT}.")
        yield where, {column: row[column].strip() for column in COLUMNS}


def below(name: str, where: str) -> str:
    """A path as it stands below the folder.

    Raises:
        UsageError: it leads out of the folder, or results could not name it.
    """
    check_name(name)
    if len(name) > LONGEST:
        raise UsageError(f"{where}: a path of {len(name):,} characters is none that a file can have.")
    plain = os.path.normpath(name).replace(os.sep, "/")
    if os.path.isabs(name) or plain.startswith("../") or plain in (".", ".."):
        raise UsageError(f"{where}: {name!r} leads out of the folder: list paths relative to it.")
    return plain
