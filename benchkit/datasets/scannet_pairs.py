"""ScanNet's test pairs for correspondence in space: the 1,500 pairs of SuperGlue as LoFTR distributes them.

`test.npz` holds `name`, (N, 4) whole numbers: scene, scan and both frames; `intrinsics.npz` one K per `scene0707_00`, of images
of 640 x 480 pixels; each scene has color/<frame>.jpg, depth/<frame>.png (16 bits, millimetres, 0 unknown) and
pose/<frame>.txt (4 x 4, camera to world, x right, y down, z forward). Read as by zju3dv/LoFTR (src/datasets/scannet.py) and
mbanani/probe3d (evals/datasets/scannet_pairs.py).

Colour files may be larger than 640 x 480: K is scaled to them, and errors in pixels are told in the frame of 640 x 480
(`scale1`). Bins of the angle between rotations are probe3d's. Arrays with Python objects in them are refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import zipfile
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchkit.datasets import _points
from benchkit.datasets._listing import check_name
from benchkit.datasets._pair_items import check_intrinsics, floats, homogeneous, inverted
from benchkit.datasets.base import Arrays, Dataset, DataSettings
from benchkit.errors import UsageError
from benchkit.geometry.rotation import angle
from benchkit.images import inspect
from benchkit.provenance import strict
from benchkit.settings import setting

LAYOUT = "root/test.npz, root/intrinsics.npz and root/scene0707_00/ ..., each with color/15.jpg, depth/15.png and pose/15.txt"
FRAME = (640.0, 480.0)  # width and height that K is of, and in which errors are told
MILLIMETRES = 1000.0
BINS = (0, 15, 30, 60, 180)  # degrees between the cameras' rotations
MAPS = ("xyz0", "xyz1", "valid0", "valid1")
LARGEST = 1 << 24  # bytes of a list: the published ones have some ten thousand


@dataclasses.dataclass
class Settings(DataSettings):
    """Settings of ScanNet's pairs."""

    truth: Literal["pose", "xyz"] = setting("xyz", "pose, or xyz (points in space too, at a quarter of 640 x 480)")


