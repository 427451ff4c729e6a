"""Two-coloured solid patterns and the seeded noise they are disturbed with; edges are as soft as a pixel is wide."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from benchkit.render.shapes import Rows, Solid, dot

VOLUME, SHEET = 64, 512


@dataclasses.dataclass(frozen=True, eq=False)
class Material:
    """How a surface is coloured.

    Attributes:
        kind: a key of PATTERNS.
        colors: float64 (2, 3), linear RGB in 0..1, mixed by the pattern.
        pitch: period of the pattern, metres.
        direction: unit vector across stripes and veins, own frame of the surface.
        offset: shift of the pattern per axis, in periods.
        grain: strength of a fine irregularity of brightness, 0..1.
        gloss: strength of the highlight, 0..1.
        balance: share of the second colour for stripes, radius of dots in periods, turbulence of marble.
    """

    kind: str
    colors: np.ndarray
    pitch: float
    direction: tuple[float, float, float]
    offset: tuple[float, float, float]
    grain: float
    gloss: float
    balance: float


@functools.lru_cache(maxsize=8)
def noise(seed: int, shape: tuple[int, ...], slope: float) -> np.ndarray:
    """Periodic fractal noise, float32 of that shape, mean 0 and deviation 1, with amplitudes falling as f ** -slope."""
    white = np.random.default_rng([seed, *shape]).standard_normal(shape)
    axes = [np.fft.fftfreq(n, 1 / n) for n in shape]
    frequency = np.linalg.norm(np.meshgrid(*axes, indexing="ij"), axis=0)
    amplitude = np.maximum(frequency, 1) ** -slope * (frequency > 0)
    values = np.fft.ifftn(np.fft.fftn(white) * amplitude).real
    result = (values / values.std()).astype(np.float32)
    result.flags.writeable = False
    return result


def sample_volume(volume: np.ndarray, points: Rows) -> np.ndarray:
    """Trilinear look-up in a periodic cube; points in voxels, rows of 3 coordinates; float32 (n,)."""
    size = len(volume)
    flat = volume.reshape(-1)
    base = [np.floor(row) for row in points]
    x, y, z = (row - low for row, low in zip(points, base, strict=True))
    first = [low.astype(np.int32) % size for low in base]
    second = [(low + 1) % size for low in first]
    planes = [[i * (size * size) + j * size for j in (first[1], second[1])] for i in (first[0], second[0])]
    lines = [[_mix(flat[ij + first[2]], flat[ij + second[2]], z) for ij in row] for row in planes]
    left, right = (_mix(line[0], line[1], y) for line in lines)
    return _mix(left, right, x)


def sample_sheet(sheet: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Nearest look-up in a periodic square; x and y in cells; float32 (n,)."""
    size = len(sheet)
    return sheet.reshape(-1)[(np.floor(y).astype(np.int32) % size) * size + np.floor(x).astype(np.int32) % size]


def _mix(first: np.ndarray, second: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return first + (second - first) * weight


def _wave(phase: np.ndarray) -> np.ndarray:
    """A triangle wave of period 1 between 0 (at whole numbers) and .5."""
    return 0.5 - np.abs(phase - np.floor(phase) - 0.5)


def _along(material: Material, points: Rows) -> np.ndarray:
    scaled = [d / material.pitch for d in material.direction]
    return dot(points, scaled) + material.offset[0]


Weighted = tuple[np.ndarray, float]  # share of the second colour, (n,), and its mean over the pattern


def _stripes(material: Material, solid: Solid | None, points: Rows, blur: np.ndarray, seed: int) -> Weighted:
    edge = _wave(_along(material, points)) - (0.5 - 0.5 * material.balance)
    return np.clip(0.5 + edge / blur, 0, 1), material.balance


def _checker(material: Material, solid: Solid | None, points: Rows, blur: np.ndarray, seed: int) -> Weighted:
    sign = np.full_like(blur, 0.5)
    for row, offset in zip(points, material.offset, strict=True):
        edge = _wave(row * (0.5 / material.pitch) + 0.5 * offset) - 0.25
        sign = sign * np.clip(edge * 4 / blur, -1, 1)
    return 0.5 + sign, 0.5


def _dots(material: Material, solid: Solid | None, points: Rows, blur: np.ndarray, seed: int) -> Weighted:
    if solid is None:
        distance = np.hypot(*(_wave(row / material.pitch) for row in points[:2]))
    else:
        distance = solid.dot_distance(points, material.pitch) / material.pitch
    return np.clip(0.5 + (material.balance - distance) / blur, 0, 1), np.pi * material.balance**2


def _marble(material: Material, solid: Solid | None, points: Rows, blur: np.ndarray, seed: int) -> Weighted:
    volume = noise(seed, (VOLUME, VOLUME, VOLUME), 2.2)
    scale = 9 / material.pitch
    turbulence = sample_volume(volume, [row * scale + 64 * o for row, o in zip(points, material.offset, strict=True)])
    vein = 2 * _wave(_along(material, points) + material.balance * turbulence)
    return np.clip(np.square(vein) * 1.25, 0, 1), 0.4


def _plain(material: Material, solid: Solid | None, points: Rows, blur: np.ndarray, seed: int) -> Weighted:
    return np.zeros_like(blur), 0.0


PATTERNS = {"plain": _plain, "striped": _stripes, "checkered": _checker, "marbled": _marble, "dotted": _dots}


def albedo(material: Material, solid: Solid | None, points: Rows, footprint: np.ndarray, seed: int) -> Rows:
    """Linear RGB, three float32 (n,), of points in the surface's own frame.

    Args:
        material: the surface's material.
        solid: the solid it covers, None for a plane, whose third coordinate is then constant.
        points: rows of 3 coordinates, metres.
        footprint: width of a pixel on the surface, metres, float32 (n,).
        seed: seed of the noise, one per data set.
    """
    blur = np.maximum(footprint * (1 / material.pitch), 1e-3)
    weight, mean = PATTERNS[material.kind](material, solid, points, blur, seed)
    if blur.max(initial=0) > 0.5:  # a period on less than two pixels would shimmer
        weight = mean + (weight - mean) * np.clip(1.6 - 1.2 * blur, 0, 1)
    sheet = noise(seed, (SHEET, SHEET), 1.1)
    x, y, z = points
    gain = 1 + material.grain * sample_sheet(sheet, x * 160 + z * 90 + 17, y * 160 - z * 70)
    colors = material.colors.tolist()
    return [(a + (b - a) * weight) * gain for a, b in zip(*colors, strict=True)]
