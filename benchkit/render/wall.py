"""Walls being painted, seen in perspective: what each pixel shows by the Painting Vision taxonomy, and the picture of it.

A wall is a plane, metres: u along it, v up from the floor, z towards the camera. On it lie bare plaster, paint, patches of
which nobody could say, windows, a skirting board and fixtures; obstacles stand before it. Everything about a wall is a
function of the seed and its name, and every frame of it adds a camera and a light of its own.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from benchkit.render import palette
from benchkit.render.material import SHEET, noise, sample_sheet
from benchkit.render.scene import generator

VERSION = 1
OTHER, UNPAINTED, PAINTED, UNCERTAIN, SKIRTING, FIXTURE, OBSTACLE, WINDOW, VOID = 0, 1, 2, 3, 4, 5, 6, 8, 255
Box = tuple[float, float, float, float]  # left, bottom, width, height


@dataclasses.dataclass(frozen=True, eq=False)
class Wall:
    """One wall.

    Attributes:
        height: of the room.
        edge: where paint meets plaster: its place along `across`, and how far the edge wobbles.
        across: True where the edge runs up the wall, so that paint lies to one side; else paint lies above or below.
        painted_first: paint lies left of the edge, or below it.
        wet: patches of which nobody could say.
        windows, fixtures: boxes on the wall; unknown: boxes that are void.
        skirting: its height, 0 where there is none.
        obstacles: boxes, and how far they stand before the wall.
        colors: linear RGB by what is shown.
        rough: strength of the plaster's and of the paint's grain.
        shift: of the noise.
    """

    height: float
    edge: tuple[float, float]
    across: bool
    painted_first: bool
    wet: tuple[Box, ...]
    windows: tuple[Box, ...]
    fixtures: tuple[Box, ...]
    unknown: tuple[Box, ...]
    skirting: float
    obstacles: tuple[tuple[Box, float], ...]
    colors: dict[str, np.ndarray]
    rough: tuple[float, float]
    shift: tuple[float, float]


@dataclasses.dataclass(frozen=True, eq=False)
class Frame:
    """One look at a wall: where the eye is (u, v, z), its rotation, its focal length in widths, and the light."""

    eye: np.ndarray
    turn: np.ndarray
    focal: float
    level: float
    slope: tuple[float, float]


def make_wall(name: str, seed: int) -> Wall:
    """The wall of this name."""
    rng = generator(name, seed, "wall")
    height = rng.uniform(2.4, 3.0)
    across = bool(rng.random() < 0.65)
    all_of_it = rng.random()
    place = rng.uniform(-0.9, 0.9) if across else rng.uniform(0.8, height - 0.6)
    place = -99.0 if all_of_it < 0.12 else 99.0 if all_of_it > 0.88 else place
    count = rng.choice([0, 1, 1, 2])
    windows = [_box(rng, (0.7, 1.3), (0.8, 1.3), (-2.0 + 2.2 * k, -0.9 + 2.2 * k), (0.8, 1.0)) for k in range(count)]
    fixtures = [
        _box(rng, (0.07, 0.16), (0.07, 0.16), (-2.2, 2.2), (0.25, height - 0.5)) for _ in range(rng.integers(1, 5))
    ]
    wet = [_box(rng, (0.3, 0.9), (0.2, 0.7), (-1.8, 1.3), (0.3, height - 0.9)) for _ in range(rng.integers(0, 3))]
    unknown = [_box(rng, (0.2, 0.5), (0.2, 0.4), (-1.8, 1.3), (0.4, height - 0.9)) for _ in range(rng.random() < 0.4)]
    boxes = [
        (_box(rng, (0.25, 0.8), (0.4, 1.3), (-1.8, 1.2), (0.0, 0.0)), rng.uniform(0.2, 0.6))
        for _ in range(rng.integers(0, 3))
    ]
    plaster = palette.oklch(rng.uniform(0.66, 0.86), rng.uniform(0.0, 0.035), rng.uniform(0.12, 0.25))
    paint = palette.oklch(rng.uniform(0.6, 0.93), rng.uniform(0.03, 0.12), rng.random())
    colors = {
        "plaster": plaster,
        "paint": paint,
        "wet": 0.72 * (plaster + paint) / 2,
        "skirting": palette.oklch(rng.uniform(0.35, 0.97), rng.uniform(0, 0.05), rng.random()),
        "frame": palette.oklch(rng.choice([0.35, 0.95]), 0.01, rng.random()),
        "sky": palette.oklch(rng.uniform(0.8, 0.97), rng.uniform(0.01, 0.08), rng.uniform(0.6, 0.72)),
        "fixture": palette.oklch(rng.uniform(0.85, 0.98), 0.01, rng.random()),
        "box": palette.oklch(rng.uniform(0.25, 0.7), rng.uniform(0.02, 0.15), rng.random()),
        "floor": palette.oklch(rng.uniform(0.35, 0.6), rng.uniform(0.02, 0.07), rng.uniform(0.1, 0.25)),
        "ceiling": palette.oklch(rng.uniform(0.9, 0.98), 0.01, rng.random()),
    }
    return Wall(
        height, (place, rng.uniform(0.01, 0.12)), across, bool(rng.random() < 0.5), tuple(wet), tuple(windows),
        tuple(fixtures), tuple(unknown), float(rng.random() < 0.8) * rng.uniform(0.06, 0.14), tuple(boxes), colors,
        (rng.uniform(0.05, 0.12), rng.uniform(0.0, 0.02)), tuple(rng.uniform(0, SHEET, 2).tolist()),
    )  # fmt: skip


def _box(
    rng: np.random.Generator,
    width: tuple[float, float],
    height: tuple[float, float],
    left: tuple[float, float],
    bottom: tuple[float, float],
) -> Box:
    return rng.uniform(*left), rng.uniform(*bottom), rng.uniform(*width), rng.uniform(*height)


def make_frame(name: str, seed: int) -> Frame:
    """The look of this name."""
    rng = generator(name, seed, "frame")
    eye = np.array([rng.uniform(-1.1, 1.1), rng.uniform(1.1, 1.8), rng.uniform(1.8, 3.6)])
    yaw, pitch, roll = np.radians([rng.uniform(-26, 26), rng.uniform(-9, 7), rng.normal(0, 1.5)])
    yaw -= 0.2 * eye[0]  # towards the middle of the wall
    return Frame(eye, _rotation(yaw, pitch, roll), rng.uniform(0.7, 1.1), rng.uniform(0.55, 1.0),
                 (rng.uniform(-0.12, 0.12), rng.uniform(-0.05, 0.15)))  # fmt: skip


def _rotation(yaw: float, pitch: float, roll: float) -> np.ndarray:
    (cy, sy), (cp, sp), (cr, sr) = ((np.cos(a), np.sin(a)) for a in (yaw, pitch, roll))
    around_v = np.array([[cy, 0, -sy], [0, 1, 0], [sy, 0, cy]])
    around_u = np.array([[1, 0, 0], [0, cp, sp], [0, -sp, cp]])
    return around_v @ around_u @ np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])


def labels(wall: Wall, frame: Frame, height: int, width: int) -> np.ndarray:
    """uint8 (height, width): the taxonomy's class at every pixel centre, 255 where it is unknown."""
    return _View(wall, frame, height, width, 1).labels


