"""Folders of images and pixel maps: what is stored is what is read, joined by stems, or refused by name."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchkit.conf.build import build as build_conf
from benchkit.conf.find import find_conf
from benchkit.datasets.dense_folder import DenseFolder, Settings
from benchkit.errors import UsageError
from benchkit.export.job import Job
from benchkit.export.truth import FramedTruth
from benchkit.heads.base import Head
from benchkit.preprocess import Preprocess
from benchkit.store.outputs import Outputs

H, W = 6, 8
HEAD = f"model.head.name={__name__}.Learner"
RNG = np.random.default_rng(0)


def photo(path: Path, height: int = H, width: int = W, **how: Any) -> None:
    """A photo like no other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(path, **how)


def stored(path: Path, values: np.ndarray, **how: Any) -> None:
    """Numbers in an image file, or .npy."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, values, **how)
    else:
        Image.fromarray(values).save(path, **how)


def palette(path: Path, indices: np.ndarray) -> None:
    """A palette PNG whose colours, made grey, would be other numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(indices, "P")
    image.putpalette([channel for k in range(256) for channel in (k * 7 % 256, k * 3 % 256, 255 - k)])
    image.save(path)


def mask(*labels: int, dtype: Any = np.uint8) -> np.ndarray:
    """(H, W) with the labels in turns."""
    return np.resize(np.array(labels, dtype), (H, W))


def folder(root: Path, values: dict[str, np.ndarray], name: str = "masks", suffix: str = ".png") -> Path:
    """root/test with a photo and a target per stem."""
    for stem, each in values.items():
        photo(root / "test/images" / f"{stem}.jpg")
        stored(root / "test" / name / f"{stem}{suffix}", each)
    return root


def data(root: Path, **settings: Any) -> DenseFolder:
    return DenseFolder(Settings(root=str(root), **settings))


def problem(root: Path, **settings: Any) -> str:
    """What is wrong with the only item's target."""
    found = data(root, **settings)
    (item,) = found.items("test")
    return found.examine(item)


def only(root: Path, **settings: Any) -> dict[str, np.ndarray]:
    found = data(root, **settings)
    (item,) = found.items("test")
    assert found.examine(item) == ""
    return found.target(item)


