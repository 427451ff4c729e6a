"""Poses, intrinsics and depth given wrongly are refused before anything is computed, and right data never are."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation
from tiny_pairs import FLIP, K_NAMES, R_NAMES, T_NAMES, View, put_cameras, put_own, put_table, scenes

from benchkit.conf.build import build
from benchkit.datasets import _pair_check, _pair_evidence, _pair_resolution
from benchkit.datasets._pair_guesses import Guess
from benchkit.errors import UsageError
from benchkit.export.job import Job
from benchkit.store.outputs import Outputs

inverse = np.linalg.inv


def transposed(pose: np.ndarray) -> np.ndarray:
    """R the other way round, t as it is."""
    changed = pose.copy()
    changed[:3, :3] = pose[:3, :3].T
    return changed


def place(pose: np.ndarray) -> np.ndarray:
    """Where the camera stands, in place of t."""
    changed = pose.copy()
    changed[:3, 3] = -pose[:3, :3].T @ pose[:3, 3]
    return changed


def job(root: Path, *arguments: str) -> Job:
    """What an export makes before its first forward."""
    conf = build("color_histogram", "relative_pose", ["data.name=pairs", f"data.root={root}", *arguments])
    return Job(conf, Outputs(root.parent / "outputs"), None)


FAULTS = {  # what was done to the pose, and what the message names and mends
    "inverse": (inverse, "the poses are from view 1 to view 0", "set data.pose=1_to_0"),
    "transposed": (transposed, "R is transposed", "row by row"),
    "place": (place, "t is where the camera stands", "t = -R c"),
    "flipped": (lambda pose: FLIP @ pose @ FLIP, "y up, z backward", "set data.axes=opengl"),
    "inverse and flipped": (
        lambda pose: FLIP @ inverse(pose) @ FLIP,
        "from view 1 to view 0 and the cameras' axes",
        "set data.pose=1_to_0 data.axes=opengl",
    ),
}
IMAGE_FAULTS = {
    "camera_to_world": (inverse, "the poses are from camera to world", "set data.pose=camera_to_world"),
    "opengl": (lambda pose: FLIP @ pose, "y up, z backward", "set data.axes=opengl"),
    "nerf": (
        lambda pose: inverse(FLIP @ pose),
        "from camera to world and the cameras' axes",
        "set data.pose=camera_to_world data.axes=opengl",
    ),
    "place": (place, "t is where the camera stands", "t = -R c"),
}


class TestFaults:
    """Before anything is computed; right data pass, and data.check=off takes anything."""

    @pytest.mark.parametrize("depth", [True, False], ids=["depth", "images"])
    def test_right_data(self, tmp_path, depth):
        put_own(tmp_path, scenes(), depth=depth)
        made = job(tmp_path, "data.depth_scale=1000")
        assert len(made.test.items) == 3
        assert made.dataset.notes() == []

    @pytest.mark.parametrize(
        ("fault", "depth"),
        [
            *((fault, True) for fault in FAULTS),
            ("inverse", False),
            *(pytest.param(fault, False, marks=pytest.mark.slow) for fault in FAULTS if fault != "inverse"),
        ],
    )
    def test_of_pairs(self, tmp_path, fault, depth):
        change, name, mend = FAULTS[fault]
        put_own(tmp_path, scenes(), change, depth)
        with pytest.raises(UsageError) as caught:
            job(tmp_path, "data.depth_scale=1000")
        message = str(caught.value)
        assert name in message
        assert mend in message
        assert str(tmp_path / "pairs.csv") in message
        assert ("do not fit the depth maps" if depth else "do not fit the images") in message
        assert job(tmp_path, "data.depth_scale=1000", "data.check=off").test.items
        if "data." in mend:
            assert job(tmp_path, "data.depth_scale=1000", *mend.split()[1:]).test.items

    @pytest.mark.parametrize(
        "fault", [name if name == "nerf" else pytest.param(name, marks=pytest.mark.slow) for name in IMAGE_FAULTS]
    )
    def test_of_poses_per_image(self, tmp_path, fault):
        change, name, mend = IMAGE_FAULTS[fault]
        put_cameras(tmp_path, scenes(), change)
        with pytest.raises(UsageError) as caught:
            job(tmp_path)
        assert name in str(caught.value)
        assert mend in str(caught.value)
        if "data." in mend:
            assert job(tmp_path, *mend.split()[1:]).test.items

    @pytest.mark.parametrize("depth", [True, False], ids=["depth", "images"])
    def test_intrinsics_of_another_resolution(self, tmp_path, depth):
        put_own(tmp_path, scenes(), depth=depth, scale=0.5)
        with pytest.raises(UsageError, match=r"are of another resolution.*multiply fx, fy, cx and cy by 2,"):
            job(tmp_path, "data.depth_scale=1000")

    def test_intrinsics_of_a_larger_picture(self, tmp_path):
        put_own(tmp_path, scenes(), scale=2.5)
        with pytest.raises(UsageError, match=r"its principal point \(300, 300\) lies outside its 240 x 240 pixels"):
            job(tmp_path)

    def test_sides_that_are_not_the_file_s(self, tmp_path):
        put_cameras(tmp_path, scenes())
        text = (tmp_path / "cameras.csv").read_text().replace(",240,240,", ",480,480,")
        (tmp_path / "cameras.csv").write_text(text)
        with pytest.raises(UsageError, match=r"are of 480 x 480 pixels and the file has 240 x 240: multiply .* by 0.5"):
            job(tmp_path)

    def test_depth_in_another_unit(self, tmp_path):
        put_own(tmp_path, scenes(), depth=True)
        with pytest.raises(UsageError, match=r"depth is in another unit than t.*data.depth_scale=1000;"):
            job(tmp_path)

    @pytest.mark.parametrize(("stored", "said"), [(1000, 5000), (5000, 1000), (1000, 5), (256, 1), (655.35, 100)])
    def test_depth_by_the_ratio_of_two_units(self, tmp_path, stored, said):
        put_own(tmp_path, scenes(), depth=True, depth_scale=stored)
        with pytest.raises(UsageError, match=rf"depth is in another unit.*set data.depth_scale={stored:g};"):
            job(tmp_path, f"data.depth_scale={said}")
        assert job(tmp_path, f"data.depth_scale={stored}").test.items

    def test_depth_and_t_in_millimetres(self, tmp_path):
        put_own(tmp_path, scenes(), lambda pose: pose * [[1, 1, 1, 1000]], depth=True)
        with pytest.raises(UsageError, match=r"depth is in another unit.*set data.depth_scale=1;"):
            job(tmp_path, "data.depth_scale=1000")
        assert job(tmp_path, "data.depth_scale=1").test.items

    def test_a_large_unit_makes_t_vanish(self, tmp_path):
        """A large unit explains what t = 0 does, which is why a unit is held against it."""
        put_own(tmp_path, scenes(), depth=True)
        made = job(tmp_path, "data.depth_scale=1000", "data.check=off")
        counts = _pair_check.count_first(made.dataset._sample, made.dataset._by_depth)
        units = {name: guess.depth for name, guess in counts[0].readings.items() if guess.kind == "unit"}
        assert len(units) > 40
        large = max(units, key=lambda name: units[name])
        np.testing.assert_allclose(
            _pair_check.shares(counts, large), _pair_check.shares(counts, "t is 0"), rtol=0, atol=0.02
        )

    def test_depth_that_nothing_explains_is_told(self, tmp_path):
        """Maps of noise: nothing is refused, and it is not silent, the second time neither."""
        put_own(tmp_path, scenes(), depth=True)
        for path in tmp_path.glob("*_depth.png"):
            noise = np.random.default_rng(len(path.name)).uniform(500, 60000, (240, 240)).astype(np.uint16)
            Image.fromarray(noise).save(path)
        for _ in range(2):
            notes = job(tmp_path, "data.depth_scale=1000").dataset.notes()
            assert len(notes) == 1
            assert re.search(r"agree \(within 5%\) at no more than \d+% of 12,000 points in 3 pairs", notes[0])
        assert job(tmp_path, "data.depth_scale=1000", "data.check=off").dataset.notes() == []

    @pytest.mark.parametrize("way", ["world_to_camera", pytest.param("camera_to_world", marks=pytest.mark.slow)])
    @pytest.mark.parametrize(("header", "order"), [("wxyz", "xyzw"), ("xyzw", "wxyz")])
    def test_a_quaternion_of_another_order(self, tmp_path, way, header, order):
        change = inverse if way == "camera_to_world" else np.array
        put_cameras(tmp_path, scenes(), change, header, order)
        with pytest.raises(UsageError) as caught:
            job(tmp_path)
        assert f"the quaternion is {', '.join(order)}" in str(caught.value)
        assert f"head its columns {', '.join(f'q{each}' for each in order)}" in str(caught.value)
        assert ("set data.pose=camera_to_world" in str(caught.value)) == (way == "camera_to_world")
        put_cameras(tmp_path, scenes(), change, order, order)
        assert job(tmp_path, f"data.pose={way}").test.items

    def test_a_cause_is_said_once(self, tmp_path):
        put_cameras(tmp_path, scenes())
        text = (tmp_path / "cameras.csv").read_text().replace(",240,240,", ",480,480,")
        (tmp_path / "cameras.csv").write_text(text)
        with pytest.raises(UsageError) as caught:
            job(tmp_path)
        assert str(caught.value).count("multiply fx and cx by 0.5") == 1
        assert re.search(r"\(3: s0_0.png--s0_1.png: .*; s1_0.png--s1_1.png; s2_0.png--s2_1.png\)", str(caught.value))

    def test_swapped_columns_of_intrinsics(self, tmp_path):
        put_own(tmp_path, scenes())
        text = (tmp_path / "pairs.csv").read_text()
        swapped = text.replace("fx0,fy0,cx0,cy0", "cx0,cy0,fx0,fy0", 1)
        (tmp_path / "pairs.csv").write_text(swapped)
        with pytest.raises(UsageError, match="do fx, fy and cx, cy stand in each other's place"):
            job(tmp_path)

    def test_a_depth_map_of_another_size(self, tmp_path):
        put_own(tmp_path, scenes(), depth=True)
        Image.fromarray(np.ones((120, 240), np.uint16)).save(tmp_path / "s1_1_depth.png")
        with pytest.raises(UsageError, match=r"s1_1_depth.png: it is 240 x 120 pixels, and its image 240 x 240"):
            job(tmp_path, "data.depth_scale=1000")

    def test_it_is_checked_once(self, tmp_path, monkeypatch):
        put_own(tmp_path, scenes())
        asked: list[int] = []
        matched = _pair_evidence.matched
        monkeypatch.setattr(_pair_evidence, "matched", lambda *images: (asked.append(1), matched(*images))[1])
        job(tmp_path)
        assert len(asked) == 3
        job(tmp_path)
        assert len(asked) == 3
        put_own(tmp_path, scenes(), lambda pose: pose * [[1, 1, 1, 2]] * 1.0)  # another t, the same direction
        job(tmp_path)
        assert len(asked) == 6

    def test_without_a_matcher_that_is_said(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_pair_check, "has_matcher", lambda: False)
        put_own(tmp_path, scenes(), inverse)
        made = job(tmp_path)
        assert "Poses were not checked against the images, since that needs OpenCV" in made.dataset.notes()[0]

    def test_an_unreadable_image_is_named_by_others(self, tmp_path):
        put_own(tmp_path, scenes())
        (tmp_path / "s0_0.png").write_bytes(b"")
        with pytest.raises(UsageError, match=r"s0_0.png: it is empty"):
            job(tmp_path)
        assert len(job(tmp_path, "data.on_error=skip").skipped) == 1


def chequered(side: int = 320, cells: int = 10) -> np.ndarray:
    """A chessboard all over, uint8 (side, side, 3), with a little unevenness as a photo has."""
    y, x = np.mgrid[:side, :side] * cells // side
    grain = np.random.default_rng(0).normal(0, 6, (side, side))
    return np.repeat(np.clip((x + y) % 2 * 170 + 40 + grain, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


class TestNeverRefuseRightData:
    K = np.array([[300.0, 0, 160], [0, 300, 160], [0, 0, 1]])

    def pair(self, image: np.ndarray, R: np.ndarray, t: np.ndarray, flat: float | None) -> tuple[View, View]:
        """A picture of a wall `flat` metres away (None: infinitely far), and what another camera sees of it."""
        import cv2

        H = self.K @ (R if flat is None else R + np.outer(t, [0, 0, 1]) / flat) @ np.linalg.inv(self.K)
        half = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]])
        moved = cv2.warpPerspective(image, half @ H @ np.linalg.inv(half), image.shape[1::-1])
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = R, t
        return View("s0_0", image, None, self.K, np.eye(4)), View("s0_1", moved, None, self.K, pose)

    @pytest.mark.parametrize("turn", [[0, 0.05, 0], [0.02, -0.2, 0.1], [0, 0, 0.5]], ids=["a little", "more", "rolled"])
    @pytest.mark.parametrize("image", ["chequered", "rendered"])
    def test_a_camera_that_only_turns(self, tmp_path, turn, image):
        """Its t is noise: a millimetre in some direction."""
        pixels = chequered() if image == "chequered" else scenes(1, 320)[0][0].pixels
        pair = self.pair(pixels, Rotation.from_rotvec(turn).as_matrix(), np.array([0.0004, -0.0006, 0.0007]), None)
        put_own(tmp_path, [pair])
        assert job(tmp_path).test.items

    @pytest.mark.parametrize("turn", [[0, 0, 0], [0.02, -0.2, 0.1], [0, 0, 0.8]], ids=["none", "some", "rolled"])
    def test_a_chessboard(self, tmp_path, turn):
        """Most matches are of other squares than their own."""
        pair = self.pair(chequered(), Rotation.from_rotvec(turn).as_matrix(), np.array([0.3, 0.02, 0.0]), 2.0)
        put_own(tmp_path, [pair])
        assert job(tmp_path).test.items

    def test_nothing_to_match(self, tmp_path):
        grey = np.full((320, 320, 3), 120, np.uint8)
        put_own(tmp_path, [self.pair(grey, np.eye(3), np.array([0.3, 0.02, 0.0]), 2.0)], inverse)
        assert job(tmp_path).test.items

    def test_the_same_picture_twice(self, tmp_path):
        pixels = scenes(1, 320)[0][0].pixels
        put_own(tmp_path, [self.pair(pixels, np.eye(3), np.array([0.0, 0.0, 1e-6]), None)])
        assert job(tmp_path, "data.on_duplicate=keep").test.items

    def test_noisy_poses(self, tmp_path):
        """Off by half a degree, as those of depth cameras are."""
        rng = np.random.default_rng(3)

        def noisy(pose: np.ndarray) -> np.ndarray:
            changed = pose.copy()
            changed[:3, :3] = Rotation.from_rotvec(rng.normal(0, 0.005, 3)).as_matrix() @ pose[:3, :3]
            return changed

        put_own(tmp_path, scenes(), noisy, depth=True)
        assert job(tmp_path, "data.depth_scale=1000").test.items
        assert job(tmp_path, "data.depth=false").test.items

    def test_a_corner_cut_out(self, tmp_path):
        """Its principal point is off the centre by both sides alike, as that of another resolution would be."""
        cut = [tuple(dataclasses.replace(view, pixels=view.pixels[:170, :170]) for view in pair) for pair in scenes()]
        put_own(tmp_path, cut)
        assert job(tmp_path).test.items


class TestRays:
    """Hand-made: K = diag(100, 100, 1) about (50, 50), the second camera a metre to the right, without turning."""

    K = np.array([[100.0, 0, 50], [0, 100, 50], [0, 0, 1]])

    def off(self, point1: list[float], t: list[float], point0: list[float] | None = None) -> float:
        pose = np.eye(4)
        pose[:3, 3] = t
        first = np.array([point0 or [60.0, 40.0]])
        return float(_pair_evidence._to_ray(first, np.array([point1]), pose, self.K, self.K)[0])

    def test_moving_right_makes_points_move_left(self):
        """X1 = X0 - (1, 0, 0): from (60, 40) at infinity to the left along the row."""
        assert self.off([60, 40], [-1, 0, 0]) == pytest.approx(0)
        assert self.off([35, 40], [-1, 0, 0]) == pytest.approx(0)
        assert self.off([35, 43], [-1, 0, 0]) == pytest.approx(3)
        assert self.off([64, 43], [-1, 0, 0]) == pytest.approx(5)  # behind the beginning: to (60, 40)

    def test_moving_ahead_makes_points_move_outward(self):
        assert self.off([70, 30], [0, 0, -1]) == pytest.approx(0)
        assert self.off([57, 44], [0, 0, -1]) == pytest.approx(5)  # inward: (3, 4) from where it begins
        assert self.off([57, 43], [0, 0, 1]) == pytest.approx(0)

    def test_both_directions_count(self):
        """Of a view twice as sharp the other way is half as long."""
        pose = np.eye(4)
        pose[:3, 3] = [-1, 0, 0]
        sharp = np.diag([2, 2, 1.0]) @ self.K
        there = _pair_evidence.distances(np.array([[60.0, 40]]), np.array([[90.0, 86]]), Guess(pose, self.K, sharp))
        back = _pair_evidence.distances(
            np.array([[90.0, 86]]), np.array([[60.0, 40]]), Guess(inverse(pose), sharp, self.K)
        )
        assert there[0] == pytest.approx(6)
        assert back[0] == pytest.approx(6)


LEFT_OUT = (10,)  # there is no tenth pair of the chessboard


class Chessboard:
    """OpenCV's stereo pairs, calibrated, undistorted: K of both cameras (centre convention), and the pose."""

    def __init__(self, folder: Path, out: Path) -> None:
        import cv2

        out.mkdir()
        numbers = [n for n in range(1, 15) if n not in LEFT_OUT]
        board = np.zeros((54, 3), np.float32)
        board[:, :2] = np.mgrid[:9, :6].T.reshape(-1, 2) * 0.025
        corners: dict[str, list[np.ndarray]] = {"left": [], "right": []}
        for side, found in corners.items():
            for n in numbers:
                grey = cv2.imread(str(folder / f"{side}{n:02d}.jpg"), cv2.IMREAD_GRAYSCALE)
                _, rough = cv2.findChessboardCorners(grey, (9, 6))
                found.append(cv2.cornerSubPix(grey, rough, (5, 5), (-1, -1), (3, 100, 1e-4)))
        boards, size = [board] * len(numbers), (640, 480)
        known = {side: cv2.calibrateCamera(boards, found, size, None, None)[1:3] for side, found in corners.items()}
        (K0, lens0), (K1, lens1) = known["left"], known["right"]
        flags = cv2.CALIB_FIX_INTRINSIC
        self.rms, K0, lens0, K1, lens1, R, t, *_ = cv2.stereoCalibrate(
            boards, corners["left"], corners["right"], K0, lens0, K1, lens1, size, flags=flags
        )
        self.pose = np.eye(4)
        self.pose[:3, :3], self.pose[:3, 3] = R, t.ravel()
        self.out, self.numbers, self.K = out, numbers, (K0, K1)
        for side, K, lens in (("left", K0, lens0), ("right", K1, lens1)):
            for n in numbers:
                photo = cv2.imread(str(folder / f"{side}{n:02d}.jpg"))
                cv2.imwrite(str(out / f"{side}{n:02d}.png"), cv2.undistort(photo, K, lens))

    def put(self, pose: np.ndarray, scale: float = 1.0) -> None:
        """pairs.csv with that pose for all; intrinsics multiplied by `scale`."""
        cells = [scale * K[i, j] for K in self.K for i, j in ((0, 0), (1, 1), (0, 2), (1, 2))]
        rows = [
            [f"left{n:02d}.png", f"right{n:02d}.png", *cells, *pose[:3, :3].ravel(), *pose[:3, 3]] for n in self.numbers
        ]
        header = ["image0", "image1", *(f"{name}{k}" for k in "01" for name in K_NAMES), *R_NAMES, *T_NAMES]
        put_table(self.out / "pairs.csv", header, rows)


