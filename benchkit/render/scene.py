"""Scenes drawn at random: a room, a main object whose shape and material are its class, clutter, light and camera."""

from __future__ import annotations

import dataclasses
import hashlib
import math

import numpy as np

from benchkit.errors import UsageError
from benchkit.render import palette
from benchkit.render.camera import Camera, look_at
from benchkit.render.objects import Thing, draw_surface, draw_thing
from benchkit.render.room import Room
from benchkit.render.shading import Light
from benchkit.render.shapes import SHAPES, Solid

VERSION = 1
PATTERNS = ("striped", "checkered", "marbled", "dotted")
CLASSES: tuple[str, ...] = tuple(f"{pattern}_{shape}" for pattern in PATTERNS for shape in SHAPES)
MARGIN = 0.5


@dataclasses.dataclass(frozen=True, eq=False)
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
    main = draw_thing(rng, CLASSES[label], rng.uniform(0.34, 0.46), np.zeros(2))
    camera = _camera(rng, main.solid, rng.uniform(0, 2 * np.pi))
    room = _room(rng, camera)
    objects = (main, *_clutter(rng, label, main, camera, room))
    return Scene(name, seed, label, room, objects, _light(rng, camera), camera)


def second_camera(scene: Scene, name: str, seed: int) -> Camera:
    """Another view of the main object, 12 to 35 degrees around it, clear of objects and walls."""
    rng = generator(name, seed, "second camera")
    for _ in range(20):
        camera = _turned(rng, scene)
        if all(np.linalg.norm(camera.eye - thing.solid.center) > thing.solid.radius + 0.2 for thing in scene.objects):
            break
    return camera


def _turned(rng: np.random.Generator, scene: Scene) -> Camera:
    center, eye = scene.objects[0].solid.center, scene.camera.eye
    turn = rng.choice([-1, 1]) * np.radians(rng.uniform(12, 35))
    x, y, z = eye - center
    cos, sin = np.cos(turn), np.sin(turn)
    offset = np.array([cos * x - sin * y, sin * x + cos * y, z]) * rng.uniform(0.9, 1.1)
    low, high = np.array(scene.room.low) + 0.2, np.array(scene.room.high) - 0.2
    target = center + rng.normal(0, 0.05, 3)
    return look_at(np.clip(center + offset, low, high), target, np.radians(rng.normal(0, 4)), scene.camera.focal)


def _clutter(rng: np.random.Generator, label: int, main: Thing, camera: Camera, room: Room) -> list[Thing]:
    """3 to 7 objects of other classes or plain, in view, looking smaller than the main one and hiding little of it."""
    names = [name for k, name in enumerate(CLASSES) if k != label] + [f"plain_{shape}" for shape in SHAPES] * 3
    things: list[Thing] = []
    taken, count = [(0.0, 0.0, main.solid.radius)], rng.integers(3, 8)
    for x, y, size in _places(rng, main.solid.radius, camera, room).tolist():
        if len(things) < count and all(math.hypot(x - a, y - b) > r + 1.3 * size for a, b, r in taken):
            things.append(draw_thing(rng, names[rng.integers(len(names))], size, np.array([x, y])))
            taken.append((x, y, 1.3 * size))
    return things


def _places(rng: np.random.Generator, radius: float, camera: Camera, room: Room) -> np.ndarray:
    """Candidates (n, 3) for clutter: x and y on the floor and size, metres; evenly over the lower part of the view."""
    size, eye = rng.uniform(0.1, 0.23, 150), camera.eye
    ray = camera.directions(*rng.uniform(-0.48, 0.48, (2, 150)))
    place = (eye[:, None] - ray * (eye[2] / np.minimum(ray[2], -1e-6)))[:2].T
    sight = eye[:2] / np.linalg.norm(eye[:2])
    aside, ahead = np.abs(place @ [-sight[1], sight[0]]), np.linalg.norm(place - eye[:2], axis=1)
    clear = aside > 0.6 * radius + np.where(place @ sight > 0, 0.3 * size, 0)
    within = ((place > np.array(room.low[:2]) + 0.4) & (place < np.array(room.high[:2]) - 0.4)).all(axis=1)
    small = size / ahead < 0.45 * radius / np.linalg.norm(eye)
    fine = clear & within & small & (ahead > 0.7) & (np.linalg.norm(place, axis=1) < 3.5)
    return np.concatenate([place, size[:, None]], axis=1)[fine]


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
    wall, floor = draw_surface(rng, wall=True), draw_surface(rng, wall=False)
    sky = palette.oklch(rng.uniform(0.75, 0.92), rng.uniform(0.01, 0.07), rng.choice([0.65, 0.7, 0.15, 0.2]))
    return Room(low, high, (wall, wall, wall, wall, floor, wall), sky, np.inf if walls else rng.uniform(30, 70))


def _light(rng: np.random.Generator, camera: Camera) -> Light:
    """From above, any side but right behind the objects; warm or cool; direct and ambient add up to about 1."""
    eye = camera.eye
    azimuth = np.arctan2(eye[1], eye[0]) + rng.choice([-1, 1]) * np.radians(rng.uniform(15, 120))
    height = np.radians(rng.uniform(35, 72))
    toward = np.array([np.cos(azimuth) * np.cos(height), np.sin(azimuth) * np.cos(height), np.sin(height)])
    tint, level = rng.normal(0, 0.07), rng.uniform(0.72, 1.0)
    direct = rng.uniform(0.55, 0.85)
    warm = np.array([1 + tint, 1.0, 1 - tint])
    color, ambient = level * 1.25 * direct * warm, level * (1.15 - direct) * warm[::-1]
    return Light(toward, color, ambient, softness=rng.uniform(0.1, 0.5), bounce=0.45)
