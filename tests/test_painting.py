"""Painting Vision: every number by hand, labels of other taxonomies, walls that are resampled as wholes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchkit.conf.find import configs_dir
from benchkit.eval import evaluate
from benchkit.eval.painting_vision import PaintingVision, Settings
from benchkit.export import export
from benchkit.heads.base import ModelSide
from benchkit.heads.segmenter import Segmenter
from benchkit.heads.segmenter import Settings as SegmenterSettings
from benchkit.heads.solvers.dense_grid import Level
from benchkit.heads.solvers.dense_masks import mask_of
from benchkit.heads.solvers.dense_source import Sample
from benchkit.metrics import painting
from benchkit.provenance.strict import read_lines
from benchkit.registry import find
from benchkit.store.items import ArrayItems

FAMILY = PaintingVision(Settings())
META = {"classes": [str(k) for k in range(10)], "ignore": 255}

TRUTH = [
    [
        [1, 1, 2, 2],
        [1, 1, 2, 2],
        [8, 8, 0, 255],
        [8, 8, 4, 255],
    ],  # unpainted 4, painted 4, window 4, other 1, skirting 1
    [[3, 3, 3, 3], [0, 0, 0, 0], [0, 0, 0, 0], [9, 9, 9, 9]],  # no decided wall, no window
]
PREDICTED = [
    [[1, 2, 2, 2], [1, 0, 2, 8], [8, 8, 8, 2], [0, 8, 4, 8]],
    [[3, 3, 1, 0], [0, 0, 0, 0], [0, 8, 0, 0], [9, 9, 9, 0]],
]


def items(masks: Any, **meta: Any) -> ArrayItems:
    return ArrayItems([f"{k}" for k in range(len(masks))], {"mask": np.array(masks, np.uint8)}, {**META, **meta})


def scored(predicted: Any, truth: Any = TRUTH, **meta: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    columns = FAMILY.score(items(predicted, **meta), items(truth))
    return columns, {**FAMILY.summarize(columns), **FAMILY.breakdown(columns, META)}


class TestByHand:
    """Frame 0 has 14 known pixels, frame 1 has 16.

    Shared classes (other, wall, window), frame 0: true 2, 8, 4. Predicted over the known pixels: other (1,1) (3,0) (3,2)
    = 3, wall (0,0-3) (1,0) (1,2) = 6, window (1,3) (2,0-2) (3,1) = 5. Right: other (3,2) = 1, wall 6, window (2,0) (2,1)
    (3,1) = 3. Frame 1: true 12, 4, 0; predicted 12, 3, 1: window (2,1); wall (0,0-2); right: other 11, wall 3.
    Together: other 12 of 14 true and 15 predicted: 12/17; wall 9 of 12 and 9: 9/12; window 3 of 4 and 6: 3/7.
    """

    def test_the_shared_tier(self):
        columns, found = scored(PREDICTED)
        assert columns["stats/shared_true_positives"].tolist() == [[1, 6, 3], [11, 3, 0]]
        assert columns["stats/shared_predicted"].tolist() == [[3, 6, 5], [12, 3, 1]]
        assert columns["stats/shared_true"].tolist() == [[2, 8, 4], [12, 4, 0]]
        assert found["iou/other"] == pytest.approx(12 / 17)
        assert found["iou/wall"] == pytest.approx(9 / 12)
        assert found["iou/window"] == pytest.approx(3 / 7)
        assert found["mIoU"] == pytest.approx((12 / 17 + 9 / 12 + 3 / 7) / 3)
        assert found["window_precision"] == pytest.approx(3 / 6)
        assert found["window_recall"] == pytest.approx(3 / 4)
        # frame 0: 1/4, 6/8, 3/6; frame 1, without a true window: 11/13, 3/4
        assert columns["mIoU_per_image"] == pytest.approx([(1 / 4 + 6 / 8 + 3 / 6) / 3, (11 / 13 + 3 / 4) / 2])

    def test_the_paint_tier(self):
        """Frame 0: painted 4 of 8 decided; predicted, void left aside, painted (0,1) (0,2) (0,3) (1,2) = 4 of 6 decided.

        The ten classes: 0 true 1 + 8, predicted 2 + 9, right 0 + 7: 7/13. 1: true 4, predicted 3, right 2: 2/5. 2: 4, 4, 3:
        3/5. 3: 4, 2, 2: 2/4. 4: 1, 1, 1: 1. 8: 4, 6, 3: 3/7. 9: 4, 3, 3: 3/4. The others do not occur.
        """
        columns, found = scored(PREDICTED)
        assert columns["painted_coverage_error"][0] == pytest.approx(abs(4 / 6 - 4 / 8))
        assert np.isnan(columns["painted_coverage_error"][1])  # no decided wall in the truth
        assert found["painted_coverage_mae"] == pytest.approx(abs(4 / 6 - 4 / 8))
        ious = [7 / 13, 2 / 5, 3 / 5, 2 / 4, 1, 3 / 7, 3 / 4]
        assert found["mIoU_full_10class"] == pytest.approx(sum(ious) / 7)
        assert found["classes_in_truth"] == 7
        assert found["undecided_predictions"] == 0

    def test_a_prediction_that_decides_no_wall_gets_the_worst_error(self):
        """True share 1/2, then 3/4: saying nothing costs max(s, 1 - s); so does `wall_uncertain` everywhere."""
        truth = [TRUTH[0], [[2, 2, 2, 1]] * 4]
        for nothing in (0, 3):
            columns, found = scored(np.full((2, 4, 4), nothing), truth)
            assert columns["painted_coverage_error"].tolist() == [0.5, 0.75]
            assert found["painted_coverage_mae"] == pytest.approx(0.625)
            assert found["undecided_predictions"] == 2

    def test_a_class_that_is_absent_from_the_truth_is_null_and_not_in_the_mean(self):
        """Semantic segmentation would count a predicted window as an IoU of 0; the specification leaves it out."""
        truth, predicted = [[[0, 0, 1, 1]] * 4], [[[0, 8, 1, 1]] * 4]
        _, found = scored(predicted, truth)
        assert found["iou/window"] is None
        assert found["mIoU"] == pytest.approx((1 / 2 + 1) / 2)
        assert found["window_precision"] == 0
        assert found["window_recall"] is None
        _, found = scored(truth, truth)
        assert found["window_precision"] is None  # nothing is called a window
        assert found["mIoU"] == 1

    def test_void_everywhere_is_undefined(self):
        columns, found = scored(PREDICTED[:1], np.full((1, 4, 4), 255))
        assert np.isnan(columns["mIoU_per_image"][0])
        assert {name: value for name, value in found.items() if value is not None} == {
            "classes_in_truth": 0, "undecided_predictions": 0
        }  # fmt: skip

    def test_other_everywhere_is_the_floor(self):
        """IoU of other 14/30, of the rest 0; coverage as bad as it can be."""
        columns = FAMILY.chance(items(TRUTH), items(PREDICTED))
        floor = FAMILY.summarize(columns)
        assert floor["mIoU"] == pytest.approx(14 / 30 / 3)
        assert floor["painted_coverage_mae"] == 0.5
        _, found = scored(np.zeros((2, 4, 4)))
        assert {name: found[name] for name in floor} == floor

    def test_a_model_of_the_shared_classes_alone_has_no_second_tier(self):
        _, full = scored(PREDICTED)
        _, found = scored(painting.shared(np.array(PREDICTED, np.uint8)), labels="shared")
        for name in ("mIoU", "iou/other", "iou/wall", "iou/window", "window_precision", "window_recall"):
            assert found[name] == full[name]
        for name in ("painted_coverage_mae", "mIoU_full_10class", "undecided_predictions"):
            assert found[name] is None


LISTS = {  # shipped list -> what is no `other` in it, and what only sounds so
    "ade20k": ({"wall": ["wall"], "window": ["windowpane"]}, []),
    "coco_stuff": ({"wall": [], "window": []}, ["wall-", "window-"]),
    "cityscapes": ({"wall": ["wall"], "window": []}, []),
    "voc": ({"wall": [], "window": []}, []),
}


class TestProjection:
    @pytest.mark.parametrize("name", LISTS)
    def test_name_by_name(self, name: str):
        labels = [line for _, line in read_lines(configs_dir() / "labels" / f"{name}.txt")]
        found = painting.project([[label] for label in labels])
        told, near = LISTS[name]
        assert found.told == told
        for label, shared in zip(labels, found.classes, strict=True):
            assert shared == (1 if label in told["wall"] else 2 if label in told["window"] else 0), label
        assert all(any(start in label for start in near) for label in found.near)
        assert bool(found.near) == bool(near)

    @pytest.mark.parametrize(
        ("label", "shared"),
        [
            ("wall", 1), ("Wall", 1), ("windowpane;window", 2), ("windowpane, window", 2), ("window", 2), (" window ; pane", 2),
            ("wall-brick", 0), ("window-other", 0), ("walls", 0), ("wall brick", 0), ("wall_painted", 0), ("other", 0), ("", 0),
        ],
    )  # fmt: skip
    def test_synonyms(self, label: str, shared: int):
        assert painting.project([[label]]).classes.tolist() == [shared]

    def test_taxonomy(self):
        assert painting.shared(np.arange(10, dtype=np.uint8)).tolist() == [0, 1, 1, 1, 0, 0, 0, 0, 2, 0]
        assert painting.shared(np.array([255], np.uint8)).tolist() == [255]
        names = [line for _, line in read_lines(configs_dir() / "labels" / "painting.txt")]
        assert [names[k] for k in (0, 1, 2, 3, 8)] == [
            "other",
            "wall_unpainted",
            "wall_painted",
            "wall_uncertain",
            "window",
        ]

    def prepared(self, labels: list[str], **said: str) -> tuple[Segmenter, list[str]]:
        head, told = Segmenter(SegmenterSettings(map=said)), []
        head.say = told.append
        names = [line for _, line in read_lines(configs_dir() / "labels" / "painting.txt")]
        meta = {"classes": names, "task": "semantic", "project": FAMILY.project}
        head.prepare(ModelSide("m", tuple(("", (label,)) for label in labels)), meta)
        return head, told

    def test_a_generic_model_is_projected_and_says_what_only_sounds_like_a_wall(self):
        head, told = self.prepared(["wall-brick", "floor", "windowpane;window"])
        assert head.meta()["labels"] == "shared"
        assert head.projection.classes.tolist() == [0, 0, 2]
        assert "wall-brick is neither wall nor window" in told[0]

    def test_a_model_of_the_ten_classes_keeps_them_in_any_order(self):
        names = [line for _, line in read_lines(configs_dir() / "labels" / "painting.txt")]
        head, told = self.prepared(names[::-1])
        assert "labels" not in head.meta()
        assert head.matching.matched == {k: [9 - k] for k in range(10)}
        assert told == []

    def test_the_conf_may_map_by_itself(self):
        head, _ = self.prepared(["brick", "pane", "rest"], wall_uncertain="brick", window="pane", other="rest")
        assert head.matching.matched == {0: [2], 3: [0], 8: [1]}


def test_logits_are_resized_before_the_largest_wins():
    """Two cells in a row, (2, 0, 1.8) and (0, 2, 1.8): bilinear, the third class wins between them; labels that are
    resized after the largest has won never show it."""
    maps = torch.tensor([[[2.0, 0.0]], [[0.0, 2.0]], [[1.8, 1.8]]])
    sample = Sample("a", (maps.numpy(),), (Level.of((1, 2), (1.0, 1.0)),), (1, 8))
    found = mask_of(maps, sample, {0: [0], 1: [1], 2: [2]}, "logits")
    assert found.tolist() == [[0, 0, 2, 2, 2, 2, 1, 1]]
    late = np.repeat(maps.argmax(dim=0).numpy(), 4, axis=1)
    assert late.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1]]


def test_masks_are_resized_to_the_nearest_label():
    """In the cropped frame a mask keeps its labels: no label between two others appears."""
    from benchkit.preprocess import Preprocess

    mask = np.zeros((40, 40), np.uint8)
    mask[:, 20:] = 8
    made = Preprocess(size=24, resize="crop", short=30, interpolation="bilinear", mean=(0, 0, 0), std=(1, 1, 1))
    found = made.framed(mask)
    assert found.shape == (24, 24)
    assert set(np.unique(found)) == {0, 8}
    assert (found[:, :12] == 0).all()
    assert (found[:, 12:] == 8).all()


class TestSceneWalls:
    def made(self, **settings: Any) -> Any:
        component = find("datasets", "scene_walls")
        return component.build(component.settings(**settings))

    def test_frames_are_a_function_of_their_names(self):
        data = self.made(side=64)
        for item in ("test/000000", "train/000007"):
            image, mask = data.image(item), data.target(item)["mask"]
            find("datasets", "scene_walls").module._rendered.cache_clear()
            np.testing.assert_array_equal(self.made(side=64).image(item), image)
            np.testing.assert_array_equal(self.made(side=64).target(item)["mask"], mask)
            assert image.shape == (48, 64, 3)
            assert mask.shape == (48, 64)
        assert (self.made(side=64, seed=1).image(item) != image).any()

    def test_walls_are_in_one_split_and_have_several_frames(self):
        data = self.made()
        walls = {split: [data.group(item) for item in data.items(split)] for split in ("train", "test")}
        assert not set(walls["train"]) & set(walls["test"])
        assert len(walls["test"]) == 3 * len(set(walls["test"]))

    def test_everything_occurs(self):
        data = self.made(side=128)
        seen = np.zeros(256, np.int64)
        for item in data.items("train")[:60]:
            seen += np.bincount(data.target(item)["mask"].ravel(), minlength=256)
        assert all(seen[k] > 0 for k in (0, 1, 2, 3, 4, 5, 6, 8, 255))
        assert seen.sum() == 60 * 96 * 128

    def test_a_finer_mask_agrees_with_a_coarse_one(self):
        """The scene does not depend on the size at which it is drawn."""
        coarse, fine = (self.made(side=side).target("test/000004")["mask"] for side in (80, 240))
        assert (fine[1::3, 1::3] == coarse).mean() > 0.97

    def test_the_identity_is_the_specifications_and_only_of_whole_splits(self):
        data = self.made(n_test=6)
        images = {item: f"{k}" for k, item in enumerate(data.items("test"))}
        assert data.own_id("test", images).startswith("pv1:")
        assert data.own_id("test", dict(list(images.items())[:5])) is None


def test_walls_are_resampled_not_frames(tmp_path: Path):
    """One wall of three frames has no interval; as single frames they would have one."""
    arguments = ["data.n_train=3", "data.n_test=3", "data.side=64", "data.size=64", "model.head.epochs=2"]
    for frames, has in ((3, False), (1, True)):
        (end,) = export("color_histogram", "painting_vision", arguments=[*arguments, f"data.frames={frames}"],
                        tag=f"f{frames}", outputs=tmp_path, say=lambda _: None)  # fmt: skip
        record = evaluate("painting_vision", end.tag, outputs=tmp_path).record
        assert (record["scores"]["mIoU"]["interval"] is not None) is has
        assert record["data"]["dataset_id"].startswith("pv1:")
    assert json.loads((end.folder / "summaries.json").read_text())["floor_mIoU"] is not None