@pytest.mark.data
@pytest.mark.slow
def test_a_real_chessboard_before_two_cameras(shared, tmp_path):
    """13 pairs, 83 mm apart, turned against each other by half a degree: the motion is mostly one to the side."""
    board = Chessboard(shared / "data" / "opencv_samples", tmp_path / "chess")
    assert board.rms < 0.3
    assert np.linalg.norm(board.pose[:3, 3]) == pytest.approx(0.0832, abs=0.001)
    board.put(board.pose)
    made = job(board.out, "data.principal_point=centre")
    assert len(made.test.items) == 13
    np.testing.assert_allclose(made.dataset.target(made.test.items[0])["K0"][:2, 2], board.K[0][:2, 2] + 0.5)
    for fault, (change, name, mend) in FAULTS.items():
        if fault != "inverse and flipped":  # of so small a turn it looks as an inverse one does
            board.put(change(board.pose))
            with pytest.raises(UsageError) as caught:
                job(board.out, "data.principal_point=centre")
            assert name in str(caught.value), fault
            assert mend in str(caught.value), fault
    board.put(board.pose, 0.5)
    with pytest.raises(UsageError) as caught:
        job(board.out, "data.principal_point=centre")
    first = str(caught.value).index("if the intrinsics are of another resolution (by 2)")
    assert "R is transposed" not in str(caught.value)[:first]


