"""Edges, keypoints, corners and orientations: numbers as scipy and numpy have them, cases by hand, data of images alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage, stats

from benchkit import registry
from benchkit.datasets import _scene_maps, images, scenes
from benchkit.errors import UsageError
from benchkit.export.truth import FramedTruth
from benchkit.metrics import magnitude, orientation, structure
from benchkit.preprocess import Preprocess
from benchkit.store.items import ArrayItems


def family(name: str):
    component = registry.find("eval", name)
    return component.build(component.settings())


def picture(seed: int = 0, shape: tuple[int, int] = (40, 56)) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(*shape, 3))
    soft = ndimage.gaussian_filter(noise, (2, 2, 0))
    return (128 + 60 * soft / soft.std()).clip(0, 255).astype(np.uint8)


class TestMagnitude:
    def test_agrees_with_scipy(self):
        rng = np.random.default_rng(0)
        truth, noise = (rng.normal(size=(20, 30)).astype(np.float32) for _ in range(2))
        prediction = truth + noise
        found = magnitude.errors(prediction, truth)
        assert found["correlation"] == pytest.approx(stats.pearsonr(prediction.ravel(), truth.ravel())[0])
        assert found["rmse"] == pytest.approx(np.sqrt((noise**2).mean()), rel=1e-5)
        assert found["mae"] == pytest.approx(np.abs(noise).mean(), rel=1e-5)

    def test_unknown_pixels_count_nowhere(self):
        truth = np.array([[0, 1, 2], [np.nan, np.nan, 3]], np.float32)
        prediction = np.array([[0, 1, 2], [900, -900, 5]], np.float32)
        found = magnitude.errors(prediction, truth)
        assert found["correlation"] == pytest.approx(stats.pearsonr([0, 1, 2, 5], [0, 1, 2, 3])[0])
        assert found["rmse"] == pytest.approx(1)  # one of four is 2 off
        assert found["mae"] == pytest.approx(0.5)

    def test_scale_and_offset_leave_the_correlation(self):
        truth = np.random.default_rng(0).random((8, 8))
        assert magnitude.errors(3 * truth + 7, truth)["correlation"] == pytest.approx(1)
        assert magnitude.errors(-truth, truth)["correlation"] == pytest.approx(-1)

    @pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e6])
    def test_a_constant_prediction_has_no_correlation(self, value: float):
        truth = np.random.default_rng(0).random((64, 64)).astype(np.float32)
        rounding = value + value * 1e-8 * truth.astype(
            np.float64
        )  # a constant but for rounding errors that follow the truth
        for prediction in (np.full_like(truth, value), rounding):
            assert magnitude.errors(prediction, truth)["correlation"] == 0

    def test_a_constant_truth_is_undefined(self):
        found = magnitude.errors(np.random.default_rng(0).random((4, 4)), np.full((4, 4), 0.3))
        assert np.isnan(found["correlation"])
        assert np.isfinite(found["rmse"])

    def test_nothing_known_is_undefined(self):
        assert all(np.isnan(v) for v in magnitude.errors(np.zeros((2, 2)), np.full((2, 2), np.nan)).values())

    def test_images_without_a_value_are_left_out(self):
        """Correlations 1 and undefined: their mean is 1, RMSE's 0 and 1."""
        rows = np.stack([np.arange(4.0).reshape(2, 2), np.ones((2, 2))]).astype(np.float32)
        predicted = np.stack([rows[0], np.zeros((2, 2), np.float32)])
        edges = family("edges")
        columns = edges.score(ArrayItems(["a", "b"], {"map": predicted}), ArrayItems(["a", "b"], {"map": rows}))
        assert edges.summarize(columns) == pytest.approx({"correlation": 1, "rmse": 0.5, "mae": 0.5})


class TestPooled:
    def test_a_grid_of_pixels_is_the_truth(self):
        truth = np.random.default_rng(0).random((6, 9)).astype(np.float32)
        np.testing.assert_allclose(magnitude.pooled_map(truth, (6, 9)), truth, rtol=1e-6)

    def test_cells_are_means_of_known_pixels(self):
        truth = np.zeros((4, 4), np.float32)
        truth[:2, :2] = [[1, 2], [3, np.nan]]  # mean 2 in the first cell
        found = magnitude.pooled_map(truth, (2, 2))
        assert found[0, 0] == pytest.approx(2)  # the corner takes its own cell alone
        assert found[3, 3] == 0
        assert found[0, 1] == pytest.approx(1.5)  # three quarters of the first cell, one of its neighbour

    def test_unknown_cells_take_no_part(self):
        truth = np.full((4, 4), np.nan, np.float32)
        truth[:, :2] = 5
        np.testing.assert_allclose(magnitude.pooled_map(truth, (2, 2)), 5)
        assert not magnitude.pooled_map(np.full((4, 4), np.nan, np.float32), (2, 2)).any()

    def test_channels(self):
        truth = np.random.default_rng(0).random((8, 8, 2)).astype(np.float32)
        found = magnitude.pooled_map(truth, (2, 4))
        assert found.shape == (8, 8, 2)
        np.testing.assert_array_equal(found[..., 1], magnitude.pooled_map(truth[..., 1], (2, 4)))

    def test_ceiling_of_a_grid(self):
        edges, names = family("edges"), ["a"]
        truth = ArrayItems(names, {"map": np.random.default_rng(0).random((1, 16, 16)).astype(np.float32)})
        found = []
        for side in (2, 4, 16):
            grids = {"map": truth.fields["map"], "grid": np.full((1, 2), side, np.int32)}
            best = edges.ceiling(ArrayItems(names, grids), truth)
            found.append(edges.summarize(edges.score(best, truth))["correlation"])
        assert found[0] < found[1] < found[2] == pytest.approx(1)


