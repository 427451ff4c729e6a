"""`benchkit leaderboard`: a board per protocol, shared places, differences to a baseline, wide tables, every form, pictures."""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from tiny_experiments import another, exported, noisy

from benchkit.__main__ import main
from benchkit.boards import boards_of, places
from benchkit.boards.baseline import with_differences
from benchkit.boards.board import Board
from benchkit.boards.costs import pareto
from benchkit.boards.grid import grid_of
from benchkit.boards.grouping import grouped
from benchkit.boards.pictures import draw_costs, draw_heatmap
from benchkit.boards.plain import plain_board
from benchkit.boards.rows import make_row
from benchkit.boards.selection import Instance, chosen_benchmarks
from benchkit.commands._boards import print_boards
from benchkit.commands._columns import amount
from benchkit.commands._tables import apart as told_apart
from benchkit.errors import RunError, UsageError
from benchkit.experiments.experiment import Experiment
from benchkit.experiments.marks import marks
from benchkit.provenance.record import read_record, sealed
from benchkit.registry import find
from benchkit.store.files import write_json
from benchkit.store.outputs import Outputs

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
        assert [amount(x) for x in (None, 0, 999.4, 999.6, 4_652_008)] == ["n/a", "0", "999", "1 k", "4.65 M"]
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


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tags of two families, one of them a folder that somebody called something loud."""
    root = tmp_path_factory.mktemp("outputs")
    first = exported(root, "retrieval")
    another(first, "second", noisy(1, column="embedding"))
    shutil.copytree(first.folder, first.folder.parent / LOUD)
    other = shutil.copytree(first.folder, root / "results/homography/first")  # whose scores are called as retrieval's
    conf = {**first.record["conf"], "eval": {}}
    change(other, benchmark="homography", family="homography", level="geometry", conf=conf)
    return root


@pytest.fixture
def copied(outputs: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    shutil.copytree(outputs / "results", tmp_path / "results")
    return tmp_path


def change(folder: Path, **record: Any) -> None:
    """Replace keys of a record, which is sealed again."""
    known = read_record(folder)
    assert known is not None
    write_json(folder / "record.json", sealed({**known, **record}))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command; returns status, standard output and standard error."""

    def command(root: Path, *argv: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["leaderboard", "--outputs", str(root), *map(str, argv)])
        return status, *capsys.readouterr()

    return command


class TestSelection:
    def test_levels_families_and_instances_in_the_order_of_levels(self, outputs: Path):
        def names(*given: str) -> list[str]:
            return [each.name for each in chosen_benchmarks(Outputs(outputs), given)]

        assert names() == ["retrieval", "homography"]
        assert names("geometry") == names("homography") == ["homography"]
        assert names("geometry", "high", "retrieval") == ["retrieval", "homography"]

    def test_an_instance_stands_below_its_family(self, copied: Path):
        shutil.copytree(copied / "results/retrieval", copied / "results/aaa")
        assert [each.name for each in chosen_benchmarks(Outputs(copied))] == ["retrieval", "aaa", "homography"]
        assert [each.name for each in chosen_benchmarks(Outputs(copied), ["aaa"])] == ["aaa"]

    @pytest.mark.parametrize(("argv", "said"), [
        (["nothing"], "no benchmark is called 'nothing'"), (["classification"], "has no scored tag of classification"),
        (["mid"], "has no scored tag of the mid level"), (["retrieval", "--tag", "x*"], "that fits x\\*"),
        (["--metrics", "miou"], "no board here has it"), (["--baseline", "x"], "is on none of these boards"),
        (["--percent", "--format", "csv"], "holds all digits"), (["--wide", "--format", "json"], "holds every board"),
        (["--from", "x.json", "--wide"], "--wide is for tags"),
        (["retrieval", "--from", "x.json"], "has no board of submissions"),
    ])  # fmt: skip
    def test_what_cannot_be_is_refused(self, outputs: Path, run: Any, argv: list[str], said: str):
        status, out, err = run(outputs, *argv)
        assert status == 2
        assert out == ""
        assert said.replace("\\", "") in err

    def test_an_empty_folder(self, tmp_path: Path, run: Any):
        assert run(tmp_path)[0] == 2


