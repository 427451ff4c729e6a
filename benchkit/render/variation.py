"""Scenes changed in one respect, a little or a lot, and lit anew: what generated triplets are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from benchkit.render.camera import Camera, look_at
from benchkit.render.objects import Thing, draw_thing
from benchkit.render.scene import CLASSES, Scene, generator

VERSION = 1
ORBIT = np.radians(45)  # of the camera about the main object, at full strength
REACH = 0.7  # metres that an object moves, at full strength
TURN = np.radians(120)  # of the main object about the vertical, at full strength


def varied(scene: Scene, change: str, strength: float, name: str, seed: int) -> Scene:
    """The scene changed in one respect. Equal names change it in the same direction, by a stronger change further.

    Args:
        change: a key of CHANGES.
        strength: 0 (nothing) to 1.
        name, seed: of the change's random numbers.
    """
    return CHANGES[change](scene, strength, generator(name, seed, f"variation {VERSION} {change}"))


def relit(scene: Scene, name: str, seed: int) -> Scene:
    """The scene under a light from 36 to 90 degrees beside its own, warmer or cooler by a tenth to a quarter."""
    rng = generator(name, seed, f"variation {VERSION} light")
    turn, tint = rng.choice([-1, 1], 2) * rng.uniform(0.4, 1, 2) * [np.pi / 2, 0.25]
    light, warm = scene.light, np.array([1 + tint, 1.0, 1 - tint])
    toward = _about_vertical(turn) @ light.toward
    return dataclasses.replace(
        scene, light=dataclasses.replace(light, toward=toward, color=light.color * warm, ambient=light.ambient * warm)
    )


def _viewpoint(scene: Scene, strength: float, rng: np.random.Generator) -> Scene:
    """The camera goes round the main object, to the side where the whole way ends clear of objects if there is one."""
    first = rng.choice([-1, 1])
    side = next((s for s in (first, -first) if _is_clear(scene, _orbited(scene, s * ORBIT))), first)
    return dataclasses.replace(scene, camera=_orbited(scene, side * strength * ORBIT))


def _orbited(scene: Scene, angle: float) -> Camera:
    center, camera = scene.objects[0].solid.center, scene.camera
    forward, turn = camera.pose[2, :3], _about_vertical(angle)
    target = camera.eye + forward * ((center - camera.eye) @ forward)
    low, high = np.array(scene.room.low) + 0.2, np.array(scene.room.high) - 0.2
    eye = np.clip(center + turn @ (camera.eye - center), low, high)
    return look_at(eye, center + turn @ (target - center), 0.0, camera.focal)


def _is_clear(scene: Scene, camera: Camera) -> bool:
    return all(np.linalg.norm(camera.eye - t.solid.center) > t.solid.radius + 0.2 for t in scene.objects)


def _clutter(scene: Scene, strength: float, rng: np.random.Generator) -> Scene:
    """So many of the objects around the main one are replaced by others of their size: one at least."""
    things = list(scene.objects)
    order = 1 + rng.permutation(len(things) - 1)
    for place in order[: max(1, round(strength * len(order)))]:
        solid = things[place].solid
        name = CLASSES[rng.integers(len(CLASSES))]
        things[place] = draw_thing(rng, name, float(max(solid.half)), solid.center[:2])
    return dataclasses.replace(scene, objects=tuple(things))


def _layout(scene: Scene, strength: float, rng: np.random.Generator) -> Scene:
    """Every object around the main one moves over the floor, each its own way, and not into the main one."""
    main, *others = scene.objects
    moved = [_moved(thing, strength * _way(rng, main, thing)) for thing in others]
    return dataclasses.replace(scene, objects=(main, *moved))


def _way(rng: np.random.Generator, main: Thing, thing: Thing) -> np.ndarray:
    apart = main.solid.radius + thing.solid.radius
    for angle in rng.uniform(0, 2 * np.pi, 12):
        way = REACH * np.array([np.cos(angle), np.sin(angle), 0.0])
        if np.linalg.norm((thing.solid.center + way - main.solid.center)[:2]) > apart:
            break
    return way


def _moved(thing: Thing, way: np.ndarray) -> Thing:
    return dataclasses.replace(thing, solid=dataclasses.replace(thing.solid, center=thing.solid.center + way))


def _object(scene: Scene, strength: float, rng: np.random.Generator) -> Scene:
    """The main object is turned; from half strength on it is replaced by one of other shape and pattern in its colours."""
    main, *others = scene.objects
    pattern, shape = CLASSES[scene.label].split("_")
    names = [name for name in CLASSES if pattern not in name and shape not in name]
    other = draw_thing(rng, names[rng.integers(len(names))], rng.uniform(0.34, 0.46), main.solid.center[:2])
    if strength < 0.5:
        turned = _about_vertical(rng.choice([-1, 1]) * strength * TURN) @ main.solid.rotation
        other = dataclasses.replace(main, solid=dataclasses.replace(main.solid, rotation=turned))
    else:
        other = dataclasses.replace(other, material=dataclasses.replace(other.material, colors=main.material.colors))
    return dataclasses.replace(scene, objects=(other, *others))


def _about_vertical(angle: float) -> np.ndarray:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1.0]])


CHANGES: dict[str, Callable[[Scene, float, np.random.Generator], Scene]] = {
    "viewpoint": _viewpoint,
    "object": _object,
    "clutter": _clutter,
    "layout": _layout,
}
