"""What data sets of image pairs with known cameras share: their truth, in the frames of upright pictures."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets._pair_depth import read_depth
from benchkit.datasets._pair_items import Camera, Matrix, Pair, Reading, righted
from benchkit.datasets._pair_turned import QUARTERS, UPRIGHT, header, upright_camera, upright_map
from benchkit.datasets.base import Arrays, Dataset, DataSettings
from benchkit.errors import UsageError
from benchkit.images import Unreadable
from benchkit.settings import setting

Size = tuple[int, int]


@dataclasses.dataclass
class PairSettings(DataSettings):
    """Settings of image pairs with known cameras."""

    depth: bool = setting(True, "give the depth maps, where there are any")
    check: Literal["auto", "off"] = setting(
        "auto",
        "auto: compare the poses of a few pairs with images and depth before anything is computed",
        identity=False,
    )


class PosedPairs(Dataset):
    """Pairs by name; a data set of its own reads them.

    Attributes:
        pairs: item -> its pair.
        reading: how the numbers of the list were read.
        image_root: folder that views are below.
        depth_root: folder that depth maps are below.
        listed: the file that poses come from, for messages.
    """

    map_views: Mapping[str, int] = {"depth1": 1}
    exif = "refuse"  # what is done with photos stored turned, where there is no such setting
    pairs: dict[str, Pair]
    reading: Reading
    image_root: Path
    depth_root: Path
    listed: str

    def begin(self, settings: Any, pairs: list[Pair]) -> None:
        """Take over what was read."""
        self.settings = settings
        self.pairs = {pair.name: righted(pair) for pair in pairs}
        has_depth = settings.depth and any(camera.depth for pair in pairs for camera in pair.cameras)
        self.maps = ("depth0", "depth1") if has_depth else ()
        self._headers: dict[str, tuple[int, int, int]] = {}

    def items(self, split: str) -> list[str]:
        """`<image0>--<image1>` (or as the list names pairs), in name order."""
        found = sorted(name for name, pair in self.pairs.items() if pair.split == split)
        if not found:
            there = ", ".join(sorted({pair.split for pair in self.pairs.values()})) or "none"
            raise UsageError(f"{self.listed} has no pairs in split {split!r}; there are {there}. Set data.split=NAME.")
        return found

    def views(self, item: str) -> tuple[str, str]:
        """The two images."""
        first, second = self.pairs[item].cameras
        return first.image, second.image

    def path(self, view: str) -> Path | None:
        """The image file."""
        return self.image_root / view

    def file_size(self, view: str) -> Size:
        """Width and height of the upright picture.

        Raises:
            Unreadable: it is no image.
        """
        width, height, turned = self._header(view)
        return (height, width) if turned >= 5 else (width, height)

    def tag(self, view: str) -> int:
        """The file's EXIF orientation.

        Raises:
            Unreadable: it is no image.
        """
        return self._header(view)[2]

    def _header(self, view: str) -> tuple[int, int, int]:
        if view not in self._headers:
            self._headers[view] = header(self.image_root / view)
        return self._headers[view]

    def size(self, view: str) -> Size:
        """Width and height of the upright picture; 0 of one that cannot be read, whose items are skipped."""
        try:
            return self.file_size(view)
        except (OSError, Unreadable):
            return 0, 0

    def turn(self, view: str) -> int:
        """The EXIF orientation by which cameras and maps are turned: 1 unless they are of the stored pixels."""
        if self.exif != "stored":
            return UPRIGHT
        try:
            return self.tag(view)
        except (OSError, Unreadable):
            return UPRIGHT

    def stored_size(self, view: str) -> Size:
        """Width and height of the pixels that intrinsics and depth maps are of."""
        width, height = self.size(view)
        return (height, width) if QUARTERS.get(self.turn(view), 0) % 2 else (width, height)

    def _upright(self, camera: Camera) -> tuple[Matrix, Matrix]:
        turned = self.turn(camera.image)
        if turned == UPRIGHT:
            return camera.K, np.eye(4)
        return upright_camera(camera.K, self.stored_size(camera.image), turned)

    def target(self, item: str) -> Arrays:
        """`K0`, `K1`: float64 (3, 3), pixels of each view (corner convention); `R` (3, 3), `t` (3,): X1 = R X0 + t between
        the cameras' frames (x right, y down, z forward), t in the list's unit; `size0`, `size1`: (2,), width and height.

        `depth0`, `depth1` are read by `field`.
        """
        pair = self.pairs[item]
        (K0, frame0), (K1, frame1) = (self._upright(camera) for camera in pair.cameras)
        pose = frame1 @ pair.pose @ frame0.T
        size0, size1 = (np.array(self.size(view), np.float64) for view in self.views(item))
        return {"K0": K0, "K1": K1, "R": pose[:3, :3].copy(), "t": pose[:3, 3].copy(), "size0": size0, "size1": size1}

    def map_fields(self, item: str) -> tuple[str, ...]:
        """Both depth maps, if any pair has some."""
        return self.maps

    def field(self, item: str, name: str) -> NDArray[np.float32]:
        """`depth0`, `depth1`: float32 (h, w), metres along the optical axis, NaN where unknown: all of it without a file."""
        camera = self.pairs[item].cameras[int(name[-1])]
        stored = self.stored_depth(camera)
        if stored is None:
            width, height = self.size(camera.image)
            return np.full((height, width), np.nan, np.float32)
        return upright_map(stored, self.turn(camera.image)).astype(np.float32, copy=False)

    def stored_depth(self, camera: Camera) -> NDArray[np.float32] | None:
        """A view's depth, of the stored pixels; None without."""
        return None if camera.depth is None else read_depth(self.depth_root / camera.depth, self.scale(camera.depth))

    def scale(self, depth: str) -> float:
        """What stored depth is divided by."""
        return 1.0

    def group(self, item: str) -> str:
        """The scene."""
        return self.pairs[item].group

    def category(self, item: str) -> dict[str, str]:
        """What the list says beside."""
        return dict(self.pairs[item].category)

    def meta(self) -> dict[str, Any]:
        """The unit of depth: metres, or whatever a reconstruction has."""
        return {"depth_unit": "as of t"} if self.maps else {}

    def target_paths(self, item: str) -> tuple[Path, ...]:
        """The depth maps; without them the first image, so that the item is examined."""
        cameras = self.pairs[item].cameras
        found = tuple(self.depth_root / camera.depth for camera in cameras if camera.depth and self.maps)
        return found or (self.image_root / cameras[0].image,)

    def target_files(self, item: str) -> list[str]:
        """The hash of cameras and pose as they were read."""
        pair = self.pairs[item]
        numbers = [pair.pose, *(camera.K for camera in pair.cameras)]
        return [hashlib.sha256(b"".join(each.astype("<f8").tobytes() for each in numbers)).hexdigest()]
