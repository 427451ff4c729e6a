"""Matches on warped planes: geometry by hand, an independent computation, and what must rise and fall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from benchkit.backbones.base import Preprocess
from benchkit.conf.build import build
from benchkit.datasets.warped import Settings as WarpedSettings
from benchkit.datasets.warped import Warped
from benchkit.errors import BenchkitError, RunError
from benchkit.eval import evaluate
from benchkit.eval.correspondence import Correspondence, Settings
from benchkit.export import export
from benchkit.export.model import input_preprocess
from benchkit.geometry import homography as geometry
from benchkit.heads.match import Settings as MatchSettings
from benchkit.heads.solvers.grid_matches import match
from benchkit.metrics import correspondence as scores_of
from benchkit.provenance.record import read_record
from benchkit.registry import find
from benchkit.store.items import ArrayItems
from benchkit.store.table import Table
from benchkit.viz.pairs import colour

SHIFT = np.array([[1, 0, 3.0], [0, 1, -2.0], [0, 0, 1]])


class TestGeometry:
    def test_four_points_make_it(self):
        rng = np.random.default_rng(0)
        source, target = 100 * np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) + rng.uniform(-20, 20, (2, 4, 2))
        found = geometry.from_corners(source, target)
        np.testing.assert_allclose(geometry.transfer(found, source), target, atol=1e-9)
        assert found[2, 2] == 1

    def test_corners_move_by_at_most_the_strength(self):
        corners = np.array([[0, 0], [200, 0], [200, 100], [0, 100.0]])
        for seed in range(50):
            found = geometry.random_warp(np.random.default_rng(seed), 100, 200, 0.2)
            moved = geometry.transfer(found, corners) - corners
            assert (np.abs(moved) <= [40 + 1e-6, 20 + 1e-6]).all()
        np.testing.assert_allclose(geometry.random_warp(np.random.default_rng(0), 100, 200, 0), np.eye(3), atol=1e-12)
        with pytest.raises(ValueError, match="max_warp"):
            geometry.random_warp(np.random.default_rng(0), 100, 200, 0.25)

    def test_points_behind_the_horizon_have_no_image(self):
        found = geometry.transfer(
            np.array([[1, 0, 0], [0, 1, 0], [-0.1, 0, 1.0]]), np.array([[5, 5], [10, 5], [15, 5.0]])
        )
        np.testing.assert_allclose(found[0], [10, 10])
        assert np.isinf(found[1:]).all()

    def test_pixels_go_where_points_go(self):
        """A bright pixel's centre lands in the pixel that its image is in; whole shifts copy; the rest is black."""
        image = np.zeros((20, 30, 3), np.uint8)
        image[10, 7] = 200
        moved = geometry.warped(image, SHIFT)
        assert moved[8, 10].tolist() == [200] * 3
        assert np.count_nonzero(moved) == 3
        full = np.full((20, 30, 3), 255, np.uint8)
        assert (geometry.warped(full, SHIFT)[:, :3] == 0).all()
        assert (geometry.warped(full, SHIFT)[:18, 3:] == 255).all()
        half = geometry.warped(image, np.array([[1, 0, 0.5], [0, 1, 0], [0, 0, 1]]))
        assert half[10, 7].tolist() == half[10, 8].tolist() == [100] * 3


