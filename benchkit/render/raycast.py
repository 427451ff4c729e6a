"""Renders a scene into image, depth, normals and instances by casting rays at its room and its convex solids."""

from __future__ import annotations

import dataclasses

import numpy as np

from benchkit.render.camera import Camera, pixel_grid
from benchkit.render.room import NOTHING, side_normal
from benchkit.render.scene import Scene
from benchkit.render.shading import Hits, shade
from benchkit.render.shapes import dot, pick

CORNERS = ((-0.125, -0.375), (0.375, -0.125), (0.125, 0.375), (-0.375, 0.125))


@dataclasses.dataclass(frozen=True, eq=False)
class Geometry:
    """Where one camera sees what of one scene, sampled at pixel centres (row i, column j: j + .5, i + .5).

    Attributes:
        depth: float32 (size, size), metres along the optical axis, 0 where there is nothing.
        normals: float32 (size, size, 3), unit, camera frame (x right, y down, z forward), 0 where there is nothing.
        surface: int16 (size, size), index into scene.objects, -1 - side of the room, or room.NOTHING.
        instance: int16 (size, size), index into scene.objects, -1 for room and sky.
        intrinsics: K, float64 (3, 3), pixels.
        pose: float64 (4, 4), world to camera, metres.
    """

    depth: np.ndarray
    normals: np.ndarray
    surface: np.ndarray
    instance: np.ndarray
    intrinsics: np.ndarray
    pose: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Buffers(Geometry):
    """The geometry, and the picture.

    Attributes:
        rgb: uint8 (size, size, 3).
    """

    rgb: np.ndarray


def geometry(scene: Scene, size: int, camera: Camera | None = None) -> Geometry:
    """The same geometry as `render` gives, without the picture, which takes most of its time."""
    camera = camera or scene.camera
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        hits = cast(scene, camera, *pixel_grid(size))
    return Geometry(**_geometry(hits, camera, size))


def _geometry(hits: Hits, camera: Camera, size: int) -> dict[str, np.ndarray]:
    surface = hits.surface.reshape(size, size)
    return {
        "depth": np.where(hits.surface == NOTHING, 0, hits.depth).astype(np.float32).reshape(size, size),
        "normals": _camera_normals(hits, camera).reshape(size, size, 3),
        "surface": surface,
        "instance": np.maximum(surface, -1),
        "intrinsics": camera.intrinsics(size),
        "pose": camera.pose.copy(),
    }


def render(scene: Scene, size: int, camera: Camera | None = None) -> Buffers:
    """Render `scene` as size x size pixels with `camera` (default: the scene's own).

    Pure and safe to call from threads: equal arguments give equal bytes. Pixels on outlines get four more rays.
    """
    camera = camera or scene.camera
    x, y = pixel_grid(size)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        hits = cast(scene, camera, x, y)
        outline = _outlines(hits, size)
        around = [np.concatenate([row[outline] + shift[k] / size for shift in CORNERS]) for k, row in enumerate((x, y))]
        linear = _shade(scene, camera, size, [hits, cast(scene, camera, *around)])
    return Buffers(**_geometry(hits, camera, size), rgb=_to_rgb(linear, outline, size))


def cast(scene: Scene, camera: Camera, x: np.ndarray, y: np.ndarray) -> Hits:
    """First hits of the rays through image points x and y, float32 (n,), in widths of the image from its centre."""
    directions = camera.directions(x, y)
    eye = camera.eye.tolist()
    depth, surface = scene.room.hit(eye, directions)
    for number, thing in enumerate(scene.objects):
        index = _in_view(thing.solid.corners(), camera, x, y)
        near, far = thing.solid.interval(
            thing.solid.points_to_local(eye), thing.solid.to_local(pick(directions, index))
        )
        nearer = (near < far) & (near > 1e-3) & (near < depth[index])
        index = index[nearer]
        depth[index], surface[index] = near[nearer], number
    points = directions * np.minimum(depth, np.float32(1e6))
    for row, start in zip(points, eye, strict=True):
        row += start
    return Hits(directions, depth, surface, points, _normals(scene, points, surface))


def _in_view(corners: np.ndarray, camera: Camera, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Indices of the image points inside the bounding rectangle of projected corners."""
    seen = camera.project(corners)
    if seen[:, 2].min() < 1e-2:
        return np.arange(len(x))
    low, high = seen[:, :2].min(axis=0).tolist(), seen[:, :2].max(axis=0).tolist()
    return np.flatnonzero((x >= low[0]) & (x <= high[0]) & (y >= low[1]) & (y <= high[1]))


def _normals(scene: Scene, points: np.ndarray, surface: np.ndarray) -> np.ndarray:
    sides = np.array([(0.0, 0.0, 0.0) if s == NOTHING else side_normal(s) for s in range(NOTHING, 0)], np.float32)
    side = np.minimum(surface, -1) - np.int16(NOTHING)
    normals = np.stack([row.take(side) for row in np.ascontiguousarray(sides.T)])
    for number, thing in enumerate(scene.objects):
        index = np.flatnonzero(surface == number)
        if len(index):
            local = thing.solid.points_to_local(pick(points, index))
            for row, value in zip(normals, thing.solid.to_world(thing.solid.normal(local)), strict=True):
                row[index] = value
    return normals


def _outlines(hits: Hits, size: int) -> np.ndarray:
    """Indices of pixels whose right or lower neighbour (or they as neighbours) shows another surface or face."""
    slant = hits.normals[0] * 0.9 + hits.normals[1] * 1.3 + hits.normals[2] * 1.7
    key = (hits.surface * np.float32(8) + slant).reshape(size, size)
    edge = np.zeros((size, size), bool)
    across, down = np.abs(np.diff(key, axis=1)) > 0.4, np.abs(np.diff(key, axis=0)) > 0.4
    edge[:, 1:] |= across
    edge[:, :-1] |= across
    edge[1:] |= down
    edge[:-1] |= down
    return np.flatnonzero(edge)


def _shade(scene: Scene, camera: Camera, size: int, parts: list[Hits]) -> np.ndarray:
    fields = [field.name for field in dataclasses.fields(Hits)]
    joined = Hits(**{name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in fields})
    pixel = 1 / (camera.focal * size)
    return shade(joined, scene.room, scene.objects, scene.light, pixel, scene.seed)


def _to_rgb(linear: np.ndarray, outline: np.ndarray, size: int) -> np.ndarray:
    """Linear colours of the centres, then of the outlines' further rays, to uint8 (size, size, 3)."""
    # A square root stands for the display's curve: exact on every machine, and a tenth of the time of a power.
    shown = np.sqrt(np.minimum(np.maximum(linear, 0), 1))
    centres, further = shown[:, : size * size], shown[:, size * size :]
    if len(outline):
        total = further.reshape(3, len(CORNERS), len(outline)).sum(axis=1)
        centres[:, outline] = (centres[:, outline] + total) / (1 + len(CORNERS))
    return np.ascontiguousarray((centres * 255 + 0.5).astype(np.uint8).T).reshape(size, size, 3)


def _camera_normals(hits: Hits, camera: Camera) -> np.ndarray:
    return np.stack([dot(hits.normals, row) for row in camera.pose[:3, :3].tolist()], axis=-1)
