"""Generated pairs: poses, depth, points in space and keypoints agree with each other and with the pictures."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from benchkit.datasets.scene_pairs import ScenePairs, Settings, angle_bin
from benchkit.export.split import Split
from benchkit.render.scene import make_scene

SIDE = 112


def pairs(**settings: Any) -> ScenePairs:
    return ScenePairs(Settings(**{"n_test": 12, "side": SIDE, **settings}))


def centres(size: int) -> np.ndarray:
    """Pixel centres (size, size, 3) as x, y, 1."""
    line = np.arange(size) + 0.5
    return np.stack([*np.meshgrid(line, line), np.ones((size, size))], axis=-1)


def reprojected(data: ScenePairs, item: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the first view's pixels that the second might show: which they are, where they fall (n, 2), how far away (n,)."""
    truth = data.target(item)
    depth = data.field(item, "depth0")
    points = (centres(SIDE) @ np.linalg.inv(truth["K0"]).T) * depth[..., None]
    moved = points @ truth["R"].T + truth["t"]
    with np.errstate(invalid="ignore", divide="ignore"):
        places = moved @ truth["K1"].T
        places = places[..., :2] / places[..., 2:]
        within = (moved[..., 2] > 0) & (places > 1).all(axis=-1) & (places < SIDE - 1).all(axis=-1)
    return within, places[within], moved[..., 2][within]


