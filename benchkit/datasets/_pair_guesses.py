"""The ways in which a pose or intrinsics are most often given wrongly, and what a pair would be if it were so."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from benchkit.datasets._pair_items import FLIP, WXYZ, XYZW, Matrix, Pair, Reading, between, inverted, rigid
from benchkit.datasets._pair_resolution import candidates
from benchkit.geometry.rotation import to_matrix, to_quaternion

GIVEN = "given"
STEPLESS = "t is 0"  # no fault that anybody makes: what depth in any far too large unit explains
UNITS = (1000.0, 1.0, 5000.0, 256.0, 100.0, 655.35, 10000.0, 4000.0)  # stored units of depth to a metre
SCALES = tuple(dict.fromkeys([*UNITS, *(one / other for one in UNITS for other in UNITS)]))  # and to other units of t
FROM_VIEW = ("from view 0 to view 1", "from view 1 to view 0")
ROWS = "write R row by row (r00 r01 r02 r10 ...)"
UNIT = "unit"  # the kind of guesses that depth is in another one
NEAR = 1.1  # a depth that differs by less is noisy, and not in another unit


@dataclasses.dataclass(frozen=True, eq=False)
class Guess:
    """What a pair would be.

    Attributes:
        pose: (4, 4), view 0 to view 1.
        K0, K1: (3, 3).
        mend: what to do if it is so.
        depth: factor of the depth maps.
        kind: guesses of one kind are one fault, of different size.
    """

    pose: Matrix
    K0: Matrix
    K1: Matrix
    mend: str = ""
    depth: float = 1.0
    kind: str = ""


def guesses(
    pair: Pair, reading: Reading, factors: tuple[float, float] = (1.0, 1.0), scale: float | None = None
) -> dict[str, Guess]:
    """All of them by what is wrong then, `given` first, then by how often it is so: simple faults before those that two
    faults make, and what people do before what they hardly do.

    Args:
        pair: with stored (not turned) images.
        reading: how its list was read.
        factors: by which both views' intrinsics may have to be multiplied; 1: they are of the files' resolution.
        scale: of its depth maps, where it has them.
    """
    K0, K1 = (camera.K for camera in pair.cameras)
    found = {GIVEN: Guess(pair.pose, K0, K1)}
    ways = _ways(pair, reading)
    for name, (pose, mend) in ways.items():
        found[name] = Guess(pose, K0, K1, mend)
    for (factor0, factor1), by in candidates(factors):
        scaled = [np.diag([f, f, 1.0]) @ K for f, K in ((factor0, K0), (factor1, K1))]
        mend = f"multiply fx, fy, cx and cy by {by}, so that they are of the files' own pixels"
        name = f"the intrinsics are of another resolution (by {by})"
        found[name] = Guess(pair.pose, scaled[0], scaled[1], mend, kind="resolution")
    for name, (pose, mend) in {**_orders(pair, reading), **_slips(pair, reading)}.items():
        found[name] = Guess(pose, K0, K1, mend)
    return found if scale is None else found | _units(pair, scale)


def _units(pair: Pair, scale: float) -> dict[str, Guess]:
    """Depth in other units; and what is so of depth in any far too large unit."""
    K0, K1 = (camera.K for camera in pair.cameras)
    found = {STEPLESS: Guess(rigid(pair.pose[:3, :3], np.zeros(3)), K0, K1)}
    for other in SCALES:
        factor = scale / other
        if not 1 / NEAR < factor < NEAR:
            name = f"depth is in another unit than t (by {factor:.6g})"
            found[name] = Guess(pair.pose, K0, K1, f"set data.depth_scale={other:.6g}", factor, UNIT)
    return found


def _ways(pair: Pair, reading: Reading) -> dict[str, tuple[Matrix, str]]:
    """Poses the other way round, of other axes, and both; and what mends each."""
    (way, turned, other_way), (axes, flipped, other_axes) = _way(pair, reading), _axes(reading)
    both = dataclasses.replace(turned, flipped=flipped.flipped)
    read = {
        way: (turned, f"set {other_way}"),
        axes: (flipped, f"set {other_axes}"),
        f"{way} and {axes}": (both, f"set {other_way} {other_axes}"),
    }
    return {name: (_again(pair, reading, new, _same), mend) for name, (new, mend) in read.items()}


def _way(pair: Pair, reading: Reading) -> tuple[str, Reading, str]:
    """What is wrong if poses go the other way, how they are read then, and the setting that says so."""
    ways = ("world_to_camera", "camera_to_world") if pair.poses is not None else ("0_to_1", "1_to_0")
    ends = ("from world to camera", "from camera to world") if pair.poses is not None else FROM_VIEW
    other = not reading.inverse
    return f"the poses are {ends[other]}", dataclasses.replace(reading, inverse=other), f"data.pose={ways[other]}"


def _axes(reading: Reading) -> tuple[str, Reading, str]:
    """The same if the cameras' axes are others."""
    other = not reading.flipped
    axes = f"the cameras' axes are x right, y {'up, z backward' if other else 'down, z forward'}"
    return axes, dataclasses.replace(reading, flipped=other), f"data.axes={'opengl' if other else 'opencv'}"


def _orders(pair: Pair, reading: Reading) -> dict[str, tuple[Matrix, str]]:
    """A quaternion whose numbers stand in the other order than its list says, alone or with poses the other way round."""
    if not pair.quaternion:
        return {}
    there, step = (XYZW, 1) if pair.quaternion == WXYZ else (WXYZ, -1)
    columns = ", ".join(f"q{each}" for each in there.split(", "))
    order = f"the quaternion is {there}"
    mend = f"write w first, or head its columns {columns}" if step == 1 else f"head its columns {columns}"
    way, turned, other_way = _way(pair, reading)
    change = functools.partial(_rolled, step=step)
    return {
        order: (_again(pair, reading, reading, change), mend),
        f"{order} and {way}": (_again(pair, reading, turned, change), f"{mend}, and set {other_way}"),
    }


def _slips(pair: Pair, reading: Reading) -> dict[str, tuple[Matrix, str]]:
    """Numbers that stand for something else."""
    place, transposed = (_again(pair, reading, reading, change) for change in (_place, _transposed))
    rows = "give the quaternion with the other sign of x, y and z" if pair.quaternion else ROWS
    return {
        "t is where the camera stands": (place, "write t = -R c in place of the position c"),
        "R is transposed": (transposed, rows),
    }


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


def _rolled(pose: Matrix, step: int) -> Matrix:
    """With the numbers of the quaternion moved on by `step` places."""
    return rigid(to_matrix(np.roll(to_quaternion(pose[:3, :3]), step)), pose[:3, 3])
