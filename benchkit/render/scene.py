"""Scenes drawn at random: a room, a main object whose shape and material are its class, clutter, light and camera."""

from __future__ import annotations

import dataclasses
import hashlib
import math

import numpy as np

from benchkit.errors import UsageError
from benchkit.render import palette
from benchkit.render.camera import Camera, look_at
from benchkit.render.material import Material
from benchkit.render.room import Room
from benchkit.render.shading import Light
from benchkit.render.shapes import SHAPES, Solid

VERSION = 1
PATTERNS = ("striped", "checkered", "marbled", "dotted")
CLASSES: tuple[str, ...] = tuple(f"{pattern}_{shape}" for pattern in PATTERNS for shape in SHAPES)
MARGIN = 0.5


@dataclasses.dataclass(frozen=True)
class Thing:
    """One object of a scene: its class name ("striped_box"; clutter may be "plain_box"), solid and material."""

    name: str
    solid: Solid
    material: Material


@dataclasses.dataclass(frozen=True)
class Scene:
    """A scene in metres, world z up. objects[0] is the main one, whose class is `label`, an index into CLASSES."""

    name: str
    seed: int
    label: int
    room: Room
    objects: tuple[Thing, ...]
    light: Light
    camera: Camera


def generator(name: str, seed: int, purpose: str = "scene") -> np.random.Generator:
    """The item's own random numbers: from the generator's version, the seed and the name, never from call order."""
    digest = hashlib.sha256(f"{VERSION}/{seed}/{purpose}/{name}".encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, np.uint32))


def make_scene(name: str, seed: int, label: int) -> Scene:
    """The scene of an item.

    Args:
        name: the item's name; names alone tell the items of one seed apart.
        seed: of the data set, at least 0.
        label: class of the main object, an index into CLASSES.

    Raises:
        UsageError: no such class, or a negative seed.
    """
    if not 0 <= label < len(CLASSES) or seed < 0:
        raise UsageError(f"scene {name!r}: label {label} must be in 0..{len(CLASSES) - 1} and seed {seed} at least 0")
    rng = generator(name, seed)
    main = _thing(rng, CLASSES[label], rng.uniform(0.34, 0.46), np.zeros(2))
    camera = _camera(rng, main.solid, rng.uniform(0, 2 * np.pi))
    objects = (main, *_clutter(rng, label, main, camera))
    return Scene(name, seed, label, _room(rng, camera), objects, _light(rng, camera), camera)


def second_camera(scene: Scene, name: str, seed: int) -> Camera:
    """Another view of the main object, 12 to 35 degrees around it; pixels and metres as for Scene.camera."""
    rng = generator(name, seed, "second camera")
    center, eye = scene.objects[0].solid.center, scene.camera.eye
    turn = rng.choice([-1, 1]) * np.radians(rng.uniform(12, 35))
    x, y, z = eye - center
    cos, sin = np.cos(turn), np.sin(turn)
    offset = np.array([cos * x - sin * y, sin * x + cos * y, z]) * rng.uniform(0.9, 1.1)
    low, high = np.array(scene.room.low) + 0.2, np.array(scene.room.high) - 0.2
    moved = np.clip(center + offset, low, high)
    return look_at(moved, center + rng.normal(0, 0.05, 3), np.radians(rng.normal(0, 4)), scene.camera.focal)


def _thing(rng: np.random.Generator, name: str, size: float, place: np.ndarray) -> Thing:
    """An object of about `size` (half its width, metres) lying on the floor at `place` (2,)."""
    pattern, shape = name.split("_")
    half = {
        "box": size * rng.uniform(0.55, 1.0, 3),
        "sphere": np.full(3, size * 0.9),
        "cylinder": size * np.append(np.full(2, rng.uniform(0.42, 0.75)), rng.uniform(0.6, 1.05)),
    }[shape]
    rotation = _rotation(rng)
    flat = SHAPES[shape](np.zeros(3), rotation, tuple(half.tolist()))
    center = np.array([*place, flat.support(rotation[2])])
    return Thing(name, dataclasses.replace(flat, center=center), _material(rng, pattern, flat))


def _rotation(rng: np.random.Generator) -> np.ndarray:
    """Mostly upright or lying on a side, with any heading; now and then any rotation at all."""
    quaternion = rng.normal(size=4)
    heading, posture = rng.uniform(0, 2 * np.pi), rng.random()
    if posture < 0.75:
        half = heading / 2
        quaternion = np.array([np.cos(half), 0, 0, np.sin(half)])
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    matrix = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    return matrix[:, [1, 2, 0]] if 0.5 < posture < 0.75 else matrix


def _material(rng: np.random.Generator, pattern: str, solid: Solid) -> Material:
    size = float(np.mean(solid.half))
    periods, balance = {
        "plain": (4.0, 0.0),
        "striped": (rng.uniform(4, 8), rng.uniform(0.4, 0.6)),
        "checkered": (rng.uniform(4, 8), 0.0),
        "marbled": (rng.uniform(2.5, 4.5), rng.uniform(0.35, 0.6)),
        "dotted": (rng.uniform(4, 7), rng.uniform(0.26, 0.36)),
    }[pattern]
    pitch = 2 * size / periods
    direction = rng.normal(size=3)
    offset = _checker_offset(solid, pitch) if pattern == "checkered" else rng.random(3)
    return Material(
        kind=pattern,
        colors=palette.contrasting(rng),
        pitch=pitch,
        direction=tuple((direction / np.linalg.norm(direction)).tolist()),
        offset=tuple(offset.tolist()),
        grain=rng.uniform(0.01, 0.06),
        gloss=rng.uniform(0.0, 0.45),
        balance=balance,
    )


