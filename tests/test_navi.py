"""NAVI's and ScanNet's pairs: small folders in their layouts, a ball seen by every camera, and what can be wrong in the files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation

from benchkit.conf.build import build
from benchkit.datasets import navi, scannet_pairs
from benchkit.datasets._points import angle_bin
from benchkit.errors import BenchkitError, UsageError
from benchkit.eval import evaluate
from benchkit.export import export
from benchkit.geometry.pose import projected
from benchkit.store.table import Table

RADIUS = 0.06  # metres, of the ball in the object's origin
WIDTH, HEIGHT, FOCAL = 48, 64, 90.0  # a photo on end


def ball(K: np.ndarray, centre: np.ndarray, width: int, height: int) -> np.ndarray:
    """Depth in metres of a ball around a point in the camera's frame, 0 beside it."""
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ np.linalg.inv(K).T
    along, length = rays @ centre, (rays**2).sum(axis=-1)
    inside = along**2 - length * (centre @ centre - RADIUS**2)
    return np.where(inside > 0, (along - np.sqrt(np.maximum(inside, 0))) / length, 0)


def ramps(width: int, height: int) -> Image.Image:
    """Red and green say column and row, four steps a pixel."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = 4 * np.arange(width), 3 * np.arange(height)[:, None]
    return Image.fromarray(pixels)


def put_photo(scene: Path, number: int, turn: Rotation, split: str, seed: int) -> dict[str, Any]:
    """One photo with its depth; its annotation."""
    move = np.array([10.0, -15.0, 400.0]) + number
    K = np.array([[FOCAL, 0, WIDTH / 2], [0, FOCAL, HEIGHT / 2], [0, 0, 1]])
    depth = ball(K, move / 1000, WIDTH, HEIGHT)
    stored = np.where(depth > 0, 655.35 / np.where(depth > 0, depth, 1), 0)
    for name in ("images", "depth"):
        (scene / name).mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.rint(stored).astype(np.uint16)).save(scene / "depth" / f"{number:03d}.png")
    image = np.asarray(ramps(WIDTH, HEIGHT)).copy()
    image[..., 2] = seed
    # PNG bytes: JPEG would blur the ramps; what a file holds decides, not its name
    Image.fromarray(image).save(scene / "images" / f"{number:03d}.jpg", format="PNG")
    Image.fromarray(image).save(scene / "images" / f"downsampled_{number:03d}.jpg")
    return {
        "object_id": scene.parent.name,
        "camera": {"q": turn.as_quat(scalar_first=True).tolist(), "t": move.tolist(), "focal_length": FOCAL,
                   "camera_model": "none"},
        "filename": f"{number:03d}.jpg",
        "image_size": [HEIGHT, WIDTH],
        "scene_name": scene.name,
        "split": split,
    }  # fmt: skip


def put_scene(root: Path, name: str, degrees: list[float], split: str = "", seed: int = 0) -> None:
    """Photos turned about y by some angles; every fourth is in val, unless all are of one split."""
    scene = root / name
    turns = [Rotation.from_rotvec([0, np.radians(each), 0]) for each in degrees]
    said = [split or ("val" if number % 4 == 3 else "train") for number in range(len(turns))]
    entries = [put_photo(scene, k, turn, said[k], seed + k) for k, turn in enumerate(turns)]
    (scene / "annotations.json").write_text(json.dumps(entries[::-1]))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two objects: in the wild, and in multi-view scenes of both ways of writing their names; a video is left alone."""
    folder = tmp_path_factory.mktemp("navi")
    put_scene(folder, "dino/wild_set", [0, 20, 45, 100, 179], seed=1)
    put_scene(folder, "water_gun/wild_set", [0, 5, 10], seed=11)
    put_scene(folder, "dino/multiview-00-pixel_5", [10 * k for k in range(9)], seed=21)
    put_scene(folder, "water_gun/multiview_01", [15 * k for k in range(5)], seed=41)
    put_scene(folder, "dino/video-00-pixel_5", [0, 10], seed=61)
    return folder


