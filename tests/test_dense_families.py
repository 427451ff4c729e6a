"""Families of pixel maps: variants are told apart, nothing undefined is averaged, ceilings lie between floor and oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny_maps import Tag, values

from benchkit import registry
from benchkit.datasets import _scene_truth
from benchkit.datasets.scenes import Scenes
from benchkit.datasets.scenes import Settings as ScenesSettings
from benchkit.errors import RunError, UsageError
from benchkit.export.truth import FramedTruth
from benchkit.heads import dense_linear
from benchkit.heads.base import ModelSide
from benchkit.preprocess import Preprocess
from benchkit.render.raycast import render
from benchkit.render.scene import make_scene
from benchkit.store.items import ArrayItems

CLASSES = {"classes": ["sky", "tree", "cow"], "ignore": 255}
BINARY = {"classes": ["background", "foreground"], "ignore": 255}
KINDS = {
    "semantic_segmentation": "mask",
    "generic_segmentation": "foreground",
    "depth": "depth",
    "normals": "normals",
}


def family(name: str, **settings: Any) -> Any:
    component = registry.find("eval", name)
    return component.build(component.settings(**settings))


def items(field: str, rows: Any, meta: dict[str, Any] | None = None, **more: Any) -> ArrayItems:
    return ArrayItems([f"{k:02d}" for k in range(len(rows))], {field: rows, **more}, meta)


def summary(what: Any, predictions: ArrayItems, targets: ArrayItems) -> dict[str, float | None]:
    return what.summarize(what.score(predictions, targets))


def mask(*rows: list[int]) -> np.ndarray:
    return np.array(rows, np.uint8)


class TestSemantic:
    truth = items("mask", [mask([0, 0, 0, 0]), mask([0, 1, 255, 255])], CLASSES)

    def test_per_image_and_data_set_level(self):
        """Image 1: class 0 has 3/4, class 1 has 0/1. Image 2: all right. Together: 4/5 and 1/2."""
        found = summary(
            family("semantic_segmentation"), items("mask", [mask([0, 0, 0, 1]), mask([0, 1, 2, 2])]), self.truth
        )
        assert found["miou"] == pytest.approx((4 / 5 + 1 / 2) / 2)
        assert found["miou_per_image"] == pytest.approx(((3 / 4 + 0) / 2 + 1) / 2)
        assert found["pixel_acc"] == pytest.approx(5 / 6)
        assert found["mean_acc"] == pytest.approx((4 / 5 + 1) / 2)

    def test_a_class_predicted_but_absent_counts_and_one_absent_in_both_does_not(self):
        what = family("semantic_segmentation")
        columns = what.score(items("mask", [mask([0, 0, 0, 2]), mask([0, 1, 0, 0])]), self.truth)
        assert what.summarize(columns)["miou"] == pytest.approx((4 / 5 + 1 + 0) / 3)
        assert what.breakdown(columns, CLASSES) == pytest.approx({"iou/sky": 4 / 5, "iou/tree": 1, "iou/cow": 0})
        columns = what.score(items("mask", [mask([0, 0, 0, 1]), mask([0, 1, 0, 0])]), self.truth)
        assert what.summarize(columns)["miou"] == pytest.approx((4 / 5 + 1 / 2) / 2)
        assert what.breakdown(columns, CLASSES)["iou/cow"] is None

    def test_an_image_of_ignored_pixels_is_undefined_and_adds_nothing(self):
        what = family("semantic_segmentation")
        truth = items("mask", [*self.truth.read("mask"), mask([255] * 4)], CLASSES)
        predictions = items("mask", [mask([0, 0, 0, 1]), mask([0, 1, 2, 2]), mask([1, 1, 1, 1])])
        columns = what.score(predictions, truth)
        assert np.isnan(columns["miou_per_image"]).tolist() == [False, False, True]
        two = items("mask", predictions.read("mask")[:2])
        assert what.summarize(columns) == summary(what, two, self.truth)
        alone = {name: column[2:] for name, column in columns.items()}
        assert what.summarize(alone) == dict.fromkeys(("miou", "miou_per_image", "pixel_acc", "mean_acc"))

    def test_a_prediction_that_is_no_class_names_the_item(self):
        with pytest.raises(RunError, match=r"row 1 \('01'\).*prediction holds 3"):
            family("semantic_segmentation").score(items("mask", [mask([0] * 4), mask([3, 0, 0, 0])]), self.truth)

    def test_another_shape_names_the_item(self):
        with pytest.raises(RunError, match=r"row 0 \('00'\).*\(1, 2\).*\(1, 4\)"):
            family("semantic_segmentation").score(items("mask", [mask([0, 0])] * 2), self.truth)

    @pytest.mark.parametrize("count", [3, 41, 300])
    def test_any_number_of_classes_counts_alike(self, count):
        meta = {"classes": [f"{k}" for k in range(count)], "ignore": 65535}
        rng = np.random.default_rng(0)
        true, predicted = (rng.integers(0, 3, (2, 8, 8)).astype(np.uint16) for _ in range(2))
        true[0, 0] = 65535
        what = family("semantic_segmentation")
        columns = what.score(items("mask", predicted), items("mask", true, meta))
        few = what.score(items("mask", predicted), items("mask", true, {**meta, "classes": list("abc")}))
        assert what.summarize(columns) == what.summarize(few)
        assert ("pictures/confusion" in columns) == (count <= 40)

    def test_refuses_data_that_do_not_fit(self):
        what = family("semantic_segmentation")
        what.check(self.truth)
        for odd, said in (
            (items("label", [0]), "mask"),
            (items("mask", [np.zeros((2, 2))], CLASSES), "mask"),
            (items("mask", [mask([0])], {"classes": ["one"]}), "two classes"),
            (items("mask", [mask([0])], {"classes": ["a", "b", "a"]}), "called 'a'"),
        ):
            with pytest.raises(UsageError, match=said):
                what.check(odd)


class TestGeneric:
    def test_per_image_and_pooled(self):
        """Image 1: 1 of 2 pixels of the union. Image 2: 6 of 6. Pooled: 7 of 8."""
        truth = items("mask", [mask([1, 1, 0, 0, 0, 0]), mask([1] * 6)], BINARY)
        found = summary(family("generic_segmentation"), items("mask", [mask([1, 0, 0, 0, 0, 0]), mask([1] * 6)]), truth)
        assert found["iou"] == pytest.approx((1 / 2 + 1) / 2)
        assert found["iou_pooled"] == pytest.approx(7 / 8)
        assert found["f1"] == pytest.approx((2 / 3 + 1) / 2)
        assert found["pixel_acc"] == pytest.approx((5 / 6 + 1) / 2)
        assert found["foreground_share"] == pytest.approx((2 / 6 + 1) / 2)

    def test_empty_truth_and_prediction(self):
        empty = items("mask", [mask([0, 0, 255])], BINARY)
        what = family("generic_segmentation")
        assert summary(what, items("mask", [mask([0, 0, 1])]), empty)["iou"] == 1  # the ignored pixel is foreground
        assert summary(what, items("mask", [mask([0, 1, 0])]), empty)["iou"] == 0
        assert summary(what, items("mask", [mask([0, 0, 0])]), empty)["iou_pooled"] == 1

    def test_an_image_of_ignored_pixels_is_undefined(self):
        what = family("generic_segmentation")
        truth = items("mask", [mask([1, 0]), mask([255, 255])], BINARY)
        columns = what.score(items("mask", [mask([1, 1]), mask([1, 1])]), truth)
        assert np.isnan(columns["iou"]).tolist() == [False, True]
        assert what.summarize(columns)["iou"] == 1 / 2
        alone = what.summarize({name: column[1:] for name, column in columns.items()})
        assert set(alone.values()) == {None}

    def test_background_alone(self):
        truth = items("mask", [mask([1, 0, 0, 0])], BINARY)
        found = summary(family("generic_segmentation"), items("mask", [mask([0] * 4)]), truth)
        assert found["pixel_acc"] == 1 - found["foreground_share"] == 3 / 4
        assert found["iou"] == 0

    def test_the_floor_is_the_better_of_background_and_foreground_alone(self):
        """Shares of foreground .75 and 0: foreground alone has IoU .375, background alone .5, and both the same pixels."""
        what = family("generic_segmentation")
        truth = items("mask", [mask([1, 1, 1, 0]), mask([0] * 4)], BINARY)
        floor = what.summarize(what.chance(truth, truth))
        assert floor["iou"] == floor["f1"] == 1 / 2
        assert floor["iou_pooled"] == 3 / 8
        assert floor["pixel_acc"] == 5 / 8
        one = items("mask", [mask([1, 1, 1, 0])], BINARY)
        assert what.summarize(what.chance(one, one))["iou"] == 3 / 4
        assert what.summarize(what.chance(one, one))["foreground_share"] == 3 / 4
        nothing = items("mask", [mask([255] * 4)], BINARY)
        assert set(what.summarize(what.chance(nothing, nothing)).values()) == {None}

    def test_refuses_more_classes(self):
        with pytest.raises(UsageError, match="these data have 3"):
            family("generic_segmentation").check(items("mask", [mask([0])], CLASSES))


def frames(seed: int = 0, shape: tuple[int, int] = (480, 640)) -> tuple[ArrayItems, ArrayItems]:
    """Predictions that are right inside the Eigen crop alone, and truth."""
    rng = np.random.default_rng(seed)
    truth = rng.uniform(1, 9, (2, *shape)).astype(np.float32)
    predicted = truth * 2
    predicted[:, 45:471, 41:601] = truth[:, 45:471, 41:601]
    return items("depth", predicted), items("depth", truth, {"unit": "m"})


class TestDepth:
    def test_eigen_crop(self):
        predictions, truth = frames()
        whole, cut = (summary(family("depth", crop=crop), predictions, truth) for crop in ("none", "eigen"))
        assert whole["d1"] == pytest.approx(426 * 560 / (480 * 640))
        assert (cut["d1"], cut["rmse"]) == (1, 0)

    def test_eigen_crop_of_another_frame_is_refused(self):
        predictions, truth = frames(shape=(224, 224))
        with pytest.raises(UsageError, match=r"224 x 224.*data\.resize"):
            family("depth", crop="eigen").score(predictions, truth)

    def test_aligned_has_names_of_its_own(self):
        _, truth = frames()
        predictions = items("depth", truth.read("depth") * 0.5 + 2)
        found = summary(family("depth", aligned=True), predictions, truth)
        plain = summary(family("depth"), predictions, truth)
        assert {k: v for k, v in found.items() if not k.endswith("_aligned")} == plain
        assert found["d1_aligned"] == 1
        assert found["rmse_aligned"] == pytest.approx(0, abs=1e-5)
        assert found["d1"] < 0.5
        assert found["rmse"] > 1

    def test_largest_depth(self):
        truth = items("depth", np.array([[[1, 2, 20]]], np.float32))
        predictions = items("depth", np.array([[[1, 30, 1]]], np.float32))
        far = summary(family("depth"), predictions, truth)
        near = summary(family("depth", max_depth=4), predictions, truth)
        assert far["d1"] == pytest.approx(1 / 3)
        assert near["d1"] == 1 / 2
        assert near["rmse"] == pytest.approx(np.sqrt((4 - 2) ** 2 / 2))
        assert near["d3"] == 1 / 2  # 4 for 2 is a factor of 2
        with pytest.raises(ValueError, match="max_depth"):
            registry.find("eval", "depth").settings(max_depth=0)

    def test_an_image_without_depth_is_undefined(self):
        truth = items("depth", np.array([[[1.0, 2]], [[0, 0]]], np.float32))
        what = family("depth", aligned=True)
        columns = what.score(items("depth", np.ones((2, 1, 2), np.float32)), truth)
        assert all(np.isnan(column).tolist() == [False, True] for column in columns.values())
        assert what.summarize(columns)["d1"] == 1 / 2

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_what_is_not_finite_is_an_error_where_truth_is_missing_too(self, value):
        predicted = np.ones((2, 1, 2), np.float32)
        predicted[1, 0, 1] = value
        truth = items("depth", np.array([[[1, 1]], [[1, 0]]], np.float32))
        with pytest.raises(RunError, match=r"row 1 \('01'\).*diverged"):
            family("depth").score(items("depth", predicted), truth)

    def test_refuses_data_that_do_not_fit(self):
        for odd in (items("mask", [mask([0])]), items("depth", [mask([0])]), items("depth", np.zeros((1, 2, 2, 1)))):
            with pytest.raises(UsageError, match="depth map"):
                family("depth").check(odd)


def directions(seed: int = 0) -> tuple[ArrayItems, ArrayItems]:
    """Two images: one of few valid pixels and small errors, one of many and large ones."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(2, 20, 20, 3)).astype(np.float32)
    truth[0, 2:] = 0
    noise = rng.normal(size=truth.shape) * np.array([0.05, 1.0])[:, None, None, None]
    return items("normals", (truth + noise).astype(np.float32)), items("normals", truth, {"normals_from": "noise"})