class ScannetPairs(Dataset):
    """See the module; an item is `<scene>/<first>-<second>`.

    Raises:
        UsageError: root or one of its lists is missing or damaged.
    """

    map_views: Mapping[str, int] = {name: int(name[-1]) for name in MAPS}

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if not settings.root:
            raise UsageError(f"scannet_pairs needs data.root=DIR, laid out as {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        for name in ("test.npz", "intrinsics.npz"):
            if not os.path.isfile(self.root / name):
                raise UsageError(f"data.root={settings.root} holds no file {name}. Expected: {LAYOUT}.")
        self.maps = MAPS if settings.truth == "xyz" else ()
        self.given = ("valid0", "valid1") if settings.truth == "xyz" else ()

    @cached_property
    def _pairs(self) -> dict[str, tuple[str, str, str]]:
        """Scene and both frames of every item."""
        path = self.root / "test.npz"
        rows = _arrays(path).get("name", np.zeros(0))
        if rows.ndim != 2 or rows.shape[1] != 4 or rows.dtype.kind not in "iu" or not len(rows) or rows.min() < 0:
            raise UsageError(f"{path}: name, (N, 4) whole numbers (scene, scan, both frames), is expected.")
        found = {}
        for number, (room, scan, first, second) in enumerate(rows.tolist()):
            scene = f"scene{room:04d}_{scan:02d}"
            item = f"{scene}/{first}-{second}"
            if item in found or first == second:
                raise UsageError(f"{path}: row {number}: {item} is listed a second time, or is no pair.")
            found[item] = (scene, str(first), str(second))
        return found

    @cached_property
    def _cameras(self) -> dict[str, np.ndarray]:
        """K of 640 x 480 pixels by scene."""
        path = self.root / "intrinsics.npz"
        found = {name: value for name, value in _arrays(path).items() if re.fullmatch(r"scene\d{4}_\d\d", name)}
        lost = sorted({scene for scene, _, _ in self._pairs.values()} - found.keys())
        odd = [name for name, value in found.items() if value.size != 9 or value.dtype.kind not in "iuf"]
        if lost or odd:
            raise UsageError(f"{path}: K, (3, 3), of {(lost or odd)[0]} is missing or no such matrix.")
        return {
            name: check_intrinsics(value.astype(np.float64).reshape(3, 3), f"{path}: {name}")
            for name, value in found.items()
        }

    def items(self, split: str) -> list[str]:
        """In name order; there is the split test alone."""
        if split != "test":
            raise UsageError(f"scannet_pairs has the split test, not {split!r}: set data.split=test.")
        return sorted(self._pairs)

    def _file(self, item: str, which: int, kind: str, suffix: str) -> str:
        """Path below root of what belongs to one view."""
        scene, *frames = self._pairs[item]
        return f"{scene}/{kind}/{frames[which]}{suffix}"

    def views(self, item: str) -> tuple[str, ...]:
        """Both colour files below root."""
        return self._file(item, 0, "color", ".jpg"), self._file(item, 1, "color", ".jpg")

    def path(self, view: str) -> Path:
        """The colour file."""
        return self.root / view

    def _pose(self, item: str, which: int) -> np.ndarray:
        """Camera to world, float64 (4, 4)."""
        return _pose(self.root / self._file(item, which, "pose", ".txt"))

    def _between(self, item: str) -> np.ndarray:
        """From view 0's frame to view 1's, float64 (4, 4)."""
        return inverted(self._pose(item, 1)) @ self._pose(item, 0)

    def target(self, item: str) -> Arrays:
        """`K0`, `K1`: float64 (3, 3), pixels of the colour files; `R`, `t`: float64 (3, 3) and (3,), X1 = R X0 + t, metres;
        `size0`, `size1`: float64 (2,), width and height; `scale0`, `scale1`: float64 (), from them to the frame of 640 x 480.
        Maps are read by `field`.
        """
        pose, camera = self._between(item), self._cameras[self._pairs[item][0]]
        fields: Arrays = {"R": pose[:3, :3], "t": pose[:3, 3]}
        for which, view in enumerate(self.views(item)):
            height, width = _size(self.root / view)
            fields[f"K{which}"] = np.diag([width / FRAME[0], height / FRAME[1], 1]) @ camera
            fields[f"size{which}"] = np.array([width, height], np.float64)
            fields[f"scale{which}"] = np.float64(FRAME[0] / width)  # type: ignore[assignment]
        return fields

    def map_fields(self, item: str) -> tuple[str, ...]:
        """Those of points in space."""
        return self.maps

    def field(self, item: str, name: str) -> np.ndarray:
        """`xyz0`, `xyz1`: float32 (120, 160, 3), metres in the camera's frame, NaN where unknown; `valid0`, `valid1`: bool, where
        they are known.
        """
        stored = _depth(self.root / self._file(item, self.map_views[name], "depth", ".png"))
        depth = _points.on_grid(stored, _points.cells(*FRAME))
        if name.startswith("valid"):
            return np.isfinite(depth)
        return _points.points(depth, self._cameras[self._pairs[item][0]], FRAME)

    def map_shape(self, item: str, name: str) -> tuple[int, ...] | None:
        """A quarter of 640 x 480."""
        grid = _points.cells(*FRAME)
        return (*grid, 3) if name.startswith("xyz") else grid

    def target_paths(self, item: str) -> tuple[Path, ...]:
        """Poses, and the depth files of points in space."""
        kinds = [("pose", ".txt"), *([("depth", ".png")] if self.maps else [])]
        return tuple(self.root / self._file(item, which, *kind) for kind in kinds for which in (0, 1))

    def examine(self, item: str) -> str:
        """Poses must be rotations and finite, and both views must have depth somewhere."""
        try:
            self._between(item)
            for which in (0, 1) if self.maps else ():
                path = self.root / self._file(item, which, "depth", ".png")
                if not np.isfinite(_depth(path)).any():
                    return f"{path.name} holds no depth"
        except UsageError as error:
            return str(error)
        return ""

    def target_files(self, item: str) -> list[str]:
        """The hash of K."""
        return [hashlib.sha256(repr(self._cameras[self._pairs[item][0]].tolist()).encode()).hexdigest()]

    def group(self, item: str) -> str:
        """The scene."""
        return self._pairs[item][0]

    def category(self, item: str) -> dict[str, str]:
        """`angle`, the bin of the angle between the cameras' rotations, degrees."""
        return {"angle": _points.angle_bin(float(angle(self._between(item)[:3, :3], np.eye(3))), BINS)}

    def meta(self) -> dict[str, Any]:
        """The unit of lengths."""
        return {"unit": "m"}


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz file; ones that hold Python objects, or more than any such list, are refused.

    Raises:
        UsageError: it is no such file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size <= LARGEST:
            with np.load(path, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
            if not all(
                isinstance(values, np.ndarray) for values in found.values()
            ):  # NumPy gives the bytes of other members
                raise ValueError("a member is no array")
            return found
    except Exception as error:  # damaged archives raise OSError, BadZipFile, zlib.error, ValueError, EOFError ...
        raise UsageError(f"{path} is no whole .npz file of numbers ({error}).") from error
    raise UsageError(f"{path} claims {size:,} bytes; a list of pairs has some ten thousand.")


def _pose(path: Path) -> np.ndarray:
    """Sixteen numbers, row by row."""
    words = [word for _, line in strict.read_lines(path) for word in line.split()]
    if len(words) != 16:
        raise UsageError(f"{path}: a pose of 4 x 4 numbers is expected, not {len(words)}.")
    return homogeneous(floats(words, str(path)), str(path))


def _depth(path: Path) -> np.ndarray:
    """Metres along the optical axis, float32 (h, w), NaN where unknown.

    Raises:
        Unreadable: it is damaged or no such map.
    """
    stored = _points.stored_map(path)
    return np.where(stored > 0, stored / np.float32(MILLIMETRES), np.float32(np.nan))


@lru_cache(maxsize=4096)
def _size(path: Path) -> tuple[int, int]:
    """Height and width of a colour file."""
    return inspect(path.read_bytes())


build = ScannetPairs
