"""Reading somebody else's predictions.h5: shapes and kinds are checked before anything is read, links are not followed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from benchkit.errors import UsageError, reason, some
from benchkit.progress import track
from benchkit.store import foreign
from benchkit.store.columns import Column, Ragged

POINTS, MATCHES, SCORES = ("keypoints0", "keypoints1"), "matches0", "matching_scores0"
MOST = 1_000_000  # keypoints of a view
TOTAL = 1 << 28  # bytes that all of them may claim, whatever the file's size
# Further fields of Glue Factory, and how many axes they have: kept where every pair has them, and not scored.
BESIDE = {
    "keypoint_scores0": 1,
    "keypoint_scores1": 1,
    "lines0": 3,
    "lines1": 3,
    "line_matches0": 1,
    "line_matching_scores0": 1,
}


def find(file: str | None, others: Mapping[str, Sequence[str]]) -> tuple[dict[str, str], list[str]]:
    """Item -> name of its group, and what the user should know of the file.

    Raises:
        UsageError: there is no such HDF5 file, or it lacks an item or a field, or a field has an odd shape.
    """
    if not file or not Path(file).expanduser().is_file():
        raise UsageError(f"model.head.file={file}: that file does not exist.")
    with _opened(file) as h5:
        there = _groups(h5, file)
        if not there:
            raise UsageError(
                f"{file} holds no group with a data set {MATCHES}: one per pair, as Glue Factory writes them."
            )
        found = {item: next((n for n in (item, *names) if n in there), None) for item, names in others.items()}
        lacking = [
            f"{item} ({' or '.join(others[item]) or 'its own name'})" for item, group in found.items() if not group
        ]
        if lacking:
            raise UsageError(
                f"{file} lacks {len(lacking)} of {len(found)} items: {some(lacking)}. It has {len(there)} groups, such as "
                f"{some(sorted(there))}. Score fewer items with --limit, or name the split that was run."
            )
        groups = {item: str(group) for item, group in found.items()}
        claims = {group: _check(foreign.node(h5, group), f"{file}: {group}") for group in set(groups.values())}
        claimed = sum(claims[group] for group in groups.values())
        if claimed > TOTAL + foreign.RATIO * Path(file).expanduser().stat().st_size:
            raise UsageError(f"{file} claims {claimed:,} bytes of keypoints and matches, far more than it can hold.")
        return groups, _notes(h5, list(groups.values()), len(there))


@contextlib.contextmanager
def _opened(file: str) -> Iterator[h5py.File]:
    """The file; what HDF5 cannot read of it is an error that names it, also later."""
    try:
        with h5py.File(Path(file).expanduser(), "r") as h5:
            yield h5
    except OSError as error:
        raise UsageError(f"{file} is no HDF5 file, or a damaged one ({error}).") from error


def _groups(h5: Any, file: str) -> set[str]:
    """Groups with matches."""
    try:
        found = foreign.paths(h5, linked=True)
    except (foreign.Refused, RuntimeError) as error:
        raise UsageError(f"{file} cannot be read: {reason(error)}.") from error
    return {path.rpartition("/")[0] for path in found if path.rpartition("/")[2] == MATCHES}


def _shape(group: Any, name: str, where: str) -> tuple[int, ...]:
    """Of numbers that lie in the file itself."""
    whole = name in (MATCHES, "line_matches0")
    try:
        shape: tuple[int, ...] = foreign.numbers(group, name, 4 * MOST, "iu" if whole else "fiu").shape
    except KeyError as error:
        raise UsageError(f"{where} has no {name} of its own.") from error
    except (foreign.Refused, RuntimeError, OSError) as error:
        raise UsageError(f"{where}/{name} cannot be read: {reason(error)}.") from error
    return shape


def _check(group: Any, where: str) -> int:
    """Bytes that the fields of a group take in memory."""
    shapes = {name: _shape(group, name, where) for name in (*POINTS, MATCHES, *([SCORES] if SCORES in group else []))}
    beside: dict[str, tuple[int, ...]] = {}
    for name in (each for each in BESIDE if each in group):
        shape = beside[name] = _shape(group, name, where)
        if len(shape) != BESIDE[name] or shape[1:] not in ((), (2, 2)) or shape[0] > MOST:
            raise UsageError(f"{where}/{name} has the shape {shape}; lines are (n, 2, 2), scores and matches (n,).")
    count = shapes[POINTS[0]][0] if shapes[POINTS[0]] else 0
    good = all(len(shapes[n]) == 2 and shapes[n][1] == 2 and shapes[n][0] <= MOST for n in POINTS)
    if not good or shapes[MATCHES] != (count,) or shapes.get(SCORES, (count,)) != (count,):
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise UsageError(
            f"{where} has {told}; keypoints are (n, 2), matches and scores one per keypoint of the first view."
        )
    return sum(8 * math.prod(shape) for shape in (*shapes.values(), *beside.values()))


def _notes(h5: Any, groups: Sequence[str], total: int) -> list[str]:
    said = []
    if groups and h5[groups[0]][POINTS[0]].dtype == np.float16:
        said.append(
            "the keypoints are stored as 16-bit floats (Glue Factory's as_half), whose steps are .5 pixels above 512 and 1 "
            "above 1,024: thresholds of a pixel measure that too."
        )
    if total > len(groups):
        said.append(f"{total - len(groups)} groups of the file belong to no item that is scored.")
    return said


def read(file: str, groups: Sequence[str], shift: float) -> dict[str, Column]:
    """Columns of the groups, in order; `shift` pixels are added to every point.

    Raises:
        UsageError: numbers that are not finite, or matches that name no keypoint.
    """
    with _opened(file) as h5:
        beside = [name for name in BESIDE if all(name in h5[group] for group in groups)]
        rows: dict[str, list[np.ndarray]] = {name: [] for name in (*POINTS, MATCHES, SCORES, *beside)}
        for group in track(groups, len(groups), "reading", "pairs"):
            where = f"{file}: {group}"
            found = {**_pair(h5[group], where, shift), **_beside(h5[group], beside, where, shift)}
            for name, value in found.items():
                rows[name].append(value)
    return {name: Ragged(values[0].dtype, values[0].ndim, values) for name, values in rows.items()}


def _pair(group: Any, where: str, shift: float) -> dict[str, np.ndarray]:
    points = {name: group[name][()].astype(np.float32) + np.float32(shift) for name in POINTS}
    matches = group[MATCHES][()]
    if matches.dtype.kind == "u" and len(matches) and matches.max() > MOST:
        raise UsageError(f"{where}: {MATCHES} names keypoints that are not there.")
    matches = matches.astype(np.int64)
    scores = group[SCORES][()].astype(np.float32) if SCORES in group else np.ones(len(matches), np.float32)
    scores = np.where(matches >= 0, scores, 0).astype(np.float32)
    if not all(np.isfinite(each).all() for each in (*points.values(), scores)):
        raise UsageError(f"{where} holds NaN or infinity.")
    if len(matches) and (matches.max() >= len(points[POINTS[1]]) or matches.min() < -1):
        raise UsageError(f"{where}: {MATCHES} names keypoints that are not there.")
    return {**points, MATCHES: matches.astype(np.int32), SCORES: scores}


def _beside(group: Any, names: Sequence[str], where: str, shift: float) -> dict[str, np.ndarray]:
    """Fields that are kept beside the matches."""
    values = {}
    for name in names:
        value = group[name][()]
        if not np.isfinite(value).all():
            raise UsageError(f"{where}/{name} holds NaN or infinity.")
        moved = np.float32(shift if name.startswith("lines") else 0)
        values[name] = value.astype(np.int32) if name == "line_matches0" else value.astype(np.float32) + moved
    return values