class TestMasks:
    def test_a_palette_keeps_its_indices(self, tmp_path):
        photo(tmp_path / "test/images/a.jpg")
        palette(tmp_path / "test/masks/a.png", mask(0, 1, 15, 255))
        found = only(tmp_path, num_classes=16)["mask"]
        assert np.array_equal(found, mask(0, 1, 15, 255))
        assert found.dtype == np.uint8
        assert np.unique(np.asarray(Image.open(tmp_path / "test/masks/a.png").convert("L"))).tolist() != [0, 1, 15, 255]

    @pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".npy", ".pgm"])
    def test_files_of_labels(self, tmp_path, suffix):
        folder(tmp_path, {"a": mask(0, 2, 1, 255)}, suffix=suffix)
        assert np.array_equal(only(tmp_path, num_classes=3)["mask"], mask(0, 2, 1, 255))

    @pytest.mark.parametrize("bits", [1, 2, 4])
    def test_grey_png_of_few_bits(self, tmp_path, bits):
        """PIL gives 0 to 255, or booleans; the file says 0 to 2^bits - 1."""
        folder(tmp_path, {"a": mask(0)})
        labels = np.resize(np.arange(2**bits, dtype=np.uint8), (H, W))
        rows = np.unpackbits(labels[..., None], axis=-1)[..., -bits:].reshape(H, -1)
        lines = b"".join(b"\0" + np.packbits(row).tobytes() for row in rows)
        chunks = [
            (b"IHDR", struct.pack(">IIBBBBB", W, H, bits, 0, 0, 0, 0)),
            (b"IDAT", zlib.compress(lines)),
            (b"IEND", b""),
        ]
        png = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
        (tmp_path / "test/masks/a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + png)
        assert np.array_equal(only(tmp_path, num_classes=16)["mask"], labels)

    def test_16_bits(self, tmp_path):
        folder(tmp_path, {"a": mask(0, 300, 256, 65535, dtype=np.uint16)})
        found = data(tmp_path, num_classes=301, ignore=65535)
        assert np.array_equal(found.target(found.items("test")[0])["mask"], mask(0, 300, 256, 65535, dtype=np.uint16))
        assert found.meta()["ignore"] == 65535

    def test_wide_integers_and_a_negative_ignored_label(self, tmp_path):
        folder(tmp_path, {"a": mask(-1, 0, 1, dtype=np.int64)}, suffix=".npy")
        assert np.array_equal(only(tmp_path, num_classes=2, ignore=-1)["mask"], mask(255, 0, 1))

    def test_colours(self, tmp_path):
        table = np.array([[0, 0, 0], [128, 0, 0], [0, 128, 0]], np.uint8)
        labels = mask(0, 1, 2, 1, 1)
        folder(tmp_path, {"a": table[labels]})
        (tmp_path / "colours.txt").write_bytes(b"\xef\xbb\xbf0 0 0 nothing\r\n128 0 0 red\r\n\r\n0\t128\t0\tgreen\r\n")
        assert np.array_equal(only(tmp_path, colors="colours.txt", num_classes=3)["mask"], labels)
        assert np.array_equal(only(tmp_path, colors={"0 0 0": "2", "800000": "0", "#008000": "1"}, num_classes=3)["mask"],
                              np.array([2, 0, 1])[labels])  # fmt: skip
        assert "coded in colours: say which colour is which label with data.colors" in problem(tmp_path, num_classes=3)
        message = problem(tmp_path, colors={"0 0 0": "0", "128 0 0": "1"}, num_classes=3)
        assert "masks/a.png: its mask has a colour that is not in data.colors: (0, 128, 0)" in message

    def test_grey_saved_as_colour_is_grey(self, tmp_path):
        folder(tmp_path, {"a": np.dstack([mask(0, 2, 1)] * 3)})
        assert np.array_equal(only(tmp_path, num_classes=3)["mask"], mask(0, 2, 1))

    def test_label_map(self, tmp_path):
        folder(tmp_path, {"a": mask(7, 8, 33, 0)})
        expected = mask(0, 1, 255, 255)
        (tmp_path / "map.txt").write_text("7 0\n8 1\n* ignore\n")
        for given in ({"7": "0", "8": "1", "*": "ignore"}, "7:0, 8:1, 33:ignore, 0:ignore", "map.txt"):
            found = data(tmp_path, label_map=given)
            assert np.array_equal(found.target(found.items("test")[0])["mask"], expected)
            assert found.meta() == {"classes": ["0", "1"], "ignore": 255}
        assert "holds 2 unknown labels, 0 (12 pixels), 33 (12 pixels)" in problem(tmp_path, label_map="7:0,8:1")
        with pytest.raises(UsageError, match="maps to class"):
            problem(tmp_path, label_map="7:0,8:5", num_classes=2)

    def test_zero_is_a_hole(self, tmp_path):
        folder(tmp_path, {"a": mask(0, 1, 150)})
        assert np.array_equal(only(tmp_path, zero="hole", num_classes=150)["mask"], mask(255, 0, 149))
        assert "unknown label, 150" in problem(tmp_path, num_classes=150)

    def test_unknown_label(self, tmp_path):
        folder(tmp_path, {"a": mask(0, 1, 255, 3)})
        message = problem(tmp_path, num_classes=2)
        assert (
            "masks/a.png: its mask holds an unknown label, 3 (12 pixels): known are 0 to 1, and 255 is ignored"
            in message
        )
        assert "255 (12 pixels)" in problem(tmp_path, num_classes=4, ignore=None)

    def test_all_ignored_is_no_fault(self, tmp_path):
        folder(tmp_path, {"a": mask(255)})
        assert (only(tmp_path, num_classes=2)["mask"] == 255).all()

    def test_foreground(self, tmp_path):
        folder(tmp_path, {"a": mask(0, 1, 20, 255)})
        found = data(tmp_path, truth="foreground")
        assert np.array_equal(found.target(found.items("test")[0])["mask"], mask(0, 1, 1, 255))
        assert found.meta() == {"classes": ["background", "foreground"], "ignore": 255}
        assert np.array_equal(only(tmp_path, truth="foreground", ignore=None)["mask"], mask(0, 1, 1, 1))

    def test_what_is_no_mask(self, tmp_path):
        folder(tmp_path, {"a": mask(0, 1).astype(np.float32)}, suffix=".npy")
        assert "float32 (6, 8): labels are whole numbers" in problem(tmp_path, num_classes=2)
        np.save(tmp_path / "test/masks/a.npy", np.array([{}], object))
        assert "is no whole .npy file" in problem(tmp_path, num_classes=2)
        (tmp_path / "test/masks/a.npy").unlink()
        stored(tmp_path / "test/masks/a.jpg", mask(0, 1))
        assert "stored with losses" in problem(tmp_path, num_classes=2)

    def test_size_of_another_image(self, tmp_path):
        folder(tmp_path, {"a": mask(0, 1)[:, :7]})
        assert "is 7 x 6 pixels, and the image, upright, is 8 x 6" in problem(tmp_path, num_classes=2)

    def test_a_turned_photo(self, tmp_path):
        turned = Image.Exif()
        turned[0x0112] = 6
        photo(tmp_path / "test/images/a.jpg", exif=turned)
        stored(tmp_path / "test/masks/a.png", mask(0, 1))
        assert "it is that of the file before its EXIF rotation" in problem(tmp_path, num_classes=2)
        stored(tmp_path / "test/masks/a.png", mask(0, 1).T.copy())
        assert only(tmp_path, num_classes=2)["mask"].shape == (W, H)

    def test_a_bomb(self, tmp_path):
        folder(tmp_path, {"a": mask(0)})
        (tmp_path / "test/masks/a.png").unlink()
        (tmp_path / "test/masks/a.pgm").write_bytes(b"P5 200000 200000 255\n" + b"\0" * 64)
        assert "claims" in problem(tmp_path, num_classes=2)
        (tmp_path / "test/masks/a.pgm").unlink()
        head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (900000, 900000), }".ljust(117) + b"\n"
        (tmp_path / "test/masks/a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
        assert "no whole .npy" in problem(tmp_path, num_classes=2)


class TestAsStored:
    """What a file holds decides, not what it is called."""

    def test_masks_with_losses_under_another_name(self, tmp_path):
        for stem, how in (
            ("a", {"format": "JPEG"}),
            ("b", {"format": "WEBP"}),
            ("c", {"format": "TIFF", "compression": "jpeg"}),
        ):
            root = tmp_path / stem
            photo(root / "test/images/a.jpg")
            path = root / "test/masks/a.png"
            path.parent.mkdir(parents=True)
            Image.fromarray(np.stack([mask(0, 1, 2)] * 3, axis=-1)).save(path, **how)
            assert "stored with losses" in problem(root, num_classes=3)

    @pytest.mark.parametrize("head", [b"P2 8 6 3 ", b"P2\n8 6\n3\n", b"P1 8 6 "])
    def test_text_and_bits_of_pnm_are_refused(self, tmp_path, head):
        folder(tmp_path, {"a": mask(0)})
        text = b" ".join(b"%d" % k for k in mask(0, 1).ravel())
        (tmp_path / "test/masks/a.png").rename(tmp_path / "test/masks/a.pgm")
        (tmp_path / "test/masks/a.pgm").write_bytes(head + text)
        assert "values would be scaled" in problem(tmp_path, num_classes=4)

    @pytest.mark.parametrize("head", [b"P5\n# one\n# two\n8 6\n3\n", b"P5 8 6 # behind\n3\n", b"P5 8\n6 3 "])
    def test_a_pgm_with_comments_keeps_its_values(self, tmp_path, head):
        folder(tmp_path, {"a": mask(0)})
        (tmp_path / "test/masks/a.png").rename(tmp_path / "test/masks/a.pgm")
        (tmp_path / "test/masks/a.pgm").write_bytes(head + mask(0, 1, 3).tobytes())
        np.testing.assert_array_equal(only(tmp_path, num_classes=4)["mask"], mask(0, 1, 3))

    def test_a_turned_mask_is_turned_as_its_photo(self, tmp_path):
        exif = Image.Exif()
        exif[274] = 3
        photo(tmp_path / "test/images/a.jpg", exif=exif)
        stored(tmp_path / "test/masks/a.png", mask(0, 1, 2), exif=exif)
        np.testing.assert_array_equal(only(tmp_path, num_classes=3)["mask"], mask(0, 1, 2)[::-1, ::-1])

    def test_several_images_in_one_file(self, tmp_path):
        photo(tmp_path / "test/images/a.jpg")
        path = tmp_path / "test/masks/a.tif"
        path.parent.mkdir(parents=True)
        pages = [Image.fromarray(mask(k)) for k in range(2)]
        pages[0].save(path, save_all=True, append_images=pages[1:])
        assert "it holds 2 images" in problem(tmp_path, num_classes=3)

    @pytest.mark.parametrize("ignore", [255, None])
    def test_a_negative_label_is_no_hole(self, tmp_path, ignore):
        folder(tmp_path, {"a": mask(-1, 0, 1, dtype=np.int16)}, suffix=".npy")
        assert "an unknown label, -1 (16 pixels)" in problem(tmp_path, num_classes=2, ignore=ignore)

    def test_indices_are_no_depth(self, tmp_path):
        photo(tmp_path / "test/images/a.jpg")
        palette(tmp_path / "test/depths/a.png", mask(1, 2))
        assert "indices into a palette" in problem(tmp_path, target_scale=1)

    def test_depth_beyond_float32(self, tmp_path):
        folder(tmp_path, {"a": mask(1, 1e39, dtype=np.float64)}, name="depths", suffix=".npy")
        assert "holds depth of 1e+39 m" in problem(tmp_path)

    def test_channels_that_differ(self, tmp_path):
        folder(tmp_path, {"a": mask(1, dtype=np.float32)}, name="edges", suffix=".npy")
        photo(tmp_path / "test/images/b.jpg")
        stored(tmp_path / "test/edges/b.npy", np.ones((H, W, 2), np.float32))
        found = data(tmp_path)
        assert [found.examine(item)[-60:] for item in found.items("test")] == [
            "", "b.npy: it has 2 numbers a pixel, and that of the first item 1"[-60:]
        ]  # fmt: skip

    def test_normals_stored_in_another_way(self, tmp_path):
        """(n + 1) / 2 as floating numbers; a few odd lengths at edges are holes, and so are the ways holes are stored."""
        vectors = np.zeros((H, W, 3), np.float32) + np.float32([0, 0, -1])
        folder(tmp_path, {"a": vectors / 2 + 0.5}, name="normals", suffix=".npy")
        assert "no unit vectors" in problem(tmp_path, normals_from="x")
        vectors[0, 0], vectors[0, 1], vectors[0, 2] = 0, -1, 3
        stored(tmp_path / "test/normals/a.npy", vectors)
        found = only(tmp_path, normals_from="x")["normals"]
        assert not found[0, :3].any()
        np.testing.assert_allclose(found[0, 3], [0, 0, -1])

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("target_scale", np.inf),
            ("max_depth", np.inf),
            ("intrinsics", [5, np.inf, 1, 1]),
            ("normals_axes", ["--x", "y", "z"]),
        ],
    )
    def test_settings_that_are_no_numbers(self, tmp_path, key, value):
        with pytest.raises(ValueError, match=key):
            Settings(root=str(tmp_path), **{key: value})