class TestScores:
    def test_by_hand(self):
        """Shift (3, -2): errors 0, 5 and, of 12 pixels, none within 10."""
        points0 = np.array([[1.0, 5], [2, 5], [3, 5]])
        points1 = np.array([[4.0, 3], [8, 7], [6, 15]])
        np.testing.assert_allclose(scores_of.errors(points0, points1, SHIFT), [0, 5, 12])
        assert scores_of.sums(np.array([0, 5, 12.0])).tolist() == [3, 1, 1, 1, 2, 1.5]  # 5 is not below 5
        assert scores_of.shares(np.array([3, 1, 1, 1, 2, 1.5])).tolist() == [1 / 3, 1 / 3, 1 / 3, 2 / 3, 0.5]
        assert scores_of.shares(np.zeros(6)).tolist() == [0] * 5
        assert scores_of.sums(np.array([0, 5, 12.0]), unit=4).tolist() == [3, 1, 2, 3, 3, 1 + 0.875 + 0.7]

    def test_the_area_is_that_under_the_recall_curve(self):
        rng = np.random.default_rng(0)
        distances = rng.uniform(0, 15, 200)
        steps = np.linspace(0, 10, 100_001)
        curve = np.searchsorted(np.sort(distances), steps, side="right") / len(distances)
        area = np.trapezoid(curve, steps) / 10
        assert scores_of.shares(scores_of.sums(distances))[-1] == pytest.approx(area, abs=1e-4)

    def family(self, **settings: Any) -> Correspondence:
        return Correspondence(Settings(**settings))

    def items(self, matches: list[list[int]]) -> tuple[ArrayItems, ArrayItems]:
        """Two items: a row of three points 10 pixels apart in both views; the truth moves by 12."""
        points = np.tile(np.array([[5.0, 5], [15, 5], [25, 5]]), (2, 1, 1))
        fields = {"keypoints0": points, "keypoints1": points, "matches0": np.array(matches, np.int32)}
        truth = np.tile(np.array([[1, 0, 12.0], [0, 1, 0], [0, 0, 1]]), (2, 1, 1))
        names = ["a", "b"]
        return ArrayItems(names, fields), ArrayItems(names, {"homography": truth, "size0": np.full((2, 2), 30.0)}, {})

    def test_pooled_over_matches_and_an_item_without_any_has_0(self):
        """a: 5 -> 17, matched to 15 (2 off), 15 -> 27, to 5 (22 off), none; b: no match."""
        predictions, truth = self.items([[1, 0, -1], [-1, -1, -1]])
        columns = self.family().score(predictions, truth)
        found = self.family().summarize(columns)
        assert columns["recall@5"].tolist() == [0.5, 0]
        assert found["recall@5px"] == 0.5
        assert found["recall@2px"] == 0
        assert found["auc@10px"] == pytest.approx((0.8 + 0) / 2)
        assert found["num_matches"] == 1
        in_cells = self.family(threshold_units="patch")
        assert in_cells.metrics()[0].name == "recall@1p"
        assert in_cells.summarize(in_cells.score(predictions, truth))["recall@1p"] == 0.5

    def test_ceiling_and_floor_are_over_the_same_matches(self):
        """Nearest to 17 is 15, to 27 is 25: both 2 off. At random: (|17-5|, |17-15|, |17-25|) = 12 2 8, and 22 12 2."""
        predictions, truth = self.items([[1, 0, -1], [-1, -1, -1]])
        family = self.family()
        best = family.summarize(family.score(family.ceiling(predictions, truth), truth))
        assert (best["recall@5px"], best["recall@2px"], best["num_matches"]) == (1, 0, 1)
        floor = family.summarize(family.chance(truth, predictions))
        assert floor["recall@5px"] == pytest.approx((1 / 3 + 1 / 3) / 2)
        assert floor["recall@10px"] == pytest.approx((2 / 3 + 1 / 3) / 2)
        assert floor["num_matches"] == 1

    @pytest.mark.parametrize(
        ("unit", "column", "name"), [("pixel", "recall@5", "recall@5px"), ("patch", "recall@1", "recall@1p")]
    )
    def test_pictures_go_by_the_headline_in_its_unit(self, unit: str, column: str, name: str):
        """Cells are 4 pixels wide; of three matches one is right, one is off by 20 pixels, one by 5 units."""
        family = Correspondence(Settings(threshold_units=unit))
        cell = 1 if unit == "pixel" else 4
        points = np.array([[0, 0], [4, 0], [8, 0.0]])
        prediction = {"keypoints0": points + np.array([[0, 0], [20, 0], [5 * cell, 0]]), "keypoints1": points,
                      "matches0": np.arange(3)}  # fmt: skip
        size = np.array([100.0, 80])
        target = {"homography": np.eye(3), "size0": size, "size1": size}
        axes = Figure().subplots()
        family.draw(axes, prediction, target)
        far = 20 / cell / 10
        np.testing.assert_allclose([line.get_color() for line in axes.lines], [colour(0), colour(far), colour(0.5)])
        columns = family.score(*(ArrayItems(["a"], {k: [v] for k, v in each.items()}) for each in (prediction, target)))
        assert family.order(columns) == (column, "higher")
        assert family.metrics()[0].name == name
        assert (
            family.told(column, {k: float(v[0]) for k, v in columns.items() if v.ndim == 1})
            == f"{name} 0.333, 3 matches"
        )

    def test_matches_that_name_no_keypoint(self):
        predictions, truth = self.items([[1, 0, 3], [0, 0, 0]])
        with pytest.raises(RunError, match="row 0"):
            self.family().score(predictions, truth)


