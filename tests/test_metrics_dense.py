"""Scores of pixel maps agree with torchmetrics, scikit-learn, numpy's own solvers and cases worked out by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import torchmetrics
from sklearn import metrics as sklearn_metrics

from benchkit.errors import RunError, UsageError
from benchkit.metrics import depth, normals, segmentation


def masks(seed: int = 0, k: int = 5, ignored: float = 0.1, shape: tuple[int, int] = (40, 30)):
    """A prediction that is right now and then, and a truth with ignored pixels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, shape).astype(np.uint8)
    prediction = np.where(rng.random(shape) < 0.6, truth, rng.integers(0, k, shape)).astype(np.uint8)
    truth[rng.random(shape) < ignored] = 255
    return prediction, truth


class TestConfusion:
    def test_agrees_with_scikit_learn(self):
        prediction, truth = masks()
        valid = truth != 255
        expected = sklearn_metrics.confusion_matrix(truth[valid], prediction[valid], labels=range(5))
        np.testing.assert_array_equal(segmentation.confusion(prediction, truth, 5, 255), expected)

    @pytest.mark.parametrize("block", [1, 3, 25, 200])
    def test_long_and_short_runs_count_alike(self, block):
        prediction, truth = (np.kron(m, np.ones((block,) * 2, np.uint8))[:150, :130] for m in masks(shape=(150, 130)))
        valid = truth != 255
        expected = sklearn_metrics.confusion_matrix(truth[valid], prediction[valid], labels=range(5))
        np.testing.assert_array_equal(segmentation.confusion(prediction, truth, 5, 255), expected)

    @pytest.mark.parametrize("dtype", [np.uint16, np.int64])
    def test_other_integers_count_alike(self, dtype):
        prediction, truth = masks()
        expected = segmentation.confusion(prediction, truth, 5, 255)
        np.testing.assert_array_equal(
            segmentation.confusion(prediction.astype(dtype), truth.astype(dtype), 5, 255), expected
        )
        for one, other in zip(
            segmentation.counts(prediction.astype(dtype), truth.astype(dtype), 5, 255),
            segmentation.counts_of(expected),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)

    def test_many_classes(self):
        rng = np.random.default_rng(0)
        truth, prediction = (rng.integers(0, 700, (64, 64)).astype(np.uint16) for _ in range(2))
        truth[0] = 65535
        positives, predicted, true = segmentation.counts(prediction, truth, 700, 65535)
        assert true.sum() == predicted.sum() == 63 * 64
        assert positives.sum() == (truth == prediction).sum()

    def test_ignored_pixels_may_be_predicted_as_anything(self):
        truth = np.full((4, 4), 255, np.uint8)
        truth[0, 0] = 1
        prediction = np.full((4, 4), 255, np.uint8)
        prediction[0, 0] = 1
        assert segmentation.confusion(prediction, truth, 2, 255).tolist() == [[0, 0], [0, 1]]

    @pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
    @pytest.mark.parametrize(("what", "place"), [("prediction", 0), ("truth", 1)])
    def test_what_is_no_class_is_refused(self, what, place, dtype):
        pair = [np.zeros((4, 4), dtype), np.zeros((4, 4), dtype)]
        pair[place][1, 1] = 3
        with pytest.raises(RunError, match=f"{what} holds 3, and the classes are 0 to 2"):
            segmentation.confusion(*pair, 3, 255)
        with pytest.raises(RunError, match=f"{what} holds 3"):
            segmentation.counts(*pair, 3, 255)

    def test_255_is_a_class_where_nothing_is_ignored(self):
        mask = np.full((2, 2), 255, np.uint8)
        assert segmentation.confusion(mask, mask, 256, None)[255, 255] == 4
        with pytest.raises(RunError, match="truth holds 255"):
            segmentation.confusion(mask, mask, 255, None)