class TestClasses:
    def test_from_the_train_targets(self, tmp_path):
        folder(tmp_path, {"a": mask(0, 1, 3)})
        photo(tmp_path / "train/images/b.jpg")
        stored(tmp_path / "train/masks/b.png", mask(0, 2, 255))
        found = data(tmp_path, train_split="train")
        assert found.classes == ["0", "1", "2"]
        assert "unknown label, 3" in found.examine(found.items("test")[0])
        with pytest.raises(UsageError, match="number of classes is not known"):
            data(tmp_path, train_split="none").meta()

    def test_names(self, tmp_path):
        folder(tmp_path, {"a": mask(0, 1)})
        assert data(tmp_path, classes=["sky", "sea"]).classes == ["sky", "sea"]
        assert data(tmp_path, classes=["voc"]).classes[15] == "person"
        (tmp_path / "classes.txt").write_bytes(b"\xef\xbb\xbfwall\r\nwindow\r\n\r\n")
        assert data(tmp_path).classes == ["wall", "window"]
        with pytest.raises(UsageError, match="num_classes=3, and 2 classes"):
            _ = data(tmp_path, num_classes=3).classes
        with pytest.raises(UsageError, match="'sky' twice"):
            _ = data(tmp_path, classes=["sky", "sky"]).classes
        with pytest.raises(UsageError, match="nowhere is neither a file"):
            _ = data(tmp_path, classes=["nowhere"]).classes


