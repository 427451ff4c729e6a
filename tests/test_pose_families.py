"""Homography and relative pose: what is scored by hand, what fails and is counted, thresholds, floors, the whole way."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from tiny_views import K0, K1, H, Views, plane, rotation, scene

from benchkit.errors import BenchkitError, RunError, UsageError
from benchkit.eval import _depth_matches, evaluate
from benchkit.eval.homography import Homography
from benchkit.eval.homography import Settings as HomographySettings
from benchkit.eval.relative_pose import RelativePose
from benchkit.eval.relative_pose import Settings as PoseSettings
from benchkit.experiments.experiment import Experiment
from benchkit.experiments.pictures import contact_sheet, save_plots
from benchkit.experiments.plots import plots
from benchkit.export import export
from benchkit.metrics.intervals import bootstrap
from benchkit.store.items import ArrayItems
from benchkit.store.table import Table, write_table
from benchkit.viz import curves, pairs
from benchkit.viz.matches import MARKED, line_within
from benchkit.viz.pairs import colour

pytest.importorskip("poselib")
SIZE = np.array([640.0, 480])
LINE = np.stack([np.linspace(10, 500, 30), np.linspace(20, 400, 30)], axis=1)


def matched(pairs: Sequence[Views], scores: Any = None) -> ArrayItems:
    """All points of each pair, matched in order."""
    fields: dict[str, list[np.ndarray]] = {
        "keypoints0": [each.points0 for each in pairs],
        "keypoints1": [each.points1 for each in pairs],
        "matches0": [np.arange(len(each.points0), dtype=np.int32) for each in pairs],
        "matching_scores0": scores or [np.ones(len(each.points0), np.float32) for each in pairs],
    }
    return ArrayItems([f"{row:02d}" for row in range(len(pairs))], fields)


def repeated(count: int, **fields: Any) -> ArrayItems:
    """The same truth for every item."""
    rows = {name: np.stack([np.asarray(value)] * count) for name, value in fields.items()}
    return ArrayItems([f"{row:02d}" for row in range(count)], {**rows, "views": ["a\nb"] * count})


def planes(count: int, scale0: float = 1.0, scale1: float = 1.0, homography: np.ndarray = H) -> ArrayItems:
    return repeated(count, homography=homography, size0=SIZE, size1=SIZE, scale0=scale0, scale1=scale1)


def cameras(count: int, **changed: Any) -> ArrayItems:
    views = scene()
    known = {"K0": K0, "K1": K1, "R": views.R, "t": 3 * views.t, "size0": SIZE, "size1": SIZE}
    return repeated(count, **{**known, **changed})


def few(views: Views, count: int) -> Views:
    return Views(views.points0[:count], views.points1[:count], count)


def homography_of(**settings: Any) -> Homography:
    return Homography(HomographySettings(**settings))


def pose_of(**settings: Any) -> RelativePose:
    return RelativePose(PoseSettings(**settings))


class TestHomography:
    def test_by_hand(self):
        """Exact; and two of five matches .5 and 2 pixels off in both views, under a shift."""
        shift = np.array([[1, 0, 3.0], [0, 1, -2], [0, 0, 1]])
        points = np.array([[10, 10], [600, 20], [590, 450], [30, 470], [300, 200.0]])
        moved = points + np.array([3, -2])
        off = moved + np.array([[0, 0], [0.5, 0], [0, 2], [0, 0], [0, 0]])
        predictions = matched([Views(points, moved, 5), Views(points, off, 3)])
        family = homography_of()
        columns = family.score(predictions, planes(2, homography=shift))
        assert columns["prec@1px"].tolist() == [1, 0.8]
        assert columns["prec@3px"].tolist() == [1, 1]
        assert columns["H_error_poselib"][0] == pytest.approx(0, abs=1e-6)
        assert columns["H_error_dlt"][0] == pytest.approx(0, abs=1e-6)
        assert columns["H_error_dlt"][1] > 0.1
        summary = family.summarize(columns)
        assert summary["prec@1px"] == pytest.approx(0.9)
        assert summary["num_matches"] == 5
        assert summary["n_failed_poselib"] == summary["n_failed_dlt"] == 0

    def test_errors_are_those_of_the_scored_frame(self):
        """Original pixels twice and four times as large: the same numbers, to the last but rounding."""
        views = plane(n=60, noise=1.5, outliers=0.2)
        small = homography_of().score(matched([views]), planes(1))
        large = Views(2 * views.points0, 4 * views.points1, views.true)
        original = np.diag([4, 4, 1]) @ H @ np.diag([0.5, 0.5, 1])
        truth = repeated(1, homography=-original, size0=2 * SIZE, size1=4 * SIZE, scale0=0.5, scale1=0.25)
        scored = homography_of().score(matched([large]), truth)
        for name, column in small.items():
            assert scored[name] == pytest.approx(column, rel=1e-6), name

    def test_what_fails_is_infinite_counted_and_stays_in_the_denominator(self):
        """No match, one, three, all on one line; beside one that is right: areas of 1 in 5."""
        right = plane(n=60)
        line = Views(LINE, LINE, 30)
        family = homography_of()
        columns = family.score(matched([right, few(right, 0), few(right, 1), few(right, 3), line]), planes(5))
        for name in ("H_error_poselib", "H_error_dlt"):
            assert np.isfinite(columns[name]).tolist() == [True, *[False] * 4]
        assert columns["prec@3px"].tolist() == [1, 0, 1, 1, 0]
        summary = family.summarize(columns)
        assert summary["n_failed_poselib"] == summary["n_failed_dlt"] == 4
        assert summary["H_error_poselib@1px"] == pytest.approx(0.2, abs=1e-6)
        assert summary["median_H_error_poselib"] is None
        assert summary["ransac_inliers"] == 12
        assert columns["ransac_inliers"].tolist() == [60, 0, 0, 0, 0]

    def test_infinite_errors_survive_files(self, tmp_path: Path):
        family = homography_of()
        columns = family.score(matched([plane(n=20), few(plane(), 0)]), planes(2))
        write_table(tmp_path / "results.h5", "results", ["00", "01"], columns)
        with Table(tmp_path / "results.h5", "results") as table:
            again = {name: table.read(name) for name in table.columns}
        assert again["H_error_poselib"][1] == np.inf
        assert family.summarize(again) == family.summarize(columns)

    def test_weights_of_the_direct_transform_are_the_scores(self):
        views = plane(n=40, outliers=0.25)
        scores = np.where(np.arange(40) < views.true, 0.8, 0.0).astype(np.float32)
        one, other = homography_of().score(matched([views, views], [scores, np.ones(40, np.float32)]), planes(2))[
            "H_error_dlt"
        ]
        assert one < 1e-6 < 10 < other

    def test_floor_by_hand(self):
        """A shift by (3, 4): the corners are 5 off; of 2 x 2 pairs of points the true 2 are right."""
        shift = np.array([[1, 0, 3.0], [0, 1, 4], [0, 0, 1]])
        points = np.array([[10, 10], [600, 20.0]])
        family = homography_of(auc=[10.0])
        columns = family.chance(planes(1, homography=shift), matched([Views(points, points + np.array([3, 4]), 2)]))
        assert columns["prec@3px"].tolist() == [0.5]
        floor = family.summarize(columns)
        assert floor["H_error_poselib@10px"] == floor["H_error_dlt@10px"] == pytest.approx((10 - 5 + 2.5) / 10)
        assert floor["median_H_error_poselib"] == pytest.approx(5)
        assert floor["ransac_inliers"] is None
        assert "n_failed_poselib" not in floor

    def test_kinds_have_areas_of_their_own(self):
        truth = planes(3)
        truth.fields["category/kind"] = ["v", "i", "v"]
        family = homography_of()
        columns = family.score(matched([plane(n=20), plane(n=20), few(plane(), 2)]), truth)
        parts = family.breakdown(columns, {})
        assert parts["H_error_poselib_mAA/i"] == pytest.approx(1, abs=1e-6)
        assert parts["H_error_poselib_mAA/v"] == pytest.approx(0.5, abs=1e-6)
        alone = {name: column[[1, 1]] for name, column in columns.items()}
        assert family.breakdown(alone, {})["H_error_poselib_mAA/v"] is None
        truth.fields["category/kind"] = ["v"] * 3
        assert family.breakdown(family.score(matched([plane(n=20)] * 3), truth), {}) == {}


class TestRelativePose:
    def test_exact_matches(self):
        columns = pose_of().score(matched([scene(n=50), scene(n=5)]), cameras(2))
        assert columns["rel_pose_error_poselib"][0] == pytest.approx(0, abs=1e-4)
        assert columns["epi_prec@1e-4"].tolist() == [1, 1]

    def test_the_error_is_the_larger_angle_whatever_the_length_and_sign_of_t(self):
        """Truth turned by 3 degrees, t reversed; and t turned by 90."""
        views = scene(n=200)
        sideways = rotation((0, 1, 0), 90) @ views.t
        for changed, expected in (
            ({"R": rotation((1, 0, 0), 3) @ views.R, "t": -0.01 * views.t}, 3),
            ({"t": 5 * sideways}, np.degrees(np.arccos(abs(sideways @ views.t)))),
        ):
            columns = pose_of().score(matched([views]), cameras(1, **changed))
            assert columns["rel_pose_error_poselib"][0] == pytest.approx(expected, abs=1e-3)

    def test_what_fails(self):
        right = scene(n=60)
        line = Views(LINE, LINE + np.array([3.0, 1]), 30)
        family = pose_of()
        columns = family.score(matched([right, few(right, 0), few(right, 1), few(right, 4), line]), cameras(5))
        assert np.isfinite(columns["rel_pose_error_poselib"]).tolist() == [True, *[False] * 4]
        assert columns["epi_prec@1e-3"][:4].tolist() == [1, 0, 1, 1]
        summary = family.summarize(columns)
        assert summary["n_failed_poselib"] == 4
        assert summary["rel_pose_error_poselib@20"] == pytest.approx(0.2, abs=1e-6)

    def test_a_pure_rotation_is_scored_by_its_rotation(self):
        """There is no direction of t, and there are no epipolar lines."""
        still = scene(n=100, t=np.zeros(3))
        family = pose_of()
        columns = family.score(matched([still, scene(n=100)]), _with_still(cameras(2)))
        assert columns["rel_pose_error_poselib"][0] < 0.1
        assert np.isnan(columns["epi_prec@1e-4"]).tolist() == [True, False]
        assert family.summarize(columns)["epi_prec@1e-4"] == 1

    def test_floor_by_hand(self):
        """Truth: 12 degrees, t = (-.8, 0, .6), 36.87 degrees from one step to the right."""
        family = pose_of(auc=[40.0])
        views = scene(n=100)
        columns = family.chance(cameras(1), matched([views]))
        error = np.degrees(np.arccos(0.8))
        assert columns["rel_pose_error_poselib"] == pytest.approx([error])
        assert 0 < columns["epi_prec@1e-3"][0] < 0.2
        assert columns["epi_prec@1e-4"][0] >= 1 / 100  # the true one of 100, and others that lie on the line
        assert family.summarize(columns)["rel_pose_error_poselib@40"] == pytest.approx((40 - error / 2) / 40)

    def test_a_camera_that_is_none(self):
        broken = cameras(2)
        broken.fields["K0"] = np.stack([K0, np.diag([-800.0, 820, 1])])
        with pytest.raises(RunError, match=r"row 1 \('01'\).*camera"):
            pose_of().score(matched([scene(n=50)] * 2), broken)


def _with_still(truth: ArrayItems) -> ArrayItems:
    truth.fields["t"][0] = 0
    return truth


class TestRuns:
    def test_several_thresholds_and_the_best(self):
        pairs = [plane(n=80, noise=1.0, outliers=0.3, seed=seed) for seed in range(8)]
        family = homography_of(ransac_th=[0.5, 3.0, 2.0])
        columns = family.score(matched(pairs), planes(8))
        summary = family.summarize(columns)
        means = {th: summary[f"H_error_poselib[{th}]_mAA"] for th in ("0.5", "3", "2")}
        best = max(means, key=lambda th: means[th])
        assert len(set(means.values())) == 3
        assert summary["H_error_poselib_best_threshold"] == float(best)
        for name in ("H_error_{}_mAA", "H_error_{}@1px", "H_error_{}@5px", "median_H_error_{}"):
            assert summary[name.format("poselib_best")] == summary[name.format(f"poselib[{best}]")]
        assert family.metrics()[0].name == "H_error_poselib_best_mAA"
        assert {"ransac_inliers_poselib[2]", "n_failed_poselib[2]"} <= summary.keys()
        floor = family.summarize(family.chance(planes(8), matched(pairs)))
        assert floor["H_error_poselib_best_threshold"] is None
        alone = homography_of(ransac_th=[3.0]).score(matched(pairs), planes(8))
        np.testing.assert_array_equal(alone["H_error_poselib"], columns["H_error_poselib[3]"])

    def test_names(self):
        """One: no brackets; -1: six; a list and several estimators."""
        assert PoseSettings(ransac_th=[1.5]).labels("poselib") == ["poselib"]
        six = ["0.5", "1", "1.5", "2", "2.5", "3"]
        assert PoseSettings(ransac_th=[-1.0]).labels("poselib") == [f"poselib[{each}]" for each in six]
        names = [metric.name for metric in pose_of(estimator=["opencv", "poselib"], ransac_th=[1.5, 2.0]).metrics()]
        assert names[0] == "rel_pose_error_opencv_best_mAA"
        wanted = {"rel_pose_error_opencv[1.5]@5", "rel_pose_error_poselib_best@5", "ransac_inliers_poselib[2]"}
        assert wanted <= set(names)
        assert [m.name for m in homography_of(auc=[3.0, 5.0, 10.0]).metrics()][:4] == [
            f"H_error_poselib{part}" for part in ("_mAA", "@3px", "@5px", "@10px")
        ]

    def test_several_estimators_with_their_own_thresholds(self):
        pytest.importorskip("cv2")
        family = pose_of(estimator=["poselib", "opencv"])
        assert [list(runs.thresholds) for runs in family.settings.build("relative_pose")] == [[2.0], [0.5]]
        summary = family.summarize(family.score(matched([scene(n=100, noise=0.1)]), cameras(1)))
        for name in ("poselib", "opencv"):
            assert summary[f"rel_pose_error_{name}@20"] > 0.8
            assert summary[f"ransac_inliers_{name}"] > 50

    def test_workers_do_not_matter(self):
        pairs = [scene(n=60, noise=0.5, outliers=0.3, seed=seed) for seed in range(6)]
        one, three = (pose_of(workers=n).score(matched(pairs), cameras(6)) for n in (1, 3))
        assert one.keys() == three.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], three[name])

    def test_options_reach_the_library(self):
        pairs = [plane(n=80, noise=0.5, outliers=0.7, seed=seed) for seed in range(6)]
        many, one = (
            homography_of(options={"max_iterations": count, "min_iterations": count}).score(matched(pairs), planes(6))
            for count in ("1000", "1")
        )
        assert np.median(one["H_error_poselib"]) > 10 > np.median(many["H_error_poselib"])
        with pytest.raises(UsageError, match="max_iterations"):
            HomographySettings(options={"max_iteration": "5"})
        with pytest.raises(UsageError, match="a whole number"):
            HomographySettings(options={"max_iterations": "many"})

    @pytest.mark.parametrize(
        "settings",
        [
            {"estimator": []},
            {"estimator": ["poselib", "poselib"]},
            {"ransac_th": []},
            {"ransac_th": [1.0, -1.0]},
            {"ransac_th": [0.0]},
            {"ransac_th": [1.0, 1.0]},
            {"ransac_th": [np.inf]},
            {"auc": []},
            {"auc": [0.0]},
            {"workers": -1},
        ],
        ids=str,
    )
    def test_settings_that_are_refused(self, settings: dict[str, Any]):
        for kind in (HomographySettings, PoseSettings):
            with pytest.raises(ValueError, match=r"estimator|ransac_th|auc|workers"):
                kind(**settings)

    def test_an_estimator_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch):
        """Unknown: at once, with the nearest; not installed: when the truth is checked, before the first forward."""
        with pytest.raises(UsageError, match="poselib"):
            HomographySettings(estimator=["poselip"])
        monkeypatch.setitem(__import__("sys").modules, "poselib", None)
        with pytest.raises(UsageError, match="pip install"):
            homography_of().check(planes(2))

    def test_data_that_cannot_be_scored(self):
        homography_of().check(planes(2))
        pose_of().check(cameras(2))
        with pytest.raises(UsageError, match="'homography'"):
            homography_of().check(cameras(2))
        with pytest.raises(UsageError, match="'K0'"):
            pose_of().check(planes(2))
        single = cameras(2)
        single.fields["views"] = ["a\nb", "a"]
        with pytest.raises(UsageError, match="no pairs"):
            pose_of().check(single)
        for attempt in (
            lambda: pose_of(depth=True).check(cameras(2)),
            lambda: pose_of(depth=True).score(matched([scene()]), cameras(1)),
        ):
            with pytest.raises(UsageError, match=r"eval\.depth"):
                attempt()

    @pytest.mark.parametrize("field", ["keypoints1", "matching_scores0"])
    def test_what_is_not_finite_is_no_prediction(self, field: str):
        predictions = matched([scene(n=20), scene(n=20)])
        predictions.fields[field][1] = np.full_like(predictions.fields[field][1], np.nan)
        with pytest.raises(RunError, match=r"row 1 \('01'\)"):
            pose_of().score(predictions, cameras(2))
        predictions = matched([scene(n=20), scene(n=20)])
        predictions.fields["matches0"][1][3] = 20
        with pytest.raises(RunError, match="row 1"):
            pose_of().score(predictions, cameras(2))

    def test_the_best_threshold_is_chosen_in_every_resample(self):
        """Errors of one threshold below those of another but for one item: the other is best where that item is drawn often."""
        family = pose_of(ransac_th=[1.0, 2.0])
        small, large = np.array([1.0] * 9 + [40]), np.array([1.5] * 9 + [0.0])
        rows = {"rel_pose_error_poselib[1]": small, "rel_pose_error_poselib[2]": large}
        rows |= {metric.column: np.ones(10) for metric in family.metrics() if metric.column}
        rows |= {f"failed_poselib[{each}]": np.zeros(10) for each in (1, 2)}
        name = "rel_pose_error_poselib_best_threshold"
        assert family.summarize(rows)[name] == 2
        assert family.summarize({key: column[:9] for key, column in rows.items()})[name] == 1
        assert bootstrap(rows, family.summarize, n_resamples=200, seed=0)[name] == (1, 2)


def wall(matches: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]) -> tuple[ArrayItems, ArrayItems]:
    """A wall 2 m before two cameras, on which what the first sees lies 5 pixels to the left for the second.

    Keypoints 0, 1 and 2 belong together; 3 has none in the second view; nothing is known of the depth of 4.
    """
    K = np.array([[100.0, 0, 50], [0, 100, 50], [0, 0, 1]])
    size, depth = np.array([100.0, 100]), np.full((100, 100), 2.0, np.float32)
    depth[:30, :30] = np.nan
    first = np.array([[50, 50], [70, 50], [60, 80], [90, 90], [10, 10.0]])
    second = np.array([[45, 50], [65, 50], [55, 80], [20, 90], [40, 10.0]])
    count = len(matches)
    truth = {"K0": K, "K1": K, "R": np.eye(3), "t": np.array([-0.1, 0, 0]), "size0": size, "size1": size}
    predictions = {
        "keypoints0": np.stack([first] * count),
        "keypoints1": np.stack([second] * count),
        "matches0": np.array(matches, np.int32),
        "matching_scores0": np.array(scores),
    }
    targets = repeated(count, **truth, depth0=depth, depth1=np.full((100, 100), 2.0))
    return ArrayItems(targets.names, predictions), targets


class TestDepth:
    MATCHES = ((0, 2, -1, 3, 4), (-1, -1, -1, -1, 4), (-1, -1, -1, -1, -1))
    SCORES = ((0.9, 0.5, 0, 0.7, 0.8), (0, 0, 0, 0, 0.8), (0, 0, 0, 0, 0))

    def columns(self) -> tuple[RelativePose, dict[str, np.ndarray]]:
        family = pose_of(depth=True)
        predictions, truth = wall(self.MATCHES, self.SCORES)
        family.check(truth)
        return family, family.score(predictions, truth)

    def test_by_hand(self):
        """Item 0: right, wrong, none, one that has no partner, one without depth. 1: without depth only. 2: no match."""
        _, columns = self.columns()
        np.testing.assert_allclose(columns["reproj_prec@3px"], [1 / 3, np.nan, 0])
        np.testing.assert_allclose(columns["covisible"], [3 / 4, 0, 0])
        np.testing.assert_allclose(columns["gt_match_precision@3px"], [1 / 3, np.nan, 0])
        np.testing.assert_allclose(columns["gt_match_recall@3px"], [1 / 3, 0, 0])

    def test_average_precision_by_hand(self):
        """Over all items 9 true matches: right at .9, wrong at .7 and .5."""
        family, columns = self.columns()
        assert columns[_depth_matches.COUNTS].sum(axis=0).tolist() == [[1, 0], [0, 1], [0, 1]]
        summary = family.summarize(columns)
        assert summary["AP"] == pytest.approx(1 / 9)
        assert summary["gt_match_recall@3px"] == pytest.approx(1 / 9)
        assert summary["reproj_prec@3px"] == pytest.approx(1 / 6)  # of the two items of which something is known
        assert family.summarize({k: v[[1, 1]] for k, v in columns.items()})["reproj_prec@3px"] is None

    def test_chance_by_hand(self):
        """Each of the three that depth can tell goes to 1 of 5; two of them have a partner: .4 right."""
        family = pose_of(depth=True)
        predictions, truth = wall(self.MATCHES, self.SCORES)
        columns = family.chance(truth, predictions)
        assert columns["gt_match_precision@3px"][0] == pytest.approx(0.4 / 3)
        assert columns["gt_match_recall@3px"][0] == pytest.approx(0.4 / 3)
        assert columns["covisible"][0] == pytest.approx(3 / 4)
        assert columns["reproj_prec@3px"][0] == pytest.approx(2 / 15)  # 0 and 1 find theirs; 3 has none
        assert family.summarize(columns)["AP"] == pytest.approx(0.4 / 3 * 0.4 / 9)

    def test_not_asked_for_is_not_there(self):
        predictions, truth = wall(self.MATCHES, self.SCORES)
        names = {metric.name for metric in pose_of().metrics()}
        assert not names & {"AP", "reproj_prec@1px", "covisible"}
        assert names <= pose_of().summarize(pose_of().score(predictions, truth)).keys()

    def test_pictures(self):
        family, columns = self.columns()
        drawn = family.pictures(columns, {})
        assert drawn.keys() == {"relative_pose_errors", "precision_recall"}
        for draw in drawn.values():
            figure = Figure()
            draw(figure)
            assert figure.axes[0].get_legend() is not None
        legend = figure.axes[0].get_legend().get_texts()
        assert [text.get_text() for text in legend] == ["AP 11.1 %"]


class TestPictures:
    def test_long_names_of_curves_are_not_cut(self):
        figure = Figure()
        errors = {f"{'a-long-tag+' * 12}{k}": np.array([1.0, 3]) for k in range(20)}
        curves.cumulative(figure, errors, [5.0, 10], "deg")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            figure.tight_layout()
        FigureCanvasAgg(figure).draw()
        box = figure.axes[0].get_legend().get_window_extent()
        assert 0 < box.x0 < box.x1 <= figure.bbox.width
        assert 0 <= box.y0 < box.y1 <= figure.bbox.height
        assert figure.axes[0].get_window_extent().width > 300

    def test_epipolar_lines_are_cut_at_the_view(self):
        size = np.array([100.0, 50])
        np.testing.assert_allclose(line_within(np.array([1, -1, 0.0]), size), [[0, 0], [50, 50]])
        np.testing.assert_allclose(line_within(np.array([0, 1, -20.0]), size), [[0, 20], [100, 20]])
        np.testing.assert_allclose(line_within(np.array([1, 0, -20.0]), size), [[20, 0], [20, 50]])
        assert line_within(np.array([0, 1, -60.0]), size) is None

    @pytest.mark.parametrize("shown", [True, False])
    def test_views_of_other_sizes(self, shown: bool):
        """640 x 240 beside 240 x 320: the longer sides are shown alike, whatever the scale of the pictures."""
        image = [np.zeros((24, 64, 3), np.uint8), np.zeros((48, 36, 3), np.uint8)] if shown else None
        sizes = {"size0": np.array([640.0, 240]), "size1": np.array([240.0, 320])}
        axes = Figure().subplots()
        prediction = {
            name: rows[0] for name, rows in matched([Views(SIZE[None] / 4, SIZE[None] / 2, 1)]).fields.items()
        }
        target = {name: rows[0] for name, rows in cameras(1).fields.items()} | sizes
        pose_of().draw(axes, prediction, target, image)
        (x0, x1), (y0, y1) = axes.get_lines()[0].get_data()
        left = 640 * (1 + pairs.GAP)
        np.testing.assert_allclose([x0, y0, x1, y1], [160, 120, left + 2 * 320, 2 * 240])
        assert [each.get_extent() for each in axes.get_images()] == (
            [[0, 640, 240, 0], [left, left + 480, 640, 0]] if shown else []
        )
        assert axes.get_xlim() == (0, left + 480)
        assert axes.get_ylim() == (640, 0)

    def drawn(self, predictions: ArrayItems, truth: ArrayItems) -> list:
        """Lines of matches, then what is blue."""
        axes = Figure().subplots()
        given = [{name: rows[0] for name, rows in each.fields.items()} for each in (predictions, truth)]
        pose_of().draw(axes, *given)
        blue = [line for line in axes.lines if line.get_color() == MARKED]
        return [[line for line in axes.lines if line not in blue], blue]

    def test_the_epipolar_line_is_that_of_the_surest_match_that_is_right(self):
        """The surest match of all is 100 pixels off; the line goes through both ends of the second one."""
        views = scene(n=3)
        views.points1[0] += 100
        predictions = matched([views], [np.array([0.9, 0.5, 0.7])])
        lines, (line, dots) = self.drawn(predictions, cameras(1))
        np.testing.assert_allclose([each.get_color() for each in lines], [colour(1), colour(0), colour(0)], atol=1e-6)
        second = views.points1[2] + [SIZE[0] * (1 + pairs.GAP), 0]
        np.testing.assert_allclose(dots.get_xydata(), [views.points0[2], second])
        low, high = line.get_xydata()
        along, across = high - low, (second - low)[::-1] * [1, -1]
        assert along @ across / np.hypot(*along) == pytest.approx(0, abs=0.01)

    def test_without_a_right_match_the_line_shows_how_far_the_surest_is_off(self):
        views = scene(n=3)
        views.points1 += 100
        _, (_, dots) = self.drawn(matched([views], [np.array([0.5, 0.9, 0.7])]), cameras(1))
        np.testing.assert_allclose(dots.get_xydata()[0], views.points0[1])

    def test_a_camera_that_only_turns_has_no_lines(self):
        lines, blue = self.drawn(matched([scene(n=3)]), _with_still(cameras(1)))
        assert [each.get_color() for each in lines] == [colour(np.nan)] * 3
        assert blue == []

    def test_matches_of_a_homography_are_red_from_the_loosest_threshold(self):
        points = np.array([[10, 10], [600, 20], [590, 450.0]])
        found = matched([Views(points, points + np.array([[0, 0], [1.5, 0], [0, 3.0]]), 3)])
        axes = Figure().subplots()
        given = [
            {name: rows[0] for name, rows in each.fields.items()} for each in (found, planes(1, homography=np.eye(3)))
        ]
        homography_of().draw(axes, *given)
        np.testing.assert_allclose([line.get_color() for line in axes.lines], [colour(0), colour(0.5), colour(1)])
        assert "3 px" in homography_of().legend()

    def test_items_are_ordered_by_the_error_at_the_threshold_of_the_headline(self):
        family = pose_of(ransac_th=[1.0, 2.0])
        columns = {"rel_pose_error_poselib[1]": np.array([8.0, 9]), "rel_pose_error_poselib[2]": np.array([1.0, np.inf]),
                   "epi_prec@1e-4": np.array([0.5, 0.5])}  # fmt: skip
        assert family.order(columns) == ("rel_pose_error_poselib[2]", "lower")
        row = {"rel_pose_error_poselib[2]": 3.21, "ransac_inliers_poselib[2]": 54.0, "num_matches": 120.0}
        said = "R/t error 3.21 deg (poselib[2]), 54 inliers of 120 matches"
        assert family.told("rel_pose_error_poselib[2]", row) == said
        failed = {"H_error_poselib": np.inf, "ransac_inliers": 0.0, "num_matches": 3.0}
        assert homography_of().told("H_error_poselib", failed) == "no estimate from 3 matches"


def test_the_whole_way(tmp_path: Path):
    """Generated pairs with depth and warped scenes: exported, scored, drawn; failures are infinite in the files."""
    data = ("data.n_test=4", "data.side=32", "benchmarks.relative_pose.data.truth=depth")
    ends = export(
        "color_histogram", ["relative_pose", "homography"], arguments=data, outputs=tmp_path, say=lambda _: None
    )
    given = {"relative_pose": ["eval.depth=true", "eval.ransac_th=1,2"], "homography": ["eval.auc=3,5,10"]}
    for end, headline in zip(ends, ("rel_pose_error_poselib_best@5", "H_error_poselib@10px"), strict=True):
        if isinstance(end, BenchkitError):
            raise end
        found = evaluate(end.benchmark, end.tag, arguments=given[end.benchmark], outputs=tmp_path)
        assert 0 <= found.summaries[headline] <= 1
        assert found.summaries["n_items"] == 4
        assert f"floor_{headline}" in found.summaries
        assert found.record["scores"][headline]["interval"] is not None
        drawn = save_plots(found.folder, plots(Experiment(found.folder)), "title")
        assert [path.suffix for path in found.folder.glob("*_errors.*")] in ([".png", ".pdf"], [".pdf", ".png"])
        for path in (contact_sheet(found.folder, found.record), *drawn):
            assert path.stat().st_size > 1000
    again = evaluate("relative_pose", ends[0].tag, arguments=["eval.depth=true", "eval.ransac_th=1,2", "eval.workers=2"],
                     outputs=tmp_path)  # fmt: skip
    assert not again.fresh  # workers change no number