def read(root: Path, **settings: Any) -> navi.Navi:
    return navi.Navi(navi.Settings(**{"root": str(root), "truth": "pose", **settings}))


class TestPairs:
    def test_every_photo_has_one_partner_of_its_scene_within_the_angle(self, root: Path):
        data = read(root)
        items = data.items("test")
        assert [item.rsplit("-", 1)[0] for item in items] == [
            *(f"dino/wild_set/{k:03d}" for k in range(5)),
            *(f"water_gun/wild_set/{k:03d}" for k in range(3)),
        ]
        for item in items:
            first, second = (f"{item.rpartition('/')[0]}/images/{stem}.jpg" for stem in item.split("/")[-1].split("-"))
            assert data.views(item) == (first, second)
            assert first != second
            angle = np.degrees(Rotation.from_matrix(data.target(item)["R"]).magnitude())
            assert 0 < angle <= 120
            assert data.category(item)["angle"] == angle_bin(angle, navi.BINS)
            assert data.group(item) == data.category(item)["object"] == item.split("/")[0]

    def test_splits_are_those_of_the_first_photo(self, root: Path):
        data = read(root)
        names = {split: {item.rsplit("-", 1)[0] for item in data.items(split)} for split in ("train", "val")}
        scenes = {"dino/multiview-00-pixel_5": 9, "water_gun/multiview_01": 5}
        every = {f"{scene}/{k:03d}" for scene, count in scenes.items() for k in range(count)}
        assert names["val"] == {name for name in every if int(name[-3:]) % 4 == 3}
        assert names["train"] == every - names["val"]
        apart = read(root, same_split=True)
        for item in apart.items("train"):
            assert all(int(stem) % 4 != 3 for stem in item.split("/")[-1].split("-"))
        with pytest.raises(UsageError, match="test, train, val"):
            data.items("valid")

    def test_more_partners_extend_the_same_draw_and_another_seed_is_another(self, root: Path):
        one, three = (set(read(root, partners=count).items("train")) for count in (1, 3))
        assert one < three
        assert len(three) == 3 * len(one)
        assert len(read(root, partners=3).items("val")) == len(read(root).items("val"))
        assert set(read(root, seed=9).items("train")) != one
        assert read(root).items("train") == sorted(one)

    def test_every_so_many_and_the_largest_angle(self, root: Path):
        assert [item.split("-")[0] for item in read(root, every=4).items("test")] == [
            "dino/wild_set/000",
            "dino/wild_set/004",
        ]
        near = read(root, max_angle=6)
        assert {item.split("/")[0] for item in near.items("test")} == {"water_gun"}  # none of the dino's is so near

    def test_bins(self):
        assert [angle_bin(each, navi.BINS) for each in (0.1, 29.9, 30, 119, 120, 180)] == [
            "0-30", "0-30", "30-60", "90-120", "120-180", "120-180"]  # fmt: skip


