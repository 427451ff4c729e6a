"""Maps of numbers, such as the strength of edges: does the prediction vary over the image as the truth does?

Correlation is Pearson's over the valid pixels of one image, blind to scale and offset. A constant prediction says nothing of
where anything is: its correlation is 0. Where the truth is constant there is nothing to find: undefined (VisBench,
metrics/dense.py, counts 0). Valid pixels are those whose truth is finite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchkit.metrics.resample import pooled

CONSTANT = 1e-6  # spread over size below which a float32 map holds rounding errors only
NAMES = ("correlation", "rmse", "mae")

Map = NDArray[np.floating]


def errors(prediction: Map, truth: Map) -> dict[str, float]:
    """correlation (-1 to 1), rmse and mae (the truth's unit) over the valid pixels; NaN where undefined.

    Args:
        prediction: (h, w), finite.
        truth: (h, w), not finite where it is unknown.
    """
    valid = np.isfinite(truth)
    p, t = prediction[valid].astype(np.float64), truth[valid].astype(np.float64)
    if not t.size:
        return dict.fromkeys(NAMES, float("nan"))
    off = p - t
    return {
        "correlation": correlation(p, t),
        "rmse": float(np.sqrt(np.mean(off * off))),
        "mae": float(np.mean(np.abs(off))),
    }


def correlation(prediction: Map, truth: Map) -> float:
    """Pearson's, of numbers (n,); 0 of a constant prediction, NaN of a constant truth."""
    if _is_constant(truth):
        return float("nan")
    if _is_constant(prediction):
        return 0.0
    p, t = prediction - prediction.mean(), truth - truth.mean()
    return float(np.clip((p / np.linalg.norm(p)) @ (t / np.linalg.norm(t)), -1, 1))


def _is_constant(values: Map) -> bool:
    return bool(np.ptp(values) <= CONSTANT * np.abs(values).max())


def pooled_map(truth: Map, grid: tuple[int, int]) -> NDArray[np.float32]:
    """The map that a grid of cells allows: see `resample.pooled`; 0 where the whole image has no valid pixel.

    Args:
        truth: (h, w) or (h, w, C); not finite where it is unknown.
        grid: rows and columns.
    """
    if truth.ndim == 3:
        return np.stack([pooled_map(truth[..., k], grid) for k in range(truth.shape[2])], axis=-1)
    return pooled(truth, np.isfinite(truth), grid)
