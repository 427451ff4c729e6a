"""One pair of images with cameras and pose: what every reader of pairs makes, and what numbers may be such a pose."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets._listing import check_name
from benchkit.errors import UsageError
from benchkit.geometry.rotation import angle, to_matrix

Matrix = NDArray[np.float64]
ORTHOGONAL = 0.02  # largest entry of R R^T - I: some lists have few digits; what is read is made orthogonal
SAME = 10.0  # degrees by which two poses of the same images may differ
WXYZ, XYZW = "w, x, y, z", "x, y, z, w"
FLIP = np.diag([1.0, -1.0, -1.0, 1.0])  # from cameras of OpenGL (y up, z backward) to x right, y down, z forward


@dataclasses.dataclass(frozen=True, eq=False)
class Camera:
    """One view.

    Attributes:
        image: path below the folder of images.
        K: float64 (3, 3), pixels of the stored image, corner convention.
        size: width and height that the intrinsics are said to be of; None where nobody says.
        depth: path of its depth map below root, None without.
    """

    image: str
    K: Matrix
    size: tuple[int, int] | None = None
    depth: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Pair:
    """Two views and how the second camera stands to the first.

    Attributes:
        name: of the item.
        cameras: of view 0 and view 1.
        pose: float64 (4, 4), X1 = R X0 + t between frames with x right, y down, z forward.
        poses: float64 (4, 4) each, world to camera, where a pose was given per image; None where the relative one was.
        group: the scene, '' where nobody says.
        split: its name.
        where: file and line.
        category: label columns.
        quaternion: order in which the list has the numbers of its quaternions, WXYZ or XYZW; '' where it has R.
    """

    name: str
    cameras: tuple[Camera, Camera]
    pose: Matrix
    poses: tuple[Matrix, Matrix] | None = None
    group: str = ""
    split: str = "test"
    where: str = ""
    category: Mapping[str, str] = dataclasses.field(default_factory=dict)
    quaternion: str = ""


@dataclasses.dataclass(frozen=True)
class Reading:
    """How the numbers of a list are to be read.

    Attributes:
        inverse: poses go the other way: from view 1 to view 0, or from camera to world.
        flipped: cameras look along -z with y up (OpenGL).
        centre: principal points are counted from the centre of the top-left pixel.
    """

    inverse: bool = False
    flipped: bool = False
    centre: bool = False

    def relative(self, given: Matrix) -> Matrix:
        """The pose from view 0 to view 1, float64 (4, 4)."""
        pose = inverted(given) if self.inverse else given
        return FLIP @ pose @ FLIP if self.flipped else pose

    def to_camera(self, given: Matrix) -> Matrix:
        """The pose from world to camera, float64 (4, 4)."""
        pose = inverted(given) if self.inverse else given
        return FLIP @ pose if self.flipped else pose

    def intrinsics(self, fx: float, fy: float, cx: float, cy: float, skew: float = 0.0) -> Matrix:
        """K in the corner convention."""
        more = 0.5 if self.centre else 0.0
        return np.array([[fx, skew, cx + more], [0, fy, cy + more], [0, 0, 1.0]])


def inverted(pose: Matrix) -> Matrix:
    """The pose the other way round."""
    return rigid(pose[:3, :3].T, -pose[:3, :3].T @ pose[:3, 3])


def rigid(rotation: Matrix, translation: Matrix) -> Matrix:
    """(4, 4) of R (3, 3) and t (3,)."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, translation
    return pose


def between(first: Matrix, second: Matrix) -> Matrix:
    """From the first camera to the second, of two poses from the world."""
    return second @ inverted(first)


def quaternion(numbers: Sequence[float], where: str) -> Matrix:
    """R (3, 3) of qw, qx, qy, qz (Hamilton's product; COLMAP's order), which need not have length 1 to the last digit.

    Raises:
        UsageError: its length is not about 1.
    """
    length = float(np.linalg.norm(numbers))
    if not abs(length - 1) < 1e-2:
        raise UsageError(f"{where}: the quaternion {shown(numbers)} has length {length:.4g}, not 1.")
    return to_matrix(np.asarray(numbers, np.float64))


def rotation(numbers: Sequence[float], where: str) -> Matrix:
    """R (3, 3) of nine numbers, row by row, made exactly orthogonal.

    Raises:
        UsageError: they are not a rotation: not orthogonal, or a mirror (determinant -1).
    """
    given = np.asarray(numbers, np.float64).reshape(3, 3)
    off = np.abs(given @ given.T - np.eye(3)).max() if np.isfinite(given).all() else np.inf
    if not off < ORTHOGONAL:
        raise UsageError(
            f"{where}: the nine numbers of R are no rotation: R R^T differs from the identity by {off:.2g}. R is written "
            "row by row (r00 r01 r02 r10 ...), without scale."
        )
    left, _, right = np.linalg.svd(given)
    if np.linalg.det(given) < 0:
        raise UsageError(
            f"{where}: R has determinant -1: it mirrors. One axis has the wrong sign; cameras have x right, y down, z "
            "forward (or x right, y up, z backward: data.axes=opengl)."
        )
    return np.asarray(left @ right)