class TestGeometry:
    def test_the_pose_takes_the_object_from_one_camera_to_the_other(self, root: Path):
        """By hand of annotations: X = R X_object + t in millimetres."""
        data = read(root)
        item = data.items("test")[1]
        target = data.target(item)
        entries = {each["filename"]: each for each in json.loads((root / "dino/wild_set/annotations.json").read_text())}
        point = np.array([0.01, 0.02, -0.03])
        seen = []
        for view in data.views(item):
            camera = entries[Path(view).name]["camera"]
            turn = Rotation.from_quat(camera["q"], scalar_first=True)
            seen.append(turn.apply(point) + np.array(camera["t"]) / 1000)
        np.testing.assert_allclose(target["R"] @ seen[0] + target["t"], seen[1], atol=1e-12)
        np.testing.assert_allclose(target["K0"], [[FOCAL, 0, 24], [0, FOCAL, 32], [0, 0, 1]])
        assert target["size1"].tolist() == [WIDTH, HEIGHT]

    def test_points_lie_on_the_ball_in_both_frames(self, root: Path):
        """Depth is stored to 1/10 mm or so; cells see the ball through the pixel in which their centre lies."""
        data = read(root, truth="xyz", side=64)
        for item in data.items("test")[:3]:
            target = data.target(item)
            numbers = [int(stem) for stem in item.split("/")[-1].split("-")]
            centres = [(np.array([10.0, -15, 400]) + number) / 1000 for number in numbers]
            points = [data.field(item, f"xyz{k}") for k in (0, 1)]
            assert points[0].shape == (16, 16, 3) == data.map_shape(item, "xyz0")
            for k in (0, 1):
                valid = data.field(item, f"valid{k}")
                assert valid.dtype == bool
                np.testing.assert_array_equal(valid, np.isfinite(points[k]).all(axis=2))
                assert 0.6 < valid.mean() < 0.85  # a disc in its square: pi / 4
                inner = points[k][4:12, 4:12].reshape(-1, 3)
                np.testing.assert_allclose(np.linalg.norm(inner - centres[k], axis=1), RADIUS, atol=2e-3)
                columns, rows = np.meshgrid(np.arange(4, 12), np.arange(4, 12))
                places = np.stack([columns.ravel(), rows.ravel()], axis=1) * 4 + 2
                np.testing.assert_allclose(projected(inner.astype(np.float64), target[f"K{k}"]), places, atol=1e-3)
            moved = points[0][4:12, 4:12].reshape(-1, 3) @ target["R"].T + target["t"]
            np.testing.assert_allclose(np.linalg.norm(moved - centres[1], axis=1), RADIUS, atol=2e-3)

    def test_the_square_shows_what_its_camera_says(self, root: Path):
        """The photo's ramps tell each pixel's place in it: that of the ray through the square's pixel."""
        data = read(root, truth="xyz", side=64)
        item = data.items("test")[0]
        view, target = data.views(item)[0], data.target(item)
        assert view == "dino/wild_set/images/000.jpg/object"
        image = data.image(view).astype(float)
        assert image.shape == (*data.generated_size(view), 3)
        x, y = np.meshgrid(np.arange(8, 56) + 0.5, np.arange(8, 56) + 0.5)
        rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ np.linalg.inv(target["K0"]).T
        whole = rays * FOCAL + [WIDTH / 2, HEIGHT / 2, 0]
        np.testing.assert_allclose(image[8:56, 8:56, 0] / 4 + 0.5, whole[..., 0], atol=0.2)
        np.testing.assert_allclose(image[8:56, 8:56, 1] / 3 + 0.5, whole[..., 1], atol=0.3)

    def test_an_object_at_the_border_and_one_larger_than_the_photo(self, tmp_path: Path):
        depth = np.zeros((40, 60), np.uint16)
        depth[30:40, 50:60] = 2000
        Image.fromarray(depth).save(tmp_path / "corner.png")
        assert navi._around(tmp_path / "corner.png", 16)[:3] == (50, 30, 10)
        depth[20:30, 35:40] = 2000  # 20 rows, 25 columns: a square of 25 would end below the photo
        Image.fromarray(depth).save(tmp_path / "moved.png")
        assert navi._around(tmp_path / "moved.png", 16)[:3] == (35, 15, 25)
        depth[5, 2] = 2000
        Image.fromarray(depth).save(tmp_path / "wide.png")
        assert navi._around(tmp_path / "wide.png", 16)[:3] == (11, 0, 40)

    def test_recipes_are_of_bytes_and_settings(self, root: Path):
        one, larger = read(root, truth="xyz", side=64), read(root, truth="xyz", side=96)
        views = [data.views(data.items("test")[0]) for data in (one, larger)]
        recipes = {one.recipe(views[0][0]), one.recipe(views[0][1]), larger.recipe(views[1][0])}
        assert len(recipes) == 3
        assert one.recipe(views[0][0]) == read_again(root).recipe(views[0][0])


def read_again(root: Path) -> navi.Navi:
    data = read(root, truth="xyz", side=64)
    data.items("test")
    return data


