"""Options reach the library under its own names; what a library answers is checked; threads, seeds and names of items."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from tiny_views import K0, K1, H, plane, scene

from benchkit import registry
from benchkit.errors import UsageError
from benchkit.estimators import opencv as opencv_estimator
from benchkit.estimators import poselib as poselib_estimator
from benchkit.estimators._options import build_all, read_options
from benchkit.estimators._threads import over_items
from benchkit.estimators.base import Estimator

poselib = pytest.importorskip("poselib")
cv2 = pytest.importorskip("cv2")
pycolmap = pytest.importorskip("pycolmap")

OTHER = {  # a value that is not the default, of options that are no numbers and no choices
    "progressive_sampling": "true",
    "real_focal_check": "true",
    "loss_type": "HUBER",
    "success_prob": "0.5",
    "confidence": "0.5",
    "min_inlier_ratio": "0.5",
}


def fields(name: str) -> list[str]:
    return [field.name for field in dataclasses.fields(registry.find("estimators", name).settings)]


class Spy:
    """A library whose functions are called and remembered."""

    def __init__(self, library: Any) -> None:
        self.library, self.calls = library, {}

    def __getattr__(self, name: str) -> Any:
        thing = getattr(self.library, name)
        if not name.startswith(("estimate_", "find")):
            return thing

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] = args, kwargs
            return thing(*args, **kwargs)

        return call


def spied(name: str, options: dict[str, str]) -> Spy:
    """Both models estimated with threshold 1.25 and seed 77, with what the library was called."""
    estimator = build_all([name], options)[name]
    attribute = {"opencv": "cv2"}.get(name, name)
    spy = Spy(getattr(estimator, attribute))
    setattr(estimator, attribute, spy)
    views, flat = scene(n=50), plane(n=50)
    estimator.homography(flat.points0, flat.points1, 1.25, 77)
    if options.get("method") != "RHO":
        estimator.relative_pose(views.points0, views.points1, K0, K1, 1.25, 77)
    return spy


@pytest.mark.parametrize("option", fields("poselib"))
def test_options_reach_poselib(option):
    value = OTHER.get(option, "7")
    spy = spied("poselib", {option: value})
    bundled = option in poselib_estimator.BUNDLE or option.startswith("bundle_")
    known = poselib.BundleOptions() if bundled else poselib.RansacOptions()
    key = option.removeprefix("bundle_")
    expected = {"true": True, "HUBER": "HUBER"}.get(value) or float(value)
    assert known[key] != expected
    assert len(spy.calls) == 2
    for args, _ in spy.calls.values():
        assert args[-1 if bundled else -2][key] == expected


def test_poselib_gets_only_options_that_it_knows_with_its_defaults():
    calls = spied("poselib", {}).calls
    changed = {
        "estimate_homography": {"max_reproj_error": 1.25, "seed": 77},
        "estimate_relative_pose": {"max_epipolar_error": 1.25, "seed": 77},
    }
    for name, (args, _) in calls.items():
        ransac, bundle = args[-2:]
        assert poselib.RansacOptions() | changed[name] == poselib.RansacOptions() | ransac
        assert changed[name].items() <= ransac.items()
        assert set(ransac) < set(poselib.RansacOptions())
        assert poselib.BundleOptions().items() - {"verbose": False, "loss_scale": 1.0}.items() == bundle.items()


@pytest.mark.parametrize("threshold", [0.5, 1.0, 2.0, 4.0])
def test_poselib_by_default_is_poselib_with_a_threshold_alone(threshold):
    """Where nobody gives a loss scale PoseLib takes half the threshold; its BundleOptions show 1."""
    views, flat = scene(n=150, noise=0.7, outliers=0.3), plane(n=150, noise=0.7, outliers=0.3)
    ours = build_all(["poselib"], {})["poselib"]
    model, _ = poselib.estimate_homography(flat.points0, flat.points1, {"max_reproj_error": threshold, "seed": 3}, {})
    found = ours.homography(flat.points0, flat.points1, threshold, 3).model
    np.testing.assert_allclose(found, model / model[2, 2], rtol=1e-9)
    cameras = [
        {"model": "PINHOLE", "width": 0, "height": 0, "params": [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]} for K in (K0, K1)
    ]
    ransac = {"max_epipolar_error": threshold, "seed": 3}
    pose, _ = poselib.estimate_relative_pose(views.points0, views.points1, *cameras, ransac, {})
    np.testing.assert_allclose(
        ours.relative_pose(views.points0, views.points1, K0, K1, threshold, 3).model[:, :3], pose.R, atol=1e-9
    )


def test_poselib_takes_each_loss():
    found = set()
    views = plane(n=60, noise=1.0, outliers=0.3)
    for loss in ("TRIVIAL", "TRUNCATED", "HUBER", "CAUCHY", "TRUNCATED_LE_ZACH"):
        estimator = build_all(["poselib"], {"loss_type": loss})["poselib"]
        found.add(estimator.homography(views.points0, views.points1, 4.0, 1).model.tobytes())
    assert len(found) == 5


@pytest.mark.parametrize("option", fields("pycolmap"))
def test_options_reach_pycolmap(option):
    value = OTHER.get(option, "1234")
    default = getattr(pycolmap.RANSACOptions(), option)
    for args, _ in spied("pycolmap", {option: value}).calls.values():
        assert getattr(args[-1], option) == float(value) != default


def test_pycolmap_gets_threshold_seed_and_one_thread_and_its_own_defaults():
    calls = spied("pycolmap", {}).calls
    assert set(calls) == {"estimate_homography_matrix", "estimate_essential_matrix"}
    expected = pycolmap.RANSACOptions().todict() | {"max_error": 1.25, "random_seed": 77, "num_threads": 1}
    assert all(args[-1].todict() == expected for args, _ in calls.values())


METHODS = ("RANSAC", "LMEDS", "RHO", *opencv_estimator.USAC)


@pytest.mark.parametrize("method", METHODS)
def test_methods_confidence_and_iterations_reach_opencv(method):
    calls = spied("opencv", {"method": method, "confidence": "0.75", "max_iters": "123"}).calls
    focal = (800 + 820 + 700 + 690) / 4
    args = calls["findHomography"][0]
    if method in opencv_estimator.USAC:
        assert params(args[-1]) == (1.25, 0.75, 123, 77)
        assert params(calls["findEssentialMat"][0][-1]) == (pytest.approx(1.25 / focal), 0.75, 123, 77)
    else:
        assert args[2:] == (getattr(cv2, method), 1.25, None, 123, 0.75)
    if method in ("RANSAC", "LMEDS"):
        expected = {"method": getattr(cv2, method), "prob": 0.75, "threshold": 1.25 / focal, "maxIters": 123}
        assert calls["findEssentialMat"][1] == pytest.approx(expected)


def params(given: Any) -> tuple[float, float, int, int]:
    return given.threshold, given.confidence, given.maxIterations, given.randomGeneratorState


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("sampler", "SAMPLING_PROSAC"),
        ("score", "SCORE_METHOD_RANSAC"),
        ("lo_method", "LOCAL_OPTIM_NULL"),
        ("lo_sample_size", "9"),
        ("lo_iterations", "9"),
        ("neighbors_search", "NEIGH_FLANN_RADIUS"),
        ("final_polisher", "LSQ_POLISHER"),
        ("final_polisher_iterations", "9"),
    ],
)
@pytest.mark.parametrize("method", opencv_estimator.USAC)
def test_options_of_usac_reach_opencv(method, option, value):
    expected = int(value) if value.isdigit() else getattr(cv2, value)
    for args, _ in spied("opencv", {"method": method, option: value}).calls.values():
        assert getattr(args[-1], opencv_estimator.PARAMS[option]) == expected


def test_all_constants_of_opencv_are_there():
    hints = [opencv_estimator.Sampler, opencv_estimator.Score, opencv_estimator.LoMethod]
    hints += [opencv_estimator.Neighbours, opencv_estimator.Polisher]
    assert all(hasattr(cv2, name) for hint in hints for name in hint.__args__)
    assert all(hasattr(cv2, name) for name in METHODS)


@pytest.mark.parametrize("method", opencv_estimator.USAC)
def test_usac_with_seed_0_is_what_opencvs_flag_gives(method):
    estimator = build_all(["opencv"], {"method": method})["opencv"]
    flat, views = plane(noise=0.7, outliers=0.4), scene(noise=0.5, outliers=0.4)
    model, mask = cv2.findHomography(flat.points0, flat.points1, getattr(cv2, method), 3.0, None, 3000, 0.995)
    ours = estimator.homography(flat.points0, flat.points1, 3.0, 0)
    np.testing.assert_array_equal(ours.model, model / model[2, 2])
    np.testing.assert_array_equal(ours.inliers, mask.ravel() > 0)
    rays = [(p - K[:2, 2]) / K.diagonal()[:2] for p, K in ((views.points0, K0), (views.points1, K1))]
    limits = {"prob": 0.99999, "threshold": 0.5 / 752.5, "maxIters": 1000}
    essential, mask = cv2.findEssentialMat(*rays, np.eye(3), method=getattr(cv2, method), **limits)
    _, R, t, before, _ = cv2.recoverPose(essential, *rays, np.eye(3), distanceThresh=1e9, mask=mask)
    ours = estimator.relative_pose(views.points0, views.points1, K0, K1, 0.5, 0)
    np.testing.assert_array_equal(ours.model[:, :3], R)
    np.testing.assert_allclose(ours.model[:, 3], t[:, 0], atol=1e-15)
    np.testing.assert_array_equal(ours.inliers, before.ravel() > 0)


def test_more_samples_find_what_few_miss():
    """The effect of an option, beside its way to the library."""
    views = plane(n=100, noise=0.3, outliers=0.8, seed=2)
    for name, few in (
        ("poselib", {"max_iterations": "2", "min_iterations": "1"}),
        ("opencv", {"max_iters": "2"}),
        ("pycolmap", {"max_num_trials": "2", "min_num_trials": "1"}),
    ):
        scores = []
        for options in (few, {}):
            found = build_all([name], options)[name].homography(views.points0, views.points1, 3.0, 3)
            scores.append(found.inliers[:20].sum())
        assert scores[0] < 12 < scores[1], name


@pytest.mark.parametrize(
    ("names", "given", "said"),
    [
        (["poselib"], {"max_iteration": "5"}, "did you mean max_iterations?"),
        (["poselib"], {"max_iters": "5"}, "it is an option of opencv"),
        (["poselib", "opencv"], {"bogus": "5"}, "eval.options.bogus is no option of poselib or opencv"),
        (["poselib"], {"max_iterations": "many"}, "eval.options.max_iterations (of the estimator poselib): a whole"),
        (["poselib"], {"success_prob": "1.5"}, "success_prob lies between 0 and 1"),
        (["opencv"], {"method": "MAGSAC"}, "one of RANSAC, LMEDS"),
        (["opencv"], {"score": "SCORE_METHOD_MSAC"}, "score is an option of the methods USAC_DEFAULT"),
        (["opencv"], {"lo_iterations": "0", "method": "USAC_MAGSAC"}, "lo_iterations is at least 1"),
        (["pycolmap"], {"max_num_trials": "5"}, "max_num_trials is at least min_num_trials"),
        (["poselb"], {}, "no estimator is called 'poselb': did you mean 'poselib'?"),
    ],
)
def test_what_is_wrong_with_options_is_said(names, given, said):
    with pytest.raises(UsageError) as error:
        read_options(names, given)
    assert said in str(error.value)


def test_an_option_goes_to_every_estimator_that_knows_it():
    read = read_options(["poselib", "opencv", "pycolmap"], {"confidence": "0.9", "min_iterations": "12"})
    assert list(read) == ["poselib", "opencv", "pycolmap"]
    assert (read["opencv"].confidence, read["pycolmap"].confidence, read["poselib"].min_iterations) == (0.9, 0.9, 12)


def test_rho_is_for_homographies_only():
    views = scene()
    with pytest.raises(UsageError, match="RHO for homographies only"):
        build_all(["opencv"], {"method": "RHO"})["opencv"].relative_pose(views.points0, views.points1, K0, K1, 1, 0)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("poselib", "poselib", "geometry"), ("opencv", "cv2", "geometry"), ("pycolmap", "pycolmap", "colmap")],
)
def test_a_library_that_is_absent_is_found_when_its_estimator_is_made(monkeypatch, name, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    read_options([name], {})
    with pytest.raises(UsageError, match=rf"pip install 'benchkit\[{extra}\]'"):
        build_all([name], {})


class Answers(Estimator):
    """A library that gives a fixed answer to everything; found by its dotted path as well."""

    name = "answers"

    def __init__(self, model: Any = None, inliers: Any = None) -> None:
        self.model, self.inliers, self.made = model, inliers, 0

    def homography_solver(self, points0, points1):
        self.made += 1
        return lambda threshold, seed: (self.model, self.inliers)

    def pose_solver(self, points0, points1, K0, K1):
        return self.homography_solver(points0, points1)


GOOD = np.ones(30, bool)
ROTATION = scene().R
UNINITIALISED = np.array([[4.6e-310, 2e-323, 6.9e-310], [6.9e-310] * 3, [4.6e-310, 7e-310, 1.4e-311]])


@pytest.mark.parametrize(
    ("model", "inliers"),
    [
        (None, GOOD),
        (H, None),
        (H, []),
        (H, GOOD[:-1]),
        (H, np.arange(30) < 3),
        (np.where(np.eye(3) > 0, np.nan, H), GOOD),
        (np.zeros((3, 3)), GOOD),
        (np.outer([1, 2, 3], [1.0, 1, 1]), GOOD),
        (UNINITIALISED, np.zeros(30, bool)),
        (UNINITIALISED, GOOD),
        (np.eye(4), GOOD),
    ],
)
def test_what_is_no_homography_is_no_estimate(model, inliers):
    flat = plane(n=30)
    found = Answers(model, inliers).homography(flat.points0, flat.points1, 1.0, 0)
    assert found.model is None
    assert not found.inliers.any()


@pytest.mark.parametrize("factor", [1, -3, 1e-9, 1e6])
def test_a_homography_has_one_scale_and_its_inliers_before_it(factor):
    flat = plane(n=30)
    found = Answers(factor * H, GOOD).homography(flat.points0, flat.points1, 1.0, 0)
    np.testing.assert_allclose(found.model, H, rtol=1e-12)
    behind = np.diag([1.0, 1, 1]) - np.outer([0, 0, 1], [0.1, 0, 2])  # the third coordinate is -.1 x - 1
    found = Answers(behind, GOOD).homography(flat.points0, flat.points1, 1.0, 0)
    np.testing.assert_allclose(found.model, -behind, rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "inliers"),
    [
        (np.eye(3, 4), GOOD),
        (np.c_[ROTATION, [0, 0, 0]], GOOD),
        (np.c_[ROTATION, [0, np.inf, 0]], GOOD),
        (np.c_[1.1 * ROTATION, [1, 0, 0]], GOOD),
        (np.c_[-ROTATION, [1, 0, 0]], GOOD),
        (np.c_[ROTATION, [1, 0, 0]], np.arange(30) < 4),
        (ROTATION, GOOD),
    ],
)
def test_what_is_no_pose_is_no_estimate(model, inliers):
    views = scene(n=30)
    found = Answers(model, inliers).relative_pose(views.points0, views.points1, K0, K1, 1.0, 0)
    assert found.model is None
    assert not found.inliers.any()


def test_t_has_length_1():
    views = scene(n=30)
    found = Answers(np.c_[ROTATION, [3, 0, -4]], GOOD).relative_pose(views.points0, views.points1, K0, K1, 1.0, 0)
    np.testing.assert_allclose(found.model[:, 3], [0.6, 0, -0.8], rtol=1e-12)


def test_wrong_arguments_are_errors():
    views, one = scene(n=30), Answers(H, GOOD)
    with pytest.raises(ValueError, match=r"two arrays \(n, 2\)"):
        one.homography(views.points0, views.points1[:-1], 1.0, 0)
    for threshold, seed in ((0.0, 0), (np.nan, 0), (np.inf, 0), (1.0, -1)):
        with pytest.raises(ValueError, match="thresholds are positive"):
            one.homography(views.points0, views.points1, threshold, seed)
    for K in (np.eye(2), -K0, K0.T, np.full((3, 3), np.nan)):
        with pytest.raises(ValueError, match="a camera's matrix"):
            one.relative_pose(views.points0, views.points1, K0, K, 1.0, 0)


@pytest.mark.parametrize("name", ["poselib", "opencv", "pycolmap"])
def test_several_thresholds_are_one_by_one_the_same(name):
    estimator, thresholds = build_all([name], {})[name], [0.5, 1.0, 3.0]
    views, flat = scene(noise=0.4, outliers=0.3), plane(noise=0.4, outliers=0.3)
    poses = estimator.relative_poses(views.points0, views.points1, K0, K1, thresholds, 5)
    planes = estimator.homographies(flat.points0, flat.points1, thresholds, 5)
    for i, threshold in enumerate(thresholds):
        one = estimator.relative_pose(views.points0, views.points1, K0, K1, threshold, 5)
        np.testing.assert_array_equal(poses[i].model, one.model)
        np.testing.assert_array_equal(poses[i].inliers, one.inliers)
        one = estimator.homography(flat.points0, flat.points1, threshold, 5)
        np.testing.assert_array_equal(planes[i].model, one.model)
    assert poses[0].inliers.sum() < poses[2].inliers.sum()


def test_what_is_common_to_all_thresholds_is_made_once():
    flat, one = plane(n=30), Answers(H, GOOD)
    assert len(one.homographies(flat.points0, flat.points1, [1.0, 2.0, 3.0], 0)) == 3
    assert one.made == 1


def test_an_estimator_of_ones_own_is_found_by_its_path(monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", sys.modules[__name__])
    made = build_all(["mine.Answers"], {})["mine.Answers"]
    assert isinstance(made, Answers)
    with pytest.raises(UsageError, match=r"eval.options.speed is no option of mine.Answers: there is none"):
        build_all(["mine.Answers"], {"speed": "1"})


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
def test_items_are_worked_on_in_threads_and_come_in_order(workers):
    def work(index: int) -> tuple[int, int]:
        time.sleep(0.002 * (7 - index % 8))
        return index, threading.get_ident()

    done = over_items(work, 24, workers, "working", "items")
    assert [index for index, _ in done] == list(range(24))
    if workers:
        assert len({thread for _, thread in done}) == workers
    assert over_items(work, 0, workers, "working", "items") == []


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_of_one_item_ends_all(workers):
    seen = []

    def work(index: int) -> int:
        seen.append(index)
        if index == 3:
            raise UsageError("item 3 is wrong")
        time.sleep(0.01)
        return index

    with pytest.raises(UsageError, match="item 3 is wrong"):
        over_items(work, 100, workers, "working", "items")
    assert len(seen) < 20