class TestJudge:
    """Counts of pairs, made by hand: 100 matches each, of which a reading explains so many at 1, 2, 4 and 8 pixels."""

    def count(self, **explained: list[int]) -> _pair_check.Count:
        readings = {name: Guess(np.eye(4), np.eye(3), np.eye(3), f"mend {name}") for name in explained}
        for name in explained:
            if name.startswith("unit"):
                readings[name] = dataclasses.replace(readings[name], kind="unit")
        values = {name.replace("_", " "): np.array(each) for name, each in explained.items()}
        named = {name.replace("_", " "): guess for name, guess in readings.items()}
        return _pair_check.Count(100, values, dict.fromkeys(values, 100.0), named)

    def names(self, *counts: _pair_check.Count) -> list[str]:
        return [verdict.name for verdict in _pair_check.judge_matches(counts)]

    def test_about_equally_good_ones_are_all_named(self):
        first = self.count(given=[0, 0, 10, 70], usual=[0, 0, 72, 80], rare=[0, 0, 73, 80], best=[0, 0, 80, 80])
        assert self.names(first) == ["best", "usual", "rare"]
        second = self.count(given=[0, 0, 10, 70], worse=[0, 0, 69, 80], best=[0, 0, 80, 80])
        assert self.names(second) == ["best"]

    def test_of_one_kind_the_best(self):
        """A unit must also explain more than t = 0 does."""
        given = {"given": [0, 0, 10, 70], "t_is_0": [0, 0, 50, 50]}
        assert self.names(self.count(**given, unit1=[0, 0, 75, 80], unit2=[0, 0, 80, 80])) == ["unit2"]
        assert self.names(self.count(**given, unit1=[0, 0, 59, 59], other=[0, 0, 59, 80])) == ["other"]

    def test_pairs_that_tell_nothing_have_no_say(self):
        silent = self.count(given=[0, 0, 0, 0], other=[0, 0, 0, 1])
        clear = self.count(given=[0, 0, 10, 10], other=[0, 0, 90, 90])
        against = self.count(given=[0, 0, 60, 60], other=[0, 0, 10, 10])
        assert self.names(clear, clear, silent) == ["other"]
        assert self.names(clear, silent, silent) == []
        assert self.names(clear, clear, clear, against) == ["other"]
        assert self.names(clear, clear, against) == []


