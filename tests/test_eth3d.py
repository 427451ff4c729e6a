"""ETH3D: scenes as their archives unpack, pairs by shared points, the smaller frame, and depth of both kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_pairs
from PIL import Image
from tiny_pairs import View, relative, scenes

import benchkit
from benchkit.conf.build import build
from benchkit.datasets._pair_fisheye import distorted, looked_up
from benchkit.datasets.eth3d import Eth3d, Settings, smaller
from benchkit.errors import UsageError
from benchkit.export.job import Job
from benchkit.images import Unreadable
from benchkit.store.outputs import Outputs

IMAGES = "dslr_images_undistorted"
LARGE = 1200  # side of the photos, of which an eighth is 150
LENS = [130.0, 131.0, 121.0, 119.0, 0.05, -0.02, 0.001, -0.002, 0.01, 0.003, 0.0004, -0.0003]


def large() -> list[tuple[View, View]]:
    """The rendered pairs as photos of LARGE pixels."""
    factor = LARGE / tiny_pairs.SIDE
    found = []
    for pair in scenes():
        views = []
        for view in pair:
            pixels = np.asarray(Image.fromarray(view.pixels).resize((LARGE, LARGE), Image.Resampling.BICUBIC))
            views.append(View(view.name, pixels, view.depth, np.diag([factor, factor, 1]) @ view.K, view.pose))
        found.append((views[0], views[1]))
    return found


def at_150(view: View) -> np.ndarray:
    """Depth at the pixels of the picture of an eighth, from the nearest rendered pixel."""
    index = ((np.arange(150) + 0.5) * tiny_pairs.SIDE / 150).astype(int)
    return view.depth[np.ix_(index, index)]


@pytest.fixture(scope="module")
def photos() -> list[tuple[View, View]]:
    return large()


@pytest.fixture
def root(tmp_path: Path, photos) -> Path:
    """Two scenes, of two pairs and of one, with the small depth of Glue Factory's archive."""
    home = tmp_path / "ETH3D_undistorted"
    for name, pairs in (("courtyard", photos[:2]), ("pipes", photos[2:])):
        scene = home / name
        tiny_pairs.put_images(scene / "images" / IMAGES, pairs, ".JPG")
        put_calibration(scene / "dslr_calibration_undistorted", pairs)
        folder = scene / "ground_truth_depth" / "undistorted_depth"
        folder.mkdir(parents=True)
        for view in (view for pair in pairs for view in pair):
            stored = np.where(at_150(view) < 200, at_150(view) * 256 + 0.5, 0).astype(np.uint16)
            Image.fromarray(stored).save(folder / f"{view.name}.png")
    return home


def put_calibration(folder: Path, pairs: list[tuple[View, View]]) -> list[int]:
    """COLMAP's files; points are those that the rendered views share."""
    by_name = {view.name: view for pair in scenes() for view in pair}
    small = [(by_name[a.name], by_name[b.name]) for a, b in pairs]
    shared = tiny_pairs.put_colmap(folder, small, f"{IMAGES}/", ".JPG")
    factor = LARGE / tiny_pairs.SIDE
    lines = []
    for line in (folder / "cameras.txt").read_text().splitlines()[1:]:
        number, model, _, _, *numbers = line.split()
        lines.append(" ".join([number, model, str(LARGE), str(LARGE), *(str(factor * float(n)) for n in numbers)]))
    (folder / "cameras.txt").write_text("# three lines\n# of a\n# head\n" + "\n".join(lines) + "\n")
    return shared


def read(root: Path, **settings: object) -> Eth3d:
    return Eth3d(Settings(root=str(root), **{"min_shared": 1, **settings}))


def item_of(scene: str, pair: tuple[View, View]) -> str:
    return "--".join(f"{scene}/images/{IMAGES}/{view.name}.JPG" for view in pair)


