"""How far a relative pose is off, and how far matches are from a true one.

The pose error of MegaDepth-1500, ScanNet-1500 and their kin (SuperGlue, LoFTR, Glue Factory) is the larger of two angles in
degrees: that of the rotation between both answers, and that between both translations, folded at 90, since matches alone do
not tell t from -t. The epipolar error is Glue Factory's `sym_epipolar_distance(squared=False)` (cvg/glue-factory,
gluefactory/geometry/epipolar.py, which `eval_matches_epipolar` compares with 1e-4, 5e-4 and 1e-3): the mean of the distances
of a matched point from its epipolar line in both images, in normalised coordinates, not squared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchkit.geometry.rotation import angle

Array = NDArray[np.float64]
LEAST = 1e-6  # of a line's squared normal, of |t| = 1: at the epipole there is no line, and every point is on it


def rotation_angle(one: Array, other: Array) -> float:
    """Degrees, 0 to 180, of the rotation between two rotations (3, 3); as exact near 0 and 180 as between."""
    return float(angle(one, other))


def translation_angle(one: Array, other: Array) -> float:
    """Degrees, 0 to 90, between the lines along two vectors (3,); 0 where one of them is 0 and has none."""
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(one, other)), abs(one @ other))))


def pose_error(R: Array, t: Array, true_R: Array, true_t: Array) -> float:
    """Degrees: the larger of both angles; the rotation's alone where the truth is a pure rotation, t = 0."""
    return max(rotation_angle(R, true_R), translation_angle(t, true_t))


def epipolar_errors(points0: Array, points1: Array, essential: Array) -> Array:
    """Mean distance from the epipolar lines in both images, without a unit; see the module.

    Args:
        points0, points1: (n, 2) and (n, 2), or (n, 1, 2) and (m, 2) for all pairs, on the plane z = 1.
        essential: (3, 3), of |t| = 1.
    """
    first, second = (np.concatenate([p, np.ones((*p.shape[:-1], 1))], axis=-1) for p in (points0, points1))
    lines1, lines0 = first @ essential.T, second @ essential
    residual = np.abs((lines1 * second).sum(axis=-1))
    normals = [np.sqrt(np.maximum(np.square(each[..., :2]).sum(axis=-1), LEAST)) for each in (lines1, lines0)]
    return residual * (1 / normals[0] + 1 / normals[1]) / 2
