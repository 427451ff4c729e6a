"""NAVI: pairs of photos of one object with their cameras, as published (Jampani et al. 2023; google/navi, v1.0 and v1.5).

`<object>/<scene>/annotations.json` has each photo's camera (q, w first, and t in millimetres take the object's frame to the
camera's, x right, y down, z forward; focal length in pixels, the principal point in the middle), `images/` the photos, `depth/`
16-bit PNG of 655350 / millimetres, 0 off the object. Split test: photos in the wild; train and val: multi-view scenes, as the
annotations split their photos (videos are left out).

Pairs as in probe3d (El Banani et al. 2024, evals/datasets/navi.py) and VisBench (0.27, data/navi.py): a photo and another one of
its scene whose camera is turned by at most `max_angle` degrees against it, drawn with seed 8. There the draw hangs on the
order of a folder's listing or on torch's generator; here on the seed and the photo's name, so pairs are not the very same.
More partners (`partners`, train only) extend the same draw.

data.truth=pose: whole photos. data.truth=xyz: squares around the object, resized to `side` pixels, with points in space at a
quarter of the side; probe3d's square is that of the object in a central square of the photo, resized without smoothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from benchkit.datasets import _points
from benchkit.datasets._listing import check_name
from benchkit.datasets._navi_scenes import MULTIVIEW, WILD, Photo, Rule, draw, scenes
from benchkit.datasets.base import Arrays, Dataset, DataSettings
from benchkit.errors import UsageError
from benchkit.images import DECODERS, inspect
from benchkit.settings import setting

LAYOUT = (
    "root/<object>/wild_set and root/<object>/multiview-*/ (or multiview_*), each with annotations.json, images/000.jpg and "
    "depth/000.png"
)
VERSION = 1  # of the squares around objects
STORED = 655.35  # depth in metres is this over what the file holds (decode_depth of google/navi: 10 * 65535 / mm)
BINS = (0, 30, 60, 90, 120, 180)  # degrees between the cameras' rotations: probe3d's, and one beyond
SQUARE = "/object"  # behind a photo's name: the square around its object
MAPS = ("xyz0", "xyz1", "valid0", "valid1")
SPLITS = {"test": (WILD, None), "train": (MULTIVIEW, "train"), "val": (MULTIVIEW, "val")}


@dataclasses.dataclass
class Settings(DataSettings):
    """Settings of NAVI's pairs."""

    truth: Literal["pose", "xyz"] = setting(
        "xyz", "pose (whole photos), or xyz (points in space too, of squares around objects)"
    )
    partners: int = setting(1, "partners of each train photo; of others one")
    every: int = setting(1, "only every so many-th photo of a split has partners (probe3d: 4)")
    max_angle: float = setting(120.0, "largest angle between the rotations of a pair's cameras, degrees")
    same_split: bool = setting(
        False, "true: both photos are of one split; false: the first one's counts (probe3d, VisBench)"
    )
    seed: int = setting(8, "of the draw of partners")
    side: int = setting(512, "side of the squares around objects in pixels (data.truth=xyz)")

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.partners, self.every) < 1 or self.side < 8:
            raise ValueError("partners and every are at least 1, and side at least 8 pixels")
        if not 0 < self.max_angle <= 180:
            raise ValueError(f"max_angle lies above 0 and up to 180 degrees, not {self.max_angle}")


class Square(NamedTuple):
    """The square around an object: its left, top and side in the photo's pixels; depth in metres at the grid's cells."""

    left: int
    top: int
    side: int
    depth: np.ndarray


