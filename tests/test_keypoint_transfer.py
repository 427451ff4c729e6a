"""Transferred keypoints: PCK by hand, places by other libraries' arithmetic, SPair-71k's own layout, and the whole way."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional

from benchkit.datasets.spair import Settings, Spair
from benchkit.errors import BenchkitError, RunError, UsageError
from benchkit.eval import evaluate
from benchkit.eval.keypoint_transfer import KeypointTransfer
from benchkit.export import export
from benchkit.heads.solvers import point_transfer
from benchkit.heads.solvers.point_transfer import Grid, sampled, transferred
from benchkit.heads.transfer import Settings as TransferSettings
from benchkit.heads.transfer import Transfer
from benchkit.metrics import transfer as scores_of
from benchkit.store.items import ArrayItems

BOX = np.array([10.0, 20, 50, 40])  # 40 x 20: the threshold at .1 is 4
FAMILY = KeypointTransfer(None)


def truth(points: list[list[list[float]]], classes: list[str], boxes: Any = BOX) -> ArrayItems:
    count = len(points)
    arrays = [np.array(each, np.float64).reshape(-1, 2) for each in points]
    fields = {
        "queries": arrays,
        "points": arrays,
        "box": np.broadcast_to(boxes, (count, 4)),
        "size0": np.full((count, 2), 100.0),
        "size1": np.full((count, 2), 100.0),
        "category/class": classes,
        "views": ["a\nb"] * count,
    }
    return ArrayItems([f"{k}" for k in range(count)], fields, {"classes": ["bird", "boat", "cat"]})


def predicted(points: list[list[list[float]]]) -> ArrayItems:
    arrays = [np.array(each, np.float32).reshape(-1, 2) for each in points]
    return ArrayItems([f"{k}" for k in range(len(points))], {"predicted": arrays})


class TestScores:
    def test_just_as_far_as_the_threshold_counts(self):
        """The longer side is 40: 4, 2 and .4 pixels."""
        assert scores_of.extent(BOX) == scores_of.extent(BOX[[1, 0, 3, 2]]) == 40
        assert scores_of.hits(np.array([4.0, 4.01, 2.0, 0.4, 0.41]), 40).tolist() == [5, 4, 3, 1]
        assert scores_of.hits(np.zeros(0), 40).tolist() == [0, 0, 0, 0]

    def test_points_and_pairs_are_counted_differently(self):
        """Of the first pair's point 1 of 1 is right, of the second's 1 of 3; the third has none and the fourth 0 of 1."""
        target = truth([[[30, 30]], [[10, 20], [20, 30], [50, 40]], [], [[30, 30]]], ["bird", "boat", "bird", "boat"])
        found = predicted([[[34, 30]], [[10, 20], [24.01, 30], [50, 90]], [], [[36, 30]]])
        columns = FAMILY.score(found, target)
        summary = FAMILY.summarize(columns)
        assert summary["pck@0.1"] == 2 / 5
        assert summary["pck@0.1_per_image"] == pytest.approx((1 + 1 / 3 + 0) / 3)
        assert summary["pck@0.05"] == summary["pck@0.01"] == 1 / 5
        assert np.isnan(columns["pck@0.1"]).tolist() == [False, False, True, False]
        assert FAMILY.breakdown(columns, target.meta) == {
            "pck@0.1/bird": 1, "pck@0.1/boat": 1 / 4, "pck@0.1/cat": None,
        }  # fmt: skip

    def test_every_pair_has_its_own_threshold(self):
        boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 80.0]])
        columns = FAMILY.score(predicted([[[7, 5]], [[12, 5]]]), truth([[[5, 5]], [[5, 5]]], ["cat"] * 2, boxes))
        assert columns["pck@0.1"].tolist() == [0, 1]

    def test_no_point_at_all(self):
        summary = FAMILY.summarize(FAMILY.score(predicted([[], []]), truth([[], []], ["cat", "cat"])))
        assert set(summary.values()) == {None}

    def test_floor_is_a_pixel_at_random(self):
        """Counted over all pixels of a picture of 23 x 17, one by one."""
        rng = np.random.default_rng(0)
        points = np.concatenate([rng.uniform(0, [23, 17], (20, 2)), [[0, 0], [23, 17], [11.5, 8.5]]])
        for size in (1.0, 30.0, 90.0, 400.0):
            hits = np.zeros(3)
            for x, y in points:
                away = [np.hypot(i + 0.5 - x, j + 0.5 - y) for i in range(23) for j in range(17)]
                hits += [np.mean(np.array(away) <= alpha * size) for alpha in (0.1, 0.05, 0.01)]
            np.testing.assert_allclose(scores_of.random_hits(points, size, (23.0, 17.0)), [len(points), *hits])

    def test_ceiling_is_the_nearest_cell(self):
        """4 x 3 cells of 10 x 20 pixels, of all of which the distances are measured here."""
        grid = np.array([4, 3, 10, 20], np.float32)
        points = np.random.default_rng(0).uniform(-5, 65, (50, 2))
        cells = np.array([[10 * i + 5, 20 * j + 10] for j in range(3) for i in range(4)])
        best = cells[[np.hypot(*(cells - point).T).argmin() for point in points]]
        np.testing.assert_allclose(scores_of.nearest_cells(points, grid), best)

    def test_ceiling_needs_a_grid_and_is_never_below(self):
        target = truth([[[30, 30], [12, 22]]], ["cat"])
        found = predicted([[[35, 35], [15, 25]]])
        assert FAMILY.ceiling(found, target) is None
        found.fields["grid"] = np.array([[10, 10, 10, 10.0]])
        best = FAMILY.ceiling(found, target)
        assert best.item("predicted", 0).tolist() == [[35, 35], [15, 25]]

    def test_what_cannot_be_scored(self):
        with pytest.raises(RunError, match=r"row 1 .*2 points are predicted, and 1"):
            FAMILY.score(predicted([[[1, 1]], [[1, 1], [2, 2]]]), truth([[[1, 1]], [[1, 1]]], ["cat", "cat"]))
        lacking = truth([[[1, 1]]], ["cat"])
        del lacking.fields["queries"]
        with pytest.raises(UsageError, match=r"data\.truth=keypoints"):
            FAMILY.check(lacking)


def grid_of(rows: int, columns: int, channels: int, cell: tuple[float, float], seed: int = 0) -> Grid:
    values = torch.randn(rows, columns, channels, generator=torch.Generator().manual_seed(seed))
    return Grid(functional.normalize(values, dim=2), cell)


class TestHead:
    def test_features_between_cells_are_those_of_grid_sample(self):
        grid = grid_of(5, 7, 6, (16, 10))
        points = torch.rand(40, 2, generator=torch.Generator().manual_seed(1)) * torch.tensor([130.0, 60]) - 5
        scaled = points / torch.tensor([7 * 16, 5 * 10]) * 2 - 1
        expected = functional.grid_sample(
            grid.values.permute(2, 0, 1)[None], scaled[None, None], padding_mode="border", align_corners=False
        )[0, :, 0].T
        torch.testing.assert_close(sampled(grid, points), functional.normalize(expected, dim=1))

    def test_a_shifted_map_is_found_shifted(self):
        """Cells of 8 x 4 pixels, moved by two columns and one row: 16 and 4 pixels."""
        one = grid_of(6, 9, 16, (8, 4))
        other = Grid(torch.roll(one.values, (1, 2), (0, 1)), (8, 4))
        queries = torch.tensor([[4.0, 2], [20, 14], [13, 3.5]])
        places, scores = transferred(one, other, queries, (6, 9), (8, 4))
        assert places.tolist() == [[20, 6], [36, 18], [28, 6]]  # 13 lies in the second column: 12 and 16 on
        np.testing.assert_allclose(scores[:2], 1, atol=1e-6)
        assert scores[2] < 1
        assert places.dtype == scores.dtype == np.float32

    def test_upsampled_is_interpolated_to_pixels(self):
        one, other = grid_of(4, 4, 8, (6, 6)), grid_of(4, 5, 8, (6, 6), seed=2)
        queries = torch.tensor([[7.0, 9], [20, 3], [12, 12]])
        places, scores = transferred(one, other, queries, (24, 30), (1, 1))
        pixels = functional.interpolate(other.values.permute(2, 0, 1)[None], (24, 30), mode="bilinear")[0]
        cosines = sampled(one, queries) @ functional.normalize(pixels.flatten(1), dim=0)
        best = cosines.argmax(dim=1)
        assert places.tolist() == [[int(k) % 30 + 0.5, int(k) // 30 + 0.5] for k in best]
        np.testing.assert_allclose(scores, cosines.max(dim=1).values, atol=1e-6)

    @pytest.mark.parametrize("upsample", [False, True])
    def test_blocks_do_not_show(self, upsample: bool, monkeypatch: pytest.MonkeyPatch):
        one, other = grid_of(8, 8, 8, (4, 4)), grid_of(8, 8, 8, (4, 4), seed=3)
        shape, cell = ((32, 32), (1, 1)) if upsample else ((8, 8), (4, 4))
        queries = torch.rand(11, 2, generator=torch.Generator().manual_seed(4)) * 32
        whole = transferred(one, other, queries, shape, cell)
        monkeypatch.setattr(point_transfer, "BLOCK", 300)
        parts = transferred(one, other, queries, shape, cell)
        np.testing.assert_array_equal(parts[0], whole[0])
        np.testing.assert_allclose(parts[1], whole[1], atol=1e-6)

    def test_of_no_queries_nothing_is_found(self):
        places, scores = transferred(
            grid_of(3, 3, 4, (1, 1)), grid_of(3, 3, 4, (1, 1)), torch.zeros(0, 2), (3, 3), (1, 1)
        )
        assert places.shape == (0, 2)
        assert scores.shape == (0,)

    def test_layers_side_by_side_and_frames(self):
        """Two layers of one grid; the second view is 90 x 40 pixels, of a map of 4 x 6 cells of which a half is padding."""
        generator = torch.Generator().manual_seed(0)
        maps = {key: [torch.randn(5, 4, 6, generator=generator).numpy() for _ in range(2)] for key in ("a", "b")}
        features = SimpleNamespace(
            names=["x/0", "x/1"], keys=["a", "b"], frames=np.array([[80, 120], [40, 90]]),
            extents=np.array([[1, 1], [0.5, 1]]), item=lambda key, row: maps[key][row],
        )  # fmt: skip
        query = np.array([[50.0, 30]])  # the centre of the cell in column 2 and row 1 of the first view
        found = point_transfer.predict(features, ArrayItems(["x"], {"queries": [query]}), False, 1)
        unit = {key: [m / np.linalg.norm(m, axis=0) for m in each] for key, each in maps.items()}
        cosines = sum(np.einsum("c,chw->hw", unit[k][0][:, 1, 2], unit[k][1][:, :2]) for k in ("a", "b")) / 2
        row, column = np.unravel_index(cosines.argmax(), (2, 6))
        np.testing.assert_allclose(found["predicted"].arrays[0], [[(column + 0.5) * 15, (row + 0.5) * 20]])
        np.testing.assert_allclose(found["scores"].arrays[0], [cosines.max()], atol=1e-6)
        assert found["grid"].tolist() == [[6, 2, 15, 20]]

    def test_a_data_set_without_queries(self):
        with pytest.raises(UsageError, match="gives no `queries`"):
            Transfer(TransferSettings()).read_given(ArrayItems(["a"], {}))


def write_spair(root: Path, pairs: dict[str, dict[str, Any]], split: str = "test") -> None:
    """The data set's own files; photos of a are 60 x 40, of b 50 x 70 pixels."""
    rng = np.random.default_rng(0)
    for folder in (f"PairAnnotation/{split}", "Layout/large", "JPEGImages/cat", "JPEGImages/dog"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for kind in ("cat", "dog"):
        for name, size in {"2008_a": (60, 40), "2009_b": (50, 70)}.items():
            small = Image.fromarray(rng.integers(0, 255, (5, 5, 3), np.uint8))
            small.resize(size, Image.Resampling.BICUBIC).save(root / f"JPEGImages/{kind}/{name}.jpg", quality=95)
    for name, changed in pairs.items():
        told = {
            "pair_id": 0, "filename": name, "category": name.split(":")[1], "mirror": 0,
            "src_imname": "2008_a.jpg", "trg_imname": "2009_b.jpg", "src_imsize": [60, 40, 3], "trg_imsize": [50, 70, 3],
            "src_bndbox": [1, 1, 50, 39], "trg_bndbox": [5, 10, 45, 60], "src_kps": [[10, 20], [30, 5]],
            "trg_kps": [[12, 22], [33, 44]], "viewpoint_variation": 2, "scale_variation": 0, "truncation": 3, "occlusion": 1,
        }  # fmt: skip
        (root / f"PairAnnotation/{split}/{name}.json").write_text(json.dumps({**told, **changed}))
    (root / f"Layout/large/{split}.txt").write_text("\r\n".join(pairs) + "\r\n")


PAIR, OTHER = "000001-2008_a-2009_b:cat", "000000-2008_a-2009_b:dog"


class TestSpair:
    def test_reads_its_own_layout(self, tmp_path: Path):
        write_spair(tmp_path, {PAIR: {}, OTHER: {"src_kps": [], "trg_kps": []}})
        data = Spair(Settings(root=str(tmp_path)))
        assert data.items("test") == [f"test/{OTHER}", f"test/{PAIR}"]
        item = f"test/{PAIR}"
        assert data.views(item) == ("JPEGImages/cat/2008_a.jpg", "JPEGImages/cat/2009_b.jpg")
        assert [data.image(view).shape for view in data.views(item)] == [(40, 60, 3), (70, 50, 3)]
        target = data.target(item)
        assert target["queries"].tolist() == [[10.5, 20.5], [30.5, 5.5]]
        assert target["points"].tolist() == [[12.5, 22.5], [33.5, 44.5]]
        assert target["box"].tolist() == [5.5, 10.5, 45.5, 60.5]
        assert scores_of.extent(target["box"]) == 50  # as the devkit counts: 60 - 10
        assert (target["size0"].tolist(), target["size1"].tolist()) == ([60, 40], [50, 70])
        assert data.target(f"test/{OTHER}")["points"].shape == (0, 2)
        assert data.category(item) == {
            "class": "cat", "viewpoint_variation": "hard", "scale_variation": "easy", "truncation": "both",
            "occlusion": "source",
        }  # fmt: skip
        assert (data.label(item), data.meta()) == ("cat", {"classes": ["cat", "dog"]})

    def test_another_annotation_is_another_data_set(self, tmp_path: Path):
        write_spair(tmp_path, {PAIR: {}})
        before = Spair(Settings(root=str(tmp_path))).target_files(f"test/{PAIR}")
        write_spair(tmp_path, {PAIR: {"trg_kps": [[12, 22], [33, 45]]}})
        assert Spair(Settings(root=str(tmp_path))).target_files(f"test/{PAIR}") != before

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"trg_kps": [[1, 2]]}, "src_kps are 2 points and trg_kps 1"),
            ({"trg_bndbox": [5, 10, 5, 60]}, "trg_bndbox"),
            ({"src_imname": "../2008_a.jpg"}, "no name of a folder or file"),
            ({"src_kps": [[1, 2, 3], [4, 5, 6]]}, "pairs of numbers"),
            ({"src_imsize": [0, 3]}, "width and height"),
        ],
    )
    def test_annotations_that_cannot_be_used(self, tmp_path: Path, changed: dict[str, Any], said: str):
        write_spair(tmp_path, {PAIR: changed})
        with pytest.raises(UsageError, match=said) as caught:
            Spair(Settings(root=str(tmp_path))).views(f"test/{PAIR}")
        assert f"PairAnnotation/test/{PAIR}.json" in str(caught.value)

    def test_a_missing_field_and_a_missing_file_are_named(self, tmp_path: Path):
        write_spair(tmp_path, {PAIR: {}})
        path = tmp_path / f"PairAnnotation/test/{PAIR}.json"
        told = json.loads(path.read_text())
        del told["trg_kps"]
        path.write_text(json.dumps(told))
        with pytest.raises(UsageError, match="it has no 'trg_kps'"):
            Spair(Settings(root=str(tmp_path))).target(f"test/{PAIR}")
        path.unlink()
        with pytest.raises(UsageError, match="No such file"):
            Spair(Settings(root=str(tmp_path))).target(f"test/{PAIR}")

    def test_splits_and_lists(self, tmp_path: Path):
        write_spair(tmp_path, {PAIR: {}}, "trn")
        data = Spair(Settings(root=str(tmp_path)))
        assert data.items("trn") == [f"trn/{PAIR}"]
        with pytest.raises(UsageError, match=r"no list test\.txt; there are trn"):
            data.items("test")
        (tmp_path / "Layout/large/trn.txt").write_text(f"{PAIR}\n{PAIR}\n")
        with pytest.raises(UsageError, match="a second time"):
            data.items("trn")
        with pytest.raises(UsageError, match="Layout/small"):
            Spair(Settings(root=str(tmp_path), layout="small"))


