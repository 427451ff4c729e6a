"""Image pairs: poses and intrinsics as they were meant, in every form and format, and faults that images or depth betray."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import h5py
import numpy as np
import pytest
import tiny_pairs
from PIL import Image
from scipy.spatial.transform import Rotation
from tiny_pairs import FLIP, K_NAMES, R_NAMES, T_NAMES, View, put_cameras, put_own, put_table, relative, scenes

from benchkit.conf.build import build
from benchkit.datasets._pair_turned import header
from benchkit.datasets.pairs import Pairs, Settings
from benchkit.errors import UsageError
from benchkit.export.job import Job
from benchkit.images import Unreadable, decode_exact, inspect
from benchkit.store.outputs import Outputs

inverse = np.linalg.inv


def read(root: Path, **settings: object) -> Pairs:
    """The data set, unchecked unless said."""
    return Pairs(Settings(root=str(root), **{"check": "off", **settings}))


def job(root: Path, *arguments: str) -> Job:
    """What an export makes before its first forward."""
    conf = build("color_histogram", "relative_pose", ["data.name=pairs", f"data.root={root}", *arguments])
    return Job(conf, Outputs(root.parent / "outputs"), None)


def assert_truth(dataset: Pairs, pairs=None, names: str = "{}.png--{}.png") -> None:
    """K, R, t and sizes of every pair, as rendered."""
    pairs = pairs or scenes()
    expected = sorted(names.format(first.name, second.name) for first, second in pairs)
    assert dataset.items("test") == expected
    for pair in pairs:
        target = dataset.target(names.format(pair[0].name, pair[1].name))
        pose = relative(pair)
        np.testing.assert_allclose(target["R"], pose[:3, :3], atol=1e-6)
        np.testing.assert_allclose(target["t"], pose[:3, 3], atol=1e-6)
        for k, view in enumerate(pair):
            np.testing.assert_allclose(target[f"K{k}"], view.K, rtol=1e-6)
            assert target[f"size{k}"].tolist() == [view.pixels.shape[1], view.pixels.shape[0]]


class TestOwnTable:
    def test_points_of_one_view_lie_where_the_other_one_s_depth_says(self, tmp_path):
        """X1 = R X0 + t through K1: the definition of everything, by a loop over pixels."""
        put_own(tmp_path, scenes(), depth=True)
        dataset = read(tmp_path, depth_scale=1000.0)
        item = dataset.items("test")[0]
        target, depth0, depth1 = dataset.target(item), dataset.field(item, "depth0"), dataset.field(item, "depth1")
        off = []
        for y in range(5, 240, 10):
            for x in range(5, 240, 10):
                if np.isnan(depth0[y, x]):
                    continue
                seen = np.linalg.inv(target["K0"]) @ [x + 0.5, y + 0.5, 1] * depth0[y, x]
                there = target["R"] @ seen + target["t"]
                u, v, w = target["K1"] @ there
                if w > 0 and 0 <= u / w < 240 and 0 <= v / w < 240 and np.isfinite(depth1[int(v / w), int(u / w)]):
                    off.append(abs(depth1[int(v / w), int(u / w)] / there[2] - 1))
        assert len(off) > 100
        assert np.median(off) < 0.003
        assert np.mean(np.array(off) < 0.02) > 0.85  # the rest is hidden in view 1

    def test_r_and_t(self, tmp_path):
        put_own(tmp_path, scenes())
        assert_truth(read(tmp_path))
        assert read(tmp_path).group("s1_0.png--s1_1.png") == "s1"
        assert read(tmp_path).maps == ()

    @pytest.mark.parametrize(
        ("settings", "change"),
        [
            ({"pose": "1_to_0"}, inverse),
            ({"axes": "opengl"}, lambda pose: FLIP @ pose @ FLIP),
            ({"pose": "1_to_0", "axes": "opengl"}, lambda pose: FLIP @ inverse(pose) @ FLIP),
        ],
    )
    def test_other_ways(self, tmp_path, settings, change):
        put_own(tmp_path, scenes(), change)
        assert_truth(read(tmp_path, **settings))

    @pytest.mark.parametrize(
        ("settings", "change"),
        [
            ({}, lambda pose: pose),
            ({"pose": "camera_to_world"}, inverse),
            ({"axes": "opengl"}, lambda pose: FLIP @ pose),
            ({"pose": "camera_to_world", "axes": "opengl"}, lambda pose: inverse(FLIP @ pose)),  # as NeRF's poses are
        ],
    )
    def test_poses_per_image(self, tmp_path, settings, change):
        put_cameras(tmp_path, scenes(), change)
        assert_truth(read(tmp_path, **settings))

    def test_a_quaternion_per_pair(self, tmp_path):
        """A quarter turn to the left about y: (cos 45, 0, -sin 45, 0); a point ahead comes to lie on the right."""
        tiny_pairs.put_images(tmp_path, scenes()[:1])
        half = 0.5**0.5
        row = ["s0_0.png", "s0_1.png", 100, 110, 120, 121, half, 0, -half, 0, 1, 2, 3]
        put_table(tmp_path / "pairs.csv", ["image0", "image1", *K_NAMES, "qw", "qx", "qy", "qz", *T_NAMES], [row])
        target = read(tmp_path).target("s0_0.png--s0_1.png")
        np.testing.assert_allclose(target["R"] @ [0, 0, 1], [-1, 0, 0], atol=1e-12)
        assert target["t"].tolist() == [1, 2, 3]
        assert target["K0"].tolist() == target["K1"].tolist() == [[100, 0, 120], [0, 110, 121], [0, 0, 1]]

    def test_quaternions_are_hamilton_s(self, tmp_path):
        tiny_pairs.put_images(tmp_path, scenes()[:1])
        turned = Rotation.from_rotvec([0.3, -0.5, 1.1])
        x, y, z, w = turned.as_quat()
        row = ["s0_0.png", "s0_1.png", 100, 110, 120, 121, w, x, y, z, 1, 2, 3]
        put_table(tmp_path / "pairs.csv", ["image0", "image1", *K_NAMES, "qw", "qx", "qy", "qz", *T_NAMES], [row])
        np.testing.assert_allclose(read(tmp_path).target("s0_0.png--s0_1.png")["R"], turned.as_matrix(), atol=1e-12)

    def test_focal_lengths_below_0(self, tmp_path):
        """As ICL-NUIM's: y points up in the cameras' frames, and fy is below 0. Read back, all is as in other data."""
        up = np.diag([1.0, -1, 1, 1])
        put_own(tmp_path, scenes(), lambda pose: up @ pose @ up)
        lines = [line.split(",") for line in (tmp_path / "pairs.csv").read_text().split()]
        for k in "01":
            column = lines[0].index(f"fy{k}")
            for line in lines[1:]:
                line[column] = f"-{line[column]}"
        (tmp_path / "pairs.csv").write_text("\n".join(map(",".join, lines)))
        assert_truth(read(tmp_path))
        assert len(job(tmp_path).test.items) == 3

    def test_principal_points_from_the_centre_of_a_pixel(self, tmp_path):
        put_own(tmp_path, scenes())
        corner, centre = (read(tmp_path, principal_point=said) for said in ("corner", "centre"))
        item = corner.items("test")[0]
        difference = centre.target(item)["K1"] - corner.target(item)["K1"]
        assert difference.tolist() == [[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]]

    def test_a_table_of_any_make(self, tmp_path):
        """Blanks, tabs or semicolons, line ends and a mark of Windows, a comment sign before the header."""
        put_own(tmp_path, scenes())
        rows = (tmp_path / "pairs.csv").read_text().split()
        (tmp_path / "pairs.csv").unlink()
        for sign, first in ((" ", "# "), ("\t", ""), (";", "\ufeff")):
            text = "\r\n".join(row.replace(",", sign) for row in rows)
            (tmp_path / "pairs.txt").write_bytes((first + text + "\r\n\r\n").encode())
            assert_truth(read(tmp_path))

    def test_splits(self, tmp_path):
        put_own(tmp_path, scenes())
        header, *rows = (tmp_path / "pairs.csv").read_text().split()
        lines = [f"{header},split", f"{rows[0]},val", f"{rows[1]},test", f"{rows[2]},val"]
        (tmp_path / "pairs.csv").write_text("\n".join(lines))
        assert read(tmp_path).items("val") == ["s0_0.png--s0_1.png", "s2_0.png--s2_1.png"]
        with pytest.raises(UsageError, match=r"no pairs in split 'train'; there are test, val"):
            read(tmp_path).items("train")

    def test_another_pose_is_another_data_set(self, tmp_path):
        put_own(tmp_path, scenes())
        first = read(tmp_path)
        item = first.items("test")[0]
        put_own(tmp_path, scenes(), inverse)
        assert read(tmp_path).target_files(item) != first.target_files(item)

    def test_images_in_a_folder_of_their_own(self, tmp_path):
        put_own(tmp_path, scenes())
        (tmp_path / "images").mkdir()
        for path in tmp_path.glob("*.png"):
            path.rename(tmp_path / "images" / path.name)
        assert_truth(read(tmp_path))


BROKEN = {  # column -> value, and what the message says
    "r00=7": "no rotation",
    "r00=nan": "a number is expected, not 'nan'",
    "fx0=0": "is no K",
    "fy0=-100": "signs of the focal lengths mirror",
    "image0=/a.png": "a path below the folder of images",
    "image1=../a.png": "a path below the folder of images",
    "tx=one": "a number is expected, not 'one'",
    "cx1=": "a number is expected, not ''",
}


class TestRefused:
    def write(self, root: Path, **cells: object) -> None:
        put_own(root, scenes())
        lines = [line.split(",") for line in (root / "pairs.csv").read_text().split()]
        for name, value in cells.items():
            lines[2][lines[0].index(name)] = value
        (root / "pairs.csv").write_text("\n".join(map(",".join, lines)))

    @pytest.mark.parametrize("cell", BROKEN)
    def test_a_cell(self, tmp_path, cell):
        name, _, value = cell.partition("=")
        self.write(tmp_path, **{name: value})
        with pytest.raises(UsageError, match=BROKEN[cell]) as caught:
            read(tmp_path)
        assert f"{tmp_path / 'pairs.csv'}:3" in str(caught.value)

    def test_a_mirror(self, tmp_path):
        put_own(tmp_path, scenes(), lambda pose: np.diag([1, -1, 1, 1]) @ pose)
        with pytest.raises(UsageError, match=r"determinant -1: it mirrors"):
            read(tmp_path)

    def test_a_scaled_rotation(self, tmp_path):
        put_own(tmp_path, scenes(), lambda pose: np.diag([2, 2, 2, 1]) @ pose)
        with pytest.raises(UsageError, match=r"R R\^T differs from the identity by 3"):
            read(tmp_path)

    def test_a_quaternion_that_is_none(self, tmp_path):
        put_cameras(tmp_path, scenes())
        text = (tmp_path / "cameras.csv").read_text().splitlines()
        cells = text[1].split(",")
        cells[7:11] = ["1", "1", "0", "0"]
        (tmp_path / "cameras.csv").write_text("\n".join([text[0], ",".join(cells), *text[2:]]))
        with pytest.raises(UsageError, match=r"cameras.csv:2: the quaternion 1 1 0 0 has length 1.414"):
            read(tmp_path)

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (["depht0"], "is 'depth0' meant"),
            (["widht0"], "is 'width0' meant"),
            (["width0"], "one is given alone"),
            (["qw", "qx", "qy", "qz"], "given twice"),
        ],
    )
    def test_columns_that_nobody_reads(self, tmp_path, columns, message):
        """A misspelt one would switch a check off without a word; others may stand there."""
        put_own(tmp_path, scenes())
        header, *lines = (tmp_path / "pairs.csv").read_text().splitlines()
        whole = [",".join([header, *columns]), *(",".join([line, *"1" * len(columns)]) for line in lines)]
        (tmp_path / "pairs.csv").write_text("\n".join(whole))
        with pytest.raises(UsageError, match=message):
            read(tmp_path)
        noted = [f"{header},remark", *(f"{line},x" for line in lines)]
        (tmp_path / "pairs.csv").write_text("\n".join(noted))
        assert len(read(tmp_path).items("test")) == len(lines)

    def test_no_pose(self, tmp_path):
        put_table(tmp_path / "pairs.csv", ["image0", "image1", *K_NAMES, *R_NAMES], [])
        (tmp_path / "pairs.csv").write_text((tmp_path / "pairs.csv").read_text() + ",".join("ab" + "1" * 13) + "\n")
        with pytest.raises(UsageError, match=r"hold no pose"):
            read(tmp_path)

    def test_poses_twice(self, tmp_path):
        put_cameras(tmp_path, scenes())
        cameras = (tmp_path / "cameras.csv").read_text()
        put_own(tmp_path, scenes())
        (tmp_path / "cameras.csv").write_text(cameras)
        with pytest.raises(UsageError, match="poses are given twice"):
            read(tmp_path)

    def test_an_image_without_camera(self, tmp_path):
        put_cameras(tmp_path, scenes())
        text = (tmp_path / "cameras.csv").read_text().splitlines()
        (tmp_path / "cameras.csv").write_text("\n".join(text[:-1]))
        with pytest.raises(UsageError, match=r"cameras.csv has no line for 's2_1.png'"):
            read(tmp_path)

    def test_a_pair_twice(self, tmp_path):
        put_own(tmp_path, scenes())
        text = (tmp_path / "pairs.csv").read_text().split()
        (tmp_path / "pairs.csv").write_text("\n".join([*text, text[1]]))
        with pytest.raises(UsageError, match=r"pairs.csv:5: 's0_0.png--s0_1.png' is listed a second time"):
            read(tmp_path)

    def test_a_way_that_the_list_does_not_have(self, tmp_path):
        put_own(tmp_path, scenes())
        with pytest.raises(UsageError, match=r"gives the pose of each pair, which is 0_to_1 or 1_to_0"):
            read(tmp_path, pose="camera_to_world")

    def test_no_root_and_no_list(self, tmp_path):
        with pytest.raises(UsageError, match=r"pairs need data.root=DIR"):
            Pairs(Settings())
        with pytest.raises(UsageError, match=r"holds no pairs.csv or pairs.txt"):
            read(tmp_path)

    def test_no_step(self, tmp_path):
        def still(pose: np.ndarray) -> np.ndarray:
            changed = pose.copy()
            changed[:3, 3] = 0
            return changed

        put_own(tmp_path, scenes(), still)
        with pytest.raises(UsageError, match=r"t is 0, which has no direction"):
            job(tmp_path)
        assert job(tmp_path, "data.check=off").test.items


TAGS = {6: 1, 8: 3, 3: 2}  # EXIF orientation: quarter turns against the clock from the upright picture to the file's


class TestTurnedPhotos:
    """A photo stored on its side, with a tag: intrinsics are of the stored pixels, or of the upright picture."""

    def write(self, root: Path, tag: int) -> list[tuple[View, View]]:
        """The second view of every pair stored turned; its camera of the stored pixels."""
        quarter = np.array([[0.0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        stored = []
        for first, second in scenes():
            cut = dataclasses.replace(second, pixels=second.pixels[:200], depth=second.depth[:200])  # not square
            K, pose, (height, width) = cut.K, cut.pose, cut.pixels.shape[:2]
            for _ in range(TAGS[tag]):
                turn = quarter[:3, :3].copy()
                turn[1, 2] = width
                K, pose, (height, width) = turn @ K @ quarter[:3, :3].T, quarter @ pose, (width, height)
            pixels = np.rot90(cut.pixels, TAGS[tag])
            depth = np.rot90(cut.depth, TAGS[tag])
            stored.append((first, View(second.name, np.ascontiguousarray(pixels), depth, K, pose)))
        put_own(root, stored, depth=True)
        for first, second in stored:
            image, exif = Image.fromarray(second.pixels), Image.Exif()
            exif[0x0112] = tag
            image.save(root / f"{second.name}.png", exif=exif)
            assert first.pixels.shape == (240, 240, 3)
        return stored

    @pytest.mark.parametrize("tag", TAGS)
    def test_stored_pixels(self, tmp_path, tag):
        self.write(tmp_path, tag)
        made = job(tmp_path, "data.depth_scale=1000", "data.exif=stored")  # the check passes
        target = made.dataset.target("s0_0.png--s0_1.png")
        first, second = scenes()[0]
        np.testing.assert_allclose(target["K1"], second.K, atol=1e-9)
        np.testing.assert_allclose(target["R"], relative((first, second))[:3, :3], atol=1e-9)
        np.testing.assert_allclose(target["t"], relative((first, second))[:3, 3], atol=1e-9)
        assert target["size1"].tolist() == [240, 200]
        assert made.dataset.image("s0_1.png").shape == (200, 240, 3)
        depth = made.dataset.field("s0_0.png--s0_1.png", "depth1")
        there = second.depth[:200] > 0
        np.testing.assert_allclose(depth[there], second.depth[:200][there], atol=1e-3)

    def test_nobody_says(self, tmp_path):
        self.write(tmp_path, 6)
        with pytest.raises(
            UsageError, match=r"it is stored turned \(EXIF orientation 6\).*data.exif=stored.*: s0_1.png;"
        ):
            job(tmp_path, "data.depth_scale=1000")

    def test_upright_pictures(self, tmp_path):
        put_own(tmp_path, scenes())
        for _, second in scenes():
            exif = Image.Exif()
            exif[0x0112] = 6
            Image.fromarray(np.rot90(second.pixels)).save(tmp_path / f"{second.name}.png", exif=exif)
        made = job(tmp_path, "data.exif=upright")
        assert_truth(made.dataset)
        with pytest.raises(
            UsageError, match=r"intrinsics and pose are of the upright pictures. Then set data.exif=upright"
        ):
            job(tmp_path, "data.exif=stored")

    @pytest.mark.parametrize("tag", TAGS)
    def test_the_wrong_one_of_both(self, tmp_path, tag):
        self.write(tmp_path, tag)
        with pytest.raises(
            UsageError, match=r"intrinsics and pose are of the stored pixels. Then set data.exif=stored"
        ):
            job(tmp_path, "data.depth=false", "data.exif=upright")


def late_exif(data: bytes) -> bytes:
    """A PNG whose EXIF chunk stands behind its pixels, as some programs write it."""
    start = data.index(b"eXIf") - 4
    end = start + 12 + int.from_bytes(data[start : start + 4], "big")
    tail = data.index(b"IEND") - 4
    return data[:start] + data[end:tail] + data[start:end] + data[tail:]


class TestHeaders:
    """Size and orientation without reading pixels: what decoding gives."""

    @pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif", ".ppm", ".late.png"])
    @pytest.mark.parametrize("tag", [1, 3, 6, 8])
    def test_as_decoding_says(self, tmp_path, suffix, tag):
        pixels = np.random.default_rng(0).integers(0, 255, (40, 24, 3)).astype(np.uint8)
        exif = Image.Exif()
        exif[0x0112] = tag
        path = tmp_path / f"a{suffix}"
        Image.fromarray(pixels).save(path, **({} if suffix == ".ppm" else {"exif": exif}))
        if suffix == ".late.png":
            path.write_bytes(late_exif(path.read_bytes()))
        width, height, turned = header(path)
        assert turned == (1 if suffix == ".ppm" else tag)
        assert (width, height) == (24, 40)
        upright = (width, height) if turned >= 5 else (height, width)
        assert upright == inspect(path.read_bytes()) == decode_exact(path.read_bytes()).shape[:2]

    @pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89"])
    def test_no_image(self, tmp_path, data):
        (tmp_path / "a.png").write_bytes(data)
        with pytest.raises(Unreadable):
            header(tmp_path / "a.png")


def line(*parts: object) -> str:
    """Words and arrays between blanks."""
    return " ".join(
        str(x) for part in parts for x in (part if isinstance(part, list) else np.asarray(part).ravel().tolist())
    )


class TestFormats:
    def test_superglue(self, tmp_path):
        tiny_pairs.put_images(tmp_path, scenes())
        rows = [line([f"{a.name}.png", f"{b.name}.png", 0, 2], a.K, b.K, relative((a, b))) for a, b in scenes()]
        (tmp_path / "pairs.txt").write_text("\n".join(rows))
        assert_truth(read(tmp_path, format="superglue", check="auto"))
        (tmp_path / "pairs.txt").write_text("\n".join(row.rsplit(" ", 1)[0] for row in rows))
        with pytest.raises(UsageError, match=r"pairs.txt:1: 37 cells, where 38 are expected"):
            read(tmp_path, format="superglue")

    def test_a_pose_written_column_by_column(self, tmp_path):
        tiny_pairs.put_images(tmp_path, scenes())
        rows = [line([f"{a.name}.png", f"{b.name}.png", 0, 0], a.K, b.K, relative((a, b)).T) for a, b in scenes()]
        (tmp_path / "pairs.txt").write_text("\n".join(rows))
        with pytest.raises(UsageError, match=r"not 0 0 0 1: it is written column by column"):
            read(tmp_path, format="superglue")

    def test_intrinsics_written_column_by_column(self, tmp_path):
        rows = [line([f"{a.name}.png", f"{b.name}.png", 0, 0], a.K.T, b.K.T, relative((a, b))) for a, b in scenes()]
        (tmp_path / "pairs.txt").write_text("\n".join(rows))
        with pytest.raises(UsageError, match=r"is no K .* It is written column by column"):
            read(tmp_path, format="superglue")

    @pytest.mark.parametrize("numbers", [12, 16])
    def test_glue_factory_calibrated(self, tmp_path, numbers):
        tiny_pairs.put_images(tmp_path / "images" / "0015", scenes())
        rows = []
        for a, b in scenes():
            pose = relative((a, b))
            said = [pose[:3, :3], pose[:3, 3]] if numbers == 12 else [pose]
            rows.append(line([f"0015/{a.name}.png", f"0015/{b.name}.png"], a.K, b.K, *said))
        (tmp_path / "pairs_calibrated.txt").write_text("\n".join(rows) + "\n")
        dataset = read(tmp_path, format="glue_factory")
        assert_truth(dataset, names="0015/{}.png--0015/{}.png")
        assert dataset.group(dataset.items("test")[0]) == "0015"

    def put_posed(self, root: Path) -> None:
        tiny_pairs.put_images(root / "images", scenes(), ".jpg")
        (root / "depths").mkdir()
        views, pairs = [], []
        for pair in scenes():
            pairs.append(" ".join(f"{view.name}.jpg" for view in pair))
            for view in pair:
                camera = ["PINHOLE", 240, 240, *tiny_pairs.numbers(view.K)]
                views.append(line([f"{view.name}.jpg"], view.pose[:3, :3], view.pose[:3, 3], camera))
                with h5py.File(root / "depths" / f"{view.name}.h5", "w") as file:
                    file["depth"] = view.depth
        (root / "views.txt").write_text("\n".join(views) + "\n")
        (root / "pairs.txt").write_text("\n".join(pairs) + "\n")

    def test_glue_factory_posed(self, tmp_path):
        self.put_posed(tmp_path)
        made = job(tmp_path, "data.format=glue_factory")
        assert_truth(made.dataset, names="{}.jpg--{}.jpg")
        depth, truth = made.dataset.field("s0_0.jpg--s0_1.jpg", "depth1"), scenes()[0][1].depth
        assert np.array_equal(np.nan_to_num(depth), truth)
        assert np.isnan(depth[truth == 0]).all()
        assert read(tmp_path, format="glue_factory", depth=False).maps == ()

    @pytest.mark.parametrize("sign", "-_")
    def test_zeb(self, tmp_path, sign):
        """Two sources; names of images in a line are without what their files begin with."""
        for source in ("kitti", "gl3d"):
            (tmp_path / source).mkdir()
            for number, (a, b) in enumerate(scenes()):
                names = f"00{number}.1", f"01{number}.2"  # dots inside names
                for view, name in zip((a, b), names, strict=True):
                    Image.fromarray(view.pixels).save(tmp_path / source / f"urban{sign}{name}.png")
                text = line([f"{names[0]}.JPG", f"{names[1]}.JPG", 0.5, 0.25], a.K, b.K, relative((a, b)))
                (tmp_path / source / f"urban{sign}{names[0]}{sign}{names[1]}.txt").write_text(text + "\n")
        dataset = read(tmp_path, format="zeb")
        items = dataset.items("test")
        assert len(items) == 6
        assert items[0] == f"gl3d/urban{sign}000.1{sign}010.2"
        assert dataset.views(items[0]) == (f"gl3d/urban{sign}000.1.png", f"gl3d/urban{sign}010.2.png")
        np.testing.assert_allclose(dataset.target(items[1])["R"], relative(scenes()[1])[:3, :3])
        assert (dataset.group(items[0]), dataset.category(items[0])) == ("gl3d/urban", {"source": "gl3d"})
        few = read(tmp_path, format="zeb", max_pairs=2).items("test")
        assert len(few) == 4
        assert set(few) < set(items)
        (tmp_path / "gl3d" / f"urban{sign}010.2.png").unlink()
        with pytest.raises(UsageError, match=r"are not beside it"):
            read(tmp_path, format="zeb")


class TestColmap:
    def test_pairs_that_share_points(self, tmp_path):
        tiny_pairs.put_images(tmp_path / "images", scenes())
        shared = tiny_pairs.put_colmap(tmp_path / "sparse" / "0", scenes())
        assert_truth(read(tmp_path, format="colmap", min_shared=min(shared)))
        most = read(tmp_path, format="colmap", min_shared=max(shared)).items("test")
        assert most == [f"s{k}_0.png--s{k}_1.png" for k in range(3) if shared[k] == max(shared)]
        assert len(read(tmp_path, format="colmap", min_shared=1, max_pairs=2).items("test")) == 2
        with pytest.raises(UsageError, match=r"no two images share 99999 points"):
            read(tmp_path, format="colmap", min_shared=99999)

    def test_a_list(self, tmp_path):
        tiny_pairs.put_images(tmp_path, scenes())
        tiny_pairs.put_colmap(tmp_path, scenes())
        (tmp_path / "pairs.txt").write_text("s0_1.png s1_0.png\n")
        target = read(tmp_path, format="colmap").target("s0_1.png--s1_0.png")
        first, second = scenes()[0][1], scenes()[1][0]
        np.testing.assert_allclose(target["R"], relative((first, second))[:3, :3], atol=1e-6)
        (tmp_path / "pairs.txt").write_text("s0_1.png s9_0.png\n")
        with pytest.raises(UsageError, match=r"pairs.txt:1: the model has no image 's9_0.png'"):
            read(tmp_path, format="colmap")

    def test_it_agrees_with_pycolmap(self, tmp_path):
        pycolmap = pytest.importorskip("pycolmap")
        tiny_pairs.put_images(tmp_path / "images", scenes())
        tiny_pairs.put_colmap(tmp_path / "sparse", scenes(), model="SIMPLE_RADIAL {0} {2} {3} 0.0")
        (tmp_path / "sparse" / "images.txt").write_text(
            "\n".join(
                each if number % 2 == 0 or number < 2 else ""
                for number, each in enumerate((tmp_path / "sparse" / "images.txt").read_text().splitlines())
            )
            + "\n"
        )
        (tmp_path / "pairs.txt").write_text("s0_0.png s0_1.png\n")
        model = {image.name: image for image in pycolmap.Reconstruction(tmp_path / "sparse").images.values()}
        pose = (model["s0_1.png"].cam_from_world() * model["s0_0.png"].cam_from_world().inverse()).matrix()
        target = read(tmp_path, format="colmap").target("s0_0.png--s0_1.png")
        np.testing.assert_allclose(np.column_stack([target["R"], target["t"]]), pose, atol=1e-9)
        np.testing.assert_allclose(target["K0"], model["s0_0.png"].camera.calibration_matrix())

    def test_refused(self, tmp_path):
        tiny_pairs.put_images(tmp_path, scenes())
        (tmp_path / "images.bin").write_bytes(b"")
        with pytest.raises(UsageError, match=r"colmap model_converter --input_path .* --output_type TXT"):
            read(tmp_path, format="colmap")
        tiny_pairs.put_colmap(tmp_path, scenes(), model="SIMPLE_RADIAL {0} {2} {3} 0.02")
        with pytest.raises(UsageError, match=r"the lens distorts \(SIMPLE_RADIAL, 0.02\)"):
            read(tmp_path, format="colmap")
        tiny_pairs.put_colmap(tmp_path, scenes(), model="OPENCV_FISHEYE {0} {1} {2} {3} 0 0 0 0")
        with pytest.raises(UsageError, match=r"model 'OPENCV_FISHEYE'; known are"):
            read(tmp_path, format="colmap")
        with pytest.raises(ValueError, match="a COLMAP model says itself how poses go"):
            Settings(format="colmap", pose="camera_to_world")