class Navi(Dataset):
    """See the module; an item is `<object>/<scene>/<first>-<second>`.

    Raises:
        UsageError: root is missing or not laid out so.
    """

    map_views: Mapping[str, int] = {name: int(name[-1]) for name in MAPS}

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if not settings.root:
            raise UsageError(f"navi needs data.root=DIR, laid out as {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        if not any(self.root.glob("*/*/annotations.json")):
            raise UsageError(f"data.root={settings.root} holds no NAVI. Expected: {LAYOUT}.")
        self.squares = settings.truth == "xyz"
        self.maps = MAPS if self.squares else ()
        self.given = ("valid0", "valid1") if self.squares else ()
        self._scenes: dict[str, list[list[Photo]]] = {}
        self._pairs: dict[str, tuple[Photo, Photo, float]] = {}
        self._photos: dict[str, Photo] = {}

    def items(self, split: str) -> list[str]:
        """In name order."""
        if split not in SPLITS:
            raise UsageError(f"navi has the splits {', '.join(SPLITS)}, not {split!r}: set data.split=NAME.")
        kind, own = SPLITS[split]
        if kind not in self._scenes:
            self._scenes[kind] = list(scenes(self.root, kind))
        chosen = self.settings
        count = chosen.partners if split == "train" else 1
        rule = Rule(count, chosen.every, chosen.max_angle, chosen.seed, chosen.same_split and own is not None)
        found = {}
        for first, second, degrees in draw(self._scenes[kind], own, rule):
            found[f"{first.scene}/{first.stem}-{second.stem}"] = (first, second, degrees)
            self._photos |= {self._view(each): each for each in (first, second)}
        self._pairs |= found
        return sorted(found)

    def _view(self, photo: Photo) -> str:
        return photo.view + SQUARE if self.squares else photo.view

    def views(self, item: str) -> tuple[str, ...]:
        """The photos' paths below root; of squares around objects with /object behind."""
        return tuple(self._view(each) for each in self._pairs[item][:2])

    def path(self, view: str) -> Path | None:
        """The photo; squares around objects are made."""
        return None if self.squares else self.root / view

    def recipe(self, view: str) -> str:
        """Of a square: side, decoder and the bytes of photo and depth."""
        photo, chosen = self._photos[view], self.settings
        files = (_digest(self.root / each) for each in (photo.view, photo.depth))
        return "\0".join(map(str, ("navi", VERSION, chosen.side, chosen.decoder, *files)))

    def generated_size(self, view: str) -> tuple[int, int]:
        """Square."""
        return self.settings.side, self.settings.side

    def image(self, view: str) -> np.ndarray:
        """The photo, or the square around its object."""
        if not self.squares:
            return super().image(view)
        from PIL import Image

        photo, side = self._photos[view], self.settings.side
        whole = DECODERS[self.settings.decoder]((self.root / photo.view).read_bytes())
        left, top, length, _ = self._square(photo)
        box = (left, top, left + length, top + length)
        return np.array(Image.fromarray(whole).resize((side, side), Image.Resampling.BICUBIC, box=box))

    def _square(self, photo: Photo) -> Square:
        return _around(self.root / photo.depth, self.settings.side)

    def _camera(self, photo: Photo) -> tuple[np.ndarray, np.ndarray]:
        """K (3, 3) and size (2,) of the view."""
        focal, middle = photo.focal, np.array([photo.width, photo.height]) / 2
        size = 2 * middle
        if self.squares:
            left, top, length, _ = self._square(photo)
            scale = self.settings.side / length
            focal, middle, size = focal * scale, (middle - [left, top]) * scale, np.full(2, float(self.settings.side))
        return np.array([[focal, 0, middle[0]], [0, focal, middle[1]], [0, 0, 1.0]]), size

    def target(self, item: str) -> Arrays:
        """`K0`, `K1`: float64 (3, 3), pixels of the views; `R`, `t`: float64 (3, 3) and (3,), X1 = R X0 + t, metres; `size0`,
        `size1`: float64 (2,), width and height. Maps are read by `field`.
        """
        first, second, _ = self._pairs[item]
        (K0, size0), (K1, size1) = (self._camera(each) for each in (first, second))
        rotation = second.R @ first.R.T
        move = second.t - rotation @ first.t
        return {"K0": K0, "K1": K1, "R": rotation, "t": move, "size0": size0, "size1": size1}

    def map_fields(self, item: str) -> tuple[str, ...]:
        """Those of points in space."""
        return self.maps

    def field(self, item: str, name: str) -> np.ndarray:
        """`xyz0`, `xyz1`: float32 (n, n, 3), metres in the camera's frame, NaN off the object; `valid0`, `valid1`: bool (n, n),
        where they are known.
        """
        photo = self._pairs[item][:2][self.map_views[name]]
        depth = self._square(photo).depth
        if name.startswith("valid"):
            return np.isfinite(depth)
        return _points.points(depth, *self._camera(photo))

    def map_shape(self, item: str, name: str) -> tuple[int, ...] | None:
        """A quarter of the side."""
        grid = _points.cells(self.settings.side, self.settings.side)
        return (*grid, 3) if name.startswith("xyz") else grid

    def target_paths(self, item: str) -> tuple[Path, ...]:
        """The depth files of points in space."""
        return tuple(self.root / each.depth for each in self._pairs[item][:2]) if self.squares else ()

    def examine(self, item: str) -> str:
        """Depth, photo and annotations must be of one size, and the object must be seen."""
        for photo in self._pairs[item][:2]:
            told = (photo.height, photo.width)
            shapes = inspect((self.root / photo.view).read_bytes()), _depth(self.root / photo.depth).shape
            for what, shape in zip(("photo", "depth"), shapes, strict=True):
                if tuple(shape) != told:
                    sizes = f"{shape[1]} x {shape[0]} pixels, its annotation says {told[1]} x {told[0]}"
                    return f"the {what} of {photo.view} is {sizes}"
            if not np.isfinite(self._square(photo).depth).any():
                return f"{photo.depth} shows no object"
        return ""

    def target_files(self, item: str) -> list[str]:
        """The hash of both cameras' numbers."""
        said = "\n".join(each.said() for each in self._pairs[item][:2])
        return [hashlib.sha256(said.encode()).hexdigest()]

    def group(self, item: str) -> str:
        """The object."""
        return item.split("/")[0]

    def category(self, item: str) -> dict[str, str]:
        """`angle`, the bin of the angle between the cameras' rotations, degrees; `object`."""
        return {"angle": _points.angle_bin(self._pairs[item][2], BINS), "object": self.group(item)}

    def meta(self) -> dict[str, Any]:
        """The unit of lengths."""
        return {"unit": "m"}


def _depth(path: Path) -> np.ndarray:
    """Metres along the optical axis, float32 (h, w), NaN off the object.

    Raises:
        Unreadable: it is damaged or no such map.
    """
    stored = _points.stored_map(path)
    return np.divide(np.float32(STORED), stored, out=np.full_like(stored, np.nan), where=stored > 0)


@lru_cache(maxsize=2048)  # of 512 pixels 128 MB; the photos of a split are seen many times, and decoding takes a while
def _around(path: Path, side: int) -> Square:
    """The square around what is seen, in the photo: as large as the longer side of its box, or as the photo's shorter side."""
    depth = _depth(path)
    rows, columns = (np.flatnonzero(np.isfinite(depth).any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        rows, columns = (np.arange(length) for length in depth.shape)
    length = min(max(np.ptp(rows), np.ptp(columns)) + 1, *depth.shape)
    top, left = (
        int(np.clip((each[0] + each[-1] + 1 - length) // 2, 0, whole - length))
        for each, whole in zip((rows, columns), depth.shape, strict=True)
    )
    inside = depth[top : top + length, left : left + length]
    return Square(left, top, int(length), _points.on_grid(inside, _points.cells(side, side)))


@lru_cache(maxsize=65536)
def _stamped(path: Path, stamp: tuple[int, int]) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(path: Path) -> str:
    """sha256 of a file; of one that cannot be read its name, since what is wrong is said of the truth."""
    try:
        known = os.stat(path)
        return _stamped(path, (known.st_size, known.st_mtime_ns))
    except OSError:
        return f"unreadable {path.name}"


build = Navi
