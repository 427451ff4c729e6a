"""The surroundings: a floor and walls along the world's axes, seen from inside; an absent wall lies at infinity."""

from __future__ import annotations

import dataclasses

import numpy as np

from benchkit.render.material import Material
from benchkit.render.shapes import Rows

NOTHING = -7
FLOOR = -5


@dataclasses.dataclass(frozen=True, eq=False)
class Room:
    """A box around everything, world z up, floor at z = 0.

    Attributes:
        low, high: opposite corners, metres; infinite where the room is open.
        materials: of the six sides, in the order x low, x high, y low, y high, z low (floor), z high.
        sky: linear RGB (3,), seen where a ray leaves the room, and the colour of the distance.
        haze: distance in metres at which half of a surface's colour is lost to the sky's; infinite for none.
    """

    low: tuple[float, float, float]
    high: tuple[float, float, float]
    materials: tuple[Material, ...]
    sky: np.ndarray
    haze: float

    def hit(self, origin: list[float], directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Depth float32 (n,), infinite where the ray leaves, and surface int16 (n,): -1 - side, or NOTHING."""
        depth = np.full(directions.shape[1], np.inf, np.float32)
        surface = np.full(directions.shape[1], NOTHING, np.int16)
        for side in range(6):
            axis, bound = side // 2, (self.low, self.high)[side % 2][side // 2]
            if not np.isfinite(bound):
                continue
            reach = (bound - origin[axis]) / (directions[axis] + np.float32(1e-12))
            nearer = (reach > 0) & (reach < depth)
            np.copyto(depth, reach, where=nearer)
            surface[nearer] = -1 - side
        return depth, surface


def side_normal(surface: int) -> tuple[float, float, float]:
    """Inward unit normal, world, of the side that `Room.hit` calls `surface`."""
    axis, upper = divmod(-1 - surface, 2)
    return tuple(float((1, -1)[upper] * (axis == k)) for k in range(3))  # type: ignore[return-value]


def side_points(surface: int, points: Rows) -> list[np.ndarray]:
    """World points on a side as pattern coordinates: two along the side and a third, constant one."""
    axis = (-1 - surface) // 2
    first, second = (k for k in range(3) if k != axis)
    return [points[first], points[second], np.zeros_like(points[0])]