class TestIoU:
    def test_agrees_with_torchmetrics_and_scikit_learn(self):
        prediction, truth = masks(k=6)
        truth[truth == 5] = 0  # class 5 is predicted and absent from the truth: it counts as 0 in all three
        counts = segmentation.counts(prediction, truth, 6, 255)
        valid = truth != 255
        each = sklearn_metrics.jaccard_score(truth[valid], prediction[valid], labels=range(6), average=None)
        np.testing.assert_allclose(segmentation.ious(*counts), each)
        metric = torchmetrics.JaccardIndex(task="multiclass", num_classes=6, average="macro", ignore_index=255)
        expected = metric(torch.from_numpy(prediction.astype(int)), torch.from_numpy(truth.astype(int)))
        assert segmentation.mean_iou(*counts) == pytest.approx(float(expected))
        assert segmentation.mean_iou(*counts) == pytest.approx(each.mean())
        assert each[5] == 0

    def test_predicted_but_absent_is_told_from_absent_in_both(self):
        """Two classes in truth, each half right: 2 of 4 pixels of class 0 are taken for class 2, or for class 1."""
        truth = np.array([[0, 0, 0, 0], [1, 1, 1, 1]], np.uint8)
        third = np.array([[0, 0, 2, 2], [1, 1, 1, 1]], np.uint8)
        second = np.array([[0, 0, 1, 1], [1, 1, 1, 1]], np.uint8)
        with_third = segmentation.counts(third, truth, 4, 255)
        without = segmentation.counts(second, truth, 4, 255)
        np.testing.assert_array_equal(np.isnan(segmentation.ious(*with_third)), [False, False, False, True])
        assert segmentation.mean_iou(*with_third) == pytest.approx((0.5 + 1 + 0) / 3)
        np.testing.assert_array_equal(np.isnan(segmentation.ious(*without)), [False, False, True, True])
        assert segmentation.mean_iou(*without) == pytest.approx((2 / 4 + 4 / 6) / 2)
        assert segmentation.mean_iou(*with_third) != pytest.approx(1.5 / 2)  # over classes present in the truth

    def test_nothing_valid_is_undefined(self):
        nothing = np.zeros(3, int)
        assert np.isnan(segmentation.mean_iou(nothing, nothing, nothing))
        assert np.isnan(segmentation.pixel_accuracy(nothing, nothing))
        assert np.isnan(segmentation.mean_accuracy(nothing, nothing))

    def test_accuracies_agree_with_scikit_learn(self):
        prediction, truth = masks(3)
        positives, _, true = segmentation.counts(prediction, truth, 5, 255)
        valid = truth != 255
        pair = truth[valid], prediction[valid]
        assert segmentation.pixel_accuracy(positives, true) == pytest.approx(sklearn_metrics.accuracy_score(*pair))
        assert segmentation.mean_accuracy(positives, true) == pytest.approx(
            sklearn_metrics.balanced_accuracy_score(*pair)
        )

    def test_unsigned_counts_do_not_wrap(self):
        counts = tuple(np.array(c, np.uint32) for c in ([1, 0], [1, 5], [6, 0]))
        np.testing.assert_allclose(segmentation.ious(*counts), [1 / 6, 0])


class TestBinary:
    def test_agrees_with_scikit_learn(self):
        prediction, truth = masks(k=2)
        valid = truth != 255
        pair = truth[valid], prediction[valid]
        matrix = segmentation.confusion(prediction, truth, 2, 255)
        positives, predicted, true = (int(c[1]) for c in segmentation.counts_of(matrix))
        found = segmentation.binary(positives, predicted, true, int(matrix.sum()))
        assert found == pytest.approx(
            {
                "iou": sklearn_metrics.jaccard_score(*pair),
                "f1": sklearn_metrics.f1_score(*pair),
                "pixel_acc": sklearn_metrics.accuracy_score(*pair),
                "foreground_share": np.mean(truth[valid]),
            }
        )

    def test_empty_masks(self):
        assert segmentation.binary(0, 0, 0, 16) == {"iou": 1, "f1": 1, "pixel_acc": 1, "foreground_share": 0}
        assert segmentation.binary(0, 4, 0, 16) == {"iou": 0, "f1": 0, "pixel_acc": 0.75, "foreground_share": 0}
        assert segmentation.binary(0, 0, 4, 16) == {"iou": 0, "f1": 0, "pixel_acc": 0.75, "foreground_share": 0.25}
        assert all(np.isnan(v) for v in segmentation.binary(0, 0, 0, 0).values())


