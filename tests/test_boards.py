"""Boards as data: a board per protocol, shared places, differences to a baseline, the grid of all, and pictures."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchkit.boards import places
from benchkit.boards.baseline import with_differences
from benchkit.boards.board import Board
from benchkit.boards.costs import pareto
from benchkit.boards.grid import grid_of
from benchkit.boards.grouping import grouped
from benchkit.boards.pictures import draw_boards, draw_costs, draw_heatmap
from benchkit.boards.rows import make_row
from benchkit.boards.selection import Instance
from benchkit.commands._boards import print_boards
from benchkit.commands._tables import apart as told_apart
from benchkit.compare.numbers import amount
from benchkit.errors import UsageError
from benchkit.experiments.marks import marks
from benchkit.registry import find

LOUD = "<img onerror=x>$a_b$|"


def score(value: float | None, better: str = "higher", **more: Any) -> dict[str, Any]:
    interval = None if value is None else [value - 0.1, value + 0.1]
    return {"value": value, "interval": interval, "floor": 0.2, "ceiling": None, "better": better, "unit": "", **more}


def fake(
    tag: str,
    value: float | None = None,
    family: str = "retrieval",
    columns: dict[str, np.ndarray] | None = None,
    scores: dict[str, Any] | None = None,
    **protocol: Any,
) -> Any:
    """A scored tag without files: what rows and comparisons read of it."""
    component = find("eval", family)
    built = component.build(component.settings())
    count = len(next(iter(columns.values()))) if columns else 2
    record = {
        "tag": tag, "benchmark": family, "family": family, "level": built.level, "about": {},
        "scores": scores or {built.metrics()[0].name: score(value)},
        "protocol": {"dataset_id": "d", "size": 224, **protocol},
        "backbone": {"name": "net", "parameters": 5000},
        "head": {"name": "embed", "log": {}},
        "features": {"platforms": [{"device": "cpu: x"}]},
        "timings": {"forwards": 0},
        "files": {"features.h5": {"bytes": 400}, "features/part-1.h5": {"bytes": 600}, "predictions.h5": {"bytes": 50}},
        "data": {"n_items": 2, "n_train": 3, "trained_on_evaluated": False, "skipped": {}, "generated": False,
                 "overlaps": [], "duplicates": {"across_splits": 0}},
    }  # fmt: skip
    names = [f"{k:04d}" for k in range(count)]
    return SimpleNamespace(
        tag=tag, benchmark=family, family=built, record=record, names=names, columns=columns or {}, group=[""] * count
    )


def of_items(tag: str, values: np.ndarray, **protocol: Any) -> Any:
    """A tag of retrieval whose items have these average precisions."""
    error = 1.96 * values.std() / np.sqrt(len(values))
    mean = float(values.mean())
    return fake(
        tag, columns={"AP": values}, scores={"mAP": score(mean, interval=[mean - error, mean + error])}, **protocol
    )


def scored(*values: tuple[str, float | None], **more: Any) -> list[Board]:
    """Boards of tags with these scores, where nothing tells which share a place."""
    return boards(*(fake(tag, value, **more) for tag, value in values), tied=False)


def boards(*experiments: Any, apart: dict[str, str] | None = None, tied: bool = True) -> list[Board]:
    """Boards of tags of one benchmark."""
    family = experiments[0].benchmark
    instance = Instance(0, family, "")
    return places.placed(grouped(instance, experiments, apart or {}), tied)


def tags(board: Board) -> list[str]:
    return [row.tag for row in board.rows]


class TestProtocols:
    def test_each_that_two_tags_share_has_a_board_and_the_others_are_told_in_what_they_differ(self):
        made = [
            fake("a", 0.3),
            fake("b", 0.9, size=448),
            fake("c", 0.5, size=448.0),
            fake("d", 0.4),
            fake("e", 0.1),
            fake("f", 1.0, size=300),
        ]
        first, second = boards(*made, apart={"z": "it is not scored"}, tied=False)
        assert (first.number, tags(first), first.protocol) == (1, ["d", "a", "e"], {"size": 224})
        assert (second.number, tags(second), second.protocol) == (2, ["c", "b"][::-1], {"size": 448})
        assert first.apart == {}
        assert second.apart == {"f": "another protocol than board 1: size (300, not 224)", "z": "it is not scored"}
        assert [row.tag for row in second.alone] == ["f"]

    def test_where_no_two_agree_the_first_has_a_board(self):
        (board,) = boards(fake("a", 0.3), fake("b", 0.9, size=448, head={"name": "x"}, seed="f" * 64))
        assert (tags(board), board.protocol) == (["a"], {})
        assert board.apart == {
            "b": "another protocol: head ({'name': 'x'}, not none), seed (ffffffff, not none), size (448, not 224)"
        }

    def test_what_names_its_metrics_otherwise_is_kept_apart_by_its_own(self):
        odd = fake("b", scores={"mAP[2]": score(0.5)}, eval={"ransac_th": 2})
        (board,) = boards(fake("a", 0.3), odd)
        assert tags(board) == ["a"]
        assert [(row.tag, row.value, list(row.scores)) for row in board.alone] == [("b", 0.5, ["mAP[2]"])]
        assert grid_of([board]).columns[0].rows.keys() == {"a"}

    def test_painting_vision_compares_exactly_its_own_fields(self):
        fields = {"family": "painting_vision", "benchmark": "painting_vision", "version": 1}
        (board,) = boards(fake("a", 0.1, size=640, **fields), fake("b", 0.2, size=320, **fields), tied=False)
        assert tags(board) == ["b", "a"]

    @pytest.mark.parametrize("family", ["homography", "relative_pose", "correspondence", "correspondence3d"])
    def test_methods_are_compared_as_wholes(self, family: str):
        """How views are resized and what is matched is the method's own; eval settings are the protocol; tables say the same."""
        fields = {"family": family, "benchmark": family, "version": 1, "targets": "t", "skipped": []}
        made = [
            fake("a", 0.1, **fields, eval={"estimator": ["poselib"]}, head={"name": "match"}, layers="final"),
            fake("b", 0.2, **fields, eval={"estimator": ["poselib"]}, head={"name": "lightglue"}, layers="3"),
            fake("c", 0.3, **fields, eval={"estimator": ["opencv"]}),
        ]
        for each in made:
            each.record["protocol"]["family"] = family
        (board,) = boards(*made, tied=False)
        assert tags(board) == ["b", "a"]
        assert board.apart == {"c": "another protocol: eval.estimator ([opencv], not [poselib])"}
        records = [each.record for each in made]
        assert told_apart(records[:2]) == []
        assert "eval.estimator" in told_apart(records)[0]