def _checker_offset(solid: Solid, pitch: float) -> np.ndarray:
    """Shift per axis, 0 or half a cell: keeps the edges of solid cells off faces, where they would flicker."""
    phase = np.array(solid.half) / pitch
    distance = np.abs(phase - np.round(phase))
    return np.where(distance > 0.25, 0.0, 0.5)


def _clutter(rng: np.random.Generator, label: int, main: Thing, camera: Camera) -> list[Thing]:
    """3 to 7 smaller objects of other classes or plain, in view, apart from each other, not before the main one."""
    names = [name for k, name in enumerate(CLASSES) if k != label] + [f"plain_{shape}" for shape in SHAPES] * 3
    things: list[Thing] = []
    taken, count = [(0.0, 0.0, main.solid.radius)], rng.integers(3, 8)
    for x, y, size in _places(rng, main.solid.radius, camera).tolist():
        if len(things) < count and all(math.hypot(x - a, y - b) > r + 1.3 * size for a, b, r in taken):
            things.append(_thing(rng, names[rng.integers(len(names))], size, np.array([x, y])))
            taken.append((x, y, 1.3 * size))
    return things


def _places(rng: np.random.Generator, radius: float, camera: Camera) -> np.ndarray:
    """Candidates (n, 3) for clutter: x and y on the floor and size, metres, in the camera's view."""
    size, distance, angle = rng.uniform(0.1, 0.23, 120), rng.uniform(0.4, 2.2, 120), rng.uniform(0, 2 * np.pi, 120)
    place = np.stack([distance * np.cos(angle), distance * np.sin(angle), size], axis=1)
    seen = camera.project(place)
    sight = camera.eye[:2] / np.linalg.norm(camera.eye[:2])
    aside = np.abs(place[:, :2] @ [-sight[1], sight[0]])
    before = (place[:, :2] @ sight > 0) & (aside < 0.6 * radius + size)
    return place[~before & (seen[:, 2] > 0.6) & (np.abs(seen[:, :2]).max(axis=1) < 0.52)]


def _camera(rng: np.random.Generator, main: Solid, azimuth: float) -> Camera:
    focal, elevation = rng.uniform(0.9, 1.5), np.radians(rng.uniform(10, 48))
    distance = main.radius * focal * 2 / rng.uniform(0.34, 0.7)
    level = distance * np.cos(elevation)
    offset = np.array([level * np.cos(azimuth), level * np.sin(azimuth), distance * np.sin(elevation)])
    target = main.center + rng.normal(0, 0.1 * main.radius, 3)
    return look_at(main.center + offset, target, np.radians(rng.normal(0, 4)), focal)


def _room(rng: np.random.Generator, camera: Camera) -> Room:
    eye, walls = camera.eye, rng.random() < 0.75
    reach = rng.uniform(1.9, 4.2, 4)
    x_low, x_high, y_low, y_high = (reach if walls else np.full(4, np.inf)).tolist()
    low = (min(-x_low, eye[0] - MARGIN), min(-y_low, eye[1] - MARGIN), 0.0)
    high = (max(x_high, eye[0] + MARGIN), max(y_high, eye[1] + MARGIN), np.inf)
    wall, floor = _surface(rng, wall=True), _surface(rng, wall=False)
    sky = palette.oklch(rng.uniform(0.75, 0.92), rng.uniform(0.01, 0.07), rng.choice([0.65, 0.7, 0.15, 0.2]))
    return Room(low, high, (wall, wall, wall, wall, floor, wall), sky, np.inf if walls else rng.uniform(30, 70))


def _surface(rng: np.random.Generator, wall: bool) -> Material:
    """A quiet material for a floor or wall; its pattern says nothing about the class."""
    kind = str(rng.choice(["plain", "striped", "checkered", "marbled", "dotted"], p=[0.3, 0.2, 0.2, 0.2, 0.1]))
    angle = rng.choice([0, np.pi / 2, rng.uniform(0, np.pi)])
    return Material(
        kind=kind,
        colors=palette.quiet(rng),
        pitch=rng.uniform(0.3, 0.9) if kind != "marbled" else rng.uniform(0.8, 1.6),
        direction=(float(np.cos(angle)), float(np.sin(angle)), 0.0),
        offset=(*rng.random(2).tolist(), 0.5),
        grain=rng.uniform(0.02, 0.09),
        gloss=0.0,
        balance=rng.uniform(0.2, 0.5) if kind != "dotted" else rng.uniform(0.15, 0.3),
    )


def _light(rng: np.random.Generator, camera: Camera) -> Light:
    """From above, any side but right behind the objects; warm or cool; direct and ambient add up to about 1."""
    eye = camera.eye
    azimuth = np.arctan2(eye[1], eye[0]) + rng.choice([-1, 1]) * np.radians(rng.uniform(15, 120))
    height = np.radians(rng.uniform(35, 72))
    toward = np.array([np.cos(azimuth) * np.cos(height), np.sin(azimuth) * np.cos(height), np.sin(height)])
    tint, level = rng.normal(0, 0.07), rng.uniform(0.8, 1.1)
    direct = rng.uniform(0.55, 0.85)
    warm = np.array([1 + tint, 1.0, 1 - tint])
    return Light(
        toward, level * 1.25 * direct * warm, level * (1.15 - direct) * warm[::-1], rng.uniform(0.1, 0.5), 0.45
    )
