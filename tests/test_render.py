"""The scene generator: equal bytes for equal items, and buffers that agree with geometry worked out by hand."""

import concurrent.futures
import dataclasses

import numpy as np
import pytest

from benchkit.errors import UsageError
from benchkit.render.camera import Camera, look_at
from benchkit.render.material import Material
from benchkit.render.objects import Thing
from benchkit.render.raycast import Buffers, render
from benchkit.render.room import Room
from benchkit.render.scene import CLASSES, VERSION, Scene, make_scene, second_camera
from benchkit.render.shading import Light
from benchkit.render.shapes import Box, Cylinder, Solid, Sphere

PAINT = Material("plain", np.full((2, 3), 0.5), 0.2, (1.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0, 0.2, 0.5)
LIGHT = Light(np.array([0.0, 0.6, 0.8]), np.ones(3), np.full(3, 0.3), 0.2, 0.4)
# A camera at the origin whose x, y, z are the world's x, -z, y.
AHEAD = look_at(np.zeros(3), np.array([0.0, 1.0, 0.0]), 0.0, 1.0)


def scene_of(*solids: Solid, floor: float = -1.0, camera: Camera = AHEAD) -> Scene:
    room = Room((-np.inf, -np.inf, floor), (np.inf, np.inf, np.inf), (PAINT,) * 6, np.ones(3), np.inf)
    return Scene("by hand", 0, 0, room, tuple(Thing("plain", solid, PAINT) for solid in solids), LIGHT, camera)


def all_bytes(seen: Buffers) -> bytes:
    return b"".join(getattr(seen, field.name).tobytes() for field in dataclasses.fields(seen))


def items(count: int) -> list[Scene]:
    return [make_scene(f"test/{k:06d}", 0, k % len(CLASSES)) for k in range(count)]


def test_equal_items_give_equal_bytes_in_any_order_and_thread():
    first = [all_bytes(render(scene, 64)) for scene in items(12)]
    backwards = [all_bytes(render(scene, 64)) for scene in items(12)[::-1]][::-1]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(lambda k: all_bytes(render(make_scene(f"test/{k:06d}", 0, k), 64)), range(12)))
    assert first == backwards == threaded
    assert len(set(first)) == 12


@pytest.mark.parametrize(("name", "seed"), [("test/000001", 0), ("test/000000", 1), ("train/000000", 0)])
def test_name_and_seed_both_change_the_picture(name, seed):
    one, other = render(make_scene("test/000000", 0, 3), 64).rgb, render(make_scene(name, seed, 3), 64).rgb
    assert np.mean(one != other) > 0.5


def test_buffers_have_the_promised_shapes_and_types():
    seen = render(make_scene("test/0", 0, 0), 48)
    assert (seen.rgb.shape, seen.rgb.dtype) == ((48, 48, 3), np.uint8)
    assert (seen.depth.shape, seen.depth.dtype) == ((48, 48), np.float32)
    assert (seen.normals.shape, seen.normals.dtype) == ((48, 48, 3), np.float32)
    assert (seen.instance.shape, seen.instance.dtype) == ((48, 48), np.int16)
    assert (seen.intrinsics.shape, seen.pose.shape, type(VERSION)) == ((3, 3), (4, 4), int)
    assert seen.rgb.flags.c_contiguous


