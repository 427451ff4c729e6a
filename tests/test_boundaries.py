"""Boundaries: thinning, matching and curves against cases by hand and scipy's dense solver."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage, optimize
from scipy.spatial.distance import cdist

from benchkit import registry
from benchkit.datasets import scenes
from benchkit.datasets.base import Dataset, DataSettings
from benchkit.errors import UsageError
from benchkit.export.split import Split
from benchkit.export.truth import FramedTruth
from benchkit.metrics import boundaries as scores_of
from benchkit.metrics.thinning import ridges, thinned
from benchkit.preprocess import Preprocess
from benchkit.store.columns import Ragged
from benchkit.store.items import ArrayItems


def family(**settings):
    component = registry.find("eval", "boundaries")
    return component.build(component.settings(**settings))


def lines(seed: int, shape: tuple[int, int] = (40, 60), sigma: float = 4) -> np.ndarray:
    """Outlines of random blobs, bool."""
    inside = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=shape), sigma) > 0
    return thinned(inside & ~ndimage.binary_erosion(inside, border_value=1))


def counts(prediction: np.ndarray, drawn: np.ndarray, reach: float, thresholds=(0.5,), nms: bool = False) -> list:
    """Counts with a reach in pixels."""
    share = reach / np.hypot(*prediction.shape)
    found = scores_of.image_counts(prediction, drawn.astype(np.uint8), np.array(thresholds), share, nms)
    return found.tolist()


class TestThinning:
    def test_a_bar_becomes_its_middle(self):
        bar = np.zeros((7, 12), bool)
        bar[2:5, 1:11] = True
        found = thinned(bar)
        assert found[3, 2:9].all()
        assert found.sum() == found[3].sum()

    def test_thin_lines_stay(self):
        thin = lines(0)
        np.testing.assert_array_equal(thinned(thin), thin)

    def test_pieces_stay_pieces(self):
        eight = np.ones((3, 3))
        for seed in range(5):
            thick = ndimage.binary_dilation(np.pad(lines(seed), 6), iterations=2)
            found = thinned(thick)
            assert not (found & ~thick).any()
            assert ndimage.label(found, eight)[1] == ndimage.label(thick, eight)[1]
            assert ndimage.label(~found)[1] == ndimage.label(~thick)[1]  # and holes stay holes

    def test_borders(self):
        assert thinned(np.ones((1, 5), bool)).any()
        assert not thinned(np.zeros((3, 3), bool)).any()


class TestRidges:
    @pytest.mark.parametrize("degrees", [0, 30, 90, 120])
    def test_the_top_of_a_ridge(self, degrees: int):
        y, x = np.mgrid[:41, :41] - 20
        across = x * np.cos(np.radians(degrees)) + y * np.sin(np.radians(degrees))
        soft = np.exp(-(across**2) / (2 * 4.0**2))
        kept = ridges(soft)[5:-5, 5:-5] > 0
        assert np.abs(across[5:-5, 5:-5][kept]).max() < 1.5
        assert thinned(kept).sum() >= 28  # from one end to the other

    def test_lines_one_pixel_wide_stay(self):
        thin = lines(1)
        np.testing.assert_array_equal(ridges(thin.astype(np.float32)) > 0, thin)


class TestMatching:
    def test_each_pixel_once(self):
        """Two predicted pixels beside one drawn: one is found, one is wrong."""
        drawn, prediction = np.zeros((1, 9, 9)), np.zeros((9, 9))
        drawn[0, 4, 4] = prediction[4, 3] = prediction[4, 6] = 1
        assert counts(prediction, drawn, 2) == [[1, 2, 1, 1]]

    def test_within_reach(self):
        drawn, prediction = np.zeros((1, 9, 9)), np.zeros((9, 9))
        drawn[0, 4, 1] = prediction[4, 4] = 1
        assert counts(prediction, drawn, 3.001) == [[1, 1, 1, 1]]
        assert counts(prediction, drawn, 2.999) == [[0, 1, 0, 1]]

    def test_as_many_as_can_be(self):
        """The first drawn pixel is nearest to the middle prediction, which has to leave it to the left one."""
        drawn, prediction = np.zeros((1, 3, 12)), np.zeros((3, 12))
        drawn[0, 1, 4] = drawn[0, 1, 8] = 1
        prediction[1, 1] = prediction[1, 5] = 1
        assert counts(prediction, drawn, 3.1) == [[2, 2, 2, 2]]

    def test_precision_counts_any_annotator_recall_each(self):
        drawn, prediction = np.zeros((2, 9, 9)), np.zeros((9, 9))
        drawn[0, 2, 2] = drawn[1, 2, 3] = drawn[1, 7, 7] = 1
        prediction[2, 2] = prediction[5, 2] = 1
        assert counts(prediction, drawn, 1.1) == [[1, 2, 2, 3]]

    @pytest.mark.parametrize("reach", [0.5, 1.5, 3.0])
    def test_agrees_with_a_dense_solver(self, reach: float):
        for seed in range(3):
            one, other = lines(seed), lines(seed + 10)
            near = cdist(np.argwhere(one), np.argwhere(other)) <= reach
            rows, columns = optimize.linear_sum_assignment(~near)
            expected = int(near[rows, columns].sum())
            assert counts(one.astype(float), other[None], reach) == [[expected, one.sum(), expected, other.sum()]]

    def test_predictions_are_thinned_at_every_threshold(self):
        soft = np.zeros((20, 20))
        soft[8:13, 2:18], soft[10, 2:18] = 0.3, 0.9
        drawn = np.zeros((1, 20, 20))
        drawn[0, 10, 2:18] = 1
        low, high = counts(soft, drawn, 1.5, (0.2, 0.5))
        assert high == [16, 16, 16, 16]
        assert low[1] <= 16
        assert low[0] == low[1]

    def test_nothing_predicted(self):
        for value in (0.0, 0.7, 1.0):  # a constant map says nothing
            assert counts(np.full((9, 9), value), lines(0, (9, 9))[None], 2)[0][:3] == [0, 0, 0]
        assert counts(np.eye(9) * 0.2, np.zeros((1, 9, 9)), 2) == [[0, 0, 0, 0]]


class TestCurves:
    TOTAL = np.array([[20, 80, 40, 50], [18, 30, 30, 50], [5, 5, 5, 50], [0, 0, 0, 50]])

    def test_by_hand(self):
        precision, recall = scores_of.curve(self.TOTAL)
        np.testing.assert_allclose(precision, [0.25, 0.6, 1, 0])
        np.testing.assert_allclose(recall, [0.8, 0.6, 0.1, 0])
        np.testing.assert_allclose(scores_of.f_measure(precision, recall), [0.4 / 1.05, 0.6, 0.2 / 1.1, 0])

    def test_ods_lies_between_thresholds(self):
        """Precision .3 and .9 with recall .9 and .3: halfway both are .6, which beats .45 at the thresholds."""
        total = np.array([[3, 10, 9, 10], [9, 10, 3, 10]])
        assert scores_of.ods(total) == pytest.approx(0.6, abs=1e-3)
        assert scores_of.ods(total[:1]) == pytest.approx(0.45)

    def test_average_precision(self):
        recalls = np.arange(101) / 100
        line = np.interp(recalls, [0.1, 0.6, 0.8], [1, 0.6, 0.25])
        line[recalls > 0.8 + 1e-9] = 0
        assert scores_of.average_precision(self.TOTAL) == pytest.approx(line.mean())
        with_zero = np.interp(recalls, [0, 0.1, 0.6, 0.8], [0, 1, 0.6, 0.25])
        with_zero[recalls > 0.8 + 1e-9] = 0
        assert scores_of.toolbox_average_precision(self.TOTAL) == pytest.approx(with_zero.sum() / 100)

    def test_one_recall(self):
        perfect = np.full((5, 4), 7)
        assert scores_of.average_precision(perfect) == 1
        assert scores_of.toolbox_average_precision(perfect) == 0  # its code's answer
        assert scores_of.average_precision(np.array([[0, 0, 0, 9]])) == 0

    def test_best_counts_are_each_images_own(self):
        one = np.array([[10, 10, 10, 10], [1, 1, 1, 10]])
        other = np.array([[5, 50, 5, 10], [8, 8, 8, 10]])
        np.testing.assert_array_equal(scores_of.best_counts(np.stack([one, other])), [one[0], other[1]])


class TestFamily:
    def score(self, prediction: np.ndarray, drawn: np.ndarray, **settings) -> dict:
        made = family(**settings)
        truth = [made.complete({"boundaries": each}) for each in drawn.astype(np.uint8)]
        names = [f"{k}" for k in range(len(drawn))]
        targets = ArrayItems(names, {f: np.stack([t[f] for t in truth]) for f in ("boundaries", "map")})
        return made.summarize(made.score(ArrayItems(names, {"map": prediction.astype(np.float32)}), targets))

    def test_ods_is_one_threshold_ois_each_images(self):
        """The second image speaks at half the strength, and of noise above it there: one threshold serves one image."""
        drawn = np.stack([lines(0), lines(1)])[:, None]
        prediction = np.stack([0.9 * lines(0) + 0.4 * lines(5), 0.4 * lines(1)])
        found = self.score(np.where(prediction > 1, 0.9, prediction), drawn, nms=False)
        assert found["ois"] > found["ods"] + 0.02

    def test_shifts(self):
        """Tolerance here is .04 of the diagonal, 3.8 pixels."""
        drawn = np.pad(lines(2), 8)[None, None]
        near, far = (np.roll(drawn[:, 0], step, axis=2) for step in (2, 12))
        found = [self.score(p, drawn, max_dist=0.04)["ods"] for p in (drawn[:, 0], near, far)]
        assert found[0] == found[1] == 1
        assert found[2] < 0.8

    def test_annotators_disagree(self):
        """All that anyone drew is right everywhere; what one of them drew has precision 1 and half of the recall."""
        left, right = np.zeros((2, 30, 30), bool)
        left[:, 5], right[:, 20] = True, True
        drawn = np.stack([left, right])[None]
        both, one = (left | right)[None], left[None]
        assert self.score(both, drawn)["ods"] == 1
        assert self.score(one, drawn)["ods"] == pytest.approx(2 / 3)

    def test_what_heads_learn(self):
        drawn = np.zeros((2, 64, 64), np.uint8)
        drawn[:, :, 32] = 1
        drawn[0, 10] = 1
        soft = family().complete({"boundaries": drawn})["map"]
        assert soft[50, 32] == pytest.approx(1, abs=0.02)
        assert soft[10, 8] == pytest.approx(0.5, abs=0.02)
        assert 0 < soft[50, 33] < 1
        assert soft.max() <= 1

    def test_nothing_drawn_anywhere_is_undefined(self):
        found = self.score(lines(0)[None], np.zeros((1, 1, 40, 60)))
        assert found == {"ods": None, "ois": None, "ap": None}

    def test_refuses(self):
        with pytest.raises(UsageError, match="boundary maps"):
            family().check(ArrayItems(["a"], {"map": np.zeros((1, 4, 4))}))
        for odd in ({"thresholds": 0}, {"max_dist": -0.1}):
            with pytest.raises(ValueError, match="max_dist"):
                registry.find("eval", "boundaries").settings(**odd)


class TestTruth:
    def test_scenes_have_one_annotator(self):
        data = scenes.build(scenes.Settings(n_train=0, n_test=1, side=64, truth="boundaries"))
        drawn = data.target("test/000000")["boundaries"]
        assert drawn.shape == (1, 64, 64)
        assert drawn.dtype == np.uint8
        assert 20 < drawn.sum() < 1000
        np.testing.assert_array_equal(thinned(drawn[0] > 0), drawn[0] > 0)

    def test_stacks_go_through_the_crop(self):
        """Annotators of different number in one column; each map cut as the image is."""

        class Drawn(Dataset):
            maps = stacks = ("boundaries",)
            settings = DataSettings()

            def path(self, view: str) -> Path | None:
                return None

            def target(self, item: str) -> dict[str, np.ndarray]:
                stack = np.zeros((int(item), 8, 16), np.uint8)
                stack[-1, :, 6] = 1
                return {"boundaries": stack}

        data = Drawn()
        preprocess = Preprocess(8, "crop", 8, "bilinear", (0.5,) * 3, (0.5,) * 3)
        truth = FramedTruth(data, preprocess, complete=family().complete)
        columns = Split(data, "test", ["2", "3"], {}).columns(["2", "3"], truth)
        assert isinstance(columns["boundaries"], Ragged)
        stacks = list(columns["boundaries"].each())
        assert [s.shape for s in stacks] == [(2, 8, 8), (3, 8, 8)]
        for stack in stacks:
            assert np.argwhere(stack.any(axis=(0, 1))).tolist() == [[2]]  # column 6 of 16 is the third of the central 8
        assert next(iter(columns["map"].blocks)).shape == (1, 8, 8)