class TestTruth:
    def test_items_and_groups(self, root, photos):
        dataset = read(root)
        items = dataset.items("test")
        assert items == [item_of("courtyard", photos[0]), item_of("courtyard", photos[1]), item_of("pipes", photos[2])]
        assert [dataset.group(item) for item in items] == ["courtyard", "courtyard", "pipes"]

    def test_cameras_are_of_the_smaller_picture(self, root, photos):
        """An eighth of 1200: K over 8, sizes of 150; the pose is the photos' own."""
        dataset = read(root)
        target = dataset.target(item_of("courtyard", photos[1]))
        np.testing.assert_allclose(target["K0"], np.diag([1 / 8, 1 / 8, 1]) @ photos[1][0].K, rtol=1e-9)
        np.testing.assert_allclose(target["R"], relative(photos[1])[:3, :3], atol=1e-9)
        np.testing.assert_allclose(target["t"], relative(photos[1])[:3, 3], atol=1e-9)
        assert target["size0"].tolist() == [150, 150]
        assert dataset.image(dataset.views(dataset.items("test")[0])[0]).shape == (150, 150, 3)
        assert read(root, downsize=1).target(item_of("pipes", photos[2]))["size0"].tolist() == [1200, 1200]

    def test_a_side_that_is_no_multiple_is_rounded_down(self):
        """Glue Factory: the longer side over 8 without rest, the shorter one in proportion: 6221 -> 777, 4146 -> 517.8."""
        assert smaller((6221, 4146), 8) == (777, 517)
        assert smaller((4146, 6221), 8) == (517, 777)

    def test_points_land_where_the_other_depth_says(self, root, photos):
        dataset = read(root)
        item = item_of("pipes", photos[2])
        target, depth0, depth1 = dataset.target(item), dataset.field(item, "depth0"), dataset.field(item, "depth1")
        assert depth0.shape == depth1.shape == (150, 150)
        off = []
        for y, x in np.argwhere(np.isfinite(depth0))[::97]:
            seen = np.linalg.inv(target["K0"]) @ [x + 0.5, y + 0.5, 1] * depth0[y, x]
            u, v, w = target["K1"] @ (target["R"] @ seen + target["t"])
            if w > 0 and 0 <= u / w < 150 and 0 <= v / w < 150 and np.isfinite(depth1[int(v / w), int(u / w)]):
                off.append(abs(depth1[int(v / w), int(u / w)] / w - 1))
        assert len(off) > 50
        assert np.mean(np.array(off) < 0.03) > 0.8

    def test_which_photos_are_pairs(self, root, photos):
        shared = put_calibration(root / "courtyard" / "dslr_calibration_undistorted", photos[:2])
        most = max(shared)
        kept = [item for item in read(root, min_shared=most).items("test") if item.startswith("courtyard")]
        assert kept == [item_of("courtyard", photos[shared.index(most)])]
        assert len(read(root, max_pairs=1).items("test")) == 2
        with pytest.raises(UsageError, match=r"no two photos share 9999 points"):
            read(root, min_shared=9999)

    def test_without_depth(self, root):
        assert read(root).maps == ("depth0", "depth1")
        assert read(root, depth=False).maps == ()

    def test_refused(self, root):
        with pytest.raises(UsageError, match=r"ETH3D needs data.root=DIR"):
            Eth3d(Settings())
        with pytest.raises(UsageError, match=r"holds no scenes of ETH3D"):
            read(root / "pipes")


class TestExport:
    def job(self, root: Path, *arguments: str) -> Job:
        conf = build("color_histogram", "eth3d", ["data.min_shared=1", *arguments])
        return Job(conf, Outputs(root.parent / "outputs"), None)

    def test_found_at_home_and_checked(self, root, monkeypatch):
        monkeypatch.setenv("BENCHKIT_DATA", str(root.parent))
        made = self.job(root)
        assert len(made.test.items) == 3
        assert made.conf.eval.depth
        facts = made.facts[made.dataset.views(made.test.items[0])[0]]
        assert (facts.height, facts.width) == (150, 150)

    @pytest.mark.slow
    def test_scored_with_depth(self, root, monkeypatch):
        pytest.importorskip("cv2")
        monkeypatch.setenv("BENCHKIT_DATA", str(root.parent))
        outputs = root.parent / "outputs"
        result = benchkit.run("orb", "eth3d", arguments=["data.min_shared=1"], outputs=outputs, say=lambda _: None)
        assert {"AP", "reproj_prec@3px", "rel_pose_error_poselib@5"} <= result.summaries.keys()
        assert result.summaries["covisible"] > 0.3
        assert result.summaries["reproj_prec@3px"] > 2 * result.summaries["floor_reproj_prec@3px"]

    def test_poses_the_wrong_way_round(self, root, monkeypatch):
        monkeypatch.setenv("BENCHKIT_DATA", str(root.parent))
        for scene in ("courtyard", "pipes"):
            path = root / scene / "dslr_calibration_undistorted" / "images.txt"
            lines = path.read_text().splitlines()
            for number, line in enumerate(lines):
                cells = line.split()
                if len(cells) == 10:
                    cells[2:5] = [str(-float(cell)) for cell in cells[2:5]]
                    lines[number] = " ".join(cells)
            path.write_text("\n".join(lines) + "\n")
        with pytest.raises(UsageError, match=r"do not fit the depth maps.*if R is transposed"):
            self.job(root)

    def test_a_photo_of_another_size(self, root, monkeypatch, photos):
        monkeypatch.setenv("BENCHKIT_DATA", str(root.parent))
        name = root / "pipes" / "images" / IMAGES / f"{photos[2][0].name}.JPG"
        Image.fromarray(photos[2][0].pixels[:800]).save(name)
        with pytest.raises(UsageError, match=r"it has 1200 x 800 pixels, and its calibration 1200 x 1200"):
            self.job(root)


