"""Published lists of pairs, a line or a small file per pair: names, intrinsics and the relative pose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from benchkit.datasets._listing import scan
from benchkit.datasets._lists import refuse_twice
from benchkit.datasets._pair_items import (
    Camera,
    Matrix,
    Pair,
    Reading,
    below,
    check_intrinsics,
    floats,
    homogeneous,
    r_then_t,
)
from benchkit.errors import UsageError
from benchkit.provenance.strict import read_lines


class Numbers(NamedTuple):
    """What a line says beside names."""

    K0: Matrix
    K1: Matrix
    pose: Matrix


def read_superglue(path: Path, settings: Any, reading: Reading) -> list[Pair]:
    """`name0 name1 rotation0 rotation1 K0 (9) K1 (9) T_0to1 (16)` (magicleap/SuperGluePretrainedNetwork, match_pairs.py).

    The rotations say in quarter turns how a viewer should turn an image. Intrinsics and pose are of the image as it lies
    there, so they change nothing in the truth, and images are used unturned.
    """
    return _lines(path, reading, skipped=2, poses=(16,))


def read_calibrated(path: Path, settings: Any, reading: Reading) -> list[Pair]:
    """`name0 name1 K0 (9) K1 (9)` and R (9) t (3), or T_0to1 (16) (cvg/glue-factory, datasets/image_pairs.py)."""
    return _lines(path, reading, skipped=0, poses=(12, 16))


def _lines(path: Path, reading: Reading, skipped: int, poses: Sequence[int]) -> list[Pair]:
    seen: dict[str, int] = {}
    pairs = []
    for number, line in read_lines(path):
        where, cells = f"{path}:{number}", line.split()
        if line.startswith("#"):
            continue
        if len(cells) - 20 - skipped not in poses:
            counts = " or ".join(str(20 + skipped + each) for each in poses)
            raise UsageError(f"{where}: {len(cells)} cells, where {counts} are expected: names, K0, K1 and the pose.")
        images = [below(name, where) for name in cells[:2]]
        known = _numbers(cells[2 + skipped :], where, reading)
        pair = _pair(f"{images[0]}--{images[1]}", images, known, where, _scene(images[0]))
        refuse_twice(path, number, pair.name, seen)
        pairs.append(pair)
    return pairs


def _pair(
    name: str, images: Sequence[str], known: Numbers, where: str, group: str, category: dict[str, str] | None = None
) -> Pair:
    cameras = Camera(images[0], known.K0), Camera(images[1], known.K1)
    return Pair(name, cameras, known.pose, group=group, where=where, category=category or {})


def _numbers(cells: Sequence[str], where: str, reading: Reading) -> Numbers:
    numbers = floats(cells, where)
    K0, K1 = (intrinsics(numbers[k : k + 9], where, reading) for k in (0, 9))
    given = numbers[18:]
    pose = reading.relative(r_then_t(given, where) if len(given) == 12 else homogeneous(given, where))
    return Numbers(K0, K1, pose)


def intrinsics(numbers: Sequence[float], where: str, reading: Reading) -> Matrix:
    """K of nine numbers, row by row."""
    import numpy as np

    K = check_intrinsics(np.asarray(numbers, np.float64).reshape(3, 3), where)
    return reading.intrinsics(K[0, 0], K[1, 1], K[0, 2], K[1, 2], K[0, 1])


def _scene(image: str) -> str:
    """The scene of an image: the folder that it lies in, without what stands for the kind of file below it."""
    folders = [part for part in PurePosixPath(image).parts[:-1] if part not in KINDS]
    return "/".join(folders)


KINDS = ("images", "color", "rgb", "imgs", "dense0", "dense1")


def read_zeb(root: Path, settings: Any, reading: Reading) -> list[Pair]:
    """ZEB (xuelunshen/gim): `<source>/<scene><sign><name0><sign><name1>.txt`, the sign - or _, each of one line.

    The line is `name0 name1 overlap0 overlap1 K0 (9) K1 (9) T_0to1 (16)`; the images are `<source>/<scene><sign><name0>.png`
    beside it (datasets/gl3d/gl3d.py and its neighbours).
    """
    pairs = []
    for source in sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")):
        stems = {Path(image).stem: Path(image).name for image in scan(source).images}
        found = [_zeb(path, source.name, stems, reading) for path in sorted(source.glob("*.txt"))]
        pairs += found
    if not pairs:
        raise UsageError(f"{root} holds no folders with a text file per pair.")
    return pairs


def _zeb(path: Path, source: str, stems: dict[str, str], reading: Reading) -> Pair:
    lines = read_lines(path)
    cells = lines[0][1].split() if lines else []
    where = f"{path}:{lines[0][0] if lines else 1}"
    if len(cells) != 38:
        raise UsageError(f"{where}: {len(cells)} cells, where 38 are expected: names, overlaps, K0, K1 and T_0to1.")
    scene, names = _zeb_images(path, cells[:2], stems, where)
    images = [below(f"{source}/{name}", where) for name in names]
    known = _numbers(cells[4:], where, reading)
    return _pair(f"{source}/{path.stem}", images, known, where, f"{source}/{scene}", {"source": source})


def _zeb_images(path: Path, names: Sequence[str], stems: dict[str, str], where: str) -> tuple[str, list[str]]:
    """The scene that all names begin with, and the two image files."""
    for known in (names, [name.rpartition(".")[0] or name for name in names], [n.split(".")[0] for n in names]):
        for sign in "-_":
            scene = path.stem.removesuffix(f"{known[0]}{sign}{known[1]}")
            if scene == path.stem:
                continue
            wanted = [f"{scene}{name}" for name in known]
            if all(each in stems for each in wanted):
                return scene.rstrip("-_"), [stems[each] for each in wanted]
    raise UsageError(
        f"{where}: the images {names[0]!r} and {names[1]!r} are not beside it under its own name's beginning."
    )