def picture(wall: Wall, frame: Frame, height: int, width: int) -> np.ndarray:
    """uint8 (height, width, 3), sRGB, four rays a pixel."""
    view = _View(wall, frame, height, width, 2)
    light = view.shaded().reshape(height, 2, width, 2, 3).mean(axis=(1, 3))
    return np.round(255 * np.clip(light, 0, 1) ** (1 / 2.2)).astype(np.uint8)


class _View:
    """All rays of a frame, what they meet, and on which surface."""

    def __init__(self, wall: Wall, frame: Frame, height: int, width: int, finer: int) -> None:
        self.wall, self.frame = wall, frame
        rows, columns = height * finer, width * finer
        x = ((np.arange(columns) + 0.5) / columns - 0.5) / frame.focal
        y = (0.5 - (np.arange(rows) + 0.5) / rows) * (height / width) / frame.focal
        rays = np.stack([*np.broadcast_arrays(x[None], y[:, None]), np.full((rows, columns), -1.0)], axis=-1)
        self.rays = rays @ frame.turn.T
        self.u, self.v = self._on_plane(0.0)
        self.labels = self._on_wall()
        self.obstacle = np.zeros(self.labels.shape, bool)
        for (left, bottom, across, up), distance in wall.obstacles:
            u, v = self._on_plane(distance)
            self.obstacle |= _inside(u, v, (left, bottom, across, up))
        self.labels[self.obstacle] = OBSTACLE

    def _on_plane(self, z: float) -> tuple[np.ndarray, np.ndarray]:
        """u and v where the rays meet the plane at this distance before the wall; rays that lead away meet it far off."""
        u, v, depth = (self.rays[..., k] for k in range(3))
        along = (self.frame.eye[2] - z) / np.maximum(-depth, 1e-3)
        return self.frame.eye[0] + along * u, self.frame.eye[1] + along * v

    def _noise(self, slope: float, scale: float) -> np.ndarray:
        sheet, (du, dv) = noise(7, (SHEET, SHEET), slope), self.wall.shift
        return sample_sheet(sheet, self.u * scale + du, self.v * scale + dv)

    def _on_wall(self) -> np.ndarray:
        wall = self.wall
        place, wobble = wall.edge
        at = (self.u if wall.across else self.v) + wobble * self._noise(1.6, 60)
        found = np.where((at < place) == wall.painted_first, PAINTED, UNPAINTED).astype(np.uint8)
        for box in wall.wet:
            found[_oval(self.u, self.v, box, 0.25 * self._noise(1.8, 80))] = UNCERTAIN
        found[self.v < wall.skirting] = SKIRTING
        for label, boxes in ((FIXTURE, wall.fixtures), (VOID, wall.unknown), (WINDOW, wall.windows)):
            for box in boxes:
                found[_inside(self.u, self.v, box)] = label
        found[(self.v < 0) | (self.v > wall.height)] = OTHER
        return found

    def shaded(self) -> np.ndarray:
        """Linear RGB (rows, columns, 3)."""
        wall, frame, colors = self.wall, self.frame, self.wall.colors
        light = np.zeros((*self.labels.shape, 3))
        named = {UNPAINTED: "plaster", PAINTED: "paint", UNCERTAIN: "wet", SKIRTING: "skirting", FIXTURE: "fixture"}
        for label, name in {**named, OBSTACLE: "box", VOID: "frame"}.items():
            light[self.labels == label] = colors[name]
        light[(self.labels == OTHER) & (self.v < 0)] = colors["floor"]
        light[(self.labels == OTHER) & (self.v > wall.height)] = colors["ceiling"]
        fine, coarse = self._noise(0.7, 170), self._noise(1.5, 40)
        plaster, paint = wall.rough
        grain = np.select([self.labels == UNPAINTED, self.labels == UNCERTAIN], [plaster, plaster / 2], paint)
        light *= (1 + grain * fine + 0.03 * coarse)[..., None]
        slope = 1 + frame.slope[0] * np.clip(self.u, -4, 4) + frame.slope[1] * (np.clip(self.v, -1, 4) - 1.2)
        light *= (frame.level * np.clip(slope, 0.3, 1.6))[..., None]
        self._glaze(light)
        return light

    def _glaze(self, light: np.ndarray) -> None:
        """Windows shine by themselves, behind a frame and one bar each way."""
        for left, bottom, width, height in self.wall.windows:
            seen = (self.labels == WINDOW) & _inside(self.u, self.v, (left, bottom, width, height))
            across, up = (self.u - left) / width, (self.v - bottom) / height
            bars = (np.abs(across - 0.5) < 0.03) | (np.abs(up - 0.55) < 0.025)
            edge = (np.minimum(across, 1 - across) < 0.06) | (np.minimum(up, 1 - up) < 0.05)
            frame = seen & (bars | edge)
            view = seen & ~frame
            light[view] = (0.55 + 0.5 * up[view, None]) * self.wall.colors["sky"]
            light[frame] = self.frame.level * self.wall.colors["frame"]


def _inside(u: np.ndarray, v: np.ndarray, box: Box) -> np.ndarray:
    left, bottom, width, height = box
    return (u >= left) & (u < left + width) & (v >= bottom) & (v < bottom + height)


def _oval(u: np.ndarray, v: np.ndarray, box: Box, wobble: np.ndarray) -> np.ndarray:
    left, bottom, width, height = box
    across, up = 2 * (u - left) / width - 1, 2 * (v - bottom) / height - 1
    return across**2 + up**2 < 1 + wobble
