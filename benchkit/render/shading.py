"""From hits to linear colours: a distant light, light from the sky, soft shadows of the solids, a slight highlight."""

from __future__ import annotations

import dataclasses

import numpy as np

from benchkit.render.material import albedo
from benchkit.render.room import NOTHING, Room, side_points
from benchkit.render.shapes import Rows, Solid, dot, pick


@dataclasses.dataclass(frozen=True, eq=False)
class Light:
    """A distant light and the light from all around.

    Attributes:
        toward: float64 (3,), world, unit vector from the scene to the light.
        color: linear RGB (3,) of the direct light.
        ambient: linear RGB (3,) from above; surfaces that face down get `bounce` of it.
        softness: width of the penumbra per metre of distance to what casts the shadow.
        bounce: 0..1.
    """

    toward: np.ndarray
    color: np.ndarray
    ambient: np.ndarray
    softness: float
    bounce: float


@dataclasses.dataclass(frozen=True, eq=False)
class Hits:
    """What rays met. n rays; every array has one column per ray.

    Attributes:
        directions: float32 (3, n), world, of length 1 along the optical axis.
        depth: float32 (n,), metres along the optical axis, infinite for nothing.
        surface: int16 (n,): index of the object, -1 - side of the room, or room.NOTHING.
        points, normals: float32 (3, n), world; undefined for nothing.
    """

    directions: np.ndarray
    depth: np.ndarray
    surface: np.ndarray
    points: np.ndarray
    normals: np.ndarray


def shade(hits: Hits, room: Room, objects: tuple, light: Light, pixel: float, seed: int) -> np.ndarray:
    """Linear RGB, float32 (3, n).

    Args:
        hits: where to shade.
        room, objects, light: of the scene; objects have `solid` and `material`.
        pixel: width of a pixel at depth 1 metre, metres.
        seed: seed of the noise.
    """
    inverse_length = 1 / np.sqrt(dot(hits.directions, hits.directions))
    cosine = -dot(hits.normals, hits.directions) * inverse_length
    footprint = np.minimum(hits.depth, 1e3) * (pixel * 0.8) / np.maximum(cosine, 0.03)
    color = _albedo(hits, room, objects, footprint, seed)
    lambert = np.maximum(dot(hits.normals, light.toward.tolist()), 0)
    lit, open_sky = shadows(hits, [thing.solid for thing in objects], light)
    lambert *= lit
    sky = (0.5 + 0.5 * light.bounce + (0.5 - 0.5 * light.bounce) * hits.normals[2]) * open_sky
    for row, direct, ambient in zip(color, light.color.tolist(), light.ambient.tolist(), strict=True):
        row *= lambert * direct + sky * ambient
    _add_highlights(color, hits, objects, light, lit)
    _add_distance(color, hits, room)
    return color


def _albedo(hits: Hits, room: Room, objects: tuple, footprint: np.ndarray, seed: int) -> np.ndarray:
    color = np.zeros_like(hits.points)
    present = np.flatnonzero(np.bincount(hits.surface - NOTHING)) + NOTHING
    for surface in present[present != NOTHING].tolist():
        index = np.flatnonzero(hits.surface == surface)
        points, width = pick(hits.points, index), footprint.take(index)
        if surface < 0:
            side = room.materials[-1 - surface]
            values = albedo(side, None, side_points(surface, points), width, seed)
        else:
            solid, material = objects[surface].solid, objects[surface].material
            values = albedo(material, solid, solid.points_to_local(points), width, seed)
        for row, value in zip(color, values, strict=True):
            row[index] = value
    return color