class TestResolution:
    def test_factors(self):
        K = np.array([[200.0, 0, 163], [0, 200, 127], [0, 0, 1]])
        assert _pair_resolution.factor(K, (640, 480)) == pytest.approx(np.sqrt(320 / 163 * 240 / 127))
        assert _pair_resolution.factor(K, (320, 240)) == 1
        assert _pair_resolution.factor(K, (640, 240)) == 1  # not so by both sides

    def test_one_of_all_views(self):
        assert _pair_resolution.common([1.957, 1.941, 1.95]) == 1.95
        assert _pair_resolution.common([1.95, 1.0]) is None

    def test_snapped_within_a_tenth(self):
        found = [_pair_resolution.snapped(each) for each in (1.82, 1.95, 0.32, 1.46, 0.68, 2.7, 8.7)]
        assert found == [2, 2, 1 / 3, 3 / 2, 2 / 3, 8 / 3, 8]
        assert _pair_resolution.snapped(10) is None
        assert _pair_resolution.candidates((10.0, 10.0)) == [((10.0, 10.0), "about 10")]
        assert _pair_resolution.candidates((1.0, 1.95))[0] == ((1.0, 2.0), "1 and 2")
        assert _pair_resolution.candidates((1.0, 1.0)) == []


def put_frames(
    source: Path, out: Path, depth: bool, fy: float = 519.0, order: str = "wxyz", change: bool = False
) -> None:
    """Five frames of a depth camera, all pairs of them; poses from camera to world, or (`change`) the other way."""
    out.mkdir()
    frames = range(1, 6)
    poses = np.loadtxt(source / "pose.txt")
    camera = [518, 519, 325.5, 253.5, 640, 480] if fy > 0 else [481.2, fy, 319.5, 239.5, 640, 480]
    rows = []
    for n, (tx, ty, tz, qx, qy, qz, qw) in zip(frames, poses, strict=True):
        (out / f"{n}.png").write_bytes((source / "color" / f"{n}.png").read_bytes())
        maps = source / "depth" / f"{n}{'.pgm' if fy > 0 else '.png'}"
        (out / f"d{maps.name}").write_bytes(maps.read_bytes())
        if change:
            turned = Rotation.from_quat([qx, qy, qz, qw]).inv()
            (qx, qy, qz, qw), (tx, ty, tz) = turned.as_quat(), -turned.apply([tx, ty, tz])
        named = {"w": qw, "x": qx, "y": qy, "z": qz}
        numbers = [named[each] for each in order]
        rows.append([f"{n}.png", *camera, *numbers, tx, ty, tz, f"d{maps.name}" if depth else ""])
    header = ["image", *K_NAMES, "width", "height", "qw", "qx", "qy", "qz", *T_NAMES, "depth"]
    put_table(out / "cameras.csv", header, rows)
    pairs = [[f"{a}.png", f"{b}.png"] for a in frames for b in frames if a < b]
    put_table(out / "pairs.csv", ["image0", "image1"], pairs)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("depth", [True, False], ids=["depth", "images"])