def test_camera_convention():
    assert np.allclose(AHEAD.pose[:3, :3], [[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    assert np.allclose(AHEAD.intrinsics(100), [[100, 0, 50], [0, 100, 50], [0, 0, 1]])


@pytest.mark.parametrize("solid", [Sphere, Box, Cylinder])
def test_straight_ahead(solid):
    seen = render(scene_of(solid(np.array([0.0, 3.0, 0.0]), np.eye(3), (0.5, 0.5, 0.5)), floor=-9.0), 65)
    assert seen.depth[32, 32] == pytest.approx(2.5, abs=1e-5)
    assert seen.normals[32, 32] == pytest.approx([0, 0, -1], abs=1e-3)
    assert seen.instance[32, 32] == 0
    assert seen.instance[32, 0] == -1


def test_silhouette_of_a_ball_has_the_size_of_its_cone():
    size, distance, radius = 400, 3.0, 0.5
    seen = render(scene_of(Sphere(np.array([0.0, distance, 0.0]), np.eye(3), (radius,) * 3), floor=-9.0), size)
    tangent = radius / np.sqrt(distance**2 - radius**2)
    assert np.mean(seen.instance == 0) == pytest.approx(np.pi * tangent**2, rel=5e-3)


def test_floor_depth_and_sky():
    # One metre below the camera: the row whose centre is y px below the axis sees it at depth focal / y.
    seen = render(scene_of(), 64)
    rows = np.arange(64) + 0.5 - 32
    assert seen.depth[40:, 5] == pytest.approx(64 / rows[40:], rel=1e-4)
    assert seen.normals[50, 5] == pytest.approx([0, -1, 0], abs=1e-6)
    assert not seen.depth[:32].any()
    assert not seen.normals[:32].any()


def test_turned_box_shows_the_corner():
    cos = np.sqrt(0.5)
    turn = np.array([[cos, -cos, 0], [cos, cos, 0], [0, 0, 1]])
    seen = render(scene_of(Box(np.array([0.0, 3.0, 0.0]), turn, (0.5, 0.5, 0.5)), floor=-9.0), 201)
    assert seen.depth[100, 100] == pytest.approx(3 - np.sqrt(0.5), abs=1e-3)
    assert seen.normals[100, 110] == pytest.approx([cos, 0, -cos], abs=1e-5)
    assert seen.normals[100, 90] == pytest.approx([-cos, 0, -cos], abs=1e-5)


def test_lying_cylinder_is_as_wide_as_it_is_long():
    lying = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
    seen = render(scene_of(Cylinder(np.array([0.0, 3.0, 0.0]), lying, (0.25, 0.25, 0.6)), floor=-9.0), 300)
    row = np.flatnonzero(seen.instance[150] == 0)
    assert np.ptp(row) + 1 == pytest.approx(2 * 0.6 / 2.75 * 300, abs=1.5)


@pytest.mark.parametrize("solid", [Sphere, Box, Cylinder])
def test_shadow_falls_away_from_the_light_and_only_there(solid):
    # The light stands at (0, .6, .8): what floats 1 m above the floor throws its shadow .75 m nearer, in -y.
    above = look_at(np.array([0.0, 0.0, 5.0]), np.array([0.0, 1e-4, 0.0]), 0.0, 1.0)
    scene = scene_of(solid(np.array([0.0, 0.0, 1.0]), np.eye(3), (0.15, 0.15, 0.15)), floor=0.0, camera=above)
    grey = render(scene, 200).rgb.mean(axis=2)
    x, y = (above.project(np.array([[0.0, -0.75, 0.0]]))[0, :2] * 200 + 100).astype(int)
    mirrored = above.project(np.array([[0.0, 0.75, 0.0]]))[0, :2] * 200 + 100
    assert grey[y, x] < 0.75 * grey[int(mirrored[1]), int(mirrored[0])]


def test_outlines_are_smooth_but_labels_are_not():
    scene = scene_of(Sphere(np.array([0.0, 3.0, 0.0]), np.eye(3), (0.5,) * 3), floor=-9.0)
    ball = dataclasses.replace(PAINT, colors=np.full((2, 3), 0.01), gloss=0.0)
    seen = render(dataclasses.replace(scene, objects=(Thing("plain", scene.objects[0].solid, ball),)), 64)
    upper = seen.rgb[:32, :, 0]
    assert np.isin(seen.instance, [-1, 0]).all()
    assert np.sum((upper > 45) & (upper < 215)) > 15  # neither ball nor sky; none without the further rays


@pytest.mark.parametrize("label", range(len(CLASSES)))
def test_main_object_is_seen_central_and_largest(label):
    scene = make_scene(f"test/{label}", 0, label)
    seen = render(scene, 96)
    assert scene.objects[0].name == CLASSES[label]
    assert 4 <= len(scene.objects) <= 8
    areas = np.bincount(seen.instance[seen.instance >= 0], minlength=len(scene.objects))
    assert areas.argmax() == 0
    x, y, depth = scene.camera.project(scene.objects[0].solid.center[None])[0]
    assert max(abs(x), abs(y)) < 0.25
    assert seen.instance[int((y + 0.5) * 96), int((x + 0.5) * 96)] == 0
    assert seen.depth[int((y + 0.5) * 96), int((x + 0.5) * 96)] < depth


def test_normals_agree_with_the_slope_of_the_depth():
    scene = make_scene("test/3", 0, 1)
    seen = render(scene, 128)
    local = unproject(seen)
    steps = np.cross(local[1:-1, 2:] - local[1:-1, :-2], local[2:, 1:-1] - local[:-2, 1:-1])
    steps /= -np.linalg.norm(steps, axis=2, keepdims=True)
    same = np.ones((126, 126), bool)
    for rows, columns in ((0, 1), (2, 1), (1, 0), (1, 2)):
        same &= seen.instance[rows : rows + 126, columns : columns + 126] == 0
    agreement = np.sum(steps * seen.normals[1:-1, 1:-1], axis=2)[same]
    assert len(agreement) > 300
    assert np.quantile(agreement, 0.05) > 0.98


def unproject(seen: Buffers) -> np.ndarray:
    """Points (size, size, 3) in the camera's frame from depth and K alone."""
    size = len(seen.depth)
    line = np.arange(size) + 0.5
    pixels = np.stack([*np.meshgrid(line, line), np.ones((size, size))], axis=2)
    return pixels @ np.linalg.inv(seen.intrinsics).T * seen.depth[..., None]


@pytest.mark.parametrize("k", range(6))
def test_depth_agrees_between_two_cameras(k):
    scene = make_scene(f"pair/{k}", 0, k)
    first, second = render(scene, 128), render(scene, 128, second_camera(scene, scene.name, scene.seed))
    world = (unproject(first).reshape(-1, 3) - first.pose[:3, 3]) @ first.pose[:3, :3]
    local = (world @ second.pose[:3, :3].T + second.pose[:3, 3])[first.depth.ravel() > 0]
    pixels = local @ second.intrinsics.T
    with np.errstate(divide="ignore", invalid="ignore"):
        column, row = np.floor(pixels[:, :2] / pixels[:, 2:]).T
    inside = (local[:, 2] > 0.1) & (column >= 0) & (column < 128) & (row >= 0) & (row < 128)
    row, column, depth = row[inside].astype(int), column[inside].astype(int), local[inside, 2]
    both = first.instance.ravel()[first.depth.ravel() > 0][inside] == second.instance[row, column]
    error = np.abs(second.depth[row, column] - depth)[both] / depth[both]
    assert both.mean() > 0.7
    assert np.median(error) < 0.01
    assert np.mean(error < 0.05) > 0.9


def test_wrong_labels_and_seeds_are_refused():
    with pytest.raises(UsageError, match="label 12"):
        make_scene("x", 0, 12)
    with pytest.raises(UsageError, match="seed -1"):
        make_scene("x", -1, 0)