class TestStructure:
    def test_smoothing_agrees_with_scipy(self):
        values = np.random.default_rng(0).random((20, 31)).astype(np.float32)
        for sigma in (0.5, 2.0, 3.4):
            radius = max(1, int(3 * sigma))
            expected = ndimage.gaussian_filter(values, sigma, mode="nearest", radius=radius)
            np.testing.assert_allclose(structure.smooth(values, sigma), expected, atol=1e-6)

    def test_gradients_agree_with_scipy(self):
        values = np.random.default_rng(0).random((9, 12)).astype(np.float32)
        for found, axis in zip(structure.gradients(values), (1, 0), strict=True):
            np.testing.assert_allclose(found, ndimage.sobel(values, axis, mode="nearest") / 8, atol=1e-6)

    def test_corner_strength_is_the_smaller_eigenvalue(self):
        image = picture()
        xx, xy, yy = structure.tensor(structure.luma(image))
        matrices = np.stack([np.stack([xx, xy], -1), np.stack([xy, yy], -1)], -1).astype(np.float64)
        smaller = np.linalg.eigvalsh(matrices)[..., 0].clip(0)
        np.testing.assert_allclose(structure.corner_strength(image), np.log1p(1e4 * smaller), atol=2e-4)

    def test_luma_is_pils(self):
        image = picture()
        expected = np.asarray(Image.fromarray(image).convert("L"), np.float32)
        assert np.abs(structure.luma(image) * 255 - expected).max() <= 0.51

    def test_corners_are_where_a_square_has_them(self):
        image = np.zeros((48, 48, 3), np.uint8)
        image[14:34, 14:34] = 255
        strength = structure.corner_strength(image)
        assert strength[14, 14] > 3 > 0.01 > strength[24, 14]  # a corner; the middle of a side
        assert strength[24, 24] == strength[2, 2] == 0

    def test_borders_are_no_edges(self):
        white = np.full((20, 20, 3), 255, np.uint8)
        for made in (
            structure.corner_strength,
            structure.edge_strength,
            structure.blob_strength,
            structure.orientation,
        ):
            assert not made(white).any()

    @pytest.mark.parametrize("degrees", [0, 20, 45, 90, 135, 170])
    def test_orientation_of_a_grating(self, degrees: int):
        y, x = np.mgrid[:64, :64]
        angle = np.radians(degrees)
        wave = 128 + 100 * np.sin((x * np.cos(angle) + y * np.sin(angle)) * 0.6)
        found = structure.orientation(np.repeat(wave[..., None], 3, axis=2).astype(np.uint8))[16:48, 16:48]
        seen = np.degrees(np.arctan2(found[..., 1], found[..., 0])) / 2
        assert np.abs((seen - degrees + 90) % 180 - 90).max() < 1.5
        assert np.linalg.norm(found, axis=-1).min() > 0.95

    def test_edges_and_blobs(self):
        y, x = np.mgrid[:40, :40]
        blob = 255 * np.exp(-((x - 20) ** 2 + (y - 20) ** 2) / (2 * 3.0**2))
        image = np.repeat(blob[..., None], 3, axis=2).astype(np.uint8)
        assert np.unravel_index(structure.blob_strength(image).argmax(), blob.shape) == (20, 20)
        top = np.unravel_index(structure.edge_strength(image).argmax(), blob.shape)
        assert np.hypot(top[0] - 20, top[1] - 20) == pytest.approx(3, abs=1)  # steepest one sigma out


def double(degrees: np.ndarray, length: float = 1.0) -> np.ndarray:
    angle = np.radians(2 * np.asarray(degrees, np.float64))
    return length * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


class TestOrientation:
    def test_an_edge_and_its_reverse_are_the_same(self):
        found = orientation.angles(double([[10, 10, 10, 170]], 3), double([[10, 190, 100, 10]]))
        np.testing.assert_allclose(found, [[0, 0, 90, 20]], atol=1e-6)

    def test_weights_are_coherences(self):
        truth = double([[0, 0]])
        truth[0, 1] *= 0.25
        found = orientation.errors(double([[10, 30]]), truth)
        assert found["error"] == pytest.approx((10 + 30 / 4) / 1.25)
        assert found["d1"] == found["d2"] == pytest.approx(0.8)

    def test_thresholds_are_strict(self):
        truth = np.array([[[1.0, 0.0]]])
        at = np.array([[[1.0, 1.0]]])  # 45 degrees of the doubled angle: 22.5
        assert orientation.errors(at, truth)["d2"] == 0
        assert orientation.errors(at + np.array([0.01, 0]), truth)["d2"] == 1

    def test_chance_is_45_degrees(self):
        rng = np.random.default_rng(0)
        truth = double(rng.uniform(0, 180, (200, 200)))
        found = orientation.errors(double(rng.uniform(0, 180, (200, 200))), truth)
        assert found == pytest.approx({"error": 45, "d1": 0.125, "d2": 0.25}, rel=0.03)
        assert orientation.errors(np.zeros_like(truth), truth)["error"] == 45

    def test_no_direction_is_undefined(self):
        assert np.isnan(orientation.errors(double([[3]]), np.zeros((1, 1, 2)))["error"])


