"""Pairs of colours that go together, drawn in OKLab (B. Ottosson, 2020), where equal steps look equal."""

from __future__ import annotations

import numpy as np

_TO_LMS = np.array(
    [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.2914855480]]
)
_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def oklch(lightness: float, chroma: float, hue: float) -> np.ndarray:
    """Linear sRGB, float64 (3,), clipped to .01..1. Lightness 0..1, chroma 0..about .3, hue in turns."""
    lab = np.array([lightness, chroma * np.cos(2 * np.pi * hue), chroma * np.sin(2 * np.pi * hue)])
    return np.clip(_TO_RGB @ (_TO_LMS @ lab) ** 3, 0.01, 1)


def contrasting(rng: np.random.Generator) -> np.ndarray:
    """Two colours, (2, 3) linear RGB, well apart in lightness, in random order."""
    hue = rng.random()
    other = hue + rng.choice([0.0, 0.08, 0.33, 0.5]) + rng.normal(0, 0.02)
    dark, light = rng.uniform(0.28, 0.52), rng.uniform(0.76, 0.95)
    colors = [oklch(dark, rng.uniform(0.02, 0.16), hue), oklch(light, rng.uniform(0.0, 0.12), other)]
    return np.stack(colors if rng.random() < 0.5 else colors[::-1])


def quiet(rng: np.random.Generator) -> np.ndarray:
    """Two neighbouring colours, (2, 3) linear RGB, for floors and walls."""
    hue, light = rng.random(), rng.uniform(0.52, 0.88)
    chroma = rng.uniform(0.01, 0.07)
    second = light + rng.choice([-1, 1]) * rng.uniform(0.06, 0.22)
    return np.stack([oklch(light, chroma, hue), oklch(float(np.clip(second, 0.3, 0.95)), chroma, hue + 0.05)])
