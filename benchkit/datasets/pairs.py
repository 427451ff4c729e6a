"""Pairs of images with intrinsics and pose: your own, from a table; or published lists in the formats they come in.

Your own pairs (data.format=own): `root/pairs.csv` (or pairs.txt; cells between commas, semicolons, tabs or white space),
a header and a line per pair:

    image0, image1     paths of the images below root (or below data.image_dir)
    fx0, fy0, cx0, cy0, fx1, fy1, cx1, cy1   intrinsics in pixels of each file; or fx, fy, cx, cy, the same for both
    width0, height0, width1, height1 (or width, height)   the size they are of, if given: checked against the files
    r00, r01, r02, r10 ... r22 (R row by row), or qw, qx, qy, qz (a unit quaternion, w first); and tx, ty, tz:
                       the pose X1 = R X0 + t: from the frame of camera 0 to that of camera 1
    depth0, depth1     depth maps, if there are any: 16-bit PNG, PGM, TIFF, .npy, .h5; metres once divided by
                       data.depth_scale (1000: stored in millimetres), along the optical axis, 0 or NaN unknown
    scene, split       what is resampled together for intervals, and which split (default test), if given

or, with poses per image, `root/cameras.csv` beside it: image; fx, fy, cx, cy; width, height; qw, qx, qy, qz or r00 ... r22;
tx, ty, tz (world to camera: X_camera = R X_world + t, as in COLMAP); depth and scene, if given. Then image0 and image1 are
all that pairs.csv needs.

Cameras look along z with x to the right and y down (OpenCV, COLMAP). What is otherwise is said: data.pose=camera_to_world
(or 1_to_0), data.axes=opengl (y up, z backward), data.principal_point=centre where cx, cy count from the centre of the
top-left pixel (as OpenCV's calibration does), not from its corner (COLMAP). The unit of t is metres where depth is given;
else only its direction matters. Photos stored turned (EXIF) need data.exif.

Before anything is computed a few pairs are compared with their depth, or with SIFT matches between the images (OpenCV): a
pose the wrong way round, a transposed R, a quaternion of another order, camera axes of OpenGL, intrinsics of another
resolution or depth in another unit are refused when one of them fits clearly better than what was given; where depth agrees
with the poses at less than half of the points, that is said. data.check=off leaves that out.

Published lists (data.format): superglue (ScanNet-1500, YFCC: data.pairs names the list), glue_factory (pairs_calibrated.txt,
or views.txt with pairs.txt), zeb (a text file per pair), colmap (a text model; pairs listed in pairs.txt, or all that share
data.min_shared points).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from benchkit.datasets import _pair_colmap, _pair_lists, _pair_table
from benchkit.datasets._listing import check_name
from benchkit.datasets._pair_dataset import PairSettings
from benchkit.datasets._pair_examined import ExaminedPairs
from benchkit.datasets._pair_items import Pair, Reading, refuse_contradictions
from benchkit.errors import UsageError
from benchkit.settings import setting

LAYOUT = (
    "root/pairs.csv with the columns image0, image1 (paths below root); fx0, fy0, cx0, cy0, fx1, fy1, cx1, cy1 in pixels; r00, "
    "r01 ... r22 (or qw, qx, qy, qz) and tx, ty, tz of X1 = R X0 + t; and, if there are any, depth0, depth1, scene, width0, "
    "height0, width1, height1. Or poses per image in root/cameras.csv: image, fx, fy, cx, cy, qw, qx, qy, qz, tx, ty, tz (world "
    "to camera), and pairs.csv with image0, image1. Lists of others: data.format"
)
Read = Callable[[Path, Any, Reading], list[Pair]]
FORMATS: dict[str, tuple[Read, tuple[str, ...]]] = {  # reader, and the lists that are looked for
    "own": (_pair_table.read, ("pairs.csv", "pairs.txt")),
    "superglue": (_pair_lists.read_superglue, ("pairs.txt", "scannet_test_pairs_with_gt.txt")),
    "glue_factory": (_pair_lists.read_calibrated, ("views.txt", "pairs_calibrated.txt")),
    "zeb": (_pair_lists.read_zeb, ()),
    "colmap": (_pair_colmap.read, ()),
}
WAYS = {None: False, "0_to_1": False, "world_to_camera": False, "1_to_0": True, "camera_to_world": True}
FOLDERS = ("", "images")  # below root, where the images of a list are looked for
H5_SCALE, PNG_SCALE = 1.0, 256.0  # of Glue Factory's depth maps


@dataclasses.dataclass
class Settings(PairSettings):
    """Settings of pairs."""

    format: Literal["own", "superglue", "glue_factory", "zeb", "colmap"] = setting("own", "of the list of pairs")
    pairs: str | None = setting(None, "the list below root (default: pairs.csv or pairs.txt; others by format)")
    image_dir: str | None = setting(None, "folder of the images below root (default: root, or root/images)")
    pose: Literal["0_to_1", "1_to_0", "world_to_camera", "camera_to_world"] | None = setting(
        None, "which way poses go (default: 0_to_1; those per image world_to_camera)"
    )
    axes: Literal["opencv", "opengl"] = setting(
        "opencv", "of the cameras' frames: opencv (x right, y down, z forward) or opengl (y up, z backward)"
    )
    principal_point: Literal["corner", "centre"] = setting(
        "corner", "what cx, cy count from: corner of the top-left pixel (COLMAP), or its centre (OpenCV)"
    )
    depth_scale: float | None = setting(None, "stored depth is divided by it (default 1; Glue Factory's PNG 256)")
    exif: Literal["refuse", "stored", "upright"] = setting(
        "refuse", "photos stored turned: refuse, or intrinsics are of the stored pixels, or of the upright picture"
    )
    min_shared: int = setting(100, "points that two images of a COLMAP model share to be a pair, where none are listed")
    max_pairs: int | None = setting(None, "at most so many pairs of a COLMAP model, or of a source of ZEB")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth_scale is not None and not self.depth_scale > 0:
            raise ValueError(f"depth_scale is above 0, not {self.depth_scale}")
        if self.min_shared < 1 or (self.max_pairs or 1) < 1:
            raise ValueError("min_shared and max_pairs are above 0")
        if self.format == "colmap" and (self.pose or self.axes != "opencv" or self.principal_point != "corner"):
            raise ValueError("a COLMAP model says itself how poses go: pose, axes and principal_point have no use")
        if self.format == "zeb" and self.pairs:
            raise ValueError("ZEB has a text file per pair and no list: pairs has no use")


class Pairs(ExaminedPairs):
    """See the module.

    Raises:
        UsageError: root, its list or its images are missing, or a line is wrong; names it.
    """

    def __init__(self, settings: Settings) -> None:
        if not settings.root:
            raise UsageError(f"pairs need data.root=DIR, laid out as {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        if not self.root.is_dir():
            raise UsageError(f"data.root={settings.root} is no folder. Expected: {LAYOUT}.")
        self.exif = settings.exif
        self.reading = Reading(WAYS[settings.pose], settings.axes == "opengl", settings.principal_point == "centre")
        path = self._list(settings)
        read = _pair_colmap.read_posed if path.name == "views.txt" else FORMATS[settings.format][0]
        pairs = read(path.with_name("pairs.txt") if path.name == "views.txt" else path, settings, self.reading)
        if not pairs:
            raise UsageError(f"{path} lists no pairs.")
        self._refuse_other_way(settings, pairs)
        if settings.check != "off":
            refuse_contradictions(pairs)
        self.listed = _pair_colmap.path_of(self.root) if settings.format == "colmap" else str(path)
        self.begin(settings, _few(pairs, settings) if settings.format == "zeb" else pairs)
        self.image_root, self.depth_root = self._images(settings, pairs[0]), self.root

    def _list(self, settings: Settings) -> Path:
        if settings.pairs:
            path = self.root / settings.pairs
            if not path.is_file():
                raise UsageError(f"data.pairs={settings.pairs}: there is no {path}.")
            return path
        names = FORMATS[settings.format][1]
        found = next((self.root / name for name in names if (self.root / name).is_file()), None)
        if names and found is None:
            raise UsageError(f"data.root={settings.root} holds no {' or '.join(names)}. Expected: {LAYOUT}.")
        if settings.format == "colmap":
            return self.root / "pairs.txt"
        return found or self.root

    def _refuse_other_way(self, settings: Settings, pairs: list[Pair]) -> None:
        """A way of poses that the list does not have."""
        per_image = pairs[0].poses is not None
        if settings.pose and (settings.pose in ("world_to_camera", "camera_to_world")) != per_image:
            ways = "world_to_camera or camera_to_world" if per_image else "0_to_1 or 1_to_0"
            has = "poses per image" if per_image else "the pose of each pair"
            raise UsageError(f"data.pose={settings.pose}: the list gives {has}, which is {ways}.")

    def _images(self, settings: Settings, first: Pair) -> Path:
        if settings.image_dir is not None:
            return self.root / settings.image_dir
        image = first.cameras[0].image
        return next((self.root / name for name in FOLDERS if (self.root / name / image).is_file()), self.root)

    def scale(self, depth: str) -> float:
        """data.depth_scale, or what the format's files have."""
        said: float | None = self.settings.depth_scale
        png = self.settings.format == "glue_factory" and depth.endswith(".png")
        return said or (PNG_SCALE if png else H5_SCALE)

    def target_files(self, item: str) -> list[str]:
        """With the unit of depth."""
        return [*super().target_files(item), *([f"{self.settings.depth_scale}"] if self.maps else [])]


def _few(pairs: list[Pair], settings: Settings) -> list[Pair]:
    """At most data.max_pairs of each source."""
    by_source: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        by_source.setdefault(pair.category["source"], []).append((pair.name, ""))
    kept = {name for found in by_source.values() for name, _ in _pair_colmap.at_most(found, settings.max_pairs)}
    return [pair for pair in pairs if pair.name in kept]


__all__ = ["LAYOUT", "Pairs", "Settings", "build"]

build = Pairs
