"""Whether a Painting Vision folder may be evaluated on: walls in one split, photos of one wall, masks of the taxonomy."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchkit.datasets._painting_table import Frame
from benchkit.datasets.painting import Painting, Settings
from benchkit.duplicates.find import compare_pictures
from benchkit.duplicates.pictures import pictures_of
from benchkit.images import DECODERS, Unreadable
from benchkit.metrics.painting import N_CLASSES
from benchkit.progress import track
from benchkit.submissions.manifest import read_regular, walls_across


@dataclasses.dataclass
class Audit:
    """What was found.

    Attributes:
        problems: why the folder is refused, a line each, with the files.
        classes: names of the ten classes.
        shares: split -> share of its pixels, void left aside, that each class has, float64 (10,).
        counts: split -> (frames, walls).
    """

    problems: list[str]
    classes: list[str]
    shares: dict[str, np.ndarray]
    counts: dict[str, tuple[int, int]]


def audit(root: Path, table: str | None = None, classes: Sequence[str] = ("painting",)) -> Audit:
    """Look at every frame and mask of a folder.

    Raises:
        UsageError: the table itself is wrong.
    """
    data = Painting(Settings(root=str(root), table=table, classes=list(classes)))
    frames = list(data.frames.values())
    problems = walls_across([dataclasses.asdict(frame) for frame in frames])
    totals = {split: np.zeros(256, np.int64) for split in data.splits}
    digests: dict[str, list[str]] = defaultdict(list)
    for frame in track(frames, len(frames), "looking at frames", "frames"):
        problem = _missing(root, frame) or data.examine(frame.file)
        if problem:
            problems.append(f"{frame.file}: {problem}")
            continue
        try:
            image = (root / frame.file).read_bytes()
            DECODERS["fast"](image)
        except Unreadable as error:
            problems.append(f"{frame.file}: {error}")
            continue
        digests[hashlib.sha256(image).hexdigest()].append(frame.file)
        totals[frame.split] += np.bincount(data.target(frame.file)["mask"].ravel(), minlength=256)
    problems += _same_photo(data.frames, list(digests.values()), data)
    counts = {s: (sum(f.split == s for f in frames), len({f.wall_id for f in frames if f.split == s})) for s in totals}
    return Audit(problems, data.classes, {s: _shares(total) for s, total in totals.items()}, counts)


def _missing(root: Path, frame: Frame) -> str:
    absent = [name for name in (frame.file, frame.mask) if read_regular(root / name) is None]
    return f"{absent[0]} is missing" if absent else ""


def _same_photo(frames: Mapping[str, Frame], equal: Sequence[Sequence[str]], data: Painting) -> list[str]:
    """Photos that occur twice where they must not: under two walls, or in two splits."""
    pairs = {(first, other): "the same bytes" for first, *others in equal for other in others}
    names = sorted(name for same in equal for name in same)
    pictures = pictures_of(names, map(data.image, track(names, len(names), "comparing photos", "frames")))
    for pair, kind in compare_pictures(pictures).items():
        pairs.setdefault(pair, kind)
    found = []
    for (first, second), kind in sorted(pairs.items()):
        one, two = frames[first], frames[second]
        apart = [k for k in ("wall_id", "split") if getattr(one, k) != getattr(two, k)]
        if apart:
            where = " and ".join(f"two {k}s ({getattr(one, k)}, {getattr(two, k)})" for k in apart)
            found.append(f"{first} and {second} are the same photo ({kind}) under {where}")
    return found


def _shares(counts: np.ndarray) -> np.ndarray:
    known = counts[:N_CLASSES].astype(np.float64)
    return known / known.sum() if known.sum() else known
