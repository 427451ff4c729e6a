"""Orientations: how far is the predicted direction from the true one, where an edge and its reverse are the same?

Directions are vectors of the doubled angle. The true vector's length, the coherence, is each pixel's weight; the predicted
length says nothing. Half the angle between the two vectors is the error, 0 to 90 degrees, 45 by chance (VisBench,
metrics/dense.py, orientation_metrics).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

THRESHOLDS = (11.25, 22.5)  # degrees: d1 and d2
CHANCE = 45.0
NAMES = ("error", "d1", "d2")

Vectors = NDArray[np.floating]


def angles(prediction: Vectors, truth: Vectors) -> NDArray[np.float64]:
    """Degrees, 0 to 90, between orientations (h, w, 2) given as vectors of the doubled angle; 45 of a vector of length 0."""
    p, t = prediction.astype(np.float64), truth.astype(np.float64)
    across, along = p[..., 0] * t[..., 1] - p[..., 1] * t[..., 0], (p * t).sum(axis=-1)
    degrees = np.degrees(np.arctan2(np.abs(across), along)) / 2
    return np.where(p.any(axis=-1), degrees, CHANCE)


def errors(prediction: Vectors, truth: Vectors) -> dict[str, float]:
    """error (mean degrees), d1 and d2 (shares below 11.25 and 22.5 degrees, strictly), weighted by the true length.

    NaN where no pixel has a direction.
    """
    weight = np.linalg.norm(truth.astype(np.float64), axis=-1)
    total = weight.sum()
    if not total > 0:
        return dict.fromkeys(NAMES, float("nan"))
    degrees = angles(prediction, truth)
    shares = [float(weight[degrees < limit].sum() / total) for limit in THRESHOLDS]
    return dict(zip(NAMES, (float((weight * degrees).sum() / total), *np.minimum(shares, 1).tolist()), strict=True))