class TestRawDepth:
    """ground_truth_depth/dslr_images: of photos as they were taken, through a lens that distorts."""

    def test_the_lens_is_colmap_s(self):
        pycolmap = pytest.importorskip("pycolmap")
        camera = pycolmap.Camera(model="THIN_PRISM_FISHEYE", width=240, height=240, params=LENS)
        rays = np.random.default_rng(0).uniform(-0.8, 0.8, (50, 2))
        rays[0] = 0
        expected = camera.img_from_cam(np.column_stack([rays, np.ones(50)]))
        np.testing.assert_allclose(distorted(rays, LENS), expected, atol=1e-9)

    def test_it_is_found_through_both_cameras(self, tmp_path):
        """A stored value is its own column: what is found at a pixel is where the lens puts its ray."""
        columns = np.tile(np.arange(240, dtype="<f4") + 0.5, (200, 1))
        columns[:, :5] = np.inf
        columns.tofile(tmp_path / "a.JPG")
        K = np.array([[60.0, 0, 40], [0, 60, 30], [0, 0, 1]])
        cells = ["THIN_PRISM_FISHEYE", "240", "200", *map(str, LENS)]
        found = looked_up(tmp_path / "a.JPG", ("cameras.txt:1", cells), K, (80, 60))
        assert found.shape == (60, 80)
        for x, y in ((40, 30), (12, 9), (70, 55)):
            place = distorted(np.array([[(x + 0.5 - 40) / 60, (y + 0.5 - 30) / 60]]), LENS)[0]
            assert found[y, x] == np.floor(place[0]) + 0.5
        wide = np.array([[10.0, 0, 40], [0, 10, 30], [0, 0, 1]])
        assert np.isnan(looked_up(tmp_path / "a.JPG", ("cameras.txt:1", cells), wide, (80, 60))[30, 0])

    def test_of_a_scene(self, tmp_path, photos):
        """A lens of no distortion but the fisheye's own: flat depth is found everywhere inside."""
        scene = tmp_path / "pipes"
        tiny_pairs.put_images(scene / "images" / IMAGES, photos[2:], ".JPG")
        put_calibration(scene / "dslr_calibration_undistorted", photos[2:])
        (scene / "ground_truth_depth" / "dslr_images").mkdir(parents=True)
        (scene / "dslr_calibration_jpg").mkdir()
        lens = f"7 THIN_PRISM_FISHEYE {LARGE} {LARGE} 900 900 600 600 0 0 0 0 0 0 0 0"
        (scene / "dslr_calibration_jpg" / "cameras.txt").write_text(f"# a\n{lens}\n")
        names = [f"{view.name}.JPG" for view in photos[2]]
        lines = [f"{n} 1 0 0 0 0 0 0 7 dslr_images/{name}\n" for n, name in enumerate(names, 1)]
        (scene / "dslr_calibration_jpg" / "images.txt").write_text("".join(line + "\n" for line in lines))
        for name in names:
            np.full((LARGE, LARGE), 2.5, "<f4").tofile(scene / "ground_truth_depth" / "dslr_images" / name)
        dataset = read(tmp_path)
        depth = dataset.field(dataset.items("test")[0], "depth1")
        assert depth.shape == (150, 150)
        assert set(np.unique(depth[np.isfinite(depth)])) == {2.5}
        assert np.isfinite(depth[75, 75])
        (scene / "ground_truth_depth" / "dslr_images" / names[1]).write_bytes(b"1234")
        again = read(tmp_path)
        with pytest.raises(Unreadable, match=r"it has 4 bytes, and the photo has 1200 x 1200"):
            again.field(again.items("test")[0], "depth1")