class TestNormals:
    def test_pooling_by_image_and_by_pixel(self):
        from benchkit.metrics import normals as scores_of

        predictions, truth = directions()
        image = summary(family("normals"), predictions, truth)
        pixel = summary(family("normals", pooling="pixel"), predictions, truth)
        assert list(image) == ["d1", "d2", "d3", "mean", "median", "rmse"]
        assert list(pixel) == [f"{name}_pooled" for name in image]
        each = [scores_of.angles(p, t) for p, t in zip(predictions.read("normals"), truth.read("normals"), strict=True)]
        together = scores_of.errors(np.concatenate(each))
        for name in image:
            close = {"abs": 0.1} if name == "median" else {"rel": 1e-6}
            assert pixel[f"{name}_pooled"] == pytest.approx(together[name], **close)
            assert image[name] == pytest.approx(np.mean([scores_of.errors(e)[name] for e in each]))
            assert abs(image[name] - together[name]) > 0.05

    @pytest.mark.parametrize("pooling", ["image", "pixel"])
    def test_an_image_without_normals_is_undefined(self, pooling):
        predictions, truth = directions()
        vectors = truth.read("normals").copy()
        vectors[1] = 0
        what = family("normals", pooling=pooling)
        columns = what.score(predictions, items("normals", vectors, truth.meta))
        assert np.isnan(columns["d1"]).tolist() == [False, True]
        headline = what.metrics()[0].name
        assert what.summarize(columns)[headline] == pytest.approx(columns["d1"][0])
        assert what.summarize({k: v[1:] for k, v in columns.items()})[headline] is None

    def test_what_has_no_direction_names_the_item(self):
        _, truth = directions()
        zeros = np.zeros((2, 20, 20, 3), np.float32)
        zeros[0] = 1
        with pytest.raises(RunError, match=r"row 1 \('01'\).*zero vectors"):
            family("normals").score(items("normals", zeros), truth)

    def test_the_source_of_the_truth_must_be_said(self):
        _, truth = directions()
        family("normals").check(truth)
        with pytest.raises(UsageError, match="normals_from"):
            family("normals").check(items("normals", truth.read("normals"), {}))


