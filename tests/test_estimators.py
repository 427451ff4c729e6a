"""Every estimator recovers known geometry, answers too little or degenerate input with nothing, and repeats itself."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tiny_views import K0, K1, TRANSLATION, H, degrees_between, plane, scene, seen

from benchkit.estimators._options import build_all
from benchkit.estimators._threads import over_items
from benchkit.estimators.base import Estimate, Estimator

pytest.importorskip("poselib")
pytest.importorskip("cv2")
pytest.importorskip("pycolmap")

LIBRARIES = ("poselib", "opencv", "pycolmap")
METHODS = ("LMEDS", "RHO", "USAC_DEFAULT", "USAC_ACCURATE", "USAC_MAGSAC")
ALL = [(name, {}) for name in LIBRARIES] + [("opencv", {"method": method}) for method in METHODS]
IDS = [name + options.get("method", "") for name, options in ALL]
POSES = [each for each in ALL if each[1].get("method") != "RHO"]
POSE_IDS = [name for name in IDS if "RHO" not in name]
each_homography = pytest.mark.parametrize(("name", "options"), ALL, ids=IDS)
each_pose = pytest.mark.parametrize(("name", "options"), POSES, ids=POSE_IDS)


def made(name: str, options: dict[str, str] | None = None) -> Estimator:
    return build_all([name], options or {})[name]


def homography(estimator: Estimator, points0: Any, points1: Any, seed: int = 1) -> Estimate:
    return estimator.homography(points0, points1, estimator.default_threshold["homography"], seed)


def pose(estimator: Estimator, points0: Any, points1: Any, seed: int = 1, K0: Any = K0, K1: Any = K1) -> Estimate:
    return estimator.relative_pose(points0, points1, K0, K1, estimator.default_threshold["relative_pose"], seed)


def assert_nothing(found: Estimate, count: int) -> None:
    assert found.model is None
    assert found.inliers.shape == (count,)
    assert found.inliers.dtype == bool
    assert not found.inliers.any()


@each_pose
def test_a_pose_is_recovered_from_noise_and_outliers(name, options):
    views = scene(n=400, noise=0.3, outliers=0.4)
    found = made(name, options).relative_pose(views.points0, views.points1, K0, K1, 1.0, seed=1)
    assert found.model.shape == (3, 4)
    assert degrees_between(found.model[:, :3], views.R) < 1.5
    assert degrees_between(found.model[:, 3], views.t) < 5
    assert np.linalg.norm(found.model[:, 3]) == pytest.approx(1, abs=1e-12)
    assert found.inliers[: views.true].mean() > 0.6
    assert found.inliers[views.true :].mean() < 0.15


@each_homography
def test_a_homography_is_recovered_from_noise_and_outliers(name, options):
    views = plane(n=400, noise=0.3, outliers=0.4)
    found = homography(made(name, options), views.points0, views.points1)
    corners = np.array([[0, 0, 1], [640, 0, 1], [640, 480, 1], [0, 480, 1]])
    assert np.abs(seen(corners, found.model) - seen(corners, H)).max() < 2
    assert found.model[2, 2] == pytest.approx(1)
    assert found.inliers[: views.true].mean() > 0.9
    assert found.inliers[views.true :].mean() < 0.05


@each_pose
def test_a_pose_without_noise_is_exact(name, options):
    views = scene()
    found = pose(made(name, options), views.points0, views.points1)
    assert found.inliers.all()
    assert degrees_between(found.model[:, :3], views.R) < 1e-4
    assert degrees_between(found.model[:, 3], views.t) < 1e-3


@each_homography
def test_a_homography_without_noise_is_exact(name, options):
    views = plane()
    found = homography(made(name, options), views.points0, views.points1)
    assert found.inliers.all()
    np.testing.assert_allclose(found.model, H, atol=1e-4, rtol=1e-4)


def test_libraries_agree():
    views, flat = scene(n=400, noise=0.1, outliers=0.2), plane(n=400, noise=0.1, outliers=0.2)
    corners = np.array([[0, 0, 1], [640, 0, 1], [640, 480, 1], [0, 480, 1]])
    estimators = [made(name) for name in ("poselib", "pycolmap")] + [made("opencv", {"method": "USAC_ACCURATE"})]
    poses = [each.relative_pose(views.points0, views.points1, K0, K1, 1.0, seed=1).model for each in estimators]
    images = [seen(corners, homography(each, flat.points0, flat.points1).model) for each in estimators]
    for other in (1, 2):
        assert degrees_between(poses[0][:, :3], poses[other][:, :3]) < 0.3
        assert degrees_between(poses[0][:, 3], poses[other][:, 3]) < 1
        assert np.abs(images[0] - images[other]).max() < 0.3


@each_homography
@pytest.mark.parametrize("count", [0, 1, 3])
def test_fewer_than_4_matches_give_no_homography(name, options, count):
    views = plane(n=4)
    assert_nothing(homography(made(name, options), views.points0[:count], views.points1[:count]), count)


@each_homography
def test_4_matches_give_their_homography(name, options):
    views = plane(n=4)
    found = homography(made(name, options), views.points0, views.points1)
    np.testing.assert_allclose(found.model, H, atol=1e-4, rtol=1e-3)  # OpenCV computes in float32
    assert found.inliers.tolist() == [True] * 4


@each_pose
@pytest.mark.parametrize("count", [0, 1, 4])
def test_fewer_than_5_matches_give_no_pose(name, options, count):
    views = scene(n=5)
    assert_nothing(pose(made(name, options), views.points0[:count], views.points1[:count]), count)


@each_pose
def test_5_matches_give_a_pose_that_fits_them(name, options):
    views = scene(n=5)
    found = pose(made(name, options), views.points0, views.points1)
    assert found.inliers.all()
    assert epipolar(found.model, views.points0, views.points1).max() < 1e-7


def epipolar(model: Any, points0: Any, points1: Any) -> Any:
    """|x1^T [t] R x0| on the image planes at 1, (n,)."""
    x, y, z = model[:, 3]
    essential = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) @ model[:, :3]
    rays = [np.c_[each, np.ones(len(each))] @ np.linalg.inv(K).T for each, K in ((points0, K0), (points1, K1))]
    return np.abs(np.sum(rays[1] @ essential * rays[0], axis=1))


LINE = np.stack([np.linspace(10, 600, 40), np.linspace(20, 450, 40)], axis=1)
OFF = np.array([[300.0, 30.0]])
DEGENERATE = {
    "equal": (np.full((40, 2), 100.0), np.full((40, 2), 120.0)),
    "equal in one view": (LINE + np.random.default_rng(0).uniform(0, 50, LINE.shape), np.full((40, 2), 120.0)),
    "on a line": (LINE, LINE[::-1] * [0.9, 1.1] + 5),
    "three, repeated": tuple(np.tile(each[:3], (10, 1)) for each in (plane().points0, plane().points1)),
}


@each_homography
@pytest.mark.parametrize("kind", [*DEGENERATE, "all but one on a line"])
def test_degenerate_matches_give_no_homography(name, options, kind):
    one_off = np.concatenate([LINE, OFF]), np.concatenate([LINE * 1.1, OFF + 9])
    points0, points1 = DEGENERATE.get(kind, one_off)
    assert_nothing(homography(made(name, options), points0, points1), len(points0))


@each_pose
@pytest.mark.parametrize("kind", [*DEGENERATE, "four, repeated"])
def test_degenerate_matches_give_no_pose(name, options, kind):
    four = tuple(np.tile(each[:4], (10, 1)) for each in (scene().points0, scene().points1))
    points0, points1 = DEGENERATE.get(kind, four)
    assert_nothing(pose(made(name, options), points0, points1), len(points0))


@each_pose
def test_points_on_a_line_in_space_give_no_pose(name, options):
    points = np.linspace([-1, -0.5, 4], [1, 0.8, 8], 50)
    views = scene()
    found = pose(made(name, options), seen(points, K0), seen(points @ views.R.T + views.t, K1))
    assert_nothing(found, 50)


@each_pose
def test_a_camera_that_only_turns_gives_the_rotation_and_some_direction(name, options):
    views = scene(noise=0.3, t=np.zeros(3))
    found = pose(made(name, options), views.points0, views.points1)
    assert degrees_between(found.model[:, :3], views.R) < 1
    assert np.linalg.norm(found.model[:, 3]) == pytest.approx(1)


@each_pose
def test_without_noise_such_a_camera_gives_the_rotation_or_nothing(name, options):
    views = scene(t=np.zeros(3))
    found = pose(made(name, options), views.points0, views.points1)
    if name == "opencv" and found.model is None:  # points at infinity are before no camera
        return assert_nothing(found, 200)
    assert degrees_between(found.model[:, :3], views.R) < 0.1


@each_pose
def test_points_far_away_count_as_before_the_cameras(name, options):
    views = scene(noise=0.1, t=0.03 * TRANSLATION)  # 130 to 270 baselines away
    found = pose(made(name, options), views.points0, views.points1)
    assert found.inliers.mean() > 0.8


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_matches_that_are_not_finite_are_left_out(name, bad):
    views, flat = scene(n=60, noise=0.2), plane(n=60, noise=0.2)
    for each in (views, flat):
        each.points0[3, 1], each.points1[10] = bad, bad
    kept = np.delete(np.arange(60), [3, 10])
    estimator = made(name)
    for call, each in ((homography, flat), (pose, views)):
        found, expected = (call(estimator, each.points0[rows], each.points1[rows]) for rows in (np.arange(60), kept))
        np.testing.assert_array_equal(found.model, expected.model)
        np.testing.assert_array_equal(found.inliers[kept], expected.inliers)
        assert not found.inliers[[3, 10]].any()
        assert_nothing(call(estimator, each.points0 * np.nan, each.points1), 60)


@pytest.mark.parametrize("name", LIBRARIES)
def test_pixels_have_their_corner_at_0(name):
    """Points and matrices are taken together: pixels counted from the first centre are half a pixel off in one of them."""
    views, flat, estimator = scene(), plane(), made(name)
    exact = pose(estimator, views.points0, views.points1)
    shifted = pose(estimator, views.points0, views.points1, K0=K0 - HALF, K1=K1 + HALF)
    both = pose(estimator, views.points0 - 0.5, views.points1 - 0.5, K0=K0 - HALF, K1=K1 - HALF)
    errors = [degrees_between(each.model[:, :3], views.R) for each in (exact, both, shifted)]
    assert max(errors[:2]) < 1e-4
    assert errors[2] > 0.01
    centres = homography(estimator, flat.points0 - 0.5, flat.points1 - 0.5).model
    to_corner = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    moved = to_corner @ centres @ np.linalg.inv(to_corner)
    np.testing.assert_allclose(moved / moved[2, 2], H, atol=1e-4, rtol=1e-4)


HALF = np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_camera_with_skew_is_understood(name):
    skewed = K0 + np.diag([60.0, 0], 1)
    points = np.random.default_rng(0).uniform([-1, -1, 4], [1, 1, 8], (200, 3))
    views = scene()
    images = seen(points, skewed), seen(points @ views.R.T + views.t, K1)
    found = pose(made(name), *images, K0=2 * skewed)  # and in any scale
    assert degrees_between(found.model[:, :3], views.R) < 1e-4
    assert degrees_between(found.model[:, 3], TRANSLATION) < 1e-3


HARD = scene(n=60, noise=1.0, outliers=0.6, seed=4)
FLAT = plane(n=60, noise=1.0, outliers=0.6, seed=4)
FEW = {
    "poselib": {"max_iterations": "20", "min_iterations": "1", "bundle_max_iterations": "1"},
    "opencv": {"method": "USAC_MAGSAC", "max_iters": "20"},
    "pycolmap": {"max_num_trials": "20", "min_num_trials": "1"},
}


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("kind", ["homography", "relative_pose"])
def test_the_seed_decides(name, kind):
    estimator = made(name, FEW[name])
    call, views = (homography, FLAT) if kind == "homography" else (pose, HARD)
    bits = [_bits(call(estimator, views.points0, views.points1, seed)) for seed in range(8)]
    again = [_bits(call(made(name, FEW[name]), views.points0, views.points1, seed)) for seed in range(8)]
    assert bits == again
    assert len(set(bits)) > 1


def test_opencv_seeds_its_classical_methods_itself():
    for method in ("RANSAC", "LMEDS", "RHO"):
        estimator = made("opencv", {"method": method, "max_iters": "20"})
        assert len({_bits(homography(estimator, FLAT.points0, FLAT.points1, seed)) for seed in range(5)}) == 1


def _bits(found: Estimate) -> bytes:
    return (b"" if found.model is None else found.model.tobytes()) + found.inliers.tobytes()


MANY = """
import sys; sys.path.insert(0, {folder!r})
from test_estimators import many
print(many({workers}).hex())
"""


def many(workers: int, order: Any = range(12)) -> bytes:
    """All estimators on items whose seed is their own, as one string of bytes in the items' order."""
    estimators = [made(name, FEW[name]) for name in LIBRARIES]
    order = list(order)

    def work(index: int) -> bytes:
        views, seed = scene(n=40, noise=0.5, outliers=0.5, seed=order[index]), order[index]
        found = [each.relative_pose(views.points0, views.points1, K0, K1, 2.0, seed) for each in estimators]
        found += [each.homography(views.points0, views.points1, 3.0, seed) for each in estimators]
        return b"".join(map(_bits, found))

    done = over_items(work, len(order), workers, "estimating", "pairs")
    return b"".join(done[order.index(item)] for item in sorted(order))


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_change_nothing(workers):
    assert many(workers) == many(1)


def test_the_order_of_items_changes_nothing():
    assert many(2, reversed(range(12))) == many(2)


def test_another_run_gives_the_same_bits():
    script = MANY.format(folder=str(__file__).rsplit("/", 1)[0], workers=3)
    end = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert end.returncode == 0, end.stderr
    assert end.stdout.strip() == many(1).hex()
