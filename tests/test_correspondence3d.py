"""Matches in space: geometry by hand and by plain loops, the head against torch's own interpolation, the whole way."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from benchkit.errors import BenchkitError, RunError, UsageError
from benchkit.eval import evaluate
from benchkit.eval.correspondence3d import Correspondence3D, Settings
from benchkit.export import export
from benchkit.geometry.pose import projected
from benchkit.heads.match_upsampled import MatchUpsampled
from benchkit.heads.match_upsampled import Settings as HeadSettings
from benchkit.heads.solvers import upsampled_matches
from benchkit.heads.solvers.upsampled_matches import Side, match
from benchkit.metrics import correspondence3d as scores_of
from benchkit.metrics import resample
from benchkit.metrics.correspondence3d import View
from benchkit.store.items import ArrayItems
from benchkit.store.table import Table

K = np.array([[100, 0, 20], [0, 100, 15], [0, 0, 1.0]])
SIZE = np.array([40.0, 30])
NAN = np.float32(np.nan)


def plane(normal: tuple[float, float, float], distance: float, grid: tuple[int, int] = (6, 8)) -> View:
    """A view of 40 x 30 pixels of the plane normal . X = distance."""
    x, y = (np.arange(grid[1]) + 0.5) * 40 / grid[1], (np.arange(grid[0]) + 0.5) * 30 / grid[0]
    rays = np.stack([*np.meshgrid(x, y), np.ones(grid)], axis=-1) @ np.linalg.inv(K).T
    depth = distance / (rays @ np.array(normal))
    return View(K, SIZE, (rays * depth[..., None]).astype(np.float32))


class TestPoints:
    def test_at_a_centre_it_is_the_cells_own(self):
        view = plane((0.1, 0.2, 1), 2)
        centres = view.centres(np.array([0, 3, 5]), np.array([0, 4, 7]))
        assert centres.tolist() == [[2.5, 2.5], [22.5, 17.5], [37.5, 27.5]]
        np.testing.assert_array_equal(scores_of.points_at(view, centres), view.xyz[[0, 3, 5], [0, 4, 7]])

    def test_between_centres_it_lies_on_the_plane_and_the_ray(self):
        """Also beyond the outermost centres, and where keypoints are float32."""
        view = plane((0.3, -0.4, 1), 2)
        places = np.random.default_rng(0).uniform(0, 1, (50, 2)) * SIZE
        found = scores_of.points_at(view, places.astype(np.float32))
        np.testing.assert_allclose(found @ [0.3, -0.4, 1], 2, rtol=1e-5)
        np.testing.assert_allclose(projected(found, K), places, atol=1e-4)

    def test_across_an_edge_it_is_the_nearer_cells_own(self):
        """Left half at 1 m, right half at 2 m: 19 is in the left column of cells next to the edge, 21 in the right one."""
        view = plane((0, 0, 1), 1)
        view.xyz[:, 4:] *= 2
        found = scores_of.points_at(view, np.array([[19, 15.5], [21, 15.5]]))
        np.testing.assert_allclose(found[:, 2], [1, 2])
        np.testing.assert_array_equal(found[0], view.xyz[3, 3])

    def test_unknown_outside_and_beside_unknown(self):
        view = plane((0, 0, 1), 1)
        view.xyz[2, 2] = NAN
        places = np.array([[12.5, 12.5], [-1, 5], [5, 30.5], [40, 30], [16, 12.5]])
        known = np.isfinite(scores_of.points_at(view, places)).all(axis=1)
        assert known.tolist() == [False, False, False, True, True]
        np.testing.assert_array_equal(scores_of.points_at(view, places)[4], view.xyz[2, 3])


class TestErrors:
    def test_by_hand(self):
        """A wall at 2 m, the camera moved 10 cm to the left: everything moves 5 pixels to the right."""
        view = plane((0, 0, 1), 2)
        t = np.array([0.1, 0, 0])
        starts = np.array([[12.5, 12.5], [12.5, 12.5], [12.5, 12.5]])
        ends = np.array([[17.5, 12.5], [22.5, 12.5], [17.5, 22.5]])
        points = scores_of.moved(scores_of.points_at(view, starts), np.eye(3), t)
        found = scores_of.errors(points, ends, ends, view, 2.0)
        np.testing.assert_allclose(found.metres, [0, 0.1, 0.2], atol=1e-6)  # 5 pixels at 2 m are 10 cm
        np.testing.assert_allclose(found.pixels, [0, 10, 20], atol=1e-4)  # twice as many in the scored frame
        limits = np.array([0.01, 0.1001]), np.array([5.0, 10.01, 30])
        assert scores_of.recalls(found, *limits).tolist() == [1 / 3, 2 / 3, 1 / 3, 2 / 3, 1]

    def test_turned_about_by_loops(self):
        """Every match of two slanted planes under a general pose, one by one."""
        rng = np.random.default_rng(1)
        one, other = plane((0.2, 0.1, 1), 2), plane((-0.1, 0.3, 1), 1.5)
        axis = np.array([0, 0.1, 0.02])
        R = np.linalg.qr(np.eye(3) + np.cross(np.eye(3), axis))[0]
        R *= np.sign(np.diag(R))
        t = np.array([0.05, -0.02, 0.1])
        rows, columns = rng.integers(0, 6, (2, 20)), rng.integers(0, 8, (2, 20))
        ends = other.centres(rows[1], columns[1])
        points = scores_of.moved(scores_of.points_at(one, one.centres(rows[0], columns[0])), R, t)
        found = scores_of.errors(points, ends, ends, other, 1.0)
        for k in range(20):
            x0, x1 = one.xyz[rows[0, k], columns[0, k]], other.xyz[rows[1, k], columns[1, k]]
            there = R @ x0 + t
            seen = K @ there
            seen1 = K @ x1
            assert found.metres[k] == pytest.approx(np.linalg.norm(there - x1), rel=1e-6)
            off = np.linalg.norm(seen[:2] / seen[2] - seen1[:2] / seen1[2])
            assert found.pixels[k] == pytest.approx(off, rel=1e-4, abs=1e-4)

    def test_chance_and_best_place_by_loops(self):
        rng = np.random.default_rng(2)
        view = plane((0.2, 0.1, 1), 2)
        view.xyz[rng.random((6, 8)) < 0.3] = NAN
        points = plane((0.2, 0.1, 1), 2).xyz.reshape(-1, 3)[rng.integers(0, 48, 15)].astype(np.float64)
        points += rng.normal(size=(15, 3)) * 0.05
        points[3], points[7, 2] = np.nan, -1.0  # unknown; behind the camera
        limits = np.array([0.1, 0.3]), np.array([6.0, 12])
        cells = [(view.xyz[r, c].astype(np.float64), view.centres(np.array([r]), np.array([c]))[0])
                 for r, c in zip(*np.nonzero(view.valid), strict=True)]  # fmt: skip
        known = [p for k, p in enumerate(points) if k != 3]
        metres = np.array([[np.linalg.norm(p - x) for x, _ in cells] for p in known])
        seen = projected(np.array(known), K)
        pixels = np.array([[np.linalg.norm(s - c) for _, c in cells] for s in seen]) * 1.5
        expected = [(metres < a).mean() for a in limits[0]] + [(pixels < a).mean() for a in limits[1]]
        np.testing.assert_allclose(scores_of.chances(points, view, 1.5, *limits), expected)
        said = np.tile([[1.0, 1.0]], (15, 1))
        ends, by_pixel = scores_of.best_places(points, view, said, 1.5)
        best = scores_of.errors(points, ends, by_pixel, view, 1.5)
        now = scores_of.errors(points, said, said, view, 1.5)
        np.testing.assert_allclose(
            best.metres[best.known], np.minimum(metres.min(axis=1), now.metres[now.known]), rtol=1e-5
        )
        np.testing.assert_allclose(
            best.pixels[best.known], np.minimum(pixels.min(axis=1), now.pixels[now.known]), rtol=1e-5
        )
        np.testing.assert_array_equal(ends[3], said[3])

    def test_an_exact_place_between_cells_is_no_worse_than_its_ceiling(self):
        view = plane((0.2, 0.1, 1), 2)
        places = np.array([[13.0, 11.0]])
        points = scores_of.points_at(view, places)
        ends, by_pixel = scores_of.best_places(points, view, places, 1.0)
        np.testing.assert_array_equal(ends, places)
        np.testing.assert_array_equal(by_pixel, places)


def family(**settings: Any) -> Correspondence3D:
    return Correspondence3D(Settings(**settings))


def items(matches: list[list[int]], xyz1: list[np.ndarray] | None = None) -> tuple[ArrayItems, ArrayItems]:
    """Items of the wall at 2 m, the camera 10 cm to the left; three keypoints a cell apart (5 pixels, 10 cm) in both views."""
    count = len(matches)
    points = np.tile(np.array([[12.5, 12.5], [17.5, 12.5], [22.5, 12.5]]), (count, 1, 1))
    fields = {"keypoints0": points, "keypoints1": points, "matches0": np.array(matches, np.int32),
              "matching_scores0": np.ones((count, 3), np.float32)}  # fmt: skip
    wall = plane((0, 0, 1), 2).xyz
    truth = {
        **{f"K{k}": np.tile(K, (count, 1, 1)) for k in (0, 1)},
        **{f"size{k}": np.tile(SIZE, (count, 1)) for k in (0, 1)},
        "R": np.tile(np.eye(3), (count, 1, 1)),
        "t": np.tile([0.1, 0, 0], (count, 1)),
        "xyz0": np.tile(wall, (count, 1, 1, 1)),
        "xyz1": xyz1 or np.tile(wall, (count, 1, 1, 1)),
        "category/angle": [("0-30", "30-60", "easy")[k % 3] for k in range(count)],
        "views": ["a\nb"] * count,
    }
    names = [f"{k}" for k in range(count)]
    return ArrayItems(names, fields), ArrayItems(names, truth, {})


class TestFamily:
    def test_shares_then_means(self):
        """First item: right, one cell (10 cm, 5 pixels) and two cells off; second: right alone; third: no match."""
        predictions, truth = items([[1, 1, 1], [1, -1, -1], [-1, -1, -1]])
        one = family(pixels=[4.0, 6.0, 25.0])
        columns = one.score(predictions, truth)
        np.testing.assert_allclose(columns["recall@1cm"], [1 / 3, 1, 0])
        np.testing.assert_allclose(columns["recall@4px"], [1 / 3, 1, 0])
        np.testing.assert_allclose(columns["recall@6px"], [2 / 3, 1, 0])
        np.testing.assert_allclose(columns["recall@25px"], [1, 1, 0])
        assert columns["num_matches"].tolist() == [3, 1, 0]
        found = one.summarize(columns)
        assert found["recall@2cm"] == pytest.approx(4 / 9)  # the mean over items, not over the four matches
        parts = one.breakdown(columns, {})
        assert parts["recall@2cm/0-30"] == pytest.approx(1 / 3)
        assert parts["recall@25px/30-60"] == 1
        assert len(parts) == 12  # no bin of the item whose angle is said in words

    def test_nothing_valid_is_undefined_and_counted(self):
        wall, nothing = plane((0, 0, 1), 2).xyz, np.full((6, 8, 3), NAN)
        predictions, truth = items([[1, -1, -1], [1, -1, -1]], [wall, nothing])
        family_ = family()
        for columns in (family_.score(predictions, truth), family_.chance(truth, predictions)):
            assert np.isnan(columns["recall@2cm"]).tolist() == [False, True]
        assert family_.summarize(family_.score(predictions, truth))["recall@2cm"] == 1
        ceiling = family_.score(family_.ceiling(predictions, truth), truth)
        assert np.isnan(ceiling["recall@2cm"]).tolist() == [False, True]

    def test_starts_at_unknown_points_do_not_count_and_ends_are_wrong_in_space(self):
        predictions, truth = items([[1, 2, -1]])
        truth.fields["xyz0"][0, 2, 2] = NAN  # the first keypoint's
        columns = family().score(predictions, truth)
        assert (columns["num_matches"][0], columns["recall@2cm"][0]) == (1, 1)
        predictions, truth = items([[1, 2, -1]])
        truth.fields["xyz1"][0, 2, 3] = NAN  # where the first is matched to
        columns = family().score(predictions, truth)
        assert (columns["num_matches"][0], columns["recall@2cm"][0], columns["recall@5px"][0]) == (2, 0.5, 1)

    def test_ceiling_and_floor_are_of_the_same_matches(self):
        """Every wrong match has a cell that is right; a random cell of 48 is."""
        predictions, truth = items([[0, 0, 0]])
        one = family()
        best = one.summarize(one.score(one.ceiling(predictions, truth), truth))
        assert best["recall@1cm"] == best["recall@5px"] == 1
        floor = one.summarize(one.chance(truth, predictions))
        assert floor["recall@1cm"] == pytest.approx(1 / 48)
        assert floor["num_matches"] == best["num_matches"] == 3

    def test_thresholds_are_settings_and_pixels_those_of_the_scored_frame(self):
        predictions, truth = items([[0, -1, -1]])  # 5 pixels, 10 cm off
        truth.fields["scale1"] = np.array([4.0])
        one = family(centimetres=[11.0], pixels=[19.0, 21.0])
        assert [metric.name for metric in one.metrics()] == ["recall@11cm", "recall@19px", "recall@21px", "num_matches"]
        found = one.summarize(one.score(predictions, truth))
        assert (found["recall@11cm"], found["recall@19px"], found["recall@21px"]) == (1, 0, 1)
        for wrong in ({"pixels": []}, {"centimetres": [2.0, 1.0]}, {"pixels": [0.0]}):
            with pytest.raises(ValueError, match="rising"):
                family(**wrong)

    def test_what_cannot_be_scored(self):
        predictions, truth = items([[1, 5, -1]])
        with pytest.raises(RunError, match="row 0"):
            family().score(predictions, truth)
        del truth.fields["xyz1"]
        with pytest.raises(UsageError, match="there is no xyz1"):
            family().check(truth)

    def test_lines_are_coloured_by_the_distance_in_space(self):
        predictions, truth = items([[1, 0, -1]])
        axes = Figure().subplots()
        target = {name: value[0] for name, value in truth.fields.items()}
        family().draw(axes, {name: value[0] for name, value in predictions.fields.items()}, target)
        right, wrong = (line.get_color() for line in axes.lines)
        assert right[0] < 0.01 < 0.99 < wrong[0]


def side(values: Any, grid: tuple[int, int], valid: Any, kind: str = "bicubic") -> Side:
    make = upsampled_matches.INTERPOLATIONS[kind]
    rows, columns = (torch.tensor(make(n, m)) for n, m in zip(grid, values.shape[1:], strict=True))
    return Side(values, rows, columns, torch.as_tensor(valid))


class TestHead:
    @pytest.mark.parametrize("kind", ["bicubic", "bilinear"])
    @pytest.mark.parametrize(("source", "target"), [((5, 7), (12, 9)), ((6, 4), (3, 4)), ((2, 2), (16, 16))])
    def test_interpolation_is_torchs(self, kind: str, source: tuple[int, int], target: tuple[int, int]):
        values = torch.randn(3, *source, generator=torch.Generator().manual_seed(0))
        expected = torch.nn.functional.interpolate(values[None], size=target, mode=kind)[0]
        found = side(values, target, np.ones(target, bool), kind)
        torch.testing.assert_close(found.rows @ values @ found.columns.T, expected, atol=1e-5, rtol=1e-4)

    def test_padding_takes_no_part(self):
        """Of five cells three and a half show the image: the same as of four, of which so much does."""
        np.testing.assert_array_equal(resample.bicubic(14, 5, 0.7)[:, :4], resample.bicubic(14, 4, 0.875))
        assert (resample.bicubic(14, 5, 0.7)[:, 4] == 0).all()
        np.testing.assert_allclose(resample.bicubic(14, 5, 0.7).sum(axis=1), 1, rtol=1e-6)

    def expected(
        self, maps: list[Any], grid: tuple[int, int], valid: list[np.ndarray], most: int
    ) -> list[tuple[int, int]]:
        """probe3d's matching, written out: all cosines of the enlarged features at once."""
        wide = [
            torch.nn.functional.interpolate(m[None], size=grid, mode="bicubic")[0].double().flatten(1).T for m in maps
        ]
        cells = [np.flatnonzero(each) for each in valid]
        one, other = (torch.nn.functional.normalize(w[c], dim=1) for w, c in zip(wide, cells, strict=True))
        distances = (1 - one @ other.T).numpy()
        order = np.sort(distances, axis=1)
        weights = 1 - order[:, 0] / order[:, 1]
        rows = np.argsort(-weights, kind="stable")[:most]
        return [(int(cells[0][k]), int(cells[1][distances[k].argmin()])) for k in rows]

    @pytest.mark.parametrize("coarse", [(4, 5), (12, 14)])
    def test_agrees_with_all_cosines_of_enlarged_maps(self, coarse: tuple[int, int], monkeypatch: pytest.MonkeyPatch):
        """Of maps with fewer cells than the grid and with more; in one block and in many."""
        generator = torch.Generator().manual_seed(0)
        maps = [torch.randn(8, *coarse, generator=generator) for _ in range(2)]
        valid = [np.random.default_rng(k).random((9, 11)) < 0.6 for k in (0, 1)]
        sides = [side(m, (9, 11), v) for m, v in zip(maps, valid, strict=True)]
        if coarse == (12, 14):
            sides = [upsampled_matches._enlarged(each) for each in sides]
        whole = match(*sides, 20)
        assert list(zip(whole[0].tolist(), whole[1].tolist(), strict=True)) == self.expected(maps, (9, 11), valid, 20)
        assert (np.diff(whole[2]) <= 0).all()
        monkeypatch.setattr(upsampled_matches, "BLOCK", 300)
        monkeypatch.setattr(upsampled_matches, "CHANNELS", 3)
        for one, other in zip(whole, match(*sides, 20), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)

    def test_one_cell_and_none(self):
        values = torch.randn(4, 2, 2, generator=torch.Generator().manual_seed(0))
        alone, nothing, all_ = np.zeros((4, 4), bool), np.zeros((4, 4), bool), np.ones((4, 4), bool)
        alone[1, 2] = True
        first, second, scores = match(side(values, (4, 4), all_), side(values, (4, 4), alone), 100)
        assert sorted(first.tolist()) == list(range(16))
        assert set(second.tolist()) == {6}
        assert np.isfinite(scores).all()
        for pair in ((all_, nothing), (nothing, all_)):
            assert [len(each) for each in match(*(side(values, (4, 4), v) for v in pair), 100)] == [0, 0, 0]

    def features(self, arrays: list[np.ndarray], frames: list[tuple[int, int]]) -> Any:
        return SimpleNamespace(
            names=[str(k) for k in range(len(arrays))],
            keys=["patch@final"],
            frames=np.array(frames),
            extents=np.ones((len(arrays), 2)),
            item=lambda key, row: arrays[row],
        )

    def test_keypoints_are_centres_in_each_views_own_pixels(self):
        """The second view shows the first one's left half at another size: its own cells come back."""
        rng = np.random.default_rng(0)
        values = rng.normal(size=(16, 4, 6)).astype(np.float32)
        features = self.features([values, values[:, :, :3]], [(40, 60), (80, 60)])
        valid = [np.zeros((4, 6), bool), np.ones((4, 3), bool)]
        valid[0][1:3, 1:3] = True
        head = MatchUpsampled(HeadSettings())
        head.read_given(ArrayItems(["a"], {"valid0": [valid[0]], "valid1": [valid[1]]}))
        fields = head.predict("patch@final", features, 1)
        assert fields.keys() == set(head.gives)
        points0, points1, matches, scores = (next(iter(column.each())) for column in fields.values())
        assert sorted(map(tuple, points0.tolist())) == [(15, 15), (15, 25), (25, 15), (25, 25)]
        np.testing.assert_array_equal(points1[matches], points0 * [2, 2])
        assert (scores > 0.99).all()
        assert {each.dtype.name for each in (points0, points1)} == {"float32"}

    def test_needs_to_know_what_is_valid(self):
        head = MatchUpsampled(HeadSettings())
        head.read_given(ArrayItems(["a"], {}))
        with pytest.raises(UsageError, match="valid0"):
            head.predict("patch@final", None, 1)
        with pytest.raises(ValueError, match="max_matches"):
            HeadSettings(max_matches=0)