def homogeneous(numbers: Sequence[float], where: str) -> Matrix:
    """A pose (4, 4) of sixteen numbers, row by row, or of twelve: its first three rows.

    Raises:
        UsageError: its rotation is none, or its last row is not 0 0 0 1.
    """
    given = np.asarray(numbers, np.float64).reshape(-1, 4)
    if len(given) == 4 and not np.allclose(given[3], [0, 0, 0, 1], atol=1e-6):
        column = np.allclose(given[:, 3], [0, 0, 0, 1], atol=1e-6)
        mend = ": it is written column by column, and rows are expected" if column else ""
        raise UsageError(f"{where}: the last row of the pose is {shown(given[3])}, not 0 0 0 1{mend}.")
    return rigid(rotation(list(given[:3, :3].ravel()), where), given[:3, 3])


def r_then_t(numbers: Sequence[float], where: str) -> Matrix:
    """A pose (4, 4) of nine numbers of R, row by row, and three of t."""
    return rigid(rotation(numbers[:9], where), np.asarray(numbers[9:], np.float64))


def check_intrinsics(K: Matrix, where: str) -> Matrix:
    """K itself.

    Raises:
        UsageError: it is no matrix of intrinsics: a focal length of 0, a last row other than 0 0 1.
    """
    upper = abs(K[1, 0]) < 1e-9 and np.allclose(K[2], [0, 0, 1])
    if not np.isfinite(K).all() or 0 in (K[0, 0], K[1, 1]) or not upper:
        mend = " It is written column by column, and rows are expected." if np.allclose(K[:, 2], [0, 0, 1]) else ""
        raise UsageError(f"{where}: {shown(K.ravel())} is no K (fx skew cx 0 fy cy 0 0 1).{mend}")
    return K


def righted(pair: Pair) -> Pair:
    """The same pair with focal lengths above 0: one below 0 (ICL-NUIM) says that this axis points the other way.

    Raises:
        UsageError: so one picture would be mirrored against the other.
    """
    signs = [np.diag([*np.sign(np.diag(camera.K)), 1.0]) for camera in pair.cameras]
    if all((sign == np.eye(4)).all() for sign in signs):
        return pair
    if np.linalg.det(signs[0]) != np.linalg.det(signs[1]):
        raise UsageError(f"{pair.where}: the signs of the focal lengths mirror one picture against the other.")
    first, second = (
        dataclasses.replace(camera, K=camera.K @ sign[:3, :3]) for camera, sign in zip(pair.cameras, signs, strict=True)
    )
    poses = None if pair.poses is None else (signs[0] @ pair.poses[0], signs[1] @ pair.poses[1])
    return dataclasses.replace(pair, cameras=(first, second), pose=signs[1] @ pair.pose @ signs[0], poses=poses)


def below(text: str, where: str) -> str:
    """A path below a folder, as a list names it, with either slash.

    Raises:
        UsageError: it is empty, absolute, or leads out.
    """
    path = PurePosixPath(text.replace("\\", "/"))
    if not path.parts or path.is_absolute() or ".." in path.parts:
        raise UsageError(f"{where}: a path below the folder of images is expected, not {text!r}.")
    check_name(str(path))
    return str(path)


def floats(cells: Sequence[str], where: str) -> list[float]:
    """Numbers.

    Raises:
        UsageError: one of the cells is none, or not finite.
    """
    numbers = []
    for cell in cells:
        try:
            numbers.append(float(cell))
        except ValueError:
            numbers.append(np.nan)
        if not np.isfinite(numbers[-1]):
            raise UsageError(f"{where}: a number is expected, not {cell!r}.")
    return numbers


def shown(numbers: Sequence[float] | Matrix) -> str:
    """Numbers for a message."""
    return " ".join(f"{each:.6g}" for each in np.asarray(numbers, np.float64).ravel())


def refuse_contradictions(pairs: Sequence[Pair]) -> None:
    """Two lines that say how the same two images stand to each other, once each way, have to say the same.

    Raises:
        UsageError: a pose and its counterpart are not each other's inverse (within SAME degrees; lengths of t may differ).
    """
    known = {(pair.cameras[0].image, pair.cameras[1].image): pair for pair in pairs if pair.poses is None}
    for (first, second), pair in known.items():
        other = known.get((second, first))
        if other is None or first >= second:
            continue
        back = np.linalg.inv(other.pose)
        turned = angle(pair.pose[:3, :3], back[:3, :3])
        one, two = (each[:3, 3] / max(float(np.linalg.norm(each[:3, 3])), 1e-12) for each in (pair.pose, back))
        apart = float(np.degrees(np.arccos(np.clip(one @ two, -1, 1))))
        if turned > SAME or apart > SAME:
            raise UsageError(
                f"{pair.where} and {other.where} give the poses of {first} and {second}, one each way, and these are not each "
                f"other's inverse: R is {turned:.1f} degrees apart, t {apart:.1f}. X1 = R X0 + t leads from image0 to image1 in "
                "every line; data.check=off takes them as they are."
            )