class TestPooledLabels:
    def test_a_grid_of_pixels_loses_nothing(self):
        _, truth = masks(ignored=0)
        np.testing.assert_array_equal(segmentation.pooled_labels(truth, truth.shape, 5, None), truth)

    def test_one_cell_is_the_commonest_class(self):
        truth = np.array([[0, 1, 2, 2], [255, 255, 255, 255]], np.uint8)
        assert (segmentation.pooled_labels(truth, (1, 1), 3, 255) == 2).all()

    def test_halves_stay_halves(self):
        truth = np.zeros((8, 8), np.uint8)
        truth[:, 4:] = 1
        np.testing.assert_array_equal(segmentation.pooled_labels(truth, (2, 2), 2, 255), truth)

    def test_agrees_with_torch(self):
        truth = masks(1, shape=(48, 36))[1]
        shares = torch.from_numpy(np.stack([truth == k for k in range(5)])).float()
        cells = torch.nn.functional.adaptive_avg_pool2d(shares, (6, 4))
        back = torch.nn.functional.interpolate(cells[None], (48, 36), mode="bilinear", align_corners=False)[0]
        expected = back.argmax(0).numpy()
        found = segmentation.pooled_labels(truth, (6, 4), 5, 255)
        top = back.topk(2, dim=0).values
        clear = (top[0] - top[1] > 1e-5).numpy()
        np.testing.assert_array_equal(found[clear], expected[clear])
        assert clear.mean() > 0.9


def depths(seed: int = 0, holes: float = 0.2):
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.5, 8, (30, 40)).astype(np.float32)
    prediction = (truth * rng.lognormal(0, 0.3, truth.shape)).astype(np.float32)
    truth[rng.random(truth.shape) < holes] = 0
    return prediction, truth