def test_real_frames_of_a_depth_camera(shared, tmp_path, depth):
    """Their poses are a few pixels off, as such poses are."""
    root = tmp_path / "frames"
    put_frames(shared / "data" / "rgbd_slambook2" / "ch5" / "rgbd", root, depth)
    right = ["data.pose=camera_to_world", "data.depth_scale=1000", "data.principal_point=centre"]
    assert len(job(root, *right).test.items) == 10
    with pytest.raises(UsageError, match=r"if the poses are from camera to world. Then set data.pose=camera_to_world"):
        job(root, *right[1:])
    with pytest.raises(UsageError, match=r"set data.axes=opencv"):
        job(root, *right, "data.axes=opengl")
    if depth:
        for said in (1, 5000, 5, 655.35, 100):
            with pytest.raises(UsageError, match=r"set data.depth_scale=1000"):
                job(root, right[0], f"data.depth_scale={said}")


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("depth", [True, False], ids=["depth", "images"])
@pytest.mark.parametrize("change", [True, False], ids=["world_to_camera", "camera_to_world"])
def test_real_frames_with_a_quaternion_of_another_order(shared, tmp_path, depth, change):
    root = tmp_path / "frames"
    put_frames(shared / "data" / "rgbd_slambook2" / "ch5" / "rgbd", root, depth, order="xyzw", change=change)
    with pytest.raises(UsageError, match=r"if the quaternion is x, y, z, w"):
        job(root, "data.depth_scale=1000", "data.principal_point=centre")