class TestNumbers:
    @pytest.mark.parametrize("suffix", [".png", ".tif", ".npy", ".pgm"])
    def test_16_bit_depth(self, tmp_path, suffix):
        depth = mask(0, 946, 9823, 40000, dtype=np.uint16)
        folder(tmp_path, {"a": depth}, "depths", suffix)
        found = only(tmp_path, target_scale=1000, max_depth=10)
        assert found["depth"].dtype == np.float32
        assert np.allclose(found["depth"], np.where(depth > 10000, 0, depth / 1000))
        assert data(tmp_path, target_scale=1000).meta() == {"unit": "m"}
        assert "whole numbers (uint16, up to 40000)" in problem(tmp_path)
        assert "data.target_scale" in problem(tmp_path)

    def test_a_pgm_of_another_range_is_not_stretched(self, tmp_path):
        folder(tmp_path, {"a": mask(0)}, "depth")
        (tmp_path / "test/depth/a.png").unlink()
        values = mask(0, 9823, 5000, dtype=np.uint16)
        (tmp_path / "test/depth/a.pgm").write_bytes(b"P5\n# depth\n8 6\n9999\n" + values.astype(">u2").tobytes())
        assert np.allclose(only(tmp_path, target_scale=5000)["depth"], values / 5000)

    @pytest.mark.parametrize("suffix", [".tif", ".npy"])
    def test_floating_depth(self, tmp_path, suffix):
        folder(tmp_path, {"a": mask(0, 1.5, np.nan, np.inf, dtype=np.float32)}, "depths", suffix)
        assert np.array_equal(only(tmp_path)["depth"], mask(0, 1.5, 0, 0, dtype=np.float32))

    def test_inverse_depth(self, tmp_path):
        folder(tmp_path, {"a": mask(0, 1000, 2000, dtype=np.uint16)}, "depths")
        found = only(tmp_path, inverse=True, target_scale=500)["depth"]
        assert np.array_equal(found, mask(0, 0.5, 0.25, dtype=np.float32))

    def test_what_is_no_depth(self, tmp_path):
        folder(tmp_path, {"a": mask(0, -1, dtype=np.float32)}, "depths", ".npy")
        assert "negative depth, -1 m" in problem(tmp_path)
        stored(tmp_path / "test/depths/a.npy", np.ones((H, W, 3), np.float32))
        assert "float32 (6, 8, 3): one number a pixel" in problem(tmp_path)

    def test_mat(self, tmp_path):
        io = pytest.importorskip("scipy.io")
        depth = mask(0, 1, 2.5, dtype=np.float64)
        folder(tmp_path, {"a": depth}, "depths", ".npy")
        (tmp_path / "test/depths/a.npy").unlink()
        io.savemat(tmp_path / "test/depths/a.mat", {"depth": depth, "camera": np.float64(3), "name": "kinect"})
        assert np.array_equal(only(tmp_path)["depth"], depth)
        io.savemat(tmp_path / "test/depths/a.mat", {"one": depth, "two": {"z": depth + 1}, "three": depth})
        assert "2 variables that could be the map" in problem(tmp_path)
        assert np.array_equal(only(tmp_path, mat_key="two.z")["depth"], depth + 1)
        assert "has no two.y; it has two.z: say data.mat_key" in problem(tmp_path, mat_key="two.y")
        assert "has no four; it has one, two, three: say data.mat_key" in problem(tmp_path, mat_key="four")
        (tmp_path / "test/depths/a.mat").write_bytes(b"MATLAB 5.0 MAT-file" + b"\0" * 200)
        assert "a.mat" in problem(tmp_path)

    def test_mat_needs_scipy(self, tmp_path, monkeypatch):
        folder(tmp_path, {"a": mask(0)}, "depths")
        (tmp_path / "test/depths/a.png").rename(tmp_path / "test/depths/a.mat")
        monkeypatch.setitem(sys.modules, "scipy.io", None)
        with pytest.raises(UsageError, match=r"pip install 'benchkit\[mat\]'"):
            data(tmp_path).items("test")

    def test_one_channel_is_none(self, tmp_path):
        folder(tmp_path, {"a": mask(1, 2, dtype=np.float32)[..., None]}, "depths", ".npy")
        assert only(tmp_path)["depth"].shape == (H, W)

    def test_normals(self, tmp_path):
        vectors = np.zeros((H, W, 3), np.float32)
        vectors[:, 1:] = (0.6, 0, -0.8)
        folder(tmp_path, {"a": vectors}, "normals", ".npy")
        with pytest.raises(UsageError, match="where the true normals come from"):
            data(tmp_path)
        found = data(tmp_path, normals_from="a renderer")
        assert np.allclose(found.target(found.items("test")[0])["normals"], vectors)
        assert found.meta() == {"normals_from": "a renderer"}
        turned = only(tmp_path, normals_from="a renderer", normals_axes=["x", "-y", "-z"])["normals"]
        assert np.allclose(turned[0, 1], (0.6, 0, 0.8))
        (tmp_path / "test/normals/a.npy").unlink()
        stored(tmp_path / "test/normals/a.png", np.rint((vectors + 1) / 2 * 255).astype(np.uint8))
        found = only(tmp_path, normals_from="a renderer")["normals"]
        assert np.allclose(found, vectors, atol=0.01)
        assert not found[:, 0].any()

    def test_maps(self, tmp_path):
        folder(tmp_path, {"a": mask(0, 65535, 6553, dtype=np.uint16)}, "edge_texture")
        found = only(tmp_path, target_scale=65535)["map"]
        assert found.dtype == np.float32
        assert np.allclose(found[0, :3], (0, 1, 0.1), atol=1e-4)
        assert np.isnan(only(tmp_path, zero="hole")["map"][0, 0])
        stored(tmp_path / "test/edge_texture/b.npy", np.full((H, W, 2), np.nan, np.float32))
        photo(tmp_path / "test/images/b.png")
        found = data(tmp_path)
        assert found.target(found.items("test")[1])["map"].shape == (H, W, 2)

    def test_settings_that_have_no_use(self, tmp_path):
        folder(tmp_path, {"a": mask(0, 1)})
        for settings in (
            {"target_scale": 10},
            {"truth": "depth", "num_classes": 2},
            {"zero": "hole", "label_map": "1:0"},
        ):
            with pytest.raises(UsageError, match="no use"):
                data(tmp_path, **settings)
        for settings in ({"target_scale": 0}, {"intrinsics": [1.0, 1, 1]}, {"normals_axes": ["x", "x", "z"]}):
            with pytest.raises(ValueError, match=next(iter(settings))):
                data(tmp_path, **settings)


