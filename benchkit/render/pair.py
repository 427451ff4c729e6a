"""Two cameras before one scene: how much the second sees of what the first does, and points of the main object in both."""

from __future__ import annotations

import dataclasses

import numpy as np

from benchkit.render.camera import Camera, look_at
from benchkit.render.raycast import geometry
from benchkit.render.scene import MARGIN, Scene, generator
from benchkit.render.shapes import Box, Solid, Sphere

VERSION = 1
TRIES = 40
ELEVATION = np.radians([8.0, 55.0])
SAMPLED = 32  # rays across a view, of which the share that both see is counted
CLEAR = 0.2  # metres from a camera to walls and objects
TOLERANCE = 0.02  # of the depth: nearer to each other two surfaces are one
GRAZING = 1e-3  # of the way to a point: a solid that the ray enters later does not hide it


def second_camera(scene: Scene, name: str, seed: int, turn: tuple[float, float], overlap: float) -> Camera:
    """The scene's camera moved about the main object and turned towards it, with a roll of its own.

    Args:
        scene: with the first camera.
        name, seed: of the random numbers.
        turn: least and largest angle between the two viewing directions, degrees, above 0.
        overlap: the least share of the first view that the second sees.

    Returns:
        the first of 40 cameras drawn that keeps to `turn` and `overlap` and stands clear of objects and walls; if none
        does, the one that sees most of those without enough overlap; else one turned by the mean of `turn` all the same.
    """
    rng = generator(name, seed, f"pair {VERSION}")
    best, most = None, -1.0
    for _ in range(TRIES):
        camera = _moved(rng, scene, rng.uniform(*np.radians(turn)))
        if (
            camera is None
            or not turn[0] <= viewing_angle(scene.camera, camera) <= turn[1]
            or not _is_clear(scene, camera)
        ):
            continue
        shared = seen_by_both(scene, scene.camera, camera)
        if shared > most:
            best, most = camera, shared
        if shared >= overlap:
            break
    return best or _about(scene, 0.0, float(np.radians(np.mean(turn))), 1.0, np.zeros(3), 0.0)


def viewing_angle(one: Camera, other: Camera) -> float:
    """Degrees between the optical axes of two cameras."""
    return float(np.degrees(np.arccos(np.clip(one.pose[2, :3] @ other.pose[2, :3], -1, 1))))


def seen_by_both(scene: Scene, one: Camera, other: Camera) -> float:
    """The share of the first camera's rays that meet something which the second camera sees too."""
    seen, again = geometry(scene, SAMPLED, one), geometry(scene, SAMPLED, other)
    found = seen.depth > 0
    if not found.any():
        return 0.0
    line = (np.arange(SAMPLED) + 0.5) / SAMPLED - 0.5
    x, y = np.meshgrid(line, line)
    rays = one.directions(x[found], y[found]).T
    across, down, depth = other.project(one.eye + rays * seen.depth[found][:, None]).T
    within = (depth > 0) & (np.abs(across) < 0.5) & (np.abs(down) < 0.5)
    rows, columns = (((each[within] + 0.5) * SAMPLED).astype(int) for each in (down, across))
    # A whole pixel of the coarse grid may lie between the two rays: a slope makes up for as much as a tenth.
    same = np.abs(again.depth[rows, columns] - depth[within]) < (TOLERANCE + 0.08) * depth[within]
    return float(np.count_nonzero(same) / found.size)


def _moved(rng: np.random.Generator, scene: Scene, angle: float) -> Camera | None:
    """A camera seen from the object under `angle` (radians) from the first, at most as high as may be; None: impossible."""
    from_object = scene.camera.eye - scene.objects[0].solid.center
    height = np.arcsin(from_object[2] / np.linalg.norm(from_object))
    to = np.clip(height + rng.uniform(-0.8, 0.8) * angle, *ELEVATION)
    side, stretch, jitter = rng.choice([-1, 1]), rng.uniform(0.85, 1.15), rng.normal(0, 0.05, 3)
    roll = np.radians(rng.normal(0, 4))
    cosine = (np.cos(angle) - np.sin(height) * np.sin(to)) / (np.cos(height) * np.cos(to))
    if abs(cosine) > 1:
        return None
    return _about(scene, to - height, side * np.arccos(cosine), stretch, jitter, roll)


