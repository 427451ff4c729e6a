"""Rotations: matrices, unit quaternions (w, x, y, z), the angle between two, and their mean.

A quaternion and its negative are one rotation; `to_quaternion` gives the one whose largest component is positive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def to_matrix(quaternions: NDArray[np.floating]) -> Array:
    """Rotation matrices (..., 3, 3) of quaternions (..., 4), w first, of any length above 0."""
    w, x, y, z = np.moveaxis(np.asarray(quaternions, np.float64), -1, 0)
    double = 2 / (w * w + x * x + y * y + z * z)
    entries = (
        1 - double * (y * y + z * z), double * (x * y - w * z), double * (x * z + w * y),
        double * (x * y + w * z), 1 - double * (x * x + z * z), double * (y * z - w * x),
        double * (x * z - w * y), double * (y * z + w * x), 1 - double * (x * x + y * y),
    )  # fmt: skip
    return np.stack(entries, axis=-1).reshape(*w.shape, 3, 3)


def to_quaternion(matrices: NDArray[np.floating]) -> Array:
    """Unit quaternions (..., 4), w first, of rotation matrices (..., 3, 3).

    Of the four products of the quaternion with one of its components the one with the largest is taken, since the others
    divide by numbers that may be near 0 (Shepperd 1978).
    """
    m = np.asarray(matrices, np.float64)
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = np.moveaxis(m, (-2, -1), (0, 1))
    products = np.stack([
        np.stack([1 + xx + yy + zz, zy - yz, xz - zx, yx - xy], axis=-1),
        np.stack([zy - yz, 1 + xx - yy - zz, xy + yx, xz + zx], axis=-1),
        np.stack([xz - zx, xy + yx, 1 - xx + yy - zz, yz + zy], axis=-1),
        np.stack([yx - xy, xz + zx, yz + zy, 1 - xx - yy + zz], axis=-1),
    ], axis=-2)  # fmt: skip
    largest = np.diagonal(products, axis1=-2, axis2=-1).argmax(axis=-1)
    row = np.take_along_axis(products, largest[..., None, None], axis=-2)[..., 0, :]
    return row / np.linalg.norm(row, axis=-1, keepdims=True)


def angle(one: NDArray[np.floating], other: NDArray[np.floating]) -> Array:
    """Degrees (...), 0 to 180, by which rotation matrices (..., 3, 3) are apart: the angle of one @ other.T.

    From its sine and its cosine, so that small angles are as exact as large ones (the arc cosine of the trace is not).
    """
    between = np.asarray(one, np.float64) @ np.swapaxes(np.asarray(other, np.float64), -1, -2)
    axis = between - np.swapaxes(between, -1, -2)
    sine = np.sqrt(axis[..., 2, 1] ** 2 + axis[..., 0, 2] ** 2 + axis[..., 1, 0] ** 2) / 2
    cosine = (np.trace(between, axis1=-2, axis2=-1) - 1) / 2
    return np.degrees(np.arctan2(sine, cosine))


def mean(matrices: NDArray[np.floating]) -> Array:
    """The chordal mean (3, 3) of rotation matrices (N, 3, 3): the rotation nearest to their sum, in squares of entries.

    By the singular vectors of the sum (Hartley, Trumpf, Dai, Li 2013, "Rotation averaging", section 5.3). Where all
    directions cancel out several are equally near and one of them is given.
    """
    left, _, right = np.linalg.svd(np.asarray(matrices, np.float64).sum(axis=0))
    turn = np.diag([1.0, 1.0, np.linalg.det(left @ right)])
    return left @ turn @ right
