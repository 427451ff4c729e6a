"""Generated pairs: one scene seen by two cameras, with exact poses and, as data.truth says, depth, points in space or the
object's own keypoints in both.

The second camera is the first one moved about the main object, by an angle between viewing directions of `turn` degrees;
`pairs` items share a scene and its first view. Light and objects stand still. Every image is a function of the generator's
version, the seed, the scene and the settings below. Pixels are (x, y), the corner of the top-left pixel at (0, 0).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from benchkit.datasets import _points
from benchkit.datasets._generated import Generated, GeneratedSettings, number_of
from benchkit.datasets._scene_truth import FAR
from benchkit.datasets.base import Arrays
from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.render.camera import Camera
    from benchkit.render.raycast import Geometry
    from benchkit.render.scene import Scene

BINS = (0, 30, 60, 90, 120)  # degrees between viewing directions
MAPS = {"depth": ("depth0", "depth1"), "xyz": ("xyz0", "xyz1", "valid0", "valid1")}


@dataclasses.dataclass
class Settings(GeneratedSettings):
    """Settings of the generated pairs."""

    n_train: int = setting(60, "pairs in the train split")
    n_test: int = setting(60, "pairs in the test split")
    truth: Literal["pose", "depth", "xyz", "keypoints"] = setting(
        "pose",
        "pose (cameras and how they stand), depth (that, and depth of every pixel up to 10 m), xyz (that, and points in "
        "space at a quarter of the side) or keypoints (the main object's, in both views)",
    )
    turn: list[float] = setting([5.0, 40.0], "least and largest angle between the viewing directions, degrees")
    overlap: float = setting(0.4, "least share of the first view that the second sees, where a camera allows it")
    texture: float = setting(0.1, "fine irregularity added to every surface, 0 to 1")
    pairs: int = setting(3, "pairs of one scene")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.turn) != 2 or not 0 < self.turn[0] < self.turn[1] <= BINS[-1]:
            raise ValueError(f"turn is two angles, above 0, the second one larger and at most 120, not {self.turn}")
        if not (0 <= self.overlap <= 1 and 0 <= self.texture <= 1) or self.pairs < 1:
            raise ValueError("overlap and texture lie from 0 to 1, and a scene has at least one pair")


class ScenePairs(Generated):
    """See the module; the classes of main objects take turns."""

    map_views: Mapping[str, int] = {name: int(name[-1]) for names in MAPS.values() for name in names}

    def __init__(self, settings: Settings) -> None:
        from benchkit.render import pair, scene

        super().__init__(settings)
        self.classes = list(scene.CLASSES)
        self.generator = ("scene_pairs", f"{scene.VERSION}.{pair.VERSION}")
        self.maps = MAPS.get(settings.truth, ())
        self.given = {"keypoints": ("queries",), "xyz": ("valid0", "valid1")}.get(settings.truth, ())

    def views(self, item: str) -> tuple[str, str]:
        """`<item>/0`, where the item is the first one of the scene, since all share that view; and `<item>/1`."""
        split, first = item.split("/")[0], self._scene(item) * self.settings.pairs
        return f"{split}/{first:06d}/0", f"{item}/1"

    def _scene(self, item: str) -> int:
        return number_of(item) // self.settings.pairs

    def group(self, item: str) -> str:
        """The scene."""
        return f"{item.split('/')[0]}-{self._scene(item):05d}"

    def _pair(self, item: str) -> Pair:
        chosen = self.settings
        kind, turn = self._scene(item) % len(self.classes), (float(chosen.turn[0]), float(chosen.turn[1]))
        return _pair(item, self.group(item), kind, chosen.seed, turn, chosen.overlap, chosen.texture)

    def recipe(self, view: str) -> str:
        """Generator, version, seed, side, texture and scene; of the second view also the item, turn and overlap."""
        item, _, which = view.rpartition("/")
        chosen = self.settings
        made_of = (*self.generator, chosen.seed, chosen.side, float(chosen.texture), self.group(item), self.label(item))
        moved = (item, *map(float, chosen.turn), float(chosen.overlap)) if which == "1" else ()
        return "\0".join(map(str, (*made_of, *moved)))

    def image(self, view: str) -> np.ndarray:
        """The rendered view, read-only."""
        item, _, which = view.rpartition("/")
        return _rendered(self._pair(item), int(which), self.settings.side)

    def target(self, item: str) -> Arrays:
        """Of keypoints: `queries`, `points`: float64 (k, 2), the same points of the main object in view 0 and view 1, where
        both see them; `box`: float64 (4,), x0, y0, x1, y1 of what view 1 shows of that object, zeros where nothing.

        Else `K0`, `K1`: float64 (3, 3); `R`, `t`: float64 (3, 3) and (3,), X1 = R X0 + t in metres between the cameras'
        frames (x right, y down, z forward). Maps are read by `field`. Always `size0`, `size1`: float64 (2,), width and height.
        """
        pair, side = self._pair(item), self.settings.side
        size = np.full(2, float(side))
        if self.settings.truth == "keypoints":
            return {**_keypoints(pair, side), "size0": size, "size1": size}
        one, other = (camera.pose for camera in pair.cameras)
        rotation = other[:3, :3] @ one[:3, :3].T
        return {
            "K0": pair.cameras[0].intrinsics(side),
            "K1": pair.cameras[1].intrinsics(side),
            "R": rotation,
            "t": other[:3, 3] - rotation @ one[:3, 3],
            "size0": size,
            "size1": size,
        }

    def map_fields(self, item: str) -> tuple[str, ...]:
        """Those that data.truth asks for."""
        return self.maps

    def field(self, item: str, name: str) -> np.ndarray:
        """`depth0`, `depth1`: float32 (side, side), metres along the optical axis; `xyz0`, `xyz1`: float32 (n, n, 3),
        metres in the camera's own frame, seen through the centres of n x n cells. NaN in the sky and beyond 10 m. `valid0`,
        `valid1`: bool (n, n), the cells whose points are known.
        """
        pair, which = self._pair(item), self.map_views[name]
        if name.startswith("depth"):
            return _within_reach(_seen(pair, which, self.settings.side).depth)
        count = self._cells()
        seen = _seen(pair, which, count)
        if name.startswith("valid"):
            return np.isfinite(_within_reach(seen.depth))
        return _points.points(_within_reach(seen.depth), seen.intrinsics, (count, count))

    def _cells(self) -> int:
        return _points.cells(self.settings.side, self.settings.side)[0]

    def map_shape(self, item: str, name: str) -> tuple[int, ...] | None:
        """Points in space come at a quarter of the side."""
        side = self._cells()
        return None if name.startswith("depth") else (side, side, 3) if name.startswith("xyz") else (side, side)

    def label(self, item: str) -> str:
        """The class of the main object: limited splits have all."""
        return self.classes[self._scene(item) % len(self.classes)]

    def category(self, item: str) -> dict[str, str]:
        """`class` of the main object; `angle`, the bin of the angle between the viewing directions, degrees."""
        from benchkit.render.pair import viewing_angle

        return {"class": self.label(item), "angle": angle_bin(viewing_angle(*self._pair(item).cameras))}

    def meta(self) -> dict[str, Any]:
        """Class names and the unit of lengths."""
        return {"classes": self.classes, "unit": "m"}


def angle_bin(degrees: float) -> str:
    """The bin that an angle falls into, as text (0-30); its lower end belongs to it, and 120 to the last."""
    return _points.angle_bin(degrees, BINS)


@dataclasses.dataclass(frozen=True, eq=False)
class Pair:
    """A scene, and the two cameras before it."""

    scene: Scene
    cameras: tuple[Camera, Camera]


@lru_cache(maxsize=1024)
def _pair(
    item: str, group: str, kind: int, seed: int, turn: tuple[float, float], overlap: float, texture: float
) -> Pair:
    from benchkit.render.pair import second_camera, textured
    from benchkit.render.scene import make_scene

    scene = make_scene(f"pairs/{group}", seed, kind)
    camera = second_camera(scene, f"pairs/{item}", seed, turn, overlap)
    return Pair(textured(scene, texture), (scene.camera, camera))


@lru_cache(maxsize=512)  # several models in one process look at the same pairs; at 224 pixels this is 77 MB
def _rendered(pair: Pair, which: int, side: int) -> np.ndarray:
    from benchkit.render.raycast import render

    pixels = render(pair.scene, side, pair.cameras[which]).rgb
    pixels.setflags(write=False)
    return pixels


def _seen(pair: Pair, which: int, size: int) -> Geometry:
    from benchkit.render.raycast import geometry

    return geometry(pair.scene, size, pair.cameras[which])


def _within_reach(depth: np.ndarray) -> np.ndarray:
    return np.where((depth > 0) & (depth <= FAR), depth, np.float32(np.nan)).astype(np.float32)


def _keypoints(pair: Pair, side: int) -> Arrays:
    from benchkit.render.pair import landmarks, visible

    points = landmarks(pair.scene.objects[0].solid)
    both = np.logical_and(*(visible(pair.scene, camera, points) for camera in pair.cameras))
    places = [(camera.project(points[both])[:, :2] + 0.5) * side for camera in pair.cameras]
    rows, columns = np.nonzero(_seen(pair, 1, side).instance == 0)
    box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] if len(rows) else [0] * 4
    return {"queries": places[0], "points": places[1], "box": np.array(box, np.float64)}


build = ScenePairs