def bilinear(values: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values between four pixel centres, and the four (n, 4)."""
    x, y = (places - 0.5).T
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    corners = [values[top + b, left + a] for b in (0, 1) for a in (0, 1)]
    weights = [(1 - abs(b - (y - top))) * (1 - abs(a - (x - left))) for b in (0, 1) for a in (0, 1)]
    if values.ndim == 3:
        weights = [each[:, None] for each in weights]
    return sum(w * c for w, c in zip(weights, corners, strict=True)), np.stack(corners, axis=1)


class TestGeometry:
    def test_depth_lands_on_the_surface_that_the_second_view_shows(self):
        """Aside from what lies behind something else there, and from places between two surfaces."""
        data = pairs(truth="depth")
        shares = []
        for item in data.items("test"):
            _, places, depth = reprojected(data, item)
            there, four = bilinear(data.field(item, "depth1"), places)
            smooth = np.ptp(four, axis=1) < 0.05 * depth  # False where one is NaN
            seen = smooth & (there > 0.98 * depth)
            assert seen.mean() > 0.2
            shares.append((np.abs(there - depth) < 0.01 * depth)[seen].mean())
        assert min(shares) > 0.97, shares

    def test_colours_agree_where_both_see_a_place(self):
        data = pairs(truth="depth", texture=0.0)
        for item in data.items("test")[:6]:
            within, places, depth = reprojected(data, item)
            there, _ = bilinear(data.field(item, "depth1"), places)
            seen = np.abs(there - depth) < 0.01 * depth
            one, other = (data.image(view).astype(float) for view in data.views(item))
            off = np.abs(bilinear(other, places)[0] - one[within])[seen]
            elsewhere = np.abs(np.roll(one[within][seen], len(off) // 2, axis=0) - one[within][seen])
            assert np.median(off) < 4
            assert off.mean() < elsewhere.mean() / 2

    def test_poses_are_rigid_and_the_cameras_apart(self):
        data = pairs(turn=[10.0, 60.0])
        for item in data.items("test"):
            truth = data.target(item)
            np.testing.assert_allclose(truth["R"] @ truth["R"].T, np.eye(3), atol=1e-12)
            assert np.linalg.det(truth["R"]) == pytest.approx(1)
            angle = np.degrees(np.arccos(truth["R"][2, 2]))  # the first axis, seen in the second frame
            assert 10 <= angle <= 60
            assert np.linalg.norm(truth["t"]) > 0.1
            low, high = map(int, data.category(item)["angle"].split("-"))
            assert low <= angle < high

    def test_points_in_space_project_to_their_cells_and_fit_the_depth(self):
        data, maps = pairs(truth="xyz"), pairs(truth="depth")
        count = SIDE // 4
        for item in data.items("test")[:4]:
            truth = data.target(item)
            for view in "01":
                points = data.field(item, f"xyz{view}")
                assert points.shape == data.map_shape(item, f"xyz{view}") == (count, count, 3)
                known = np.isfinite(points[..., 2])
                places = points @ truth[f"K{view}"].T
                with np.errstate(invalid="ignore"):
                    places = places[..., :2] / places[..., 2:]
                np.testing.assert_allclose(places[known], (4 * centres(count)[..., :2])[known], atol=1e-3)
                depth, four = bilinear(maps.field(item, f"depth{view}"), 4 * centres(count)[known][:, :2])
                smooth = np.ptp(four, axis=1) < 0.02
                off = np.abs(points[known][smooth, 2] / depth[smooth] - 1)
                assert np.median(off) < 1e-4
                assert off.max() < 6e-3  # at the rim of a ball

    def test_nothing_is_known_of_the_sky_and_beyond_ten_metres(self):
        data = pairs(truth="depth", n_test=36)
        depths = np.stack([data.field(item, "depth0") for item in data.items("test")[::3]])
        assert np.nanmin(depths) > 0
        assert 9 < np.nanmax(depths) <= 10
        assert 0.01 < np.isnan(depths).mean() < 0.5
        assert depths.dtype == np.float32


class TestKeypoints:
    def test_they_are_one_point_in_space_that_both_views_see(self):
        """Triangulated from their two rays: exact, and no surface in either view lies before it. Few stand in a gap between
        an outline and what hides the rest, which is narrower than a pixel.
        """
        found, posed, maps = pairs(truth="keypoints"), pairs(), pairs(truth="depth")
        shown = []
        for item in found.items("test"):
            truth, pose = found.target(item), posed.target(item)
            assert len(truth["queries"]) == len(truth["points"])
            for query, point in zip(truth["queries"], truth["points"], strict=True):
                one, other = (np.linalg.inv(pose[f"K{k}"]) @ [*p, 1] for k, p in enumerate((query, point)))
                # z1 other = z0 R one + t
                depths, *_ = np.linalg.lstsq(np.stack([pose["R"] @ one, -other], axis=1), -pose["t"], rcond=None)
                np.testing.assert_allclose(depths[1] * other, depths[0] * pose["R"] @ one + pose["t"], atol=1e-9)
                for k, place in enumerate((query, point)):
                    column, row = np.floor(place).astype(int)
                    around = maps.field(item, f"depth{k}")[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
                    assert np.nanmax(around) > depths[k] * 0.99
                    shown.append(np.nanmin(np.abs(around - depths[k])) < 0.05 * depths[k])
        assert len(shown) > 100
        assert np.mean(shown) > 0.97

    def test_the_box_holds_them_and_what_is_seen_of_the_object(self):
        data = pairs(truth="keypoints", n_test=36)
        numbers = []
        for item in data.items("test"):
            truth = data.target(item)
            x0, y0, x1, y1 = truth["box"]
            assert 0 <= x0 < x1 <= SIDE
            assert 0 <= y0 < y1 <= SIDE
            assert (truth["points"] >= [x0 - 1, y0 - 1]).all()
            assert (truth["points"] <= [x1 + 1, y1 + 1]).all()
            numbers.append(len(truth["points"]))
        assert len(set(numbers)) > 3
        assert np.mean(numbers) > 4

    def test_from_the_other_side_few_are_left(self):
        near, far = (pairs(truth="keypoints", turn=turn, overlap=0) for turn in ([5.0, 10.0], [100.0, 119.0]))
        counts = [np.mean([len(d.target(i)["points"]) for i in d.items("test")]) for d in (near, far)]
        assert counts[1] < 0.7 * counts[0]


class TestDataset:
    def test_equal_settings_give_equal_pairs_in_any_order(self):
        one, other = pairs(), pairs()
        items = one.items("test")
        first = [one.image(view).tobytes() for item in items for view in one.views(item)]
        again = [other.image(view).tobytes() for item in items[::-1] for view in other.views(item)[::-1]]
        assert first == again[::-1]
        np.testing.assert_array_equal(one.target(items[-1])["R"], other.target(items[-1])["R"])

    @pytest.mark.parametrize(
        ("change", "first", "second"),
        [
            ({"seed": 1}, True, True),
            ({"side": 48}, True, True),
            ({"texture": 0.3}, True, True),
            ({"turn": [20.0, 50.0]}, False, True),
            ({"overlap": 0.99}, False, True),
            ({"pairs": 5}, False, False),
            ({"truth": "depth"}, False, False),
        ],
    )
    def test_the_recipe_tells_pictures_apart(self, change: dict[str, Any], first: bool, second: bool):
        data, other = pairs(side=40), pairs(**{"side": 40, **change})
        for view, changed in zip(data.views("test/000001"), (first, second), strict=True):
            assert (data.recipe(view) != other.recipe(view)) == changed
            assert (data.image(view).tobytes() != other.image(view).tobytes()) == changed

    def test_pairs_of_a_scene_share_the_first_view_and_the_group(self):
        data = pairs()
        items = data.items("test")
        assert {data.views(item)[0] for item in items[:3]} == {"test/000000/0"}
        assert [data.group(item) for item in items[2:4]] == ["test-00000", "test-00001"]
        assert data.views(items[3]) == ("test/000003/0", "test/000003/1")
        alone = pairs(pairs=1)
        assert len({alone.group(item) for item in items}) == len(items)
        assert len({data.recipe(view) for item in items for view in data.views(item)}) == 12 + 4

    def test_splits_have_scenes_of_their_own(self):
        data = pairs(n_train=3)
        assert data.items("train") == ["train/000000", "train/000001", "train/000002"]
        train, test = (data.image(data.views(f"{split}/000000")[0]) for split in ("train", "test"))
        assert (train != test).mean() > 0.5
        assert data.group("train/000000") != data.group("test/000000")

    def test_columns_of_the_truth(self):
        data = pairs(truth="depth", n_test=4, side=32)
        truth = Split(data, "test", data.items("test"), {}).truth(data.items("test"))
        assert {"K0", "K1", "R", "t", "size0", "size1", "depth0", "depth1"} <= truth.fields.keys()
        assert truth.read("depth1").shape == (4, 32, 32)
        np.testing.assert_array_equal(truth.item("depth1", 2), data.field("test/000002", "depth1"))
        assert truth.read("category/class") == ["striped_box"] * 3 + ["striped_sphere"]

    def test_bins(self):
        bins = [angle_bin(angle) for angle in (0, 29.9, 30, 60, 89.9, 90, 120)]
        assert bins == ["0-30", "0-30", "30-60", "60-90", "60-90", "90-120", "90-120"]

    @pytest.mark.parametrize(
        ("change", "said"),
        [({"turn": [0.0, 40.0]}, "turn"), ({"turn": [5.0, 121.0]}, "turn"), ({"overlap": 1.1}, "overlap"),
         ({"pairs": 0}, "at least one pair"), ({"turn": [5.0]}, "turn")],
    )  # fmt: skip
    def test_settings_that_make_no_sense(self, change: dict[str, Any], said: str):
        with pytest.raises(ValueError, match=said):
            Settings(**change)

    def test_texture_is_all_that_it_changes(self):
        from benchkit.render.pair import textured

        scene = make_scene("a", 0, 0)
        more = textured(scene, 0.2)
        assert more.objects[0].material.grain == pytest.approx(scene.objects[0].material.grain + 0.2)
        assert more.room.materials[4].grain == pytest.approx(scene.room.materials[4].grain + 0.2)
        assert dataclasses.replace(more, room=scene.room, objects=scene.objects).camera is scene.camera
