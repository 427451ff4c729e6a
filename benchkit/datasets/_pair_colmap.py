"""A COLMAP model as text: cameras, images with their poses, and pairs of them, listed or by the points they share.

cameras.txt: `CAMERA_ID MODEL WIDTH HEIGHT PARAMS[]`; images.txt: two lines per image, `IMAGE_ID QW QX QY QZ TX TY TZ
CAMERA_ID NAME` (world to camera) and `X Y POINT3D_ID` for every keypoint, -1 where it has no point. Principal points are
in the corner convention (https://colmap.github.io/format.html).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets._pair_items import (
    WXYZ,
    Camera,
    Matrix,
    Pair,
    Reading,
    below,
    between,
    check_intrinsics,
    floats,
    quaternion,
    rigid,
    rotation,
)
from benchkit.errors import UsageError
from benchkit.provenance.strict import read_lines

PLACES = (".", "sparse", "sparse/0")  # where a model lies below root
PINHOLE = ("fx", "fy", "cx", "cy")
SIMPLE = ("fx", "cx", "cy")
MODELS = {  # names of the first parameters; all further ones distort
    "SIMPLE_PINHOLE": SIMPLE,
    "PINHOLE": PINHOLE,
    "SIMPLE_RADIAL": SIMPLE,
    "RADIAL": SIMPLE,
    "OPENCV": PINHOLE,
    "FULL_OPENCV": PINHOLE,
}


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """An image of the model: its camera and pose (world to camera, (4, 4)), and the points it sees, int64 (n,), distinct."""

    camera: Camera
    pose: Matrix
    points: NDArray[np.int64]


def read(path: Path, settings: Any, reading: Reading) -> list[Pair]:
    """Pairs of a model's images.

    Args:
        path: root, or a list of pairs, two names a line.
        settings: min_shared, max_pairs.
        reading: is COLMAP's own and may not be changed.

    Raises:
        UsageError: there is no text model, lenses distort, or nothing is left; says which.
    """
    root = Path(settings.root).expanduser()
    images = read_model(_folder(root), reading)
    listed = path.is_file()
    if listed:
        named = [(number, line.split()) for number, line in read_lines(path) if not line.startswith("#")]
        chosen = list(_listed(path, named, images))
    else:
        chosen = [(path_of(root), one, other) for one, other in covisible(images, settings)]
    if not chosen:
        raise UsageError(f"{root}: no two images share {settings.min_shared} points (data.min_shared).")
    return [pair_of(images[one], images[other], where) for where, one, other in chosen]


def path_of(root: Path) -> str:
    """The file that poses of a model come from, for messages."""
    return str(_folder(root) / "images.txt")


def _folder(root: Path) -> Path:
    folder = next((root / place for place in PLACES if (root / place / "images.txt").is_file()), None)
    if folder is not None:
        return folder
    binary = next((root / place for place in PLACES if (root / place / "images.bin").is_file()), None)
    if binary is not None:
        raise UsageError(
            f"{binary} holds a binary model, and text is read here: colmap model_converter --input_path {binary} "
            f"--output_path {binary} --output_type TXT."
        )
    raise UsageError(f"{root} holds no COLMAP model: images.txt and cameras.txt in it, in sparse/ or in sparse/0/.")


def pair_of(first: Model, second: Model, where: str, group: str = "", quaternion: str = WXYZ) -> Pair:
    """The pair of two images of a model; the order of the numbers of its quaternions, '' without any."""
    pose = between(first.pose, second.pose)
    name = f"{first.camera.image}--{second.camera.image}"
    return Pair(
        name, (first.camera, second.camera), pose, (first.pose, second.pose), group, where=where, quaternion=quaternion
    )


def read_model(folder: Path, reading: Reading) -> dict[str, Model]:
    """The images of a model by name, in name order.

    Raises:
        UsageError: a line is wrong, or a camera's lens distorts.
    """
    cameras = read_cameras(folder / "cameras.txt")
    path = folder / "images.txt"
    found: dict[str, Model] = {}
    for number, cells, points in _images(path):
        where = f"{path}:{number}"
        if cells[8] not in cameras:
            raise UsageError(f"{where}: {folder / 'cameras.txt'} has no camera {cells[8]}.")
        K, size = pinhole(*cameras[cells[8]], reading)
        pose = rigid(quaternion(floats(cells[1:5], where), where), np.array(floats(cells[5:8], where)))
        name = below(cells[9], where)
        found[name] = Model(Camera(name, K, size), pose, points)
    return dict(sorted(found.items()))


def image_lines(path: Path) -> list[tuple[int, list[str]]]:
    """Line number and cells (id, quaternion, translation, camera, name) of every image."""
    return [(number, cells) for number, cells, _ in _images(path)]


def _images(path: Path) -> Iterator[tuple[int, list[str], NDArray[np.int64]]]:
    """Line number, cells and points of every image; the line of its keypoints may be empty."""
    text = _text(path)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if not line.startswith("#")]
    while lines and not lines[-1][1].strip() and len(lines) % 2:
        lines.pop()
    for (number, line), (_, keypoints) in zip(lines[::2], [*lines[1::2], (0, "")], strict=False):
        try:
            ids = np.array(keypoints.split()[2::3], dtype=np.int64)
        except (ValueError, OverflowError):
            raise UsageError(f"{path}:{number + 1}: keypoints are `X Y POINT3D_ID` each.") from None
        cells = line.split(maxsplit=9)
        if len(cells) != 10:
            raise UsageError(f"{path}:{number}: an image has 10 cells (id, quaternion, translation, camera, name).")
        yield number, cells, np.unique(ids[ids >= 0])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}).") from error


def read_cameras(path: Path) -> dict[str, tuple[str, list[str]]]:
    """(file and line, cells behind the id) of every camera, by id."""
    lines = [(number, line.split()) for number, line in read_lines(path) if not line.startswith("#")]
    return {cells[0]: (f"{path}:{number}", cells[1:]) for number, cells in lines}


def pinhole(where: str, cells: Sequence[str], reading: Reading) -> tuple[Matrix, tuple[int, int]]:
    """K and (width, height) of `MODEL WIDTH HEIGHT PARAMS[]`.

    Raises:
        UsageError: the model is another one, or distorts.
    """
    model = cells[0] if cells else ""
    if model not in MODELS:
        raise UsageError(
            f"{where}: a camera of the model {model!r}; known are {', '.join(MODELS)}. Undistort the images first: colmap "
            "image_undistorter."
        )
    names = MODELS[model]
    if len(cells) < 3 + len(names):
        raise UsageError(
            f"{where}: {model} is width, height and at least {len(names)} parameters, not {len(cells) - 1}."
        )
    width, height, *numbers = floats(cells[1:], where)
    if any(numbers[len(names) :]):
        raise UsageError(
            f"{where}: the lens distorts ({model}, {' '.join(cells[3 + len(names) :])}), and pairs are of pinhole cameras. "
            "Undistort the images first: colmap image_undistorter, whose own model then says PINHOLE."
        )
    known = dict(zip(names, numbers, strict=False))
    K = reading.intrinsics(known["fx"], known.get("fy", known["fx"]), known["cx"], known["cy"])
    return check_intrinsics(K, where), (int(width), int(height))


def _listed(
    path: Path, lines: Iterable[tuple[int, list[str]]], images: dict[str, Model]
) -> Iterator[tuple[str, str, str]]:
    for number, names in lines:
        unknown = next((name for name in names if name not in images), None)
        if len(names) != 2 or unknown:
            what = f"the model has no image {unknown!r}" if unknown else "two names are expected"
            raise UsageError(f"{path}:{number}: {what}.")
        yield f"{path}:{number}", names[0], names[1]


def covisible(images: dict[str, Model], settings: Any) -> list[tuple[str, str]]:
    """Pairs, the first before the second in name order, that share at least `min_shared` points; at most `max_pairs`.

    Those that are kept are chosen by the hash of their names.
    """
    names = list(images)
    counts = _shared([images[name].points for name in names])
    found = [(names[i], names[j]) for i, j in combinations(range(len(names)), 2) if counts[i, j] >= settings.min_shared]
    return at_most(found, settings.max_pairs)


def at_most(pairs: list[tuple[str, str]], count: int | None) -> list[tuple[str, str]]:
    """So many of the pairs, always the same, in their order."""
    if count is None or len(pairs) <= count:
        return pairs
    ranked = sorted(pairs, key=lambda names: hashlib.sha256("\0".join(names).encode()).digest())
    kept = set(ranked[:count])
    return [pair for pair in pairs if pair in kept]


def _shared(points: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """How many points two images share, (n, n)."""
    counts = np.zeros((len(points), len(points)), np.int64)
    if not points:
        return counts
    images = np.repeat(np.arange(len(points)), [len(each) for each in points])
    order = np.argsort(np.concatenate(points), kind="stable")
    ids, images = np.concatenate(points)[order], images[order]
    for seen in np.split(images, np.flatnonzero(np.diff(ids)) + 1):
        counts[np.ix_(seen, seen)] += 1
    return counts


def read_posed(path: Path, settings: Any, reading: Reading) -> list[Pair]:
    """Glue Factory's posed images (datasets/posed_images.py): views.txt beside a list of pairs, two names a line.

    A line of views.txt is `name R (9, row by row) t (3) MODEL WIDTH HEIGHT PARAMS[]`, world to camera, the camera as in
    COLMAP; depth maps are depths/<name up to its first dot>.h5 (`depth`), or .png (over 256).
    """
    views = path.parent / "views.txt"
    depths = path.parent / "depths"
    known: dict[str, Model] = {}
    for number, line in read_lines(views):
        where, cells = f"{views}:{number}", line.split()
        if len(cells) < 17:
            raise UsageError(
                f"{where}: {len(cells)} cells, where name, R, t, model, width, height and parameters are due."
            )
        K, size = pinhole(where, cells[13:], reading)
        pose = rigid(rotation(floats(cells[1:10], where), where), np.array(floats(cells[10:13], where)))
        name = below(cells[0], where)
        depth = f"depths/{name.split('.')[0]}"
        suffix = next((s for s in (".h5", ".png") if depths.is_dir() and (path.parent / (depth + s)).is_file()), None)
        camera = Camera(name, K, size, depth + suffix if suffix else None)
        known[name] = Model(camera, reading.to_camera(pose), np.zeros(0, np.int64))
    lines = [(number, line.split()) for number, line in read_lines(path)]
    return [
        pair_of(known[one], known[other], where, "/".join(one.split("/")[:-1]), quaternion="")
        for where, one, other in _listed(path, lines, known)
    ]