def scenes(kind: str, count: int = 6, side: int = 64) -> tuple[Scenes, ArrayItems]:
    dataset = Scenes(ScenesSettings(truth=kind, n_test=count, side=side))
    names = dataset.items("test")
    field = dataset.maps[0]
    rows = np.stack([dataset.target(name)[field] for name in names])
    return dataset, ArrayItems(names, {field: rows}, dataset.meta())


def _oracle_features(truth: np.ndarray, n_classes: int) -> np.ndarray:
    """float32 (C, h / 2, w / 2): one map per class, per half metre of depth, or the vector."""
    if n_classes:
        planes = [truth == k for k in range(n_classes)]
    else:
        near = [np.clip(1 - np.abs(truth - at) * 2, 0, 1) for at in np.arange(0, 10.5, 0.5)]
        planes = near if truth.ndim == 2 else list(np.moveaxis(truth, 2, 0))
    shape = truth.shape[0] // 2, 2, truth.shape[1] // 2, 2
    return np.stack([np.float32(plane).reshape(shape).mean(axis=(1, 3)) for plane in planes])


@pytest.mark.parametrize(("name", "kind"), list(KINDS.items()))
class TestOnScenes:
    def test_the_ceiling_lies_between_floor_and_oracle(self, name, kind):
        what, (_, truth) = family(name), scenes(kind)
        assert what.ceiling(truth, truth) is None  # nothing is said of a grid
        found = []
        for side in (1, 4, 16, 64):
            grids = ArrayItems(truth.names, {"grid": np.full((len(truth.names), 2), side, np.int32)})
            found.append(summary(what, what.ceiling(grids, truth), truth)[what.metrics()[0].name])
        assert found == sorted(found)
        assert found[0] < found[1] < found[2] < found[3] == pytest.approx(1)

    def test_two_pixels_of_shift_cost(self, name, kind):
        what, (_, truth) = family(name), scenes(kind)
        field = what.needs[0]
        shifted = items(field, np.roll(truth.read(field), (2, 2), axis=(1, 2)), truth.meta)
        shifted.names = truth.names
        for metric in what.metrics():
            right, slipped = (summary(what, what.oracle(truth), t)[metric.name] for t in (truth, shifted))
            if metric.better == "higher":
                assert slipped < right - 0.005
            elif metric.better == "lower" and metric.name != "median":
                assert slipped > right + 0.005

    def test_a_head_trained_on_slipped_truth_scores_lower(self, name, kind, tmp_path):
        """Its features are the truth itself, pooled to cells of 2 pixels: what they say lies where the image has it."""
        what, (_, truth) = family(name), scenes(kind, 12, 48)
        field, headline = what.needs[0], what.metrics()[0]
        maps = [_oracle_features(row, len(truth.meta.get("classes", ()))) for row in truth.read(field)]
        found = []
        for shift in (0, 2):
            rows = np.roll(truth.read(field), (shift, shift), axis=(1, 2))
            tag = Tag(tmp_path / str(shift), {"patch@final": maps}, {field: rows}, truth.meta)
            head = dense_linear.build(
                dense_linear.Settings(lr=0.3, epochs=30, batch_size=4, warmup_epochs=1, loss="angular")
            )
            head.prepare(ModelSide("oracle"), {"task": what.task})
            with tag.opened() as (features, true):
                head.fit(tag.key, features, true, 0, 1)
                predictions = items(field, values(head.predict(tag.key, features, 1)[field]))
            found.append(summary(what, predictions, truth)[headline.name])
        assert found[0] > found[1] + 0.02, found

    def test_what_is_not_square(self, name, kind):
        """Frames of different shapes, as padded images have."""
        what, (_, truth) = family(name), scenes(kind, 2)
        field = what.needs[0]
        rows = [truth.item(field, 0)[:40], truth.item(field, 1)[:, :50]]
        pair = ArrayItems(truth.names, {field: rows, "grid": np.array([[5, 8], [8, 6]], np.int32)}, truth.meta)
        headline = what.metrics()[0].name
        assert summary(what, what.oracle(pair), pair)[headline] == 1
        assert 0.3 < summary(what, what.ceiling(pair, pair), pair)[headline] < 1

    def test_draws_with_the_invalid_visible(self, name, kind):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        what, (dataset, truth) = family(name), scenes(kind, 1)
        field = what.needs[0]
        predicted = truth.item(field, 0)
        holes = predicted.copy()
        holes[10:30] = truth.meta.get("ignore") or 255 if field == "mask" else 0
        pixels = []
        for true in (predicted, holes):
            figure = Figure(figsize=(6, 3))
            canvas = FigureCanvasAgg(figure)
            target = {field: true, "meta": truth.meta}
            what.draw(figure.subplots(), {field: predicted}, target, dataset.image(truth.names[0]))
            canvas.draw()
            pixels.append(np.asarray(canvas.buffer_rgba())[..., :3].reshape(-1, 3))
        whole, holed = ((p == (255, 0, 255)).all(axis=1).sum() for p in pixels)
        assert holed > whole + 1000


