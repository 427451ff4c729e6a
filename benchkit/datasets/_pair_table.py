"""A user's own pairs: one table of pairs and, where poses or intrinsics are per image, one of cameras."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.datasets._lists import refuse_twice
from benchkit.datasets._pair_items import (
    WXYZ,
    XYZW,
    Camera,
    Matrix,
    Pair,
    Reading,
    below,
    between,
    check_intrinsics,
    floats,
    quaternion,
    rigid,
    rotation,
)
from benchkit.datasets._tables import read_table
from benchkit.errors import UsageError
from benchkit.provenance.strict import read_lines

ROTATION = tuple(f"r{i}{j}" for i in range(3) for j in range(3))
QUATERNION = ("qw", "qx", "qy", "qz")
TRANSLATION = ("tx", "ty", "tz")
INTRINSICS = ("fx", "fy", "cx", "cy")
SIDES = ("width", "height")
POSE = {*ROTATION, *QUATERNION, *TRANSLATION}
CAMERAS = "cameras.csv"
Row = dict[str, str]


@dataclasses.dataclass(frozen=True, eq=False)
class Known:
    """A line of the table of cameras; what it does not say is None."""

    K: Matrix | None
    size: tuple[int, int] | None
    pose: Matrix | None
    depth: str | None
    scene: str
    quaternion: str


def read(path: Path, settings: Any, reading: Reading) -> list[Pair]:
    """The pairs of a table.

    Raises:
        UsageError: a column is missing, or a line is wrong; says which.
    """
    rows = read_columns(path, ("image0", "image1"))
    cameras = _cameras(path.parent / CAMERAS, reading)
    columns = set(rows[0][1]) if rows else set()
    _refuse_odd(path, columns, cameras)
    seen: dict[str, int] = {}
    pairs = []
    for number, row in rows:
        pair = _pair(f"{path}:{number}", row, cameras, reading)
        refuse_twice(path, number, pair.name, seen)
        pairs.append(pair)
    return pairs


def read_columns(path: Path, required: Sequence[str]) -> list[tuple[int, Row]]:
    """As `read_table`; also text with white space between its cells, where the header has neither comma nor tab."""
    lines = read_lines(path)
    if not lines or any(sign in lines[0][1] for sign in ",;\t"):
        return read_table(path, required)
    header = lines[0][1].lstrip("# ").split()
    missing = next((name for name in required if name not in header), None)
    if missing or len(set(header)) < len(header):
        what = f"no column {missing!r}" if missing else "a column twice"
        raise UsageError(f"{path}:{lines[0][0]}: the header has {what}; it has {', '.join(header)}.")
    odd = next(((number, line) for number, line in lines[1:] if len(line.split()) != len(header)), None)
    if odd:
        raise UsageError(
            f"{path}:{odd[0]}: {len(odd[1].split())} cells where the header names {len(header)} columns. (Names with spaces "
            "need commas between the columns.)"
        )
    return [(number, dict(zip(header, line.split(), strict=True))) for number, line in lines[1:]]


def _refuse_odd(path: Path, columns: set[str], cameras: dict[str, Known]) -> None:
    """Columns that say a pose or a rotation twice, or in halves, and such as are nearly called like one that is read."""
    _refuse_misspelt(path, columns)
    turned = [form for form in (ROTATION, QUATERNION) if set(form) <= columns]
    per_image = any(camera.pose is not None for camera in cameras.values())
    if columns & POSE and per_image:
        raise UsageError(f"{path}: poses are given twice, in its own columns and in {CAMERAS}. Drop one.")
    if len(turned) > 1:
        raise UsageError(f"{path}: the rotation is given twice, as r00 to r22 and as a quaternion. Drop one.")
    if not per_image and (len(turned) != 1 or not set(TRANSLATION) <= columns):
        raise UsageError(
            f"{path}: its columns hold no pose: r00 to r22 (R row by row) or qw, qx, qy, qz, and tx, ty, tz, of X1 = R X0 + "
            f"t; or {CAMERAS} beside it gives a pose per image. It has {', '.join(sorted(columns))}."
        )


def _refuse_misspelt(path: Path, columns: set[str]) -> None:
    known = {"image0", "image1", "depth0", "depth1", "scene", "split", *POSE}
    known |= {f"{name}{k}" for name in (*INTRINSICS, *SIDES) for k in ("", "0", "1")}
    for name in sorted(columns - known):
        near = difflib.get_close_matches(name, known - columns, n=1, cutoff=0.8)
        if near:
            raise UsageError(
                f"{path}: there is a column {name!r}, which is not read: is {near[0]!r} meant? Else call it otherwise."
            )
    for k in ("", "0", "1"):
        if len(columns & {f"{name}{k}" for name in SIDES}) == 1:
            raise UsageError(f"{path}: of width{k} and height{k} one is given alone. Give both, or neither.")


def _cameras(path: Path, reading: Reading) -> dict[str, Known]:
    """The table of cameras by image; empty where there is none."""
    if not path.is_file():
        return {}
    known: dict[str, Known] = {}
    seen: dict[str, int] = {}
    for number, row in read_columns(path, ("image",)):
        where = f"{path}:{number}"
        name = below(row["image"], where)
        refuse_twice(path, number, name, seen)
        pose = _pose(row, where) if POSE & row.keys() else None
        known[name] = Known(
            _intrinsics(row, "", where, reading),
            _size(row, "", where),
            None if pose is None else reading.to_camera(pose),
            row.get("depth") or None,
            row.get("scene", ""),
            _order(row),
        )
    return known


def _pair(where: str, row: Row, cameras: dict[str, Known], reading: Reading) -> Pair:
    images = [below(row[f"image{k}"], where) for k in (0, 1)]
    unknown = next((name for name in images if cameras and name not in cameras), None)
    if unknown:
        raise UsageError(f"{where}: {CAMERAS} has no line for {unknown!r}.")
    beside = [cameras.get(name) for name in images]
    first, second = (_camera(where, row, k, images[k], beside[k], reading) for k in (0, 1))
    poses = None
    if beside[0] and beside[0].pose is not None and beside[1] and beside[1].pose is not None:
        poses = beside[0].pose, beside[1].pose
    pose = between(*poses) if poses else reading.relative(_pose(row, where))
    scene = row.get("scene") or (beside[0].scene if beside[0] else "")
    split = row.get("split", "test")
    if not split:
        raise UsageError(f"{where}: split is empty.")
    name = f"{first.image}--{second.image}"
    quaternion = beside[0].quaternion if poses and beside[0] else _order(row)
    return Pair(name, (first, second), pose, poses, scene, split, where, quaternion=quaternion)


def _camera(where: str, row: Row, k: int, image: str, beside: Known | None, reading: Reading) -> Camera:
    """Of the pair's line, else of the table of cameras."""
    of_both = {name: row[name] for name in (*INTRINSICS, *SIDES) if name in row}
    own = {name: row[f"{name}{k}"] for name in (*INTRINSICS, *SIDES) if f"{name}{k}" in row}
    cells = {**of_both, **own}
    K, size = _intrinsics(cells, str(k), where, reading), _size(cells, str(k), where)
    if beside is not None:
        K, size = (beside.K if K is None else K), size or beside.size
    if K is None:
        raise UsageError(
            f"{where}: no intrinsics of {image!r}: the columns fx{k}, fy{k}, cx{k}, cy{k} (or fx, fy, cx, cy of both views, "
            f"or those of {CAMERAS}) are missing."
        )
    depth = row.get(f"depth{k}") or (beside.depth if beside else None)
    return Camera(image, K, size, below(depth, where) if depth else None)