class TestDamage:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda entry: entry.pop("camera"), "photo 0"),
            (lambda entry: entry["camera"].update(q=[0, 0, 0, 0]), "four numbers"),
            (lambda entry: entry["camera"].update(t=[0, 0]), "t three"),
            (lambda entry: entry["camera"].update(t=[0, 0, float("nan")]), "NaN is no number"),
            (lambda entry: entry["camera"].update(focal_length="far"), "photo 0"),
            (lambda entry: entry.update(filename="../../000.jpg"), "filename"),
            (lambda entry: entry.update(image_size=[0, 48]), "above 0"),
        ],
    )
    def test_annotations(self, tmp_path: Path, change: Any, said: str):
        put_scene(tmp_path, "a/wild_set", [0, 10])
        path = tmp_path / "a/wild_set/annotations.json"
        entries = json.loads(path.read_text())
        change(entries[0])
        path.write_text(json.dumps(entries))
        with pytest.raises(UsageError, match=said) as caught:
            read(tmp_path).items("test")
        assert str(path) in str(caught.value)

    @pytest.mark.parametrize("text", ["{", '{"a": 1}', "[" * 100_000])
    def test_no_list(self, tmp_path: Path, text: str):
        put_scene(tmp_path, "a/wild_set", [0, 10])
        (tmp_path / "a/wild_set/annotations.json").write_text(text)
        with pytest.raises(UsageError, match=r"annotations\.json"):
            read(tmp_path).items("test")

    def test_photos_that_are_not_there_are_nobodys_partners(self, tmp_path: Path):
        put_scene(tmp_path, "a/wild_set", [0, 10, 20])
        (tmp_path / "a/wild_set/images/001.jpg").unlink()
        assert read(tmp_path).items("test") == ["a/wild_set/000-002", "a/wild_set/002-000"]

    def test_depth_of_another_size_and_without_an_object(self, tmp_path: Path):
        put_scene(tmp_path, "a/wild_set", [0, 10])
        data = read(tmp_path, truth="xyz", side=32)
        (item, _) = data.items("test")
        assert data.examine(item) == ""
        path = tmp_path / "a/wild_set/depth/001.png"
        assert path in data.target_paths(item)
        Image.fromarray(np.ones((10, 20), np.uint16)).save(path)
        assert "is 20 x 10 pixels, its annotation says 48 x 64" in data.examine(item)
        Image.fromarray(np.zeros((HEIGHT, WIDTH), np.uint16)).save(path)
        navi._around.cache_clear()
        assert data.examine(item) == "a/wild_set/depth/001.png shows no object"

    def test_other_cameras_are_other_data(self, tmp_path: Path):
        put_scene(tmp_path, "a/wild_set", [0, 10])
        before = read(tmp_path)
        item = before.items("test")[0]
        path = tmp_path / "a/wild_set/annotations.json"
        entries = json.loads(path.read_text())
        entries[0]["camera"]["t"][0] += 1
        path.write_text(json.dumps(entries))
        after = read(tmp_path)
        assert after.items("test")[0] == item
        assert after.target_files(item) != before.target_files(item)

    def test_settings(self):
        for wrong in ({"partners": 0}, {"every": 0}, {"max_angle": 0.0}, {"max_angle": 181.0}, {"side": 4}):
            with pytest.raises(ValueError, match=r"partners|max_angle"):
                navi.Settings(**wrong)


def put_scannet(root: Path, factor: int = 1) -> None:
    """Two scenes of one ball; colour files `factor` times as large as depth and K say."""
    K = np.array([[570.0, 0, 320], [0, 575.0, 240], [0, 0, 1]])
    rows = []
    for scan in (0, 1):
        scene = root / f"scene0707_{scan:02d}"
        for name in ("color", "depth", "pose"):
            (scene / name).mkdir(parents=True)
        for frame, degrees in enumerate((0, 10, 40)):
            turn = Rotation.from_rotvec([0, np.radians(degrees), 0]).as_matrix()
            to_camera = np.eye(4)
            to_camera[:3, :3], to_camera[:3, 3] = turn, [0.01 * frame, 0.02, 0.3]
            depth = np.rint(1000 * ball(K, to_camera[:3, 3], 640, 480)).astype(np.uint16)
            Image.fromarray(depth).save(scene / "depth" / f"{frame}.png")
            text = "\n".join(" ".join(f"{each:.9f}" for each in row) for row in np.linalg.inv(to_camera))
            (scene / "pose" / f"{frame}.txt").write_text(text + "\n")
            shade = np.full((480 * factor, 640 * factor, 3), 40 * frame + scan, np.uint8)
            Image.fromarray(shade).save(scene / "color" / f"{frame}.jpg")
        rows += [[707, scan, 0, 1], [707, scan, 0, 2]]
    np.savez(root / "test.npz", name=np.array(rows, np.uint16), rel_pose=np.zeros((4, 12), np.float32))
    np.savez(root / "intrinsics.npz", scene0707_00=K, scene0707_01=K)


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scannet")
    put_scannet(folder, 2)
    return folder