class TestMatch:
    def test_agrees_with_all_pairs(self):
        generator = torch.Generator().manual_seed(0)
        one, other = (torch.nn.functional.normalize(torch.randn(n, 8, generator=generator), dim=1) for n in (40, 50))
        cosines = (one.double() @ other.double().T).numpy()
        first = cosines.argmax(axis=1)
        distances = np.sqrt(2 - 2 * np.sort(cosines, axis=1)[:, ::-1][:, :2])
        for ratio in (1.0, 0.9, 0.8):
            for mutual in (False, True):
                matches, scores = match(one, other, MatchSettings(ratio=ratio, mutual=mutual))
                kept = np.ones(40, bool) if ratio == 1 else distances[:, 0] < ratio * distances[:, 1]
                kept &= (cosines.argmax(axis=0)[first] == np.arange(40)) | (not mutual)
                assert matches.tolist() == np.where(kept, first, -1).tolist()
                np.testing.assert_allclose(scores, np.where(kept, cosines.max(axis=1), 0), atol=1e-6)
        few, _ = match(one, other, MatchSettings(ratio=1.0, max_matches=7))
        assert set(np.flatnonzero(few >= 0)) == set(np.argsort(-cosines.max(axis=1))[:7])
        near, _ = match(one, other, MatchSettings(ratio=1.0, distance=0.7))
        assert ((near >= 0) == (distances[:, 0] <= 0.7)).all()

    def test_blocks_do_not_show(self, monkeypatch: pytest.MonkeyPatch):
        generator = torch.Generator().manual_seed(0)
        one, other = (torch.nn.functional.normalize(torch.randn(90, 16, generator=generator), dim=1) for _ in range(2))
        whole = match(one, other, MatchSettings(mutual=True))
        monkeypatch.setattr("benchkit.heads.solvers.grid_matches.BLOCK", 700)
        np.testing.assert_array_equal(match(one, other, MatchSettings(mutual=True))[0], whole[0])

    def test_collapsed_features_match_nothing(self):
        same = torch.nn.functional.normalize(torch.ones(5, 3), dim=1)
        assert (match(same, same, MatchSettings())[0] == -1).all()
        alone, _ = match(same[:1], same[:1], MatchSettings())
        assert alone.tolist() == [0]  # one cell has no second nearest


class Own(Warped):
    """A user's own pairs: another data set has none of the family's settings."""

    Settings = WarpedSettings


def run(tmp_path: Path, conf: str, *arguments: str, random: bool = False, tag: str = "t") -> dict[str, Any]:
    (end,) = export(
        conf, "correspondence", arguments=arguments, random=random, tag=tag, outputs=tmp_path, say=lambda _: None
    )
    if isinstance(end, BenchkitError):
        raise end
    return evaluate("correspondence", end.tag, outputs=tmp_path).summaries