class TestCommand:
    def test_boards_by_level(self, outputs: Path, run: Any):
        status, out, err = run(outputs)
        assert (status, err) == (0, "")
        assert out.index("retrieval (high level); all rows: generated images") < out.index(
            "homography (geometry level)"
        )
        assert LOUD in out
        assert "Rows share a place" in out

    def test_only_these_tags(self, outputs: Path, run: Any):
        _, out, _ = run(outputs, "retrieval", "--tag", "sec*")
        assert "second" in out
        assert "first" not in out

    def test_json_is_the_board(self, outputs: Path, run: Any):
        _, out, _ = run(outputs, "retrieval", "--format", "json")
        found = json.loads(out)["boards"]
        assert found == [
            json.loads(json.dumps(plain_board(board))) for board in boards_of(Outputs(outputs), ["retrieval"])
        ]
        first = next(row for row in found[0]["rows"] if row["tag"] == LOUD)
        record = Experiment(outputs / "results/retrieval/first").record
        assert first["value"] == record["scores"]["mAP"]["value"]
        assert (first["first"], first["last"]) == (1, 3)
        assert "differences" not in first

    def test_csv_is_one_table_with_all_digits(self, outputs: Path, run: Any):
        _, out, err = run(outputs, "--format", "csv", "--metrics", "recall@1", "--baseline", "first")
        rows = list(csv.DictReader(io.StringIO(out)))
        assert [(row["benchmark"], row["metric"]) for row in rows[2:4]] == [
            ("retrieval", "mAP"),
            ("retrieval", "recall@1"),
        ]
        loud = next(row for row in rows if row["tag"] == LOUD and row["metric"] == "mAP")
        assert float(loud["value"]) == Experiment(outputs / "results/retrieval/first").record["scores"]["mAP"]["value"]
        assert (loud["difference"], loud["p"], loud["p_adjusted"]) == ("0.0", "1.0", "1.0")
        assert {row["difference"] for row in rows if row["tag"] == "first"} == {""}
        assert "generated images" in err

    @pytest.mark.parametrize(("style", "escaped"), [
        ("markdown", "\\<img onerror=x>$a_b$\\|"), ("latex", r"\textless{}img onerror=x\textgreater{}\$a\_b\$\textbar{}"),
    ])  # fmt: skip
    @pytest.mark.parametrize("wide", [["--wide"], []])
    def test_tags_are_escaped(self, outputs: Path, run: Any, style: str, escaped: str, wide: list[str]):
        _, out, _ = run(outputs, "--format", style, *wide)
        assert escaped in out
        assert LOUD not in out

    def test_differences(self, outputs: Path, run: Any):
        _, out, _ = run(outputs, "--baseline", "second", "--metrics", "all", "--percent")
        lines = {line.split()[1]: line for line in out.splitlines()[::-1] if "color_histogram" in line}
        value = 100 * Experiment(outputs / "results/retrieval/second").record["scores"]["mAP"]["value"]
        assert f" {value:.1f} " in lines["second"]
        assert "difference of mAP [%]" in out
        assert "+" in lines["first"]
        assert "homography" in out  # has no second: it keeps its scores
        assert "nothing here to compare with second" in out

    def test_a_wide_table_for_papers(self, outputs: Path, run: Any):
        _, out, _ = run(outputs, "--wide", "--percent", "--format", "latex")
        first, rule, header, *_ = out.splitlines()
        assert (first, rule) == (r"\begin{tabular}{lrr}", r"\toprule")
        assert header == r"tag & retrieval mAP [\%] $\uparrow$ & homography mAP [\%] $\uparrow$ \\"
        best = max(row.value or 0 for row in boards_of(Outputs(outputs), ["retrieval"])[0].rows)
        assert rf"\textbf{{{100 * best:.1f}}}" in out
        assert r"\bottomrule" in out

    def test_columns_may_be_metrics(self, outputs: Path, run: Any):
        _, out, _ = run(outputs, "retrieval", "--wide", "--metrics", "all", "--format", "csv")
        header, *rows = csv.reader(io.StringIO(out))
        assert [name.split()[0] for name in header] == ["tag", "mAP", "recall@1", "recall@5", "recall@10"]
        assert len(rows) == 3

    def test_columns_of_two_protocols_are_marked_and_nothing_is_bold(self, copied: Path, run: Any):
        folder = copied / "results/retrieval/second"
        protocol = Experiment(folder).record["protocol"]
        change(folder, protocol={**protocol, "size": 300})
        _, out, _ = run(copied, "retrieval", "--wide", "--format", "markdown")
        assert "mAP ↑ †" in out
        assert "**" not in out
        row = next(line for line in out.splitlines() if "second" in line)
        assert row.endswith(" † |")
        _, out, _ = run(copied, "retrieval")
        assert "not ranked: second: another protocol: size (300, not none)" in out

    def test_undefined_scores_are_said(self, copied: Path, run: Any):
        folder = copied / "results/retrieval/second"
        scores = Experiment(folder).record["scores"]
        change(folder, scores={**scores, "mAP": {**scores["mAP"], "value": None, "interval": None}})
        _, out, _ = run(copied, "retrieval")
        last = [line for line in out.splitlines() if "color_histogram" in line][-1]
        assert last.split()[:6] == ["second", "color_histogram", "embed", "n/a", "n/a", "n/a"]
        rows = json.loads(run(copied, "retrieval", "--format", "json")[1])["boards"][0]["rows"]
        assert (rows[-1]["value"], rows[-1]["first"]) == (None, None)

    def test_damaged_and_unscored_tags_are_named_and_the_others_ranked(self, copied: Path, run: Any):
        folder = copied / "results/retrieval"
        (folder / "second/record.json").chmod(0o644)
        (folder / "second/record.json").write_text("{")
        change(folder / "first", scores=None)
        status, out, err = run(copied)
        assert status == RunError.status
        assert "second/record.json is damaged" in err
        assert "not ranked: second: " in out
        assert "not ranked: first: it is not scored" in out
        assert LOUD in out
        with pytest.raises(RunError):
            boards_of(Outputs(copied))
        status, out, err = run(copied, "retrieval", "--tag", "second", "first")
        assert (status, out) == (RunError.status, "")
        assert "no scored tag of retrieval that fits second or first" in err

    def test_pictures_are_left(self, copied: Path, run: Any):
        status, out, _ = run(copied, "retrieval", "--plot", "--wide")
        assert status == 0
        for name in ("leaderboard", "leaderboard_costs"):
            assert f"picture: {copied / name}.png" in out
            assert (copied / f"{name}.png").read_bytes().startswith(b"\x89PNG")
            assert (copied / f"{name}.pdf").read_bytes().startswith(b"%PDF")