def open_scans(root: Path, **settings: Any) -> scannet_pairs.ScannetPairs:
    return scannet_pairs.ScannetPairs(scannet_pairs.Settings(root=str(root), **settings))


class TestScannet:
    def test_items_and_bins(self, scans: Path):
        data = open_scans(scans)
        items = data.items("test")
        assert items == [f"scene0707_{scan:02d}/0-{frame}" for scan in (0, 1) for frame in (1, 2)]
        assert data.views(items[1]) == ("scene0707_00/color/0.jpg", "scene0707_00/color/2.jpg")
        assert [data.category(item)["angle"] for item in items[:2]] == ["0-15", "30-60"]
        assert data.group(items[2]) == "scene0707_01"
        assert all(data.examine(item) == "" for item in items)

    def test_geometry(self, scans: Path):
        """Colour of 1280 x 960 pixels: K is doubled, and two pixels are one of the scored frame."""
        data = open_scans(scans)
        item = data.items("test")[1]
        target = data.target(item)
        np.testing.assert_allclose(target["K0"], [[1140, 0, 640], [0, 1150, 480], [0, 0, 1]])
        assert (target["size0"].tolist(), float(target["scale1"])) == ([1280, 960], 0.5)
        np.testing.assert_allclose(np.degrees(Rotation.from_matrix(target["R"]).magnitude()), 40, atol=1e-6)
        centres = np.array([0, 0.02, 0.3]), np.array([0.02, 0.02, 0.3])
        for k in (0, 1):
            points, valid = data.field(item, f"xyz{k}"), data.field(item, f"valid{k}")
            assert points.shape == (120, 160, 3) == data.map_shape(item, f"xyz{k}")
            np.testing.assert_array_equal(valid, np.isfinite(points).all(axis=2))
            inner = points[valid].astype(np.float64)
            inner = inner[inner[:, 2] < 0.28]
            np.testing.assert_allclose(np.linalg.norm(inner - centres[k], axis=1), RADIUS, atol=1.5e-3)
            rows, columns = np.nonzero(valid)
            places = np.stack([columns, rows], axis=1) * 8 + 4
            np.testing.assert_allclose(projected(points[valid].astype(np.float64), target[f"K{k}"]), places, atol=1e-2)
            if not k:
                moved = inner @ target["R"].T + target["t"]
                np.testing.assert_allclose(np.linalg.norm(moved - centres[1], axis=1), RADIUS, atol=1.5e-3)

    def test_lists_cannot_run_code(self, tmp_path: Path):
        put_scannet(tmp_path)
        np.savez(tmp_path / "test.npz", name=np.array([[707, 0, 0, {"a": 1}]], dtype=object), allow_pickle=True)
        with pytest.raises(UsageError, match="allow_pickle"):
            open_scans(tmp_path).items("test")

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            (np.zeros((2, 3), np.int64), "whole numbers"),
            (np.zeros((2, 4)), "whole numbers"),
            (np.array([[707, 0, 0, 1], [707, 0, 0, 1]]), "row 1"),
            (np.array([[707, 0, 1, 1]]), "no pair"),
            (np.array([[-1, 0, 0, 1]]), "whole numbers"),
        ],
    )
    def test_lists_that_are_none(self, tmp_path: Path, name: np.ndarray, said: str):
        put_scannet(tmp_path)
        np.savez(tmp_path / "test.npz", name=name)
        with pytest.raises(UsageError, match=said):
            open_scans(tmp_path).items("test")

    def test_damaged_files(self, tmp_path: Path):
        put_scannet(tmp_path)
        data = open_scans(tmp_path)
        item = data.items("test")[0]
        pose = tmp_path / "scene0707_00/pose/1.txt"
        whole = pose.read_text()
        for text, said in (("-inf " * 16, "a number is expected"), ("1 2 3", "4 x 4"), ("1 " * 16, "0 0 0 1")):
            pose.write_text(text)
            assert said in data.examine(item)
        pose.write_text(whole)
        Image.fromarray(np.zeros((480, 640), np.uint16)).save(tmp_path / "scene0707_00/depth/1.png")
        assert data.examine(item) == "1.png holds no depth"
        assert open_scans(tmp_path, truth="pose").examine(item) == ""
        np.savez(tmp_path / "intrinsics.npz", scene0707_00=np.eye(3))
        with pytest.raises(UsageError, match="scene0707_01 is missing"):
            open_scans(tmp_path).target(item)
        (tmp_path / "intrinsics.npz").write_bytes(b"PK\x03\x04")
        with pytest.raises(UsageError, match=r"no whole \.npz"):
            open_scans(tmp_path).target(item)

    def test_lists_that_claim_too_much(self, tmp_path: Path):
        put_scannet(tmp_path)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, name=np.zeros((scannet_pairs.LARGEST, 1), np.uint8))
        (tmp_path / "test.npz").write_bytes(buffer.getvalue())
        with pytest.raises(UsageError, match="claims"):
            open_scans(tmp_path).items("test")