def run(outputs: Path, conf: str, *arguments: str, benchmark: str = "keypoint_transfer", **given: Any) -> Any:
    (end,) = export(conf, benchmark, arguments=arguments, outputs=outputs, say=lambda _: None, **given)
    if isinstance(end, BenchkitError):
        raise end
    return evaluate(benchmark, end.tag, outputs=outputs)


class TestWholeWay:
    def test_training_helps_and_lies_between_floor_and_ceiling(self, tmp_path: Path):
        given = ("data.n_test=12", "model.features.layers=3")
        trained, twin = (run(tmp_path, "efficientnet_lite0", *given, random=r, tag=str(r)) for r in (False, True))
        assert trained.summaries["pck@0.1"] > 1.2 * twin.summaries["pck@0.1"]
        for found in (trained.summaries, twin.summaries):
            for name in ("pck@0.1", "pck@0.1_per_image", "pck@0.05"):
                assert found[f"floor_{name}"] < found[name] <= found[f"ceiling_{name}"] < 1
        assert trained.summaries["floor_pck@0.1"] == twin.summaries["floor_pck@0.1"]
        fine = run(tmp_path, "efficientnet_lite0", *given, "model.head.upsample=true", tag="fine").summaries
        assert fine["pck@0.05"] > trained.summaries["pck@0.05"]
        assert fine["ceiling_pck@0.1"] == 1

    def test_photos_in_spairs_layout(self, tmp_path: Path):
        """The target is the source itself: every keypoint is found in its own cell, and the empty pair counts nowhere."""
        same = {"trg_imname": "2008_a.jpg", "trg_imsize": [60, 40, 3], "trg_kps": [[10, 20], [30, 5]],
                "trg_bndbox": [0, 0, 59, 39]}  # fmt: skip
        empty = {"src_kps": [], "trg_kps": []}
        write_spair(tmp_path / "data", {PAIR: same, OTHER: empty})
        given = (f"data.root={tmp_path / 'data'}", "model.features.layers=2")
        found = run(tmp_path, "efficientnet_lite0", *given, benchmark="spair71k", tag="t")
        summary = found.summaries
        assert summary["pck@0.1"] == summary["ceiling_pck@0.1"] == summary["pck@0.1/cat"] == 1
        assert summary["pck@0.1/dog"] is None
        assert summary["n_undefined_pck@0.1_per_image"] == 1
        assert found.items["category/truncation"] == ["both", "both"]
        assert run(tmp_path, "efficientnet_lite0", *given, tag="own").summaries["pck@0.1"] == 1