def run(tmp_path: Path, tag: str, *arguments: str, random: bool = False) -> Any:
    (end,) = export("efficientnet_lite0", "correspondence3d", arguments=arguments, random=random, tag=tag,
                    outputs=tmp_path, say=lambda _: None)  # fmt: skip
    if isinstance(end, BenchkitError):
        raise end
    return evaluate("correspondence3d", end.tag, outputs=tmp_path)


class TestWholeWay:
    def test_training_helps_and_scores_lie_between_floor_and_ceiling(self, tmp_path: Path):
        given = ("data.n_test=6", "data.side=128", "data.size=160", "model.features.layers=3", "data.turn=[5,20]")
        trained, twin = (run(tmp_path, str(random), *given, random=random) for random in (False, True))
        found = trained.summaries
        assert found["recall@5px"] > 1.2 * twin.summaries["recall@5px"]
        for name in ("recall@1cm", "recall@2cm", "recall@5cm", "recall@5px", "recall@25px", "recall@50px"):
            assert found[f"floor_{name}"] <= found[name] <= found[f"ceiling_{name}"]
        assert found["recall@5px"] > 5 * found["floor_recall@5px"]
        assert found["recall@5px/0-30"] == found["recall@5px"]
        with Table(trained.folder / "predictions.h5", "predictions") as table, \
                Table(trained.folder / "targets.h5", "targets") as truth:  # fmt: skip
            valid, points, matches = truth.item("valid0", 0), table.item("keypoints0", 0), table.item("matches0", 0)
            assert len(points) == min(1000, int(valid.sum()))
            cells = np.floor(points / 4).astype(int)
            assert valid[cells[:, 1], cells[:, 0]].all()
            assert sorted(set(matches.tolist())) == list(range(len(table.item("keypoints1", 0))))

    def test_other_heads_are_scored_by_the_same_truth(self, tmp_path: Path):
        found = run(
            tmp_path, "match", "data.n_test=3", "data.side=64", "data.size=160", "model.head.name=match"
        ).summaries
        assert found["recall@25px"] <= found["ceiling_recall@25px"]
        assert found["num_matches"] > 0

    def test_the_head_refuses_data_that_say_nothing_of_validity(self, tmp_path: Path):
        with pytest.raises(UsageError, match="points in space"):
            run(tmp_path, "pose", "data.n_test=2", "data.side=32", "data.truth=pose")