def run(tmp_path: Path, conf: str, benchmark: str, root: Path, *arguments: str, random: bool = False) -> Any:
    (end,) = export(conf, benchmark, arguments=[f"data.root={root}", *arguments], random=random, tag="t",
                    outputs=tmp_path, say=lambda _: None)  # fmt: skip
    if isinstance(end, BenchkitError):
        raise end
    return evaluate(benchmark, "t", outputs=tmp_path)


class TestWholeWay:
    def test_navi_correspondence(self, tmp_path: Path, root: Path):
        given = ("data.side=64", "data.size=64", "data.every=1", "model.features.layers=3")
        found = run(tmp_path, "efficientnet_lite0", "navi_correspondence", root, *given, random=True)
        assert found.summaries["n_items"] == 8
        for name in ("recall@2cm", "recall@5cm", "recall@5px", "recall@25px"):
            values = [found.summaries[f"{which}{name}"] for which in ("floor_", "", "ceiling_")]
            assert values == sorted(values)
        assert {"recall@2cm/0-30", "recall@2cm/90-120"} <= found.summaries.keys()
        with Table(found.folder / "targets.h5", "targets") as truth:
            assert {"xyz0", "valid1", "category/angle"} <= set(truth.columns)
            assert truth.item("xyz1", 0).shape == (16, 16, 3)

    def test_navi_pose(self, tmp_path: Path, root: Path):
        given = ("data.partners=2", "data.size=32", "data.resize_short=32", "model.head.epochs=3")
        found = run(tmp_path, "color_histogram", "navi_pose", root, *given)
        assert found.summaries["n_items"] == 3
        assert found.summaries["train_pairs"] == 22
        assert 0 < found.summaries["floor_rotation_error"] < 60

    def test_scannet_correspondence(self, tmp_path: Path, scans: Path):
        given = ("data.size=64", "model.features.layers=2")
        found = run(tmp_path, "efficientnet_lite0", "scannet_correspondence", scans, *given, random=True)
        assert found.summaries["n_items"] == 4
        assert found.summaries["recall@80px"] <= found.summaries["ceiling_recall@80px"]
        assert "recall@40px/30-60" in found.summaries

    def test_instances_are_of_probe3d_and_visbench(self):
        conf = build("color_histogram", "scannet_correspondence")
        assert conf.eval.pixels == [20, 40, 80]
        assert conf.head.settings.interpolation == "bilinear"
        assert build("color_histogram", "navi_correspondence").data.settings.every == 4
        assert build("color_histogram", "navi_pose").data.settings.partners == 8