def shadows(hits: Hits, solids: list[Solid], light: Light) -> tuple[np.ndarray, np.ndarray]:
    """Share of the direct light (0..1) and of the sky (0..1) that arrives past the solids, float32 (n,) each."""
    lit, open_sky = np.ones_like(hits.depth), np.ones_like(hits.depth)
    across, along = _light_frame(light.toward)
    first, second = (dot(hits.points, axis) for axis in across)
    for number, solid in enumerate(solids):
        place = [float(np.dot(axis, solid.center)) for axis in (*across, along)]
        square = np.square(first - place[0]) + np.square(second - place[1])
        index = _others(square < solid.radius**2, hits, number)
        if len(index):
            lit[index] *= 1 - _umbra(solid, pick(hits.points, index), light)
        _shut_sky(open_sky, hits, number, solid)
    return lit, open_sky


def _others(near: np.ndarray, hits: Hits, number: int) -> np.ndarray:
    """Indices where `near` holds, without the solid itself: it is convex and shades itself by its normals alone."""
    index = np.flatnonzero(near)
    return index[hits.surface[index] != number]


def _light_frame(toward: np.ndarray) -> tuple[list[list[float]], list[float]]:
    side = np.cross(toward, [1.0, 0.0, 0.0] if abs(toward[0]) < 0.7 else [0.0, 1.0, 0.0])
    side /= np.linalg.norm(side)
    return [side.tolist(), np.cross(toward, side).tolist()], toward.tolist()


def _umbra(solid: Solid, points: Rows, light: Light) -> np.ndarray:
    """Share of the light taken by a solid: by how much of it the ray to the light must cross, over the penumbra."""
    near, far = solid.interval(solid.points_to_local(points), solid.to_local(light.toward.tolist()))
    width = light.softness * (0.15 + np.maximum(near, 0))
    share = np.clip((far - np.maximum(near, 0)) / width, 0, 1) * (far > 0)
    return share * share * (3 - 2 * share)


def _shut_sky(open_sky: np.ndarray, hits: Hits, number: int, solid: Solid) -> None:
    """Darken what lies near a solid, as a ball of its mean size would (the cosine-weighted solid angle of a ball)."""
    size, center = float(np.mean(solid.half)), solid.center.tolist()
    x, y = hits.points[0] - center[0], hits.points[1] - center[1]
    index = _others(x * x + y * y < (2.5 * size) ** 2, hits, number)
    if not len(index):
        return
    away = [c - row for row, c in zip(pick(hits.points, index), center, strict=True)]
    square = dot(away, away)
    cosine = dot(away, pick(hits.normals, index)) / np.sqrt(square)
    edge = np.clip(2 - np.sqrt(square) / (1.25 * size), 0, 1)
    open_sky[index] *= 1 - np.clip(0.9 * np.maximum(cosine + 0.15, 0) * size * size / square, 0, 0.85) * edge


def _add_highlights(color: np.ndarray, hits: Hits, objects: tuple, light: Light, lit: np.ndarray) -> None:
    """Blinn's highlight on the objects, with exponent 32."""
    index = np.flatnonzero(hits.surface >= 0)
    view = pick(hits.directions, index)
    scale = -1 / np.sqrt(dot(view, view))
    half = [row * scale + t for row, t in zip(view, light.toward.tolist(), strict=True)]
    cosine = dot(half, pick(hits.normals, index))
    power = np.maximum(cosine, 0) / np.sqrt(dot(half, half))
    for _ in range(5):
        power *= power
    gloss = np.array([thing.material.gloss for thing in objects], np.float32)[hits.surface[index]]
    power *= gloss * lit[index]
    for row, direct in zip(color, light.color.tolist(), strict=True):
        row[index] += power * direct


def _add_distance(color: np.ndarray, hits: Hits, room: Room) -> None:
    nothing = hits.surface == NOTHING
    if np.isfinite(room.haze):
        seen = room.haze / (room.haze + np.where(nothing, 0, hits.depth))
        for row, sky in zip(color, room.sky.tolist(), strict=True):
            row += (sky - row) * (1 - seen * seen)
    if nothing.any():
        length = np.sqrt(dot(hits.directions, hits.directions))
        rise = np.clip(hits.directions[2] / length, 0, 1)[nothing]
        for row, sky in zip(color, room.sky.tolist(), strict=True):
            row[nothing] = sky * (1 - 0.55 * rise)