@pytest.mark.data
@pytest.mark.slow
def test_rendered_frames_whose_y_points_up(shared, tmp_path):
    """ICL-NUIM: fy is below 0."""
    root = tmp_path / "frames"
    put_frames(shared / "data" / "rgbd_slambook2" / "ch12" / "dense_RGBD" / "data", root, depth=True, fy=-480.0)
    right = ["data.pose=camera_to_world", "data.depth_scale=5000", "data.principal_point=centre"]
    made = job(root, *right)
    assert made.dataset.target("1.png--2.png")["K0"][1, 1] == 480
    with pytest.raises(UsageError, match=r"if the poses are from camera to world. Then set data.pose=camera_to_world"):
        job(root, *right[1:])


def test_both_ways_of_a_pair_agree(tmp_path):
    """Listed once each way, with the inverse pose and, wrongly, with the same; distances may have another unit."""
    pairs = scenes(2, 96)
    both = [each for pair in pairs for each in (pair, pair[::-1])]
    put_own(tmp_path, both)
    header, *lines = (tmp_path / "pairs.csv").read_text().splitlines()
    assert len(job(tmp_path, "data.on_duplicate=keep").test.items) == 4
    place_of_t = header.split(",").index("tx")
    doubled, wrong = lines[1].split(","), lines[1].split(",")
    doubled[place_of_t : place_of_t + 3] = [repr(2 * float(each)) for each in doubled[place_of_t : place_of_t + 3]]
    (tmp_path / "pairs.csv").write_text("\n".join([header, lines[0], ",".join(doubled), *lines[2:]]))
    assert job(tmp_path, "data.on_duplicate=keep").test.items
    first = header.split(",").index("r00")
    wrong[first : first + 12] = lines[0].split(",")[first : first + 12]
    (tmp_path / "pairs.csv").write_text("\n".join([header, lines[0], ",".join(wrong), *lines[2:]]))
    with pytest.raises(UsageError, match="not each other's inverse"):
        job(tmp_path, "data.on_duplicate=keep")
    assert job(tmp_path, "data.on_duplicate=keep", "data.check=off").test.items
