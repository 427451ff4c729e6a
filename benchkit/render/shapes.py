"""Convex solids met by rays: each gives the interval of the ray inside it, its normals and where dots sit on it.

Points and directions are float32 (3, n), one row per coordinate, in the solid's own frame unless said otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

Rows = Sequence[Any] | np.ndarray
TINY = 1e-9


def dot(first: Rows, second: Rows) -> Any:
    """Scalar products of rows of 3 coordinates (arrays or numbers); no matrix product, whose bits vary with threads."""
    return first[0] * second[0] + first[1] * second[1] + first[2] * second[2]


def pick(rows: Rows, index: np.ndarray) -> list[np.ndarray]:
    """Columns of rows of coordinates; row by row, which is several times faster than one look-up along an axis."""
    return [row.take(index) for row in rows]


@dataclasses.dataclass(frozen=True, eq=False)
class Solid:
    """What boxes, spheres and cylinders share.

    Attributes:
        center: float64 (3,), world, metres.
        rotation: float64 (3, 3), own frame to world.
        half: half extents along the own axes, metres.
    """

    center: np.ndarray
    rotation: np.ndarray
    half: tuple[float, float, float]

    @property
    def radius(self) -> float:
        """Radius of a ball about the centre that holds the solid, metres."""
        return float(np.linalg.norm(self.half))

    def corners(self) -> np.ndarray:
        """World corners (8, 3) of the bounding box in the own frame."""
        signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        return self.center + (signs * self.half) @ self.rotation.T

    def to_local(self, vectors: Rows) -> list:
        """World directions (rows of 3 coordinates) in the own frame."""
        return [dot(vectors, axis) for axis in self.rotation.T.tolist()]

    def points_to_local(self, points: Rows) -> list:
        """World points (rows of 3 coordinates) in the own frame."""
        return self.to_local([row - c for row, c in zip(points, self.center.tolist(), strict=True)])

    def to_world(self, vectors: Rows) -> list:
        """Own directions in the world's frame."""
        return [dot(vectors, row) for row in self.rotation.tolist()]

    def interval(self, origin: Rows, direction: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Ray parameters (near, far) of entry and exit; near > far is a miss, and small differences are near misses."""
        raise NotImplementedError

    def normal(self, points: Rows) -> list[np.ndarray]:
        """Outward unit normals at points on the surface."""
        raise NotImplementedError

    def dot_distance(self, points: Rows, pitch: float) -> np.ndarray:
        """Distance along the surface to the nearest dot of a pattern with that pitch, metres, float32 (n,)."""
        raise NotImplementedError

    def support(self, up: np.ndarray) -> float:
        """Extent of the solid from its centre along a unit vector of its own frame, metres."""
        raise NotImplementedError


class Box(Solid):
    """A rectangular block."""

    def interval(self, origin: Rows, direction: Rows) -> tuple[np.ndarray, np.ndarray]:
        slabs = [_slab(o, d, h) for o, d, h in zip(origin, direction, self.half, strict=True)]
        near = np.maximum(np.maximum(slabs[0][0], slabs[1][0]), slabs[2][0])
        return near, np.minimum(np.minimum(slabs[0][1], slabs[1][1]), slabs[2][1])

    def _face(self, points: Rows) -> np.ndarray:
        return np.argmax([np.abs(row) / h for row, h in zip(points, self.half, strict=True)], axis=0)

    def normal(self, points: Rows) -> list[np.ndarray]:
        face = self._face(points)
        return [np.where(face == axis, np.sign(row), np.float32(0)) for axis, row in enumerate(points)]

    def dot_distance(self, points: Rows, pitch: float) -> np.ndarray:
        face = self._face(points)
        squares = [np.square(_to_cell(row, pitch)) for row in points]
        total = squares[0] + squares[1] + squares[2]
        return np.sqrt(np.maximum(total - np.choose(face, squares), 0))

    def support(self, up: np.ndarray) -> float:
        return float(np.abs(up) @ np.array(self.half))


class Sphere(Solid):
    """A ball; its three half extents are equal."""

    @property
    def radius(self) -> float:
        return self.half[0]

    def interval(self, origin: Rows, direction: Rows) -> tuple[np.ndarray, np.ndarray]:
        return _round_interval(origin, direction, self.half[0])

    def normal(self, points: Rows) -> list[np.ndarray]:
        inverse = 1 / np.sqrt(dot(points, points))
        return [row * inverse for row in points]

    def dot_distance(self, points: Rows, pitch: float) -> np.ndarray:
        # Rings of latitude, each with a whole number of dots: nearly even spacing without a search.
        x, y, z = self.normal(points)
        rings = max(round(np.pi * self.half[0] / pitch), 2)
        latitude = np.arcsin(np.clip(z, -1, 1))
        ring = (np.floor(latitude * (rings / np.pi)) + 0.5) * np.float32(np.pi / rings)
        cos_ring = np.cos(ring)
        count = np.maximum(np.round(2 * rings * cos_ring), 1)
        turn = np.arctan2(y, x) * count * np.float32(0.5 / np.pi)
        along = (turn - np.floor(turn) - 0.5) * np.float32(2 * np.pi) / count * cos_ring
        return np.hypot(along, latitude - ring) * self.half[0]

    def support(self, up: np.ndarray) -> float:
        return self.half[0]


class Cylinder(Solid):
    """A cylinder about its own z axis; the first two half extents are its radius."""

    def interval(self, origin: Rows, direction: Rows) -> tuple[np.ndarray, np.ndarray]:
        near, far = _round_interval(origin[:2], direction[:2], self.half[0])
        bottom, top = _slab(origin[2], direction[2], self.half[2])
        return np.maximum(near, bottom), np.minimum(far, top)

    def _on_cap(self, points: Rows) -> np.ndarray:
        return np.abs(points[2]) * self.half[0] > np.hypot(points[0], points[1]) * self.half[2]

    def normal(self, points: Rows) -> list[np.ndarray]:
        x, y, z = points
        cap = self._on_cap(points)
        inverse = np.where(cap, np.float32(0), 1 / np.maximum(np.hypot(x, y), TINY))
        return [x * inverse, y * inverse, np.where(cap, np.sign(z), np.float32(0))]

    def dot_distance(self, points: Rows, pitch: float) -> np.ndarray:
        x, y, z = points
        circle = 2 * np.pi * self.half[0]
        step = circle / max(round(circle / pitch), 3)
        around = _to_cell(np.arctan2(y, x) * self.half[0] + circle, step)
        side = np.hypot(around, _to_cell(z, pitch))
        return np.where(self._on_cap(points), np.hypot(_to_cell(x, pitch), _to_cell(y, pitch)), side)

    def support(self, up: np.ndarray) -> float:
        return float(self.half[0] * np.hypot(up[0], up[1]) + self.half[2] * abs(up[2]))


SHAPES: dict[str, type[Solid]] = {"box": Box, "sphere": Sphere, "cylinder": Cylinder}


def _to_cell(row: np.ndarray, pitch: float) -> np.ndarray:
    """Signed distance to the centre of the pattern's cell that holds the coordinate."""
    cells = row * (1 / pitch)
    return (cells - np.floor(cells) - np.float32(0.5)) * pitch


def _slab(origin: np.ndarray | float, direction: np.ndarray | float, half: float) -> tuple[np.ndarray, np.ndarray]:
    inverse = 1 / np.copysign(np.maximum(np.abs(direction), TINY), direction)
    middle, reach = -origin * inverse, np.abs(inverse) * half
    return middle - reach, middle + reach


def _round_interval(origin: Rows, direction: Rows, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Interval inside a circle or ball about 0; beside it the interval is reversed and as long as the miss is wide."""
    square = np.maximum(_product(direction, direction), TINY)
    middle = -_product(origin, direction) / square
    # From the closest point and not from b^2 - 4ac, which cancels in float32.
    closest = [o + middle * d for o, d in zip(origin, direction, strict=True)]
    inside = radius * radius - _product(closest, closest)
    reach = np.copysign(np.sqrt(np.abs(inside) / square), inside)
    return middle - reach, middle + reach


def _product(first: Rows, second: Rows) -> Any:
    return dot(first, second) if len(first) == 3 else first[0] * second[0] + first[1] * second[1]