class TestDerived:
    @pytest.mark.parametrize("name", ["corner", "orientation"])
    def test_truth_is_made_after_the_crop(self, name: str):
        """What the model sees, not what the file holds: equal to the truth of the very crop."""
        data = scenes.build(scenes.Settings(n_train=0, n_test=1, side=64))
        preprocess = Preprocess(32, "crop", 48, "bilinear", (0.5,) * 3, (0.5,) * 3)
        found = FramedTruth(data, preprocess, family(name).derive)("test/000000")["map"]
        crop = preprocess.apply(data.image("test/000000")).permute(1, 2, 0).numpy()
        assert found.shape[:2] == (32, 32)
        np.testing.assert_array_equal(found, family(name).derive(crop)["map"])

    def test_a_shift_is_seen(self):
        corner = family("corner")
        truth = corner.derive(picture())["map"]
        moved = np.roll(truth, 2, axis=1)
        assert magnitude.errors(moved, truth)["correlation"] < 0.9


class TestScenes:
    def test_pictures_maps_are_of_the_picture(self):
        for kind, made in (("edges", structure.edge_strength), ("keypoints2d", structure.blob_strength)):
            data = scenes.build(scenes.Settings(n_train=0, n_test=1, side=48, truth=kind))
            np.testing.assert_array_equal(data.target("test/000000")["map"], made(data.image("test/000000")))
            assert data.maps == ("map",)
            assert data.meta()["map_is"]

    def test_occlusions_by_hand(self):
        depth = np.array([[0, 4, 4, 2], [4, 4, 4, 3.99], [4, 4, 4, 4]], np.float32)
        instance = np.array([[-1, -1, -1, 0], [-1, -1, -1, 0], [-1, -1, -1, 0]])
        expected = np.zeros((3, 4), bool)
        expected[0, 1] = expected[1, 0] = True  # the room before nothing
        expected[0, 3] = True  # 2 m before 4 m; 3.99 before 4, and one object on its own, are none
        np.testing.assert_array_equal(_scene_maps.occluding(depth, instance), expected)

    def test_occlusion_edges_surround_the_main_object(self):
        settings = {"n_train": 0, "n_test": 1, "side": 96}
        edges = scenes.build(scenes.Settings(**settings, truth="occlusion_edges")).target("test/000000")["map"]
        mask = scenes.build(scenes.Settings(**settings, truth="foreground")).target("test/000000")["mask"]
        inside = ndimage.binary_erosion(mask, iterations=6)
        outline = mask.astype(bool) & ~ndimage.binary_erosion(mask)
        assert edges.dtype == np.float32
        assert 0.5 < edges.max() <= 1
        assert edges[inside].mean() < 0.05 < 0.3 < edges[outline].mean()


class TestImages:
    def make(self, root: Path, *names: str) -> None:
        for number, name in enumerate(names):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture(number, (8, 8))).save(root / name)

    def test_splits_on_disk(self, tmp_path: Path):
        self.make(tmp_path, "train/a.png", "train/more/b.png", "test/c.png", "test/.hidden.png")
        data = images.build(images.Settings(root=str(tmp_path)))
        assert data.items("train") == ["train/a.png", "train/more/b.png"]
        assert data.items("test") == ["test/c.png"]
        assert data.image("test/c.png").shape == (8, 8, 3)
        assert data.target("test/c.png") == {}
        with pytest.raises(UsageError, match="it has"):
            data.items("val")
        with pytest.raises(UsageError, match="test_fraction"):
            images.build(images.Settings(root=str(tmp_path), test_fraction=0.5)).items("test")

    def test_a_flat_folder_is_divided(self, tmp_path: Path):
        self.make(tmp_path, *(f"{k:02d}.png" for k in range(6)), "holiday/x.png", "work/y.png")
        data = images.build(images.Settings(root=str(tmp_path), train_split="train", test_fraction=0.5))
        train, test = data.items("train"), data.items("test")
        assert len(test) == 4
        assert sorted(train + test) == sorted([*(f"{k:02d}.png" for k in range(6)), "holiday/x.png", "work/y.png"])

    def test_images_beside_splits_are_refused(self, tmp_path: Path):
        self.make(tmp_path, "train/a.png", "test/b.png", "c.png")
        with pytest.raises(UsageError, match=r"c\.png"):
            images.build(images.Settings(root=str(tmp_path))).items("test")