class TestNormalsFromDepth:
    def test_agree_with_exact_ones(self, tmp_path):
        """Rendered scenes, their depth stored in millimetres: the median angle to the exact normals is below 3 degrees."""
        from benchkit.render.raycast import geometry
        from benchkit.render.scene import make_scene

        for number in range(4):
            seen = geometry(make_scene(f"test/{number:06d}", 0, number), 112)
            photo(tmp_path / f"test/images/{number}.png", 112, 112)
            stored(tmp_path / f"test/depths/{number}.png", np.rint(seen.depth.clip(0, 60) * 1000).astype(np.uint16))
            k = seen.intrinsics
            found = data(tmp_path, truth="normals", target_scale=1000, intrinsics=[k[0, 0], k[1, 1], k[0, 2], k[1, 2]])
            assert found.meta() == {"normals_from": "depth and intrinsics (depth: planes fitted to 5 x 5 pixels)"}
            normals = found.target(found.items("test")[number])["normals"]
            both = normals.any(-1) & seen.normals.any(-1)
            assert both.mean() > 0.9 * seen.normals.any(-1).mean()
            assert np.allclose(np.linalg.norm(normals[both], axis=-1), 1, atol=1e-5)
            cosine = (normals[both] * seen.normals[both]).sum(-1).clip(-1, 1)
            assert np.degrees(np.median(np.arccos(cosine))) < 3

    def test_a_slope_by_hand(self):
        """z = 2 + x, seen with a focal length of 100 pixels: the normal is (1, 0, -1) / sqrt 2, whatever the row."""
        from benchkit.datasets._dense_normals import from_depth

        ray = (np.arange(16) + 0.5 - 8) / 100
        depth = np.tile(2 / (1 - ray), (9, 1))
        assert np.allclose(from_depth(depth, (100, -100, 8, 4.5)), np.array([1, 0, -1]) / np.sqrt(2), atol=1e-6)
        depth[4, 8] = 0
        assert not from_depth(depth, (100, 100, 8, 4.5))[4, 8].any()


