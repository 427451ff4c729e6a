"""NAVI's scenes as they are published: photos of one object with their cameras, and pairs of them."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets._listing import check_name
from benchkit.errors import UsageError, reason
from benchkit.geometry.rotation import angle, to_matrix
from benchkit.provenance import strict

MILLIMETRES = 1000.0  # of a metre: annotations and scans are in millimetres
WILD, MULTIVIEW = "wild_set", "multiview"
LONGEST = 1_000_000  # pixels of a side: no photo has so many
LEAST_ANGLE = 1e-3  # degrees: a photo is no partner of its own, nor of one from the very same direction


@dataclasses.dataclass(frozen=True, eq=False)
class Photo:
    """One photo.

    Attributes:
        scene: path below root, `<object>/<scene>`; file: name below its `images`.
        R, t: (3, 3) and (3,), from the object's frame to the camera's, X = R X_object + t, metres.
        focal: pixels; height, width: upright.
        split: train or val, as the annotations say.
    """

    scene: str
    file: str
    R: NDArray[np.float64]
    t: NDArray[np.float64]
    focal: float
    height: int
    width: int
    split: str

    @property
    def view(self) -> str:
        """Path of the photo below root."""
        return f"{self.scene}/images/{self.file}"

    @property
    def stem(self) -> str:
        """Its name without suffix."""
        return self.file.rpartition(".")[0]

    @property
    def depth(self) -> str:
        """Path of its depth below root."""
        return f"{self.scene}/depth/{self.stem}.png"

    def said(self) -> str:
        """The numbers of its camera, as text."""
        return repr([*self.R.ravel().tolist(), *self.t.tolist(), self.focal, self.height, self.width])


def scenes(root: Path, kind: str) -> Iterator[list[Photo]]:
    """The photos of each scene of one kind (WILD or MULTIVIEW), both in name order; those whose file is not there are left out.

    Raises:
        UsageError: annotations are missing or damaged; says which.
    """
    for path in sorted(root.glob(f"*/{kind}*/annotations.json")):
        scene = path.parent.relative_to(root).as_posix()
        check_name(scene)
        images = path.parent / "images"
        there = set(os.listdir(images)) if images.is_dir() else set()
        photos = [_photo(path, number, scene, entry) for number, entry in enumerate(_entries(path))]
        yield sorted((each for each in photos if each.file in there), key=lambda each: each.file)


def _entries(path: Path) -> list[Any]:
    try:
        found = strict.read(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as JSON ({reason(error)}).") from error
    if not isinstance(found, list):
        raise UsageError(f"{path} holds no list of photos.")
    return found


def _photo(path: Path, number: int, scene: str, entry: Any) -> Photo:
    """One entry; every number is checked.

    Raises:
        UsageError: something is missing, or no such number.
    """
    try:
        camera, file = entry["camera"], entry["filename"]
        turn, move, focal = (np.array(camera[name], np.float64) for name in ("q", "t", "focal_length"))
        height, width = (int(side) for side in entry["image_size"])
        split = str(entry.get("split", "train"))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise UsageError(
            f"{path}: photo {number}: camera (q, t, focal_length), filename and image_size are expected ({error!r})."
        ) from error
    finite = all(np.isfinite(each).all() for each in (turn, move, focal))
    if turn.shape != (4,) or move.shape != (3,) or focal.shape or not finite or not np.linalg.norm(turn) > 0:
        raise UsageError(f"{path}: photo {number}: q are four numbers, t three and focal_length one, all finite.")
    if not (
        isinstance(file, str)
        and file
        and "/" not in file
        and "\\" not in file
        and focal > 0 < min(height, width)
        and max(height, width) < LONGEST
    ):
        raise UsageError(f"{path}: photo {number}: filename is a name, focal_length and image_size are above 0.")
    check_name(file)
    return Photo(scene, file, to_matrix(turn), move / MILLIMETRES, float(focal), height, width, split)


@dataclasses.dataclass(frozen=True)
class Rule:
    """How partners are drawn.

    Attributes:
        count: per photo; every: only every so many-th photo has any; largest: angle in degrees; seed.
        same_split: partners are of the photo's own split.
    """

    count: int
    every: int
    largest: float
    seed: int
    same_split: bool


def draw(photos: list[list[Photo]], split: str | None, rule: Rule) -> Iterator[tuple[Photo, Photo, float]]:
    """Pairs of photos of one scene, and the angle between their cameras' rotations in degrees.

    Args:
        photos: by scene.
        split: of the first photo; None: any.
        rule: see there.
    """
    place = 0
    for scene in photos:
        rotations = np.array([each.R for each in scene]).reshape(-1, 3, 3)
        for number, first in enumerate(scene):
            if split is not None and first.split != split:
                continue
            place += 1
            if (place - 1) % rule.every:
                continue
            angles = angle(rotations[number], rotations)
            able = (angles > LEAST_ANGLE) & (angles <= rule.largest)
            if rule.same_split:
                able &= np.array([each.split == first.split for each in scene])
            order = _generator(rule.seed, first).permutation(np.flatnonzero(able))
            yield from ((first, scene[k], float(angles[k])) for k in order[: rule.count])


def _generator(seed: int, photo: Photo) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed}\0{photo.view}".encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, np.uint32))
