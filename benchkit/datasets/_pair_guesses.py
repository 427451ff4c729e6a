"""The ways in which a pose or intrinsics are most often given wrongly, and what a pair would be if it were so."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from benchkit.datasets._pair_items import FLIP, Matrix, Pair, Reading, between, inverted, rigid

GIVEN = "given"
UNITS = (1000.0, 5000.0, 256.0, 100.0)  # stored units of depth to a metre, where nobody says it
LARGER = 1.2  # of an image's side: a principal point so far off the centre may be that of another resolution
EVEN = 0.1  # by how much the two sides' factors may differ then


@dataclasses.dataclass(frozen=True, eq=False)
class Guess:
    """What a pair would be.

    Attributes:
        pose: (4, 4), view 0 to view 1.
        K0, K1: (3, 3).
        mend: what to do if it is so.
        depth: factor of the depth maps.
    """

    pose: Matrix
    K0: Matrix
    K1: Matrix
    mend: str = ""
    depth: float = 1.0


def guesses(
    pair: Pair, reading: Reading, sizes: tuple[tuple[int, int], tuple[int, int]], scale: float | None = None
) -> dict[str, Guess]:
    """All of them by what is wrong then, `given` first; simple faults before those that two faults make.

    Args:
        pair: with stored (not turned) images.
        reading: how its list was read.
        sizes: width and height of each view's file.
        scale: of its depth maps, where it has them.
    """
    K0, K1 = (camera.K for camera in pair.cameras)
    found = {GIVEN: Guess(pair.pose, K0, K1)}
    for name, (pose, mend) in _poses(pair, reading).items():
        found[name] = Guess(pose, K0, K1, mend)
    factors = [_factor(K, size) for K, size in zip((K0, K1), sizes, strict=True)]
    if factors != [1.0, 1.0]:
        scaled = [np.diag([f, f, 1.0]) @ K for f, K in zip(factors, (K0, K1), strict=True)]
        by = " and ".join(f"{f:.4g}" for f in dict.fromkeys(factors) if f != 1)
        mend = f"multiply fx, fy, cx and cy by {by}, so that they are of the files' own pixels"
        found["the intrinsics are of another resolution"] = Guess(pair.pose, scaled[0], scaled[1], mend)
    for unit in UNITS if scale is not None else ():
        for factor in (1 / unit, unit):
            mend = f"set data.depth_scale={(scale or 1) / factor:g}"
            found[f"depth is in another unit than t (by {factor:g})"] = Guess(pair.pose, K0, K1, mend, factor)
    return found


def _poses(pair: Pair, reading: Reading) -> dict[str, tuple[Matrix, str]]:
    """Other poses, and what mends each."""
    per_image = pair.poses is not None
    there, back = ("world_to_camera", "camera_to_world") if per_image else ("0_to_1", "1_to_0")
    other_way = f"data.pose={there if reading.inverse else back}"
    other_axes = f"data.axes={'opencv' if reading.flipped else 'opengl'}"
    turned, flipped = not reading.inverse, not reading.flipped
    way = f"the poses are {'from camera to world' if per_image else 'from view 1 to view 0'}"
    if reading.inverse:
        way = f"the poses are {'from world to camera' if per_image else 'from view 0 to view 1'}"
    axes = f"the cameras' axes are x right, y {'down, z forward' if reading.flipped else 'up, z backward'}"
    read = {
        way: (dataclasses.replace(reading, inverse=turned), f"set {other_way}"),
        axes: (dataclasses.replace(reading, flipped=flipped), f"set {other_axes}"),
        f"{way} and {axes}": (
            dataclasses.replace(reading, inverse=turned, flipped=flipped),
            f"set {other_way} {other_axes}",
        ),
    }
    found = {name: (_again(pair, reading, new, _same), mend) for name, (new, mend) in read.items()}
    found["R is transposed"] = (
        _again(pair, reading, reading, _transposed),
        "write R row by row (r00 r01 r02 r10 ...), or a quaternion with the other sign of x, y and z",
    )
    found["t is where the camera stands"] = (
        _again(pair, reading, reading, _place),
        "write t = -R c in place of the position c",
    )
    return found


def _again(pair: Pair, old: Reading, new: Reading, change: Callable[[Matrix], Matrix]) -> Matrix:
    """The pose if the numbers of the list were changed so and read so."""
    if pair.poses is None:
        given = FLIP @ pair.pose @ FLIP if old.flipped else pair.pose
        given = inverted(given) if old.inverse else given
        return new.relative(change(given))
    stored = [FLIP @ pose if old.flipped else pose for pose in pair.poses]
    stored = [inverted(pose) if old.inverse else pose for pose in stored]
    first, second = (new.to_camera(change(pose)) for pose in stored)
    return between(first, second)


def _same(pose: Matrix) -> Matrix:
    return pose


def _transposed(pose: Matrix) -> Matrix:
    return rigid(pose[:3, :3].T, pose[:3, 3])


def _place(pose: Matrix) -> Matrix:
    return rigid(pose[:3, :3], -pose[:3, :3] @ pose[:3, 3])


def _factor(K: Matrix, size: tuple[int, int]) -> float:
    """What K has to be multiplied with so that its principal point is the centre; 1 where it is near, or not so by both sides."""
    if min(K[0, 2], K[1, 2]) <= 0:
        return 1.0
    across, down = size[0] / 2 / K[0, 2], size[1] / 2 / K[1, 2]
    factor = float(np.sqrt(across * down))
    if abs(across / down - 1) > EVEN or 1 / LARGER < factor < LARGER:
        return 1.0
    return factor