class TestPairs:
    def test_by_stem_never_by_position(self, tmp_path):
        folder(tmp_path, {"a": mask(0), "b": mask(1), "c": mask(2)})
        (tmp_path / "test/images/b.jpg").rename(tmp_path / "test/images/b.PNG.jpeg")
        with pytest.raises(UsageError, match=r"1 image has no target with the same stem: b\.PNG"):
            data(tmp_path, num_classes=3).items("test")
        (tmp_path / "test/images/b.PNG.jpeg").rename(tmp_path / "test/images/b.jpeg")
        found = data(tmp_path, num_classes=3)
        assert found.items("test") == ["test/images/a.jpg", "test/images/b.jpeg", "test/images/c.jpg"]
        assert [found.target(item)["mask"][0, 0] for item in found.items("test")] == [0, 1, 2]

    def test_missing_partners(self, tmp_path):
        folder(tmp_path, {"a": mask(0), "b": mask(1), "c": mask(1)})
        (tmp_path / "test/images/c.jpg").unlink()
        with pytest.raises(UsageError, match=r"1 target has no image with the same stem: c below .*masks"):
            data(tmp_path).items("test")
        (tmp_path / "test/masks/b.png").unlink()
        with pytest.raises(UsageError, match=r"1 image has no target with the same stem: b below .*images"):
            data(tmp_path).items("test")

    @pytest.mark.parametrize("extra", ["images/a.png", "masks/a.npy"])
    def test_two_files_with_one_stem(self, tmp_path, extra):
        folder(tmp_path, {"a": mask(0)})
        stored(tmp_path / "test" / extra, mask(0))
        with pytest.raises(UsageError, match=r"a\.\w+ and test/\w+/a\.\w+ have one stem, 'a'"):
            data(tmp_path).items("test")

    def test_leftovers_are_not_images(self, tmp_path):
        folder(tmp_path, {"a": mask(0)})
        for name in ("images/.a.jpg", "images/Thumbs.db", "masks/__MACOSX/a.png", "masks/readme.txt"):
            path = tmp_path / "test" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"x")
        assert data(tmp_path).items("test") == ["test/images/a.jpg"]

    def test_splits_the_other_way_round(self, tmp_path):
        photo(tmp_path / "images/val/x/a.jpg")
        stored(tmp_path / "annotations/val/x/a.png", mask(0))
        assert data(tmp_path, split="val").items("val") == ["images/val/x/a.jpg"]
        with pytest.raises(UsageError, match="no split 'test'; it has val: set"):
            data(tmp_path)

    def test_which_targets(self, tmp_path):
        folder(tmp_path, {"a": mask(0)})
        stored(tmp_path / "test/depths/a.npy", np.ones((H, W), np.float32))
        with pytest.raises(UsageError, match=r"several folders of targets \(test/masks, test/depths\)"):
            data(tmp_path)
        assert data(tmp_path, truth="depth").kind == "depth"
        assert data(tmp_path, targets="masks").kind == "mask"
        stored(tmp_path / "test/mine/a.png", mask(0))
        with pytest.raises(UsageError, match=r"data\.truth=mask\|foreground"):
            data(tmp_path, targets="mine")
        assert data(tmp_path, targets="mine", truth="mask").items("test") == ["test/images/a.jpg"]
        with pytest.raises(UsageError, match=r"there is no folder .*nowhere"):
            data(tmp_path, targets="nowhere")

    def test_without_splits_a_share_is_drawn(self, tmp_path):
        for k in range(8):
            photo(tmp_path / f"images/{k}.jpg")
            stored(tmp_path / f"masks/{k}.png", mask(0, 1))
        found = data(tmp_path, train_split="train", test_fraction=0.25)
        test, train = found.items("test"), found.items("train")
        assert (len(test), len(train)) == (2, 6)
        assert not set(test) & set(train)

    def test_every_folder_of_a_name(self, tmp_path):
        for scene in ("one", "two"):
            photo(tmp_path / scene / "images/000.jpg")
            stored(tmp_path / scene / "depth/000.npy", np.full((H, W), len(scene), np.float32))
        (tmp_path / "test.txt").write_text("two/images/000.jpg\n")
        found = data(tmp_path, image_dir="**/images", targets="**/depth", groups="folder", stems="test.txt")
        assert found.items("test") == ["two/images/000.jpg"]
        assert found.group("two/images/000.jpg") == "two/images"
        assert found.target_paths("two/images/000.jpg") == (tmp_path / "two/depth/000.npy",)

    def test_one_folder_for_both(self, tmp_path):
        photo(tmp_path / "1.png")
        stored(tmp_path / "1_depth.png", mask(5000, dtype=np.uint16))
        settings = {"image_dir": ".", "targets": ".", "truth": "depth", "target_scale": 5000}
        with pytest.raises(UsageError, match="images and targets lie in one folder"):
            data(tmp_path, **settings).items("test")
        found = data(tmp_path, **settings, target_suffix="_depth", train_split="none")
        assert found.items("test") == ["1.png"]
        assert (found.target("1.png")["depth"] == 1).all()


class TestLists:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        for k, stem in enumerate(("a", "b", "c d")):
            photo(tmp_path / f"JPEGImages/{stem}.jpg")
            stored(tmp_path / f"SegmentationClass/{stem}.png", mask(k))
        photo(tmp_path / "JPEGImages/without.jpg")
        return tmp_path

    def listed(self, root: Path, text: bytes) -> list[str]:
        (root / "lists").mkdir(exist_ok=True)
        (root / "lists/test.txt").write_bytes(text)
        return data(root, stems="lists/{split}.txt").items("test")

    def test_of_any_editor(self, root):
        text = b"\xef\xbb\xbfb\r\n\r\n  c d \r\na\r\n"
        assert self.listed(root, text) == [f"JPEGImages/{stem}.jpg" for stem in ("a", "b", "c d")]

    @pytest.mark.parametrize(
        "line",
        ["b", "b.jpg", "JPEGImages/b.jpg", "./JPEGImages/b", "/VOC/JPEGImages/b.jpg /VOC/SegmentationClass/b.png"],
    )
    def test_stems_and_paths(self, root, line):
        assert self.listed(root, line.encode()) == ["JPEGImages/b.jpg"]

    @pytest.mark.parametrize(("text", "message"), [
        (b"a\nb\na.jpg\n", r"test.txt:3: 'a' is listed a second time, first in line 1"),
        (b"a\nOther/b.jpg\n", r"test.txt:2: 'Other/b.jpg' names no image below .*JPEGImages"),
        (b"a\nzebra\n", r"test.txt:2: 'zebra' names no image below .*JPEGImages"),
        (b"without\n", "1 image has no target with the same stem: without"),
        (b"\r\n\r\n", "names no image"),
        (b"caf\xe9\n", "is not UTF-8"),
        (b"a 3\n", r"test.txt:1: 'a 3' names no image"),
        (b"JPEGImages/a.jpg SegmentationClass/b.png\n", "names no image"),
        (b"a a a\n", "names no image"),
    ])  # fmt: skip
    def test_wrong_ones(self, root, text, message):
        with pytest.raises(UsageError, match=message):
            self.listed(root, text)

    def test_two_files_only_matter_where_they_are_listed(self, root):
        photo(root / "JPEGImages/a.png")
        assert self.listed(root, b"b\n") == ["JPEGImages/b.jpg"]
        with pytest.raises(UsageError, match="have one stem"):
            self.listed(root, b"a\n")

    def test_train_lists(self, root):
        for name, text in (("one.txt", "a\n"), ("two.txt", "b\nc d\n")):
            (root / name).write_text(text)
        found = data(root, stems="one.txt", train_stems=str(root / "two.txt"), train_split="train")
        assert found.items("train") == ["JPEGImages/b.jpg", "JPEGImages/c d.jpg"]
        with pytest.raises(UsageError, match="train_stems is not set"):
            data(root, stems="one.txt", train_split="train").items("train")

    @pytest.mark.parametrize("line", ["020", "img020", "img020.jpg", "masks/mask020.png", "./images/img020"])
    def test_names_around_the_stem(self, tmp_path, line):
        photo(tmp_path / "images/img020.jpg")
        stored(tmp_path / "masks/mask020.png", mask(0))
        (tmp_path / "test.txt").write_text(line)
        found = data(tmp_path, stems="test.txt", image_prefix="img", target_prefix="mask")
        assert found.items("test") == ["images/img020.jpg"]

    def test_folders(self, tmp_path):
        for building in ("allensville", "beechwood"):
            photo(tmp_path / f"rgb/{building}/point_0_domain_rgb.png")
            stored(tmp_path / f"edge_texture/{building}/point_0_domain_edge_texture.png", mask(1))
        (tmp_path / "test.txt").write_text("beechwood\n")
        found = data(tmp_path, stems="test.txt", image_suffix="_domain_rgb", target_suffix="_domain_edge_texture")
        assert found.items("test") == ["rgb/beechwood/point_0_domain_rgb.png"]


