"""Moving and scaling one picture onto another: where in the first does the second lie?

Inverse compositional Gauss-Newton on grey values (Baker and Matthews 2004, "Lucas-Kanade 20 Years On"), for scale and
shift along each axis, blind to brightness and contrast; first at half the resolution.
"""

from __future__ import annotations

import numpy as np

SCALE = (0.6, 1.1)  # side of the second in sides of the first
SHIFT = 0.25  # of its centre, in sides
_STEP = 0.08  # at most so much at once
_STEPS = (5, 5)  # at half and at full resolution


def identity(count: int) -> np.ndarray:
    """Frames of pictures that lie on each other: (count, 4), scale y, scale x, shift y, shift x."""
    return np.tile(np.array([1, 1, 0, 0], np.float32), (count, 1))


def coarse(inside: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Frames found at half the resolution. inside, whole: float32 (B, m, m)."""
    return _refined(halved(inside), halved(whole), identity(len(whole)), _STEPS[0])


def fine(inside: np.ndarray, whole: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """`coarse` frames, refined."""
    return _refined(inside, whole, frames, _STEPS[1])


def halved(pictures: np.ndarray) -> np.ndarray:
    """Pictures (B, m, m) at half the resolution."""
    count, height, width = pictures.shape
    return pictures.reshape(count, height // 2, 2, width // 2, 2).mean(axis=(2, 4))


def cut_out(whole: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """What lies in the frames, at the size of the pictures; beyond the edges, the edges go on."""
    y, x = (_interpolation(whole.shape[1], frames[:, axis], frames[:, 2 + axis]) for axis in (0, 1))
    return y @ whole @ x.transpose(0, 2, 1)


def covered(frames: np.ndarray, side: int) -> np.ndarray:
    """Which pixels of a frame lie in the picture: bool (B, side, side)."""
    y, x = (_places(side, frames[:, axis], frames[:, 2 + axis]) for axis in (0, 1))
    edge = 0.5 + 0.5 / side
    return (np.abs(y) <= edge)[:, :, None] & (np.abs(x) <= edge)[:, None, :]


def _places(side: int, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    centres = ((np.arange(side) + 0.5) / side - 0.5).astype(np.float32)
    return scale[:, None] * centres + shift[:, None]


def _interpolation(side: int, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    pixel = np.clip((_places(side, scale, shift) + 0.5) * side - 0.5, 0, side - 1)
    return np.maximum(0, 1 - np.abs(np.arange(side, dtype=np.float32) - pixel[:, :, None]))


def _refined(inside: np.ndarray, whole: np.ndarray, frames: np.ndarray, steps: int) -> np.ndarray:
    template = _normalised(inside)
    step_of = _solver(template, inside.shape[1])
    for _ in range(steps):
        found = _normalised(cut_out(whole, frames))
        gain = np.maximum(np.einsum("bk,bk->b", found, template), 0.2)[:, None]
        step = np.clip((step_of @ found[:, :, None])[:, :, 0] / gain, -_STEP, _STEP)
        shift = frames[:, 2:] - frames[:, :2] * step[:, 2:] / (1 + step[:, :2])
        frames = np.concatenate([np.clip(frames[:, :2] / (1 + step[:, :2]), *SCALE), np.clip(shift, -SHIFT, SHIFT)], 1)
    return frames


def _normalised(pictures: np.ndarray) -> np.ndarray:
    """Mean 0, length 1: (B, m x m)."""
    values = pictures.reshape(len(pictures), pictures.shape[1] * pictures.shape[2])
    values = values - values.mean(axis=1, keepdims=True)
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-6)


def _solver(template: np.ndarray, side: int) -> np.ndarray:
    """The step that a deviation from the template asks for, (B, 4, m x m); deviations in brightness or contrast ask none."""
    count = len(template)
    pictures = template.reshape(count, side, side)
    across = ((np.arange(side) + 0.5) / side - 0.5).astype(np.float32)
    dy, dx = (np.gradient(pictures, axis=axis) * np.float32(side) for axis in (1, 2))
    descent = np.stack([dy * across[:, None], dx * across, dy, dx], axis=1).reshape(count, 4, side * side)
    descent -= descent.mean(axis=2, keepdims=True)
    descent -= (descent @ template[:, :, None]) * template[:, None]
    hessian = descent @ descent.transpose(0, 2, 1)
    damped = np.trace(hessian, axis1=1, axis2=2)[:, None, None] * 1e-3 + 1e-6
    return np.linalg.inv(hessian + damped * np.eye(4, dtype=np.float32)) @ descent