class TestDepth:
    def test_agrees_with_torchmetrics(self):
        prediction, truth = depths()
        pair = [torch.from_numpy(a[truth > 0]) for a in (prediction, truth)]
        found = depth.errors(prediction, truth)
        assert found["rmse"] == pytest.approx(float(torchmetrics.MeanSquaredError(squared=False)(*pair)))
        assert found["abs_rel"] == pytest.approx(float(torchmetrics.MeanAbsolutePercentageError()(*pair)), rel=1e-5)

    def test_by_hand(self):
        truth = np.array([[1, 1, 1, 1, 1, 0]], np.float32)
        prediction = np.array([[1, 1.25, 0.7, 1.953125, 4, 9]], np.float32)
        found = depth.errors(prediction, truth)
        assert found["d1"] == 1 / 5  # a ratio of exactly 1.25 is not below it
        assert found["d2"] == 3 / 5  # 1 / .7 = 1.43
        assert found["d3"] == 3 / 5  # 1.25 ** 3 is not below itself either
        assert found["abs_rel"] == pytest.approx((0.25 + 0.3 + 0.953125 + 3) / 5)
        assert found["rmse"] == pytest.approx(np.sqrt((0.25**2 + 0.3**2 + 0.953125**2 + 9) / 5))

    def test_too_near_and_too_far_weigh_alike(self):
        truth = np.full((1, 1), 2, np.float32)
        near, far = (depth.errors(np.array([[v]], np.float32), truth) for v in (2 / 1.3, 2 * 1.3))
        assert (near["d1"], near["d2"]) == (far["d1"], far["d2"]) == (0, 1)

    @pytest.mark.parametrize("value", [0.0, -1.0, -1e30])
    def test_depths_that_are_not_above_0_are_within_no_factor(self, value):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = depth.errors(np.full((2, 2), value, np.float32), np.full((2, 2), 0.1, np.float32))
        assert (found["d1"], found["d2"], found["d3"]) == (0, 0, 0)
        assert np.isfinite(found["rmse"])

    def test_without_a_valid_pixel(self):
        found = depth.errors(np.ones((2, 2)), np.zeros((2, 2)))
        assert list(found) == list(depth.NAMES)
        assert all(np.isnan(v) for v in found.values())

    def test_eigen_crop(self):
        frame = np.arange(480 * 640).reshape(480, 640)
        cut = depth.eigen_crop(frame)
        assert cut.shape == (426, 560)
        assert (cut[0, 0], cut[-1, -1]) == (frame[45, 41], frame[470, 600])
        for shape in ((224, 224), (640, 480), (240, 320)):
            with pytest.raises(UsageError, match=f"{shape[0]} x {shape[1]}"):
                depth.eigen_crop(np.zeros(shape))

    def test_aligned_agrees_with_least_squares(self):
        prediction, truth = depths(1)
        valid = truth > 0
        system = np.stack([prediction[valid], np.ones(valid.sum())], axis=1).astype(np.float64)
        scale, shift = np.linalg.lstsq(system, truth[valid].astype(np.float64), rcond=None)[0]
        np.testing.assert_allclose(depth.aligned(prediction, truth), prediction * scale + shift, rtol=1e-5)

    @pytest.mark.parametrize(("scale", "shift"), [(1, 0), (3, 5), (-0.5, 20)])
    def test_aligned_undoes_any_scale_and_shift(self, scale, shift):
        _, truth = depths(2, holes=0.3)
        found = depth.errors(depth.aligned(truth * scale + shift, truth), truth)
        assert found["d1"] == 1
        assert found["rmse"] == pytest.approx(0, abs=1e-5)

    def test_aligned_constant_is_the_mean(self):
        _, truth = depths(3)
        found = depth.aligned(np.full_like(truth, 4), truth)
        np.testing.assert_allclose(found, truth[truth > 0].mean(dtype=np.float64), rtol=1e-6)
        assert np.isfinite(depth.aligned(np.ones((2, 2)), np.zeros((2, 2)))).all()

    def test_pooled(self):
        truth = np.array([[1, 3, 0, 0], [5, 0, 0, 0], [2, 2, 8, 8], [2, 2, 8, 8]], np.float32)
        np.testing.assert_allclose(depth.pooled_depth(truth, (4, 4))[truth > 0], truth[truth > 0])
        cells = depth.pooled_depth(truth, (2, 2))
        assert cells[0, 0] == pytest.approx(3)  # of the three valid pixels
        assert cells[0, 3] == pytest.approx(truth[truth > 0].mean())  # nothing near is valid
        assert cells[3, 3] == pytest.approx(8)
        assert (depth.pooled_depth(np.zeros((4, 4), np.float32), (2, 2)) == 1).all()


def vectors(seed: int = 0, holes: float = 0.2):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(20, 30, 3))
    truth /= np.linalg.norm(truth, axis=-1, keepdims=True)
    prediction = truth + 0.4 * rng.normal(size=truth.shape)
    truth[rng.random(truth.shape[:2]) < holes] = 0
    return prediction.astype(np.float32), truth.astype(np.float32)


