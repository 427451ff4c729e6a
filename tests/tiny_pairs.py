"""Rendered scenes seen by two cameras each, whose images, depth and poses are exact, and writers of the layouts of pairs."""

from __future__ import annotations

import csv
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation

from benchkit.render.pair import second_camera, textured
from benchkit.render.raycast import render
from benchkit.render.scene import make_scene

SIDE = 240
FLIP = np.diag([1.0, -1, -1, 1])
R_NAMES = [f"r{i}{j}" for i in range(3) for j in range(3)]
T_NAMES = ["tx", "ty", "tz"]
K_NAMES = ["fx", "fy", "cx", "cy"]


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """One picture: uint8 (h, w, 3), depth float32 (h, w) in metres, K (3, 3), pose (4, 4) world to camera."""

    name: str
    pixels: np.ndarray
    depth: np.ndarray
    K: np.ndarray
    pose: np.ndarray


@functools.cache
def scenes(count: int = 3, side: int = SIDE, turn: tuple[float, float] = (3.0, 8.0)) -> tuple[tuple[View, View], ...]:
    """Pairs of views, one pair per scene."""
    found = []
    for number in range(count):
        scene = make_scene(f"pair{number}", 7, number)
        cameras = scene.camera, second_camera(scene, f"pair{number}", 7, turn, 0.5)
        seen = [render(textured(scene, 0.15), side, camera) for camera in cameras]
        pair = [View(f"s{number}_{k}", one.rgb, one.depth, one.intrinsics, one.pose) for k, one in enumerate(seen)]
        found.append((pair[0], pair[1]))
    return tuple(found)


def relative(pair: tuple[View, View]) -> np.ndarray:
    """(4, 4), view 0 to view 1."""
    return pair[1].pose @ np.linalg.inv(pair[0].pose)


def put_images(folder: Path, pairs: Iterable[Sequence[View]], suffix: str = ".png") -> None:
    """The pictures as files."""
    folder.mkdir(parents=True, exist_ok=True)
    for view in (view for pair in pairs for view in pair):
        Image.fromarray(view.pixels).save(folder / f"{view.name}{suffix}", quality=98)


def put_depths(folder: Path, pairs: Iterable[Sequence[View]], scale: float = 1000.0) -> None:
    """Depth in millimetres, or by another factor of metres, PNG of 16 bits."""
    for view in (view for pair in pairs for view in pair):
        stored = np.where(view.depth * scale < 60000, view.depth * scale + 0.5, 0).astype(np.uint16)
        Image.fromarray(stored).save(folder / f"{view.name}_depth.png")


def put_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Cells between commas."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(header), *map(list, rows)])


def numbers(K: np.ndarray) -> list[float]:
    """fx, fy, cx, cy."""
    return [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]


def put_own(
    root: Path,
    pairs: Sequence[tuple[View, View]],
    change: Callable[[np.ndarray], np.ndarray] = lambda pose: pose,
    depth: bool = False,
    scale: float = 1.0,
    depth_scale: float = 1000.0,
) -> None:
    """pairs.csv with R and t, the pose changed; intrinsics multiplied by `scale`, depth stored by `depth_scale`."""
    put_images(root, pairs)
    header = ["image0", "image1", *(f"{name}{k}" for k in "01" for name in K_NAMES), *R_NAMES, *T_NAMES, "scene"]
    header += ["depth0", "depth1"] if depth else []
    rows = []
    for pair in pairs:
        pose = change(relative(pair))
        row = [f"{view.name}.png" for view in pair]
        row += [scale * each for view in pair for each in numbers(view.K)]
        row += [*pose[:3, :3].ravel(), *pose[:3, 3], pair[0].name.split("_")[0]]
        rows.append(row + ([f"{view.name}_depth.png" for view in pair] if depth else []))
    if depth:
        put_depths(root, pairs, depth_scale)
    put_table(root / "pairs.csv", header, rows)