class TestWholeWay:
    def test_no_warp_is_perfect_and_warps_cost(self, tmp_path: Path):
        """Strengths 0 and .2: equal views have equal features, so every match is right."""
        given = ("data.n_test=6", "model.features.layers=3")
        still = run(tmp_path, "efficientnet_lite0", *given, "data.warps=0", tag="still")
        assert still["recall@1px"] == still["auc@10px"] == 1
        moved = {}
        for warp in ("0.05", "0.2"):
            moved[warp] = run(tmp_path, "efficientnet_lite0", *given, f"data.warps={warp}", tag=warp)
        assert 1 > moved["0.05"]["auc@10px"] > moved["0.2"]["auc@10px"] > moved["0.2"]["floor_auc@10px"]
        for found in moved.values():
            for name in ("recall@1px", "recall@5px", "auc@10px"):
                assert found[name] <= found[f"ceiling_{name}"]

    def test_items_of_several_strengths_share_an_image(self, tmp_path: Path):
        component = find("datasets", "warped")
        data = component.build(component.settings(n_test=3, warps=[0.1, 0.2], side=32))
        assert data.items("test")[:2] == ["test/000000~0.1", "test/000000~0.2"]
        assert data.views("test/000000~0.1") == ("test/000000/source", "test/000000~0.1/warped")
        assert data.group("test/000000~0.2") == "test/000000"
        weak, strong = (data.target(f"test/000000~{w}")["homography"] for w in (0.1, 0.2))
        corner = np.array([[0.0, 0]])
        np.testing.assert_allclose(geometry.transfer(strong, corner), 2 * geometry.transfer(weak, corner))

    def test_a_folder_of_photos(self, tmp_path: Path):
        """Views are the central square; another photo or another seed is another item."""
        (tmp_path / "photos").mkdir()
        pixels = np.random.default_rng(0).integers(0, 255, (60, 100, 3), np.uint8)
        for name in ("a", "b"):
            Image.fromarray(pixels).save(tmp_path / "photos" / f"{name}.png")
        component = find("datasets", "warped")
        data = component.build(component.settings(root=str(tmp_path / "photos"), side=60, decoder="pil"))
        np.testing.assert_array_equal(data.image("a.png/source"), pixels[:, 20:80])
        assert data.recipe("a.png/source") == data.recipe("b.png/source")  # the same bytes: one row of the bank
        assert data.recipe("a.png/warped") != data.recipe("b.png/warped")
        other = component.build(component.settings(root=str(tmp_path / "photos"), side=60, seed=1))
        assert (other.target("a.png")["homography"] != data.target("a.png")["homography"]).any()

    def test_beside_a_benchmark_that_crops_each_keeps_its_own_frame(self, tmp_path: Path):
        ends = export("color_histogram", ["correspondence", "classification"], outputs=tmp_path, say=lambda _: None,
                      arguments=["data.n_test=24", "benchmarks.classification.data.n_train=24"])  # fmt: skip
        frames = [read_record(end.folder)["backbone"]["identity"]["preprocess"]["resize"] for end in ends]
        assert frames == ["squash", "crop"]

    def test_a_crop_is_refused(self, tmp_path: Path):
        """Whole views without a word, also of a data set of one's own; a short side keeps the aspect."""
        with pytest.raises(BenchkitError, match="keypoints of whole views"):
            run(tmp_path, "color_histogram", "data.resize=crop", "data.n_test=2")
        for given, resize in (
            ("data.resize_short=96", "short"),
            ("data.size=96", "squash"),
            ("data.resize=native", "native"),
        ):
            conf = build("color_histogram", "correspondence", [given])
            assert input_preprocess(conf, Preprocess(), 16, "m").resize == resize
        for given, resize in (("data.size=96", "pad"), ("data.limit=2", "native")):
            conf = build("color_histogram", "correspondence", [given])
            assert input_preprocess(conf, Preprocess(resize="native"), 1, "sift").resize == resize
        conf = build("color_histogram", "correspondence", ["data.name=test_correspondence.Own"])
        assert input_preprocess(conf, Preprocess(), 16, "m").resize == "squash"

    @pytest.mark.data
    @pytest.mark.slow
    def test_training_helps_on_real_photos(self, tmp_path: Path, shared: Path):
        found = {}
        for random in (False, True):
            given = (f"data.root={shared / 'data' / 'caltech101_subset'}", "data.limit=60", "model.features.layers=3")
            found[random] = run(tmp_path, "efficientnet_lite0", *given, random=random, tag=str(random))
        assert found[False]["recall@5px"] > 1.5 * found[True]["recall@5px"]
        assert found[False]["auc@10px"] <= found[False]["ceiling_auc@10px"]


def test_padded_maps_can_be_halved(tmp_path: Path):
    """Sides are padded to what both the model's stride and the cells' divide: 224 becomes 256, stage 4 has 8 cells, then 4."""
    given = (
        "data.n_test=2",
        "data.resize=pad",
        "model.features.layers=4",
        "model.features.dense_stride=2",
        "model.batch_size=2",
    )
    (end,) = export(
        "efficientnet_lite0", "correspondence", arguments=given, random=True, outputs=tmp_path, say=lambda _: None
    )
    with Table(end.folder / "predictions.h5", "predictions") as table:
        points = table.item("keypoints0", 0)
    # of 4 x 4 cells of 64 input pixels all show some of the 224: the last ones half
    assert sorted(set(points[:, 0].tolist())) == [32, 96, 160, 224]