def _about(scene: Scene, rise: float, azimuth: float, stretch: float, jitter: np.ndarray, roll: float) -> Camera:
    """The camera raised and turned about the main object, that much farther away but inside the walls, looking at it."""
    first, center = scene.camera, scene.objects[0].solid.center
    x, y, z = first.eye - center
    level, distance = np.hypot(x, y), np.sqrt(x * x + y * y + z * z)
    height, heading = np.arctan2(z, level) + rise, np.arctan2(y, x) + azimuth
    away = np.array([np.cos(height) * np.cos(heading), np.cos(height) * np.sin(heading), np.sin(height)])
    reach = min(distance * stretch, _to_walls(scene, center, away))
    return look_at(center + reach * away, center + jitter, roll, first.focal)


def _to_walls(scene: Scene, start: np.ndarray, way: np.ndarray) -> float:
    """Metres from a point to half a metre before the walls."""
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = ((np.array(side) - start) / way for side in (scene.room.low, scene.room.high))
    return float(np.nanmin(np.maximum(low, high))) - MARGIN


def _is_clear(scene: Scene, camera: Camera) -> bool:
    eye = camera.eye
    low, high = np.array(scene.room.low) + CLEAR, np.array(scene.room.high) - CLEAR
    apart = [np.linalg.norm(eye - thing.solid.center) - thing.solid.radius for thing in scene.objects]
    return bool((eye > low).all() and (eye < high).all() and min(apart) > CLEAR)


def textured(scene: Scene, strength: float) -> Scene:
    """The scene with that much more fine irregularity (deviation of the brightness, 0..1) on every surface."""
    room = scene.room
    sides = tuple(dataclasses.replace(m, grain=m.grain + strength) for m in room.materials)
    things = tuple(
        dataclasses.replace(t, material=dataclasses.replace(t.material, grain=t.material.grain + strength))
        for t in scene.objects
    )
    return dataclasses.replace(scene, room=dataclasses.replace(room, materials=sides), objects=things)


def landmarks(solid: Solid) -> np.ndarray:
    """Points on the surface that belong to the solid, world, float64 (n, 3), always in one order.

    A box has its corners and the centres of its faces; a ball its six poles and the eight points between three of them; a
    cylinder the centres of its caps and, four each, points on their rims and around its middle.
    """
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float64)
    poles = np.concatenate([np.eye(3), -np.eye(3)])
    if isinstance(solid, Box):
        local = np.concatenate([signs, poles])
    elif isinstance(solid, Sphere):
        local = np.concatenate([signs / np.sqrt(3), poles])
    else:
        around = poles[[0, 1, 3, 4]]
        local = np.concatenate([poles[[2, 5]], *(around + np.array([0, 0, z]) for z in (-1, 0, 1))])
    return solid.center + (local * solid.half) @ solid.rotation.T


def visible(scene: Scene, camera: Camera, points: np.ndarray) -> np.ndarray:
    """Which of some points on surfaces (n, 3) lie in the picture with no solid before them, bool (n,)."""
    x, y, depth = camera.project(points).T
    shown = (depth > 0) & (np.abs(x) < 0.5) & (np.abs(y) < 0.5)
    eye, ways = camera.eye, (points - camera.eye).T
    for thing in scene.objects:
        near, far = thing.solid.interval(thing.solid.points_to_local(eye), thing.solid.to_local(ways))
        shown &= ~((near < far) & (far > 0) & (near < 1 - GRAZING))
    return shown