class TestNormals:
    def test_angles_agree_with_the_cosine(self):
        prediction, truth = vectors()
        valid = truth.any(axis=-1)
        pair = [torch.from_numpy(a[valid]).double() for a in (prediction, truth)]
        cosine = torch.nn.functional.cosine_similarity(*pair, dim=1).numpy()
        degrees = normals.angles(prediction, truth)
        np.testing.assert_allclose(degrees, np.degrees(np.arccos(cosine)), atol=1e-4)
        found = normals.errors(degrees)
        wide = np.degrees(np.arccos(cosine))
        assert found["mean"] == pytest.approx(wide.mean(), rel=1e-6)
        assert found["median"] == pytest.approx(np.median(wide), rel=1e-5)
        assert found["rmse"] == pytest.approx(np.sqrt((wide**2).mean()), rel=1e-6)
        assert [found["d1"], found["d2"], found["d3"]] == [np.mean(wide < t) for t in (11.25, 22.5, 30)]

    @pytest.mark.parametrize("length", [1e-30, 1e-3, 1e25])
    def test_length_does_not_matter(self, length: float):
        vectors = np.float32([[[1, 0, -1], [0, 2, 0]]])
        found = normals.angles(vectors * np.float32(length), np.float32([[[0, 0, -1], [0, 1, 0]]]))
        np.testing.assert_allclose(found, [45, 0], atol=1e-4)

    def test_equal_vectors_are_exactly_0_apart(self):
        _, truth = vectors(1)
        assert not normals.angles(truth, truth).any()
        np.testing.assert_allclose(normals.angles(truth * np.float32(3), truth), 0, atol=1e-5)

    def test_opposite_and_right_angles(self):
        truth = np.zeros((1, 3, 3), np.float32)
        truth[..., 2] = -1
        prediction = np.array([[[0, 0, 5], [0, 1, 0], [0, 0, -0.1]]], np.float32)
        np.testing.assert_allclose(normals.angles(prediction, truth), [180, 90, 0])

    def test_limits_are_strict(self):
        found = normals.errors(np.array([11.25, 22.5, 30, 0]))
        assert (found["d1"], found["d2"], found["d3"]) == (1 / 4, 2 / 4, 3 / 4)

    def test_a_zero_vector_has_no_direction(self):
        prediction, truth = vectors()
        prediction[truth.any(axis=-1)] = 0
        with pytest.raises(RunError, match="zero vectors"):
            normals.angles(prediction, truth)

    def test_zero_vectors_at_invalid_pixels_are_fine(self):
        _, truth = vectors()
        assert normals.errors(normals.angles(truth, truth))["d1"] == 1

    def test_without_a_valid_pixel(self):
        degrees = normals.angles(np.ones((2, 2, 3)), np.zeros((2, 2, 3)))
        assert all(np.isnan(v) for v in normals.errors(degrees).values())
        assert np.isnan(normals.median_of(normals.histogram(degrees)))

    @pytest.mark.parametrize("n", [1, 2, 5, 1000, 4001])
    def test_median_of_a_histogram(self, n):
        degrees = np.random.default_rng(n).uniform(0, 180, n)
        assert normals.median_of(normals.histogram(degrees)) == pytest.approx(np.median(degrees), abs=0.1)

    def test_median_of_a_histogram_at_the_ends(self):
        assert normals.median_of(normals.histogram(np.array([0.0, 0, 0, 170]))) == 0
        assert normals.median_of(normals.histogram(np.full(3, 180.0))) == pytest.approx(180, abs=0.1)
        assert normals.histogram(np.array([180.0, 0.0, 0.05, 0.1])).sum() == 4
        assert normals.median_of(normals.histogram(np.array([1.0, 99.0]))) == pytest.approx(50, abs=0.1)

    def test_pooled(self):
        _, truth = vectors(holes=0)
        np.testing.assert_allclose(normals.pooled_normals(truth, truth.shape[:2]), truth, atol=1e-6)
        truth[:] = (0, 0, -1)
        truth[:, 15:] = (1, 0, 0)
        truth[0] = 0
        half = normals.pooled_normals(truth, (1, 2))
        np.testing.assert_allclose(half[0, 0], [0, 0, -1], atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(half, axis=-1), 1, atol=1e-6)
        assert (normals.pooled_normals(np.zeros((4, 4, 3), np.float32), (2, 2)) == [0, 0, -1]).all()
