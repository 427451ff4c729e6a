"""Depth: threshold accuracies, relative and absolute error of one image, as probe3d and Eigen et al. (2014) define them.

Valid pixels are those whose true depth is above 0. d_k is the share of them with max(p / g, g / p) < 1.25 ** k, strictly.
A predicted depth that is not above 0 is within no factor of anything.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchkit.errors import UsageError
from benchkit.metrics.resample import pooled

NAMES = ("d1", "d2", "d3", "abs_rel", "rmse")
FACTOR = 1.25
NYU_SHAPE = (480, 640)
NYU_CROP = (slice(45, 471), slice(41, 601))  # of Eigen et al. 2014, in pixels of the whole 480 x 640 frame
Depths = NDArray[np.floating]


def eigen_crop(depth: Depths) -> Depths:
    """The part [45:471, 41:601] of a whole NYUv2 frame.

    Raises:
        UsageError: the map is no whole frame: of a resized or cropped one the same numbers would cut out another part.
    """
    if depth.shape != NYU_SHAPE:
        raise UsageError(
            f"eval.crop=eigen is a part of the whole 480 x 640 frame of NYUv2, and this map is {depth.shape[0]} x "
            f"{depth.shape[1]}. Export with data.resize=pad or squash, which score the whole frame, or drop eval.crop."
        )
    return depth[NYU_CROP]


def errors(prediction: Depths, truth: Depths) -> dict[str, float]:
    """d1, d2, d3, abs_rel and rmse (the truth's unit) of one image; all NaN without a valid pixel.

    Args:
        prediction, truth: (h, w) or (n,); true depths that are not above 0 are invalid.
    """
    valid = truth > 0
    p, g = prediction[valid].astype(np.float64), truth[valid].astype(np.float64)
    if not g.size:
        return dict.fromkeys(NAMES, float("nan"))
    with np.errstate(divide="ignore"):
        ratio = np.where(p > 0, np.maximum(p / g, g / p), np.inf)
    off = p - g
    shares = {f"d{k}": float(np.count_nonzero(ratio < FACTOR**k) / g.size) for k in (1, 2, 3)}
    return {**shares, "abs_rel": float(np.mean(np.abs(off) / g)), "rmse": float(np.sqrt(np.mean(off * off)))}


def aligned(prediction: Depths, truth: Depths) -> NDArray[np.float64]:
    """The prediction times a scale plus a shift, both by least squares over the valid pixels (MiDaS, probe3d).

    The scale may be negative, as theirs may. A constant prediction becomes the mean of the truth; without a valid pixel
    the prediction stays as it is.
    """
    valid = truth > 0
    p, g = prediction[valid].astype(np.float64), truth[valid].astype(np.float64)
    if not g.size:
        return prediction.astype(np.float64)
    apart = p - p.mean()
    spread = float(apart @ apart)
    scale = float(apart @ (g - g.mean())) / spread if spread > 0 else 0.0
    return (prediction - p.mean()) * scale + g.mean()


def pooled_depth(truth: Depths, grid: tuple[int, int]) -> NDArray[np.float32]:
    """The depth that a grid of cells allows: see `resample.pooled`; 1 where the whole image has no valid pixel."""
    return pooled(truth, truth > 0, grid, nowhere=1)
