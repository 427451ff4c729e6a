"""Errors of poses, homographies and matches, and the areas of their curves: by hand, and against independent code."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tiny_views import K0, K1, TRANSLATION, H, plane, rotation, scene

from benchkit.geometry import pose as geometry
from benchkit.geometry.homography import transfer
from benchkit.metrics import curves
from benchkit.metrics import homography as plane_scores
from benchkit.metrics import matches as depth_scores
from benchkit.metrics import pose as pose_scores


class TestAreas:
    def test_by_hand(self):
        """(0, 0) to (.5, 1/3) to (2, 2/3), then level to 5: .0833 + .75 + 2 of 5; up to 1 level from .5 on."""
        areas = curves.areas(np.array([np.inf, 0.5, 2]), [5, 1, 2])
        np.testing.assert_allclose(areas, [(0.5 / 6 + 0.75 + 2) / 5, 0.5 / 6 + 0.5 / 3, (0.5 / 6 + 0.5) / 2])

    def test_ends(self):
        assert curves.areas(np.zeros(4), [1, 3]).tolist() == [1, 1]
        assert curves.areas(np.full(4, np.inf), [1, 3]).tolist() == [0, 0]
        assert curves.areas(np.array([1.0]), [1]).tolist() == [0]  # what is not below the threshold is not found

    def test_against_trapezoids(self):
        """As everybody writes it: sort, cut at the threshold, integrate."""
        rng = np.random.default_rng(0)
        errors = np.where(rng.random((5, 40)) < 0.2, np.inf, rng.integers(0, 24, (5, 40)) / 2)  # with ties and zeros
        expected = np.zeros((5, 3))
        for row, each in enumerate(errors):
            x, y = np.concatenate([[0], np.sort(each)]), np.arange(41) / 40
            for column, limit in enumerate((2, 5, 10)):
                last = np.searchsorted(x, limit)
                area = np.trapezoid(np.append(y[:last], y[last - 1]), np.append(x[:last], limit))
                expected[row, column] = area / limit
        np.testing.assert_allclose(curves.areas(errors, (2, 5, 10)), expected, atol=1e-12)

    def test_the_drawn_curve_has_that_area(self):
        errors = np.random.default_rng(1).exponential(4, 50)
        x, y = curves.recall_curve(errors, 10)
        assert np.trapezoid(y, x) / 10 == pytest.approx(curves.areas(errors, [10])[0])
        assert (x[0], y[0], x[-1]) == (0, 0, 10)


class TestAveragePrecision:
    def test_by_hand(self):
        """Right, wrong, right, of 4 true ones: precision 1, 1/2, 2/3 (raised to 2/3 at the second), recall 1/4, 1/4, 1/2."""
        precision, recall = curves.precision_recall(np.array([1, 0, 1]), np.array([0, 1, 0]), 4)
        np.testing.assert_allclose(precision, [1, 1 / 2, 2 / 3])
        np.testing.assert_allclose(recall, [1 / 4, 1 / 4, 1 / 2])
        assert curves.average_precision(precision, recall) == pytest.approx(1 / 4 + 1 / 4 * 2 / 3)
        assert curves.average_precision(*curves.precision_recall(np.zeros(0), np.zeros(0), 4)) == 0

    def test_counts_by_level(self):
        scores, right = np.array([0.9, 0.5, 0.9, 0.1]), np.array([True, False, False, True])
        levels = curves.score_levels(scores, 256)
        assert levels.tolist() == [0.1, 0.5, 0.9]
        assert curves.counts_at(levels, scores, right).tolist() == [[1, 1], [0, 1], [1, 0]]
        assert curves.counts_at(levels, np.zeros(0), np.zeros(0, bool)).tolist() == [[0, 0]] * 3

    def test_few_levels_lose_little(self):
        """Against one step per answer, with the envelope of PASCAL VOC."""
        rng = np.random.default_rng(0)
        scores = rng.normal(size=5000)
        right = rng.random(5000) < 1 / (1 + np.exp(-2 * scores))
        order = np.argsort(-scores)
        hits = np.cumsum(right[order])
        precision, recall = hits / np.arange(1, 5001), hits / 4000
        exact = sum(
            (recall[k] - (recall[k - 1] if k else 0)) * precision[k:].max()
            for k in np.flatnonzero(right[order]).tolist()
        )
        levels = curves.score_levels(scores, 256)
        assert len(levels) <= 256
        counts = curves.counts_at(levels, scores, right)
        assert counts.sum() == 5000
        found = curves.average_precision(*curves.precision_recall(counts[:, 0], counts[:, 1], 4000))
        assert found == pytest.approx(exact, abs=2e-3)


class TestPoseErrors:
    def test_rotations_by_hand(self):
        quarter = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]])
        assert pose_scores.rotation_angle(np.eye(3), quarter) == pytest.approx(90)
        assert pose_scores.rotation_angle(quarter, quarter @ quarter @ quarter) == pytest.approx(180)
        assert pose_scores.rotation_angle(quarter, quarter) == 0

    @pytest.mark.parametrize("degrees", [0, 1e-7, 1e-3, 5, 90, 179, 179.9999999, 180])
    def test_rotations_against_scipy(self, degrees: float):
        """arccos of the trace is off by 1e-6 degrees at 0 and at 180."""
        first = Rotation.from_rotvec([0.3, -0.5, 0.9])
        second = first * Rotation.from_rotvec(np.radians(degrees) * np.array([2, 3, 6]) / 7)
        found = pose_scores.rotation_angle(first.as_matrix(), second.as_matrix())
        assert found == pytest.approx(np.degrees((first.inv() * second).magnitude()), abs=1e-11)
        assert found == pytest.approx(degrees, abs=1e-11)

    def test_translations_are_lines(self):
        forward = np.array([0, 0, 2.0])
        assert pose_scores.translation_angle(forward, np.array([0, 0, -1.0])) == 0
        assert pose_scores.translation_angle(forward, np.array([1.0, 0, 0])) == pytest.approx(90)
        assert pose_scores.translation_angle(forward, np.array([1.0, 0, -1])) == pytest.approx(45)
        assert pose_scores.translation_angle(forward, np.array([1e-9, 0, 1])) == pytest.approx(np.degrees(1e-9))

    def test_the_larger_of_both(self):
        one, turned = np.array([1.0, 0, 0]), rotation((0, 0, 1), 30)
        assert pose_scores.pose_error(np.eye(3), one, turned, -one) == pytest.approx(30)
        assert pose_scores.pose_error(turned, one, turned, np.array([1.0, 1, 0])) == pytest.approx(45)
        assert pose_scores.pose_error(turned, one, turned, np.zeros(3)) == 0  # a pure rotation has no direction


class TestEpipolar:
    def test_against_opencv(self):
        """Mean of the distances to OpenCV's epipolar lines, in normalised coordinates; and Sampson's where both agree."""
        views = scene(n=50, noise=3, seed=2)
        first, second = geometry.normalised(views.points0, K0), geometry.normalised(views.points1, K1)
        essential = geometry.essential(views.R, 7 * views.t)
        expected = np.zeros(50)
        for points, lines in (
            (second, cv2.computeCorrespondEpilines(first[:, None], 1, essential)[:, 0]),
            (first, cv2.computeCorrespondEpilines(second[:, None], 2, essential)[:, 0]),
        ):
            expected += np.abs((np.column_stack([points, np.ones(50)]) * lines).sum(axis=1)) / 2
        found = pose_scores.epipolar_errors(first, second, essential)
        np.testing.assert_allclose(found, expected, rtol=1e-6)  # OpenCV keeps the lines as floats
        one, other = (np.append(each[0], 1.0) for each in (first, second))
        assert (
            1 < found[0] ** 2 / cv2.sampsonDistance(one, other, essential) < 8
        )  # two squared: twice, at equal distances

    def test_all_pairs_are_the_same_numbers(self):
        views = scene(n=6, noise=3)
        first, second = geometry.normalised(views.points0, K0), geometry.normalised(views.points1, K1)
        essential = geometry.essential(views.R, views.t)
        table = pose_scores.epipolar_errors(first[:, None], second[None], essential)
        np.testing.assert_allclose(table.diagonal(), pose_scores.epipolar_errors(first, second, essential))
        for row in range(6):
            one = np.tile(first[row], (6, 1))
            np.testing.assert_allclose(table[row], pose_scores.epipolar_errors(one, second, essential))

    def test_true_matches_and_the_epipole(self):
        views = scene(n=50)
        first, second = geometry.normalised(views.points0, K0), geometry.normalised(views.points1, K1)
        essential = geometry.essential(views.R, views.t)
        assert pose_scores.epipolar_errors(first, second, essential).max() < 1e-12
        epipole = (-views.R.T @ views.t)[None]
        assert pose_scores.epipolar_errors(epipole[:, :2] / epipole[:, 2:], second[:1], essential) < 1e-9
        assert pose_scores.epipolar_errors(first[:0], second[:0], essential).shape == (0,)

    def test_lines_go_through_true_matches(self):
        views = scene(n=20)
        lines = geometry.epipolar_lines(views.points0, K0, K1, views.R, views.t)
        distances = (lines[:, :2] * views.points1).sum(axis=1) + lines[:, 2]
        assert np.abs(distances / np.linalg.norm(lines[:, :2], axis=1)).max() < 1e-9
        np.testing.assert_allclose(geometry.essential(np.eye(3), np.zeros(3)), 0)

    def test_relative_poses(self):
        rng = np.random.default_rng(0)
        (R0, t0), (R1, t1) = ((rotation(tuple(rng.normal(size=3)), 40), rng.normal(size=3)) for _ in range(2))
        R, t = geometry.relative(R0, t0, R1, t1)
        world = rng.normal(size=(5, 3))
        np.testing.assert_allclose((world @ R0.T + t0) @ R.T + t, world @ R1.T + t1)
        back, there = geometry.inverse(R, t)
        np.testing.assert_allclose(back @ R, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(back @ t + there, 0, atol=1e-12)


class TestHomography:
    def test_transfer_errors_by_hand(self):
        """Twice as large: (1, 1) belongs to (2, 2), matched to (2, 5): 3 there, 1.5 back."""
        found = plane_scores.transfer_errors(np.array([[1.0, 1]]), np.array([[2.0, 5]]), np.diag([2, 2, 1.0]))
        assert found.tolist() == [2.25]
        assert plane_scores.transfer_errors(np.zeros((0, 2)), np.zeros((0, 2)), np.eye(3)).shape == (0,)

    def test_transfer_errors_against_opencv(self):
        views = plane(n=30, noise=2)
        there = cv2.perspectiveTransform(views.points0[:, None], H)[:, 0] - views.points1
        back = cv2.perspectiveTransform(views.points1[:, None], np.linalg.inv(H))[:, 0] - views.points0
        expected = (np.linalg.norm(there, axis=1) + np.linalg.norm(back, axis=1)) / 2
        np.testing.assert_allclose(plane_scores.transfer_errors(views.points0, views.points1, H), expected)
        table = plane_scores.transfer_errors_all(views.points0, views.points1, H)
        np.testing.assert_allclose(table.diagonal(), expected)

    def test_corners_by_hand(self):
        """All move by (3, 4); one does alone; behind the horizon."""
        moved = np.array([[1, 0, 3], [0, 1, 4], [0, 0, 1.0]])
        size = np.array([40.0, 30])
        assert plane_scores.corner_error(moved, np.eye(3), size) == 5
        assert plane_scores.corner_error(np.diag([1.5, 1, 1]), np.eye(3), size) == 10  # 0, 20, 20, 0
        horizon = np.array([[1, 0, 0], [0, 1, 0], [-0.1, 0, 1.0]])
        assert plane_scores.corner_error(horizon, np.eye(3), size) == np.inf

    def test_scaled(self):
        """Points that are scaled are taken to where scaled points lie, whatever the matrix's sign."""
        points = np.random.default_rng(0).uniform(0, 400, (9, 2))
        for sign in (1, -3):
            found = plane_scores.scaled(sign * H, 0.5, 0.25, np.array([640.0, 480]))
            np.testing.assert_allclose(transfer(found, points * 0.5), transfer(H, points) * 0.25)

    def test_dlt_recovers_and_outliers_of_weight_0_do_not_count(self):
        views = plane(n=40, outliers=0.3)
        weights = np.where(np.arange(40) < views.true, 0.5, -0.1)
        found = plane_scores.weighted_dlt(views.points0, views.points1, weights)
        assert plane_scores.corner_error(found, H, np.array([640.0, 480])) < 1e-7
        assert np.linalg.norm(found) == pytest.approx(1)

    def test_dlt_against_kornia(self):
        """The weighted one of noisy matches."""
        kornia, torch = pytest.importorskip("kornia.geometry.homography"), pytest.importorskip("torch")
        views = plane(n=40, noise=2)
        weights = np.random.default_rng(0).uniform(0.1, 1, 40)
        given = (torch.tensor(each)[None] for each in (views.points0, views.points1, weights))
        expected = kornia.find_homography_dlt(*given, solver="svd")[0].numpy()
        found = plane_scores.weighted_dlt(views.points0, views.points1, weights)
        np.testing.assert_allclose(found / found[2, 2], expected / expected[2, 2], rtol=1e-6)

    @pytest.mark.parametrize("sign", [1, -1])
    def test_dlt_of_four_points_lies_before_them(self, sign: int):
        corners = sign * np.array([[10, 10], [90, 12], [95, 80], [5, 85.0]])
        moved = transfer(H, corners)
        found = plane_scores.weighted_dlt(corners, moved, np.ones(4))
        np.testing.assert_allclose(transfer(found, corners), moved, atol=1e-8)

    def test_dlt_of_too_little(self):
        corners = np.array([[10, 10], [90, 12], [95, 80], [5, 85.0]])
        line = np.stack([np.arange(9.0), 2 * np.arange(9.0)], axis=1)
        for points, weights in (
            (corners[:0], np.ones(0)),
            (corners[:3], np.ones(3)),
            (corners, np.array([1, 1, 1, 0])),
            (line, np.ones(9)),
            (np.ones((6, 2)), np.ones(6)),
        ):
            assert plane_scores.weighted_dlt(points, points, weights) is None