class Learner(Head):
    """A head that needs a train split."""

    trains = True

    def __init__(self, settings: Any) -> None:
        self.settings = settings


class TestExport:
    """Through the job: nothing is forwarded before every target has been examined."""

    def job(self, root: Path, *arguments: str, benchmark: str = "semantic_segmentation") -> Job:
        conf = build_conf("color_histogram", benchmark, [f"data.root={root}", HEAD, *arguments])
        return Job(conf, Outputs(root.parent / "outputs"), None)

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = folder(tmp_path / "set", {"a": mask(0, 1), "b": mask(0, 1, 255)})
        for stem in "cd":
            photo(root / f"train/images/{stem}.jpg")
            stored(root / f"train/masks/{stem}.png", mask(0, 1))
        return root

    def test_classes_of_the_train_targets(self, root):
        job = self.job(root)
        assert job.conf.data.name == "dense_folder"
        assert job.dataset.meta() == {"classes": ["0", "1"], "ignore": 255}
        assert job.test.items == ["test/images/a.jpg", "test/images/b.jpg"]

    def test_every_bad_target_is_named(self, root):
        stored(root / "test/masks/a.png", mask(0, 7))
        stored(root / "train/masks/d.png", mask(0, 1)[:3])
        with pytest.raises(UsageError, match="2 items cannot be used") as caught:
            self.job(root, "data.num_classes=2")
        assert "unknown label, 7" in str(caught.value)
        assert "d.png is 8 x 3 pixels" in str(caught.value)
        job = self.job(root, "data.num_classes=2", "data.on_error=skip")
        assert sorted(job.skipped) == ["test/images/a.jpg", "train/images/d.jpg"]

    def test_other_targets_may_change_what_is_right(self, root):
        """What is remembered of a file holds only while the classes counted in train are the same."""
        stored(root / "train/masks/d.png", mask(0, 5))
        stored(root / "test/masks/a.png", mask(0, 5))
        first = self.job(root)
        stored(root / "train/masks/d.png", mask(0, 1))
        with pytest.raises(UsageError, match="unknown label, 5"):
            self.job(root)
        assert first.test.id

    def test_a_changed_table_is_another_data_set(self, root):
        (root / "classes.txt").write_text("sky\nsea\n")
        first = self.job(root).test.id
        (root / "classes.txt").write_text("sky\nland\n")
        assert self.job(root).test.id != first

    def test_a_mask_is_no_depth(self, root):
        with pytest.raises(UsageError, match="depth needs data with a depth map"):
            self.job(root, "data.num_classes=2", benchmark="depth")

    def test_label_map_in_a_conf(self, root, tmp_path):
        text = find_conf("color_histogram").read_text()
        (tmp_path / "my.yaml").write_text(
            text
            + "benchmarks:\n  semantic_segmentation:\n    data: {label_map: {0: 1, 1: 0, '*': ignore}, classes: [b, a]}\n"
        )
        conf = build_conf(tmp_path / "my.yaml", "semantic_segmentation", [f"data.root={root}", HEAD])
        job = Job(conf, Outputs(tmp_path / "outputs"), None)
        assert np.array_equal(job.dataset.target("test/images/a.jpg")["mask"], mask(1, 0))


def test_image_and_depth_stay_aligned_through_the_crop(tmp_path):
    """Both say in which column and row they were: half a source pixel apart at most."""
    pytest.importorskip("torch")
    height, width = 150, 210
    rows, columns = np.mgrid[:height, :width].astype(np.float64) + 0.5
    (tmp_path / "test/images").mkdir(parents=True)
    for axis, values in (("x", columns), ("y", rows)):
        Image.fromarray(np.repeat(np.rint(values)[..., None], 3, 2).astype(np.uint8)).save(
            tmp_path / f"test/images/{axis}.png"
        )
        stored(tmp_path / f"test/depths/{axis}.npy", values)
    frame = Preprocess(64, "crop", 64, "bilinear", (0.5,) * 3, (0.5,) * 3)
    found = data(tmp_path)
    for item in found.items("test"):
        depth = FramedTruth(found, frame)(item)["depth"]
        pixels = frame.apply(found.image(item))[0].numpy().astype(np.float64)
        assert depth.shape == pixels.shape == (64, 64)
        inner = (slice(2, -2),) * 2  # antialiasing at the border sees one side only
        difference = depth[inner] - pixels[inner]
        assert abs(difference.mean()) < 0.5
        assert np.abs(difference).max() <= 0.5 * 150 / 64 + 1  # nearest source pixel, and 8-bit rounding