class TestRows:
    def test_undefined_scores_are_last_without_a_place_and_lower_may_be_better(self):
        made = [
            fake(tag, scores={"mAP": score(value, "lower")}) for tag, value in (("a", None), ("b", 0.5), ("c", 0.4))
        ]
        (board,) = boards(*made, tied=False)
        assert [(row.tag, row.place) for row in board.rows] == [("c", "1"), ("b", "2"), ("a", "")]

    def test_costs_are_those_of_the_record(self):
        made = fake("a", 0.5)
        row = make_row(made, "mAP")
        assert (row.params, row.bytes_per_item, row.prediction_bytes) == (5000, 1000 // 5, 25)
        assert row.images_per_s is None  # the bank had everything
        made.record["timings"] = {"forwards": 4, "images_per_second": 12.5}
        made.record["data"]["trained_on_evaluated"] = True
        made.record["files"] = {"features.h5": {"bytes": 400}}
        row = make_row(made, "mAP")
        assert (row.images_per_s, row.bytes_per_item, row.prediction_bytes) == (12.5, 200, None)
        assert [amount(x) for x in (None, 0, 999.4, 999.6, 999_600, 4_652_008)] == [
            "n/a",
            "0",
            "999",
            "1 k",
            "1 M",
            "4.65 M",
        ]
        assert amount(5252, "B") == "5.25 kB"

    def test_marks(self):
        record = fake("a", 0.1).record
        assert marks(record) == ["does not beat its floor"]
        record["data"] |= {
            "overlaps": ["imagenet-1k", "b"],
            "skipped": {"x": "why"},
            "generated": True,
            "trained_on_evaluated": True,
        }
        record["about"] = {"pretrained_on": ["lvd", "imagenet-1k"]}
        record["head"]["log"] = {"converged": 0.0}
        assert marks(record)[1:] == [
            "seen data (imagenet-1k)", "trained on the evaluated items", "1 item skipped", "head not converged",
            "generated images",
        ]  # fmt: skip


class TestPlaces:
    ITEMS = np.linspace(0.2, 0.6, 12)

    def test_rows_that_are_not_significantly_worse_share_one(self):
        made = [
            of_items("a", self.ITEMS),
            of_items("b", self.ITEMS),
            of_items("c", self.ITEMS - 0.2),
            of_items("d", self.ITEMS[::-1] - 0.01),
        ]
        (board,) = boards(*made)
        assert [(row.tag, row.place) for row in board.rows] == [("a", "1-3"), ("b", "1-3"), ("d", "1-3"), ("c", "4")]
        assert board.untested == ""

    def test_all_pairs_of_the_board_count(self):
        """6 items all better give p = 2 / 2^6 = .03: enough for two rows, not for the 3 pairs of three."""
        items = self.ITEMS[:6]
        two = boards(of_items("a", items), of_items("b", items - 0.1))[0]
        three = boards(of_items("a", items), of_items("b", items - 0.1), of_items("c", items - 0.1))[0]
        assert [row.place for row in two.rows] == ["1", "2"]
        assert [row.place for row in three.rows] == ["1-3"] * 3

    def test_what_items_do_not_tell_is_said(self):
        """rankme is a number of the whole set alone."""
        values, columns = {"a": 9.0, "b": 5.0, "c": 5.0}, {"silhouette": self.ITEMS}
        made = [
            fake(tag, family="feature_quality", columns=columns, scores={"rankme": score(value)})
            for tag, value in values.items()
        ]
        for each in made:
            each.family.summarize = lambda columns: {}
        (board,) = boards(*made)
        assert [row.place for row in board.rows] == ["1", "2-3", "2-3"]
        assert board.untested == "single items do not tell by how much chance changes rankme"

    def test_tags_without_common_items_are_not_compared(self):
        other = of_items("b", self.ITEMS - 0.1)
        other.names = [f"x{name}" for name in other.names]
        (board,) = boards(of_items("a", self.ITEMS), other)
        assert "have no item in common" in board.untested

    def segmented(self, tag: str, right: float, seed: int, count: int = 60) -> Any:
        """Counts of 2 classes in images of which about so much is right."""
        true = np.full((count, 2), 100, np.uint32)
        hits = np.random.default_rng(seed).binomial(100, right, (count, 2)).astype(np.uint32)
        columns = {
            "stats/true": true,
            "stats/predicted": true,
            "stats/true_positives": hits,
            "miou_per_image": np.full(count, right),
        }
        share = hits.sum() / true.sum()
        miou = float(share / (2 - share))
        return fake(
            tag,
            family="semantic_segmentation",
            columns=columns,
            scores={"miou": score(miou, interval=[miou - 0.02, miou + 0.02])},
        )

    def test_scores_of_whole_sets_are_told_apart_by_standard_errors(self, monkeypatch: pytest.MonkeyPatch):
        made = [
            self.segmented("a", 0.9, 1),
            self.segmented("b", 0.9, 2),
            self.segmented("c", 0.87, 3),
            self.segmented("d", 0.3, 4),
        ]
        asked, difference = [], places.difference
        monkeypatch.setattr(places, "difference", lambda *a, **k: asked.append(k) or difference(*a, **k))
        (board,) = boards(*made)
        assert [row.place for row in board.rows] == ["1-2", "1-2", "3", "4"]
        assert asked == [{"resamples": places.RESAMPLES, "permutations": 1}] * 2  # d is far from everybody

    @pytest.mark.parametrize("apart", [0.02, 0.05, 0.1, 0.3])
    def test_intervals_that_are_far_apart_mean_what_the_test_says(self, apart: float):
        """However items go together: here in the worst way, the best for one tag is the worst for the other."""
        items = np.random.default_rng(0).uniform(0.3, 0.7, 100)
        high, low = (
            make_row(each, "mAP")
            for each in (of_items("a", np.sort(items)), of_items("b", np.sort(items)[::-1] - apart))
        )
        if places._far(high, low, 0.05):
            assert places._permuted(high, low, "mAP", 1) < 0.05
        assert not places._far(high, high, 0.05)

    @pytest.mark.slow
    def test_equal_tags_are_rarely_told_apart(self):
        """200 boards of 5 tags that differ by noise alone: chance tells some apart on at most 5 % of boards, here within 4 %."""
        rng = np.random.default_rng(1)
        told = 0
        for _ in range(200):
            base = rng.uniform(0, 0.8, 100)
            (board,) = boards(*(of_items(f"t{k}", base + rng.normal(0, 0.15, 100)) for k in range(5)))
            told += board.rows[0].last < 5
        assert told / 200 <= 0.09

    @pytest.mark.slow
    def test_twenty_tags_of_1449_items_take_seconds(self):
        rng = np.random.default_rng(0)
        base = rng.beta(2, 3, 1449)
        made = [of_items(f"t{k:02d}", np.clip(base + rng.normal(0.004 * k, 0.1, 1449), 0, 1)) for k in range(20)]
        started = time.monotonic()
        (board,) = boards(*made)
        assert time.monotonic() - started < 10
        assert board.rows[0].first == 1
        assert board.rows[0].last < 20


class TestRemarks:
    def test_few_items_and_intervals_beside_their_value_are_said(self, capsys: pytest.CaptureFixture[str]):
        rng = np.random.default_rng(0)
        few, many = (boards(*(of_items(tag, rng.random(count)) for tag in "ab")) for count in (19, 20))
        print_boards(few, (), "table", False, None)
        assert "intervals from fewer than 20 items (here 19) are too narrow" in capsys.readouterr().out
        print_boards(many, (), "table", False, None)
        assert "fewer than 20" not in capsys.readouterr().out
        beside = boards(fake("a", scores={"mAP": score(0.5, interval=[0.5, 0.9])}), tied=False)
        print_boards(beside, (), "table", False, None)
        assert "the interval of mAP lies to one side of its value" in capsys.readouterr().out

    def test_speed_is_that_of_the_export(self, capsys: pytest.CaptureFixture[str]):
        one = fake("a", 0.5)
        print_boards(boards(one, tied=False), (), "table", False, None)
        assert "images/s: as exported" not in capsys.readouterr().out
        one.record["timings"]["images_per_second"] = 5.0
        print_boards(boards(one, tied=False), (), "table", False, None)
        assert "images/s: as exported, on its machine and under its load that day" in capsys.readouterr().out


class TestBaseline:
    ITEMS = np.array([0.1, 0.2, 0.3, 0.5])

    def test_differences_by_hand(self):
        """Of 16 ways to swap 4 equal differences two are as large: p = 1/8; Holm's for two tests doubles the smallest."""
        made = [of_items("a", self.ITEMS), of_items("b", self.ITEMS + 0.1), of_items("c", self.ITEMS)]
        (board,) = with_differences(boards(*made, tied=False), "a")
        found = {row.tag: row.differences for row in board.rows}
        assert found["a"] == {}
        up, same = found["b"]["mAP"], found["c"]["mAP"]
        assert up.value == pytest.approx(0.1)
        assert (up.low, up.high) == pytest.approx((0.1, 0.1))
        assert (up.p, up.adjusted, up.significant) == (0.125, 0.25, False)
        assert (same.value, same.p, same.adjusted) == (0.0, 1.0, 1.0)

    def test_items_without_a_value_are_left_out_and_counted(self, capsys: pytest.CaptureFixture[str]):
        lacking = of_items("b", np.array([np.nan, 0.3, 0.4, 0.6]))
        lacking.record["scores"]["mAP"] = score(0.43)
        lacking.record["data"]["skipped"] = {"x": "why"}
        found = with_differences(boards(of_items("a", self.ITEMS), lacking, tied=False), "a")
        row = next(row for row in found[0].rows if row.tag == "b")
        told = row.differences["mAP"]
        assert (told.n_items, told.n_undefined, told.p) == (3, 1, 0.25)
        assert told.value == pytest.approx(0.1)
        print_boards(found, (), "table", False, "a")
        said = capsys.readouterr().out
        assert "b: items without a value, left out: 1" in said
        assert "compared over the items that both have" in said

    def test_boards_without_it_keep_their_scores_and_a_tag_of_none_is_refused(self):
        made = [
            of_items(tag, self.ITEMS, size=size) for tag, size in (("a", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 3))
        ]
        first, second = with_differences(boards(*made, tied=False), "a")
        assert first.rows[1].differences
        assert not any(row.differences for row in second.rows)
        with pytest.raises(UsageError, match="no other tag follows its protocol"):
            with_differences([first, second], "e")
        with pytest.raises(UsageError, match="on none of these boards"):
            with_differences([first, second], "nobody")


class TestGrid:
    def made(self) -> list[Board]:
        other = [fake("a", 0.3, family="depth"), fake("b", 0.6, family="depth"), fake("c", 0.9, family="depth", size=9)]
        return [*scored(("a", 0.3), ("b", 0.1), ("c", None)), *boards(*other, tied=False)]

    def test_the_best_is_named_only_among_scores_of_one_protocol(self):
        grid = grid_of(self.made())
        assert grid.tags == ("a", "b", "c")
        first, second = grid.columns
        assert (first.benchmark, first.mixed, first.best()) == ("retrieval", False, {"a"})
        assert (second.benchmark, second.mixed, second.best(), second.value("c")) == ("depth", True, set(), 0.9)

    def test_all_that_share_the_first_place_are_named_where_places_were_tested(self):
        rng = np.random.default_rng(0)
        base = rng.uniform(0.4, 0.6, 40)
        made = [of_items(tag, base + rng.normal(shift, 0.1, 40)) for tag, shift in (("a", 0), ("b", 0), ("c", -0.3))]
        (column,) = grid_of(boards(*made)).columns
        assert column.best() == {"a", "b"}

    def test_positions_lie_between_floor_and_best(self):
        first, second = grid_of(self.made()).columns
        assert first.positions() == {"a": 1.0, "b": 0.0}  # b does not reach the floor of .2
        assert second.positions() == {"a": pytest.approx(0.25), "b": 1.0}

    def test_nothing_beats_the_front(self):
        costs, values = [1, 2, 3, 3, None, 2], [0.5, 0.7, 0.7, 0.9, 1.0, None]
        assert pareto(costs, values, less=True, better="higher") == [0, 1, 3]
        assert pareto(costs, values, less=False, better="higher") == [3]
        assert pareto(costs, values, less=True, better="lower") == [0]


class TestPictures:
    def test_other_protocols_are_hatched_and_tags_are_no_formulas(self):
        figure = Figure()
        draw_heatmap(figure, boards(fake(LOUD, 0.3), fake("b", 0.1), fake("c", 0.1, size=448), tied=False))
        axes = figure.axes[0]
        assert [patch.get_hatch() for patch in axes.patches] == ["////"]
        assert LOUD in [label.get_text() for label in axes.get_yticklabels()]
        assert [text.get_text() for text in axes.texts] == ["0.300", "0.100", "0.100"]
        figure.canvas.draw()

    def test_costs_have_a_front(self):
        cheap, dear, bad = fake("cheap", 0.3), fake(LOUD, 0.9), fake("bad", 0.2)
        dear.record["backbone"]["parameters"] = bad.record["backbone"]["parameters"] = 100_000
        figure = Figure()
        draw_costs(figure, boards(cheap, dear, bad, tied=False))
        panel, _ = figure.axes  # nobody's images per second are known
        assert panel.lines[0].get_xydata().tolist() == [[5000, 0.3], [100_000, 0.9]]
        assert panel.get_xscale() == "log"
        figure.canvas.draw()

    def test_one_tag_has_no_picture_of_costs(self, tmp_path: Path):
        assert [path.name for path in draw_boards(scored(("a", 0.3)), tmp_path)] == [
            "leaderboard.png",
            "leaderboard.pdf",
        ]