def front(depth1: float = 2.0, **changed) -> depth_scores.DepthPair:
    """Two cameras side by side before a wall 2 metres away: what moves by .1 m moves by 5 pixels."""
    K = np.array([[100.0, 0, 50], [0, 100, 50], [0, 0, 1]])
    size = np.array([100.0, 100])
    known = {"K0": K, "K1": K, "R": np.eye(3), "t": np.array([-0.1, 0, 0]), "size0": size, "size1": size}
    maps = {"depth0": np.full((100, 100), 2.0), "depth1": np.full((100, 100), depth1)}
    return depth_scores.DepthPair(**{**known, **maps, **changed})


class TestDepth:
    def test_depth_between_pixels(self):
        depth = np.array([[1, 2, np.nan], [3, 4, 5.0]])
        size = np.array([3.0, 2])
        points = np.array([[0.5, 0.5], [1, 1], [0, 0], [2.2, 1.4], [2.5, 0.5], [1.6, 0.5], [-0.1, 1], [3, 1]])
        found = geometry.depth_at(depth, points, size)
        # centre; middle of four; beyond the centres; one of four unknown: the nearest; unknown; the same; outside; outside
        np.testing.assert_allclose(found, [1, 2.5, 1, 5, np.nan, 2, np.nan, np.nan])
        halved = geometry.depth_at(depth, 2 * points, 2 * size)
        np.testing.assert_allclose(halved, found)
        assert np.isnan(geometry.depth_at(np.zeros((2, 2)), points[:1], size)).all()

    def test_projection_against_opencv(self):
        views = scene(n=20)
        depths = np.random.default_rng(0).uniform(2, 9, 20)
        space = geometry.unprojected(views.points0, depths, K0)
        np.testing.assert_allclose(geometry.projected(space, K0), views.points0)
        vector = cv2.Rodrigues(views.R)[0]
        expected = cv2.projectPoints(space, vector, TRANSLATION, K1, None)[0][:, 0]
        found = geometry.transferred(views.points0, depths, K0, K1, views.R, TRANSLATION)
        np.testing.assert_allclose(found, expected)
        assert np.isinf(geometry.projected(-space, K0)).all()

    def test_reprojection_by_hand(self):
        """Truth: 5 pixels to the left. Exact; 3 off in both; without depth."""
        first = np.array([[50.0, 50], [50, 50], [20, 20]])
        second = np.array([[45.0, 50], [45, 53], [15, 20]])
        depth = np.full((100, 100), 2.0)
        depth[:30, :30] = np.nan
        found = depth_scores.reprojection_errors(first, second, front(depth0=depth))
        np.testing.assert_allclose(found, [0, 3, np.nan], atol=1e-12)
        # from the second view the wall is 1 m away: .1 m is 10 pixels there, 5 of them too many
        assert depth_scores.reprojection_errors(first[:1], second[:1], front(1.0)) == pytest.approx([2.5])
        behind = front(R=np.diag([-1.0, 1, -1]))  # a half turn about the vertical: the wall is behind the second camera
        assert depth_scores.reprojection_errors(first[:1], second[:1], behind).tolist() == [np.inf]

    def test_true_matches_by_hand(self):
        """0 -> 0; 1 would too, and is farther from it; 2 has nothing within 5 pixels; 3 only at 4; 4 has no depth."""
        first = np.array([[50, 50], [51, 50], [80, 80], [30, 70], [20, 20.0]])
        second = np.array([[45.2, 50], [47.1, 50], [25, 74], [15, 20.0]])
        depth = np.full((100, 100), 2.0)
        depth[:30, :30] = np.nan
        pair = front(depth0=depth)
        found = depth_scores.true_matches(first, second, pair)
        assert found.tolist() == [0, -2, -1, -2, -2]
        assert (depth_scores.ALONE, depth_scores.UNKNOWN) == (-1, -2)
        assert depth_scores.true_matches(first, second[:0], pair).tolist() == [-1, -1, -1, -1, -2]
        assert depth_scores.true_matches(first[:0], second, pair).shape == (0,)

    def test_true_matches_against_all_pairs(self):
        """A plain double loop over all distances, as Glue Factory fills its matrix."""
        rng = np.random.default_rng(0)
        slanted = np.linspace(1.5, 3, 100)[:, None] * np.ones(100)
        depth = np.where(rng.random((100, 100)) < 0.1, np.nan, slanted)
        pair = front(depth0=depth, depth1=slanted)
        first, second = rng.uniform(-2, 102, (120, 2)), rng.uniform(-2, 102, (150, 2))
        (there, known0), (back, known1) = pair.forward(first), pair.backward(second)
        forth = np.linalg.norm(there[:, None] - second[None], axis=2)
        larger = np.maximum(forth, np.linalg.norm(first[:, None] - back[None], axis=2))
        inside = [((each >= 0) & (each < 100)).all(axis=1) for each in (there, back)]
        larger[~(known0 & inside[0])], larger[:, ~(known1 & inside[1])] = np.inf, np.inf
        expected = []
        for i in range(120):
            j = int(larger[i].argmin())
            if larger[i, j] < 3 and larger[:, j].argmin() == i:
                expected.append(j)
            else:
                expected.append(-1 if known0[i] and forth[i].min() > 5 else -2)
        found = depth_scores.true_matches(first, second, pair)
        assert found.tolist() == expected
        assert min(np.count_nonzero(found > -1), np.count_nonzero(found == -1), np.count_nonzero(found == -2)) > 5
