"""Objects drawn at random: shape, size, rotation and material; and the quiet materials of floors and walls."""

from __future__ import annotations

import dataclasses

import numpy as np

from benchkit.render import palette
from benchkit.render.material import Material
from benchkit.render.shapes import SHAPES, Solid


@dataclasses.dataclass(frozen=True, eq=False)
class Thing:
    """One object of a scene: its class name ("striped_box"; clutter may be "plain_box"), solid and material."""

    name: str
    solid: Solid
    material: Material


def draw_thing(rng: np.random.Generator, name: str, size: float, place: np.ndarray) -> Thing:
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


def draw_surface(rng: np.random.Generator, wall: bool) -> Material:
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