class TestRealLayouts:
    """Real data: what their notes say of them comes out."""

    @pytest.mark.data
    def test_glass_curtain_wall(self, shared):
        found = data(shared / "data/glass_curtain_wall", image_prefix="img", target_prefix="mask",
                     classes=["other", "frame", "glass"], train_split="none")  # fmt: skip
        items = found.items("test")
        assert len(items) == 22
        assert {found.examine(item) for item in items} == {""}
        counts = sum(np.bincount(found.target(item)["mask"].ravel(), minlength=3) for item in items)
        assert np.allclose(counts / counts.sum(), (0.28, 0.13, 0.59), atol=0.006)
        pairs = [(found.path(item).stem[-3:], found.target_paths(item)[0].stem[-3:]) for item in items]
        assert all(image == target for image, target in pairs)

    @pytest.mark.data
    @pytest.mark.parametrize(("stem", "classes", "labels"), [
        ("bird", "voc", [0, 1, 2, 3]), ("cityscapes", "cityscapes", [0, 1, 2, 4, 5, 8, 9, 13]),
    ])  # fmt: skip
    def test_coral_segmentation(self, shared, tmp_path, stem, classes, labels):
        (tmp_path / "test.txt").write_text(f"{stem}\n")
        found = data(shared / "data/coral_segmentation", image_dir=".", targets=".", image_suffix="_segmentation",
                     target_suffix="_segmentation_mask", truth="mask", stems=str(tmp_path / "test.txt"),
                     classes=[classes])  # fmt: skip
        assert found.items("test") == [f"{stem}_segmentation.bmp"]
        assert found.examine(f"{stem}_segmentation.bmp") == ""
        truth = found.target(f"{stem}_segmentation.bmp")["mask"]
        assert truth.shape == (513, 513)
        assert np.unique(truth).tolist() == labels
        if stem == "bird":
            assert found.classes[3] == "bird"
            assert np.bincount(truth.ravel()).argsort()[-2] == 3

    @pytest.mark.data
    @pytest.mark.parametrize(("below", "scale", "intrinsics"), [
        ("ch5/rgbd", 1000, (518, 519, 325.5, 253.5)), ("ch12/dense_RGBD/data", 5000, (481.2, -480, 319.5, 239.5)),
    ])  # fmt: skip
    def test_rgbd_slambook2(self, shared, below, scale, intrinsics):
        """Points of one frame, moved by the poses into the next, lie as far away there as its own depth says."""
        root = shared / "data/rgbd_slambook2" / below
        found = data(root, train_split="none", target_scale=scale)
        items = found.items("test")
        assert items == [f"color/{number}.png" for number in range(1, 6)]
        assert {found.examine(item) for item in items} == {""}
        depths = [found.target(item)["depth"] for item in items]
        poses = [_pose(*map(float, line.split())) for line in (root / "pose.txt").read_text().splitlines()]
        errors = [_reprojected(depths[k], depths[k + 1], np.linalg.inv(poses[k + 1]) @ poses[k], intrinsics)
                  for k in range(4)]  # fmt: skip
        assert np.isfinite(errors).sum() >= 2  # some frames of the second set see nothing in common
        assert 0.010 < np.nanmean(errors) < 0.024

    @pytest.mark.data
    def test_rgbd_slambook2_in_one_folder(self, shared):
        found = data(shared / "data/rgbd_slambook2/ch7", image_dir=".", targets=".", target_suffix="_depth",
                     truth="depth", target_scale=5000, train_split="none")  # fmt: skip
        assert found.items("test") == ["1.png", "2.png"]
        for number in "12":
            assert found.examine(f"{number}.png") == ""
            depth = found.target(f"{number}.png")["depth"]
            values = np.asarray(Image.open(found.root / f"{number}_depth.png"))
            assert values.dtype == np.uint16
            assert np.array_equal(np.rint(depth * 5000), values)
            assert 1 < np.median(depth[depth > 0]) < 4

    @pytest.mark.data
    def test_normals_of_rgbd_slambook2(self, shared):
        found = data(shared / "data/rgbd_slambook2/ch12/dense_RGBD/data", train_split="none", target_scale=5000,
                     truth="normals", intrinsics=[481.2, -480, 319.5, 239.5], normals_from="ICL-NUIM depth")  # fmt: skip
        assert found.meta() == {"normals_from": "ICL-NUIM depth (depth: planes fitted to 5 x 5 pixels)"}
        normals = found.target(found.items("test")[0])["normals"]
        known = normals.any(-1)
        assert known.mean() > 0.95
        assert (normals[known][:, 2] < 0.3).mean() > 0.95  # towards the camera


def _pose(x: float, y: float, z: float, *quaternion: float) -> np.ndarray:
    """Camera to world from a translation and a quaternion (x, y, z, w)."""
    from scipy.spatial.transform import Rotation

    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = Rotation.from_quat(quaternion).as_matrix(), (x, y, z)
    return pose


def _reprojected(depth: np.ndarray, other: np.ndarray, pose: np.ndarray, intrinsics: tuple[float, ...]) -> float:
    """Median relative difference of depths where both frames see something."""
    fx, fy, cx, cy = intrinsics
    v, u = np.nonzero(depth)
    z = depth[v, u]
    x, y, z = pose[:3, :3] @ np.stack([(u - cx) / fx * z, (v - cy) / fy * z, z]) + pose[:3, 3:]
    u, v = np.rint(fx * x / z + cx).astype(int), np.rint(fy * y / z + cy).astype(int)
    seen = (z > 0) & (u >= 0) & (u < depth.shape[1]) & (v >= 0) & (v < depth.shape[0])
    there = other[v[seen], u[seen]]
    if not there.any():
        return float("nan")
    return float(np.median(np.abs(z[seen] - there)[there > 0] / there[there > 0]))
