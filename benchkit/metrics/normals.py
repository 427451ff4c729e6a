"""Surface normals: the angle between predicted and true directions, and its statistics over pixels.

Valid pixels are those whose true vector is not zero. Angles come from atan2 of the cross and the scalar product, which is
exact where an arc cosine is not: equal vectors are 0 degrees apart, and no length matters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchkit.errors import RunError
from benchkit.metrics.resample import resample, to_grid_and_back

NAMES = ("d1", "d2", "d3", "mean", "median", "rmse")
THRESHOLDS = (11.25, 22.5, 30.0)  # degrees, of d1, d2, d3; strict
BINS_PER_DEGREE = 10
N_BINS = 180 * BINS_PER_DEGREE + 1  # of `histogram`; bin 0 is exactly 0 degrees
TOWARDS = np.array([0, 0, -1], np.float32)  # the camera
Vectors = NDArray[np.floating]


def angles(prediction: Vectors, truth: Vectors) -> NDArray[np.float32]:
    """Degrees (n,) between the vectors of the n valid pixels.

    Args:
        prediction, truth: (h, w, 3), of any length; a true vector of zeros is invalid.

    Raises:
        RunError: a prediction has no direction at a valid pixel.
    """
    valid = truth.any(axis=-1)
    a, b = prediction[valid].T.astype(np.float32), truth[valid].T.astype(np.float32)
    if not a.any(axis=0).all():
        raise RunError("normals are predicted as zero vectors, which have no direction: the head is at fault.")
    a, b = (
        a / np.abs(a).max(axis=0),
        b / np.abs(b).max(axis=0),
    )  # products of very short or long ones would leave float32
    cross = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    sine = np.sqrt(cross[0] ** 2 + cross[1] ** 2 + cross[2] ** 2)
    return np.degrees(np.arctan2(sine, a[0] * b[0] + a[1] * b[1] + a[2] * b[2]))


def errors(degrees: NDArray[np.floating]) -> dict[str, float]:
    """Shares below 11.25, 22.5 and 30 degrees, mean, median and root mean square in degrees; all NaN without pixels.

    Args:
        degrees: (n,) of one image, or of all images together.
    """
    if not degrees.size:
        return dict.fromkeys(NAMES, float("nan"))
    wide = degrees.astype(np.float64)
    shares = {f"d{k}": float(np.mean(wide < limit)) for k, limit in enumerate(THRESHOLDS, 1)}
    centre = {"mean": float(wide.mean()), "median": float(np.median(wide))}
    return {**shares, **centre, "rmse": float(np.sqrt(np.mean(wide * wide)))}


def histogram(degrees: NDArray[np.floating]) -> NDArray[np.int64]:
    """Pixels (N_BINS,): bin 0 holds exactly 0 degrees, bin k the angles in ((k - 1) / 10, k / 10]."""
    bins = np.minimum(np.ceil(degrees * BINS_PER_DEGREE).astype(np.intp), N_BINS - 1)
    return np.bincount(bins, minlength=N_BINS)


def median_of(counts: NDArray[np.integer]) -> float:
    """Median in degrees of the angles in a `histogram`, within a tenth of a degree; NaN without pixels.

    Args:
        counts: (N_BINS,), maybe summed over images.
    """
    total = np.cumsum(counts)
    if not total[-1]:
        return float("nan")
    return (_ranked(counts, total, (total[-1] - 1) // 2) + _ranked(counts, total, total[-1] // 2)) / 2


def _ranked(counts: NDArray[np.integer], total: NDArray[np.integer], rank: int) -> float:
    """The angle of a rank, from 0; the angles of a bin are taken as evenly spread."""
    place = int(np.searchsorted(total, rank, side="right"))
    within = (rank - (total[place] - counts[place]) + 0.5) / counts[place]
    return float((place - 1 + within) / BINS_PER_DEGREE) if place else 0.0


def pooled_normals(truth: Vectors, grid: tuple[int, int]) -> NDArray[np.float32]:
    """The directions that a grid of cells allows: each cell's mean direction, resized bilinearly, at length 1.

    Invalid vectors take no part; where nothing around is valid, the direction is towards the camera.
    """
    down, up = to_grid_and_back(truth.shape, grid)
    cells = _unit(np.stack([resample(truth[..., k].astype(np.float32), *down) for k in range(3)], axis=-1))
    directions = _unit(np.stack([resample(cells[..., k], *up) for k in range(3)], axis=-1))
    directions[~directions.any(axis=-1)] = TOWARDS
    return directions


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """At length 1; next to nothing becomes exactly nothing."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 1e-6)