def _intrinsics(row: Row, k: str, where: str, reading: Reading) -> Matrix | None:
    there = [name for name in INTRINSICS if name in row]
    if not there:
        return None
    if len(there) < len(INTRINSICS):
        missing = next(name for name in INTRINSICS if name not in row)
        raise UsageError(f"{where}: intrinsics are fx{k}, fy{k}, cx{k} and cy{k}, and {missing}{k} is missing.")
    return check_intrinsics(reading.intrinsics(*floats([row[name] for name in INTRINSICS], where)), where)


def _size(row: Row, k: str, where: str) -> tuple[int, int] | None:
    if not all(name in row for name in SIDES):
        return None
    width, height = floats([row[name] for name in SIDES], where)
    if width != int(width) or height != int(height) or min(width, height) < 1:
        raise UsageError(f"{where}: width{k} and height{k} are pixels, not {width:g} and {height:g}.")
    return int(width), int(height)


def _pose(row: Row, where: str) -> Matrix:
    """R and t as they stand there."""
    names = next((form for form in (ROTATION, QUATERNION) if all(name in row for name in form)), None)
    if names is None or not all(name in row for name in TRANSLATION):
        raise UsageError(f"{where}: a pose is r00 to r22, or qw, qx, qy, qz; and tx, ty, tz.")
    numbers = floats([row[name] for name in names], where)
    turned = rotation(numbers, where) if names is ROTATION else quaternion(numbers, where)
    return rigid(turned, np.array(floats([row[name] for name in TRANSLATION], where)))


def _order(row: Row) -> str:
    """In which order the numbers of a quaternion stand; '' without."""
    names = [name for name in row if name in QUATERNION]
    if len(names) < len(QUATERNION) or set(ROTATION) <= row.keys():
        return ""
    return WXYZ if names[0] == "qw" else XYZW