def put_cameras(
    root: Path,
    pairs: Sequence[tuple[View, View]],
    change: Callable[[np.ndarray], np.ndarray] = lambda pose: pose,
    header: str = "wxyz",
    order: str = "wxyz",
) -> None:
    """pairs.csv with names alone, and cameras.csv with quaternions, each pose (world to camera) changed.

    Numbers of a quaternion are written in one order below columns that are named in another, if so wished.
    """
    put_images(root, pairs)
    rows = []
    for view in (view for pair in pairs for view in pair):
        pose = change(view.pose)
        turned = dict(zip("xyzw", Rotation.from_matrix(pose[:3, :3]).as_quat(), strict=True))
        numbers_of = [turned[each] for each in order]
        rows.append([f"{view.name}.png", *numbers(view.K), *view.pixels.shape[1::-1], *numbers_of, *pose[:3, 3]])
    columns = [f"q{each}" for each in header]
    put_table(root / "cameras.csv", ["image", *K_NAMES, "width", "height", *columns, *T_NAMES], rows)
    put_table(root / "pairs.csv", ["image0", "image1"], [[f"{view.name}.png" for view in pair] for pair in pairs])


def seen_points(pair: tuple[View, View], step: int = 8) -> tuple[np.ndarray, list[np.ndarray]]:
    """Which of a grid of view 0's points view 1 sees too, and where they are in both, (n, 2) each."""
    first, second = pair
    y, x = (
        each.ravel()
        for each in np.mgrid[step // 2 : first.depth.shape[0] : step, step // 2 : first.depth.shape[1] : step]
    )
    places = np.stack([x + 0.5, y + 0.5], axis=1)
    space = (
        np.concatenate([places, np.ones((len(places), 1))], axis=1) @ np.linalg.inv(first.K).T * first.depth[y, x, None]
    )
    there = space @ relative(pair)[:3, :3].T + relative(pair)[:3, 3]
    moved = there @ second.K.T
    spots = moved[:, :2] / np.where(there[:, 2:] > 0, moved[:, 2:], 1)
    inside = (there[:, 2] > 0) & (first.depth[y, x] > 0) & ((spots > 0) & (spots < second.depth.shape[1])).all(axis=1)
    column, row = np.where(inside[:, None], spots, 0).astype(int).T
    seen = inside & (np.abs(second.depth[row, column] - there[:, 2]) < 0.02 * np.abs(there[:, 2]))
    return seen, [places, spots]


def put_colmap(
    folder: Path,
    pairs: Sequence[tuple[View, View]],
    prefix: str = "",
    suffix: str = ".png",
    model: str = "PINHOLE {} {} {} {}",
) -> list[int]:
    """cameras.txt and images.txt, with a point for each place that both views see; returns how many each pair shares."""
    folder.mkdir(parents=True, exist_ok=True)
    cameras, images, shared = ["# Camera list"], ["# Image list", "# two lines of data per image"], []
    point = number = 0
    for pair in pairs:
        seen, places = seen_points(pair)
        ids = np.where(seen, point + np.arange(len(seen)), -1)
        point += len(seen)
        shared.append(int(seen.sum()))
        for view, spots in zip(pair, places, strict=True):
            number += 1
            name, _, parameters = model.partition(" ")
            height, width = view.pixels.shape[:2]
            cameras.append(f"{number} {name} {width} {height} {parameters.format(*numbers(view.K))}")
            x, y, z, w = Rotation.from_matrix(view.pose[:3, :3]).as_quat()
            t = " ".join(map(repr, map(float, view.pose[:3, 3])))
            images.append(f"{number} {w} {x} {y} {z} {t} {number} {prefix}{view.name}{suffix}")
            images.append(" ".join(f"{a:.2f} {b:.2f} {i}" for (a, b), i in zip(spots, ids, strict=True)))
    (folder / "cameras.txt").write_text("\n".join(cameras) + "\n")
    (folder / "images.txt").write_text("\n".join(images) + "\n")
    (folder / "points3D.txt").write_text("# not read\n")
    return shared