def test_pictures_of_the_whole_set():
    from matplotlib.figure import Figure

    what, (_, truth) = family("semantic_segmentation"), scenes("mask")
    columns = what.score(what.oracle(truth), truth)
    pictures = what.pictures(columns, truth.meta)
    assert pictures.keys() == {"shares", "confusion"}
    for draw in pictures.values():
        figure = Figure()
        draw(figure)
        assert figure.axes
    few = what.pictures({k: v for k, v in columns.items() if k != "pictures/confusion"}, truth.meta)
    assert few.keys() == {"shares"}


class TestScenesTruth:
    @pytest.mark.parametrize("number", [0, 5, 11])
    def test_agrees_with_the_rendered_buffers(self, number):
        view = f"test/{number:06d}"
        scene = make_scene(view, 0, number % 12)
        seen = render(scene, 64)
        truths = {
            kind: Scenes(ScenesSettings(truth=kind, side=64)).target(view)
            for kind in ("mask", "foreground", "depth", "normals")
        }
        np.testing.assert_array_equal(truths["normals"]["normals"], seen.normals)
        depth = truths["depth"]["depth"]
        np.testing.assert_array_equal(depth[depth > 0], seen.depth[depth > 0])
        np.testing.assert_array_equal(depth > 0, (seen.depth > 0) & (seen.depth <= 10))
        np.testing.assert_array_equal(truths["depth"]["intrinsics"], seen.intrinsics)
        np.testing.assert_array_equal(truths["foreground"]["mask"], seen.instance == 0)
        names = ["floor", "wall", "sky", "box", "sphere", "cylinder"]
        shown = np.array(names)[truths["mask"]["mask"]]
        for index, thing in enumerate(scene.objects):
            assert set(shown[seen.instance == index]) <= {thing.name.split("_")[1]}
        around = seen.instance < 0
        up = seen.normals @ scene.camera.pose[:3, :3] @ np.array([0, 0, 1.0])
        np.testing.assert_array_equal((shown == "sky")[around], (seen.depth == 0)[around])
        np.testing.assert_array_equal((shown == "floor")[around], (up > 0.99)[around])

    def test_the_image_is_that_of_the_classes(self):
        plain, deep = (Scenes(ScenesSettings(truth=kind, side=32)) for kind in ("class", "depth"))
        assert plain.recipe("test/000001") == deep.recipe("test/000001")
        np.testing.assert_array_equal(plain.image("test/000001"), deep.image("test/000001"))
        assert plain.maps == ()
        assert plain.meta().keys() == {"classes"}
        assert deep.label("test/000001") is None
        assert deep.category("test/000001") == plain.category("test/000001")

    def test_what_is_kept_is_bounded_and_read_only(self, monkeypatch):
        monkeypatch.setattr(_scene_truth, "KEPT_BYTES", 200_000)
        _scene_truth._kept.clear()
        dataset = Scenes(ScenesSettings(truth="normals", side=64))
        first = dataset.target("test/000000")["normals"]
        assert dataset.target("test/000000")["normals"] is first
        for number in range(1, 8):
            with pytest.raises(ValueError, match="read-only"):
                dataset.target(f"test/{number:06d}")["normals"][0] = 1
        assert sum(map(_scene_truth._bytes, _scene_truth._kept.values())) <= 200_000
        again = dataset.target("test/000000")["normals"]
        assert again is not first
        np.testing.assert_array_equal(again, first)

    def test_the_truth_lies_on_the_cropped_image(self):
        """Where the crop's pixels change from object to floor, so does the mask: by the scene's own edges."""
        dataset = Scenes(ScenesSettings(truth="foreground", side=100))
        frame = Preprocess(48, "crop", 64, "bilinear", (0.5,) * 3, (0.5,) * 3)
        framed = FramedTruth(dataset, frame)("test/000000")["mask"]
        assert framed.shape == (48, 48)
        whole = dataset.target("test/000000")["mask"].astype(np.float32)
        rows = [int((8 + k + 0.5) * 100 / 64) for k in range(48)]
        np.testing.assert_array_equal(framed, whole[np.ix_(rows, rows)])
