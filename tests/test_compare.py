"""Comparing tags: joined by name, refused where the protocols differ, tested in pairs, and gated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from tiny_experiments import another, exported

from benchkit.__main__ import main
from benchkit.compare import compare
from benchkit.compare.aligned import Aligned
from benchkit.compare.checks import refuse_unequal
from benchkit.compare.comparison import compared
from benchkit.compare.differences import Chance, adjusted, difference, differences, metric_named
from benchkit.compare.gates import read_gate
from benchkit.compare.items import flips, wins
from benchkit.compare.junit import junit
from benchkit.compare.plain import plain
from benchkit.compare.ranking import tied_groups
from benchkit.compare.tables import differences_table, lines, verdict
from benchkit.errors import UsageError
from benchkit.eval.base import Metric
from benchkit.experiments.experiment import Experiment, family_of
from benchkit.provenance.record import describe_file, sealed
from benchkit.registry import find
from benchkit.store.files import write_json
from benchkit.store.table import write_table

QUICK = Chance(resamples=200, permutations=999, set_permutations=199)


def about_the_rest() -> dict[str, Any]:
    """What a record says that a comparison does not look at."""
    return {
        "schema": 1,
        "benchkit": "0",
        "level": "high",
        "created": "",
        "conf": {
            "data": {"name": "scenes"},
            "model": {"backbone": {"name": "pixels"}, "head": {"name": "embed"}},
            "eval": {},
        },
        "about": {},
        "data": {
            "dataset_id": "d",
            "generated": True,
            "split": "test",
            "n_items": 1,
            "skipped": {},
            "overlaps": [],
            "trained_on_evaluated": False,
            "untrained_classes": [],
            "duplicates": {"across_splits": 0, "two_labels": 0},
        },
        "backbone": {"name": "pixels", "weights": "", "identity": {"preprocess": {}}, "identity_hash": ""},
        "head": {"name": "embed", "log": {}},
        "inputs": {},
        "timings": {},
    }


def scored(
    root: Path,
    tag: str,
    columns: dict[str, Any],
    family: str = "retrieval",
    names: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    labels: Sequence[int] | None = None,
    **protocol: Any,
) -> Experiment:
    """A scored tag whose columns are given; those of retrieval that are not are AP's."""
    folder = root / "results" / family / tag
    columns = {name: np.asarray(values) for name, values in columns.items()}
    count = len(next(iter(columns.values())))
    names = [f"i{k:03}" for k in range(count)] if names is None else list(names)
    if family == "retrieval":
        columns |= {f"recall@{k}": columns["AP"] for k in (1, 5, 10) if f"recall@{k}" not in columns}
    write_table(folder / "results.h5", "results", names, {"group": list(group or [""] * count), **columns})
    targets = {"label": np.asarray(labels if labels is not None else np.zeros(count, int))}
    write_table(folder / "targets.h5", "targets", names, targets, meta={"classes": ["a", "b"]})
    record = {**about_the_rest(), "benchmark": family, "family": family, "tag": tag}
    made = family_of(record)
    values = made.summarize(columns)
    known = {name: value for name, value in values.items() if value is not None and np.isfinite(value)}
    shape = {"interval": None, "floor": None, "ceiling": None, "undefined": 0}
    record["scores"] = {
        m.name: {**shape, "value": known.get(m.name), "better": m.better, "unit": m.unit} for m in made.metrics()
    }
    record["protocol"] = {"benchmark": family, "dataset_id": "d", "skipped": [], "head": {"name": "embed"}, **protocol}
    record["files"] = {name: describe_file(folder / name) for name in ("results.h5", "targets.h5")}
    write_json(folder / "record.json", sealed(record))
    return Experiment(folder)


def two(root: Path, first: Sequence[float], second: Sequence[float], **more: Any) -> tuple[Experiment, Experiment]:
    return scored(root, "first", {"AP": first}, **more), scored(root, "second", {"AP": second}, **more)


def run(root: Path, *argv: str, benchmark: str = "retrieval") -> int:
    return main(["compare", benchmark, *argv, "--outputs", str(root)])


class TestDifference:
    def test_four_items_by_hand(self, tmp_path: Path):
        found = difference(*two(tmp_path, [0.0, 0, 0, 0.5], [0.25, 0.5, 0.75, 0.25]), "mAP")
        assert (found.first, found.second, found.value) == (0.125, 0.4375, 0.3125)
        assert found.p == 6 / 16  # see test_paired.py
        assert (found.better, found.n_items, found.n_units, found.winner) == ("higher", 4, 4, "second")
        assert not found.significant
        assert found.low is not None
        assert found.high is not None
        assert found.low < 0.3125 < found.high

    def test_lower_may_be_better(self, tmp_path: Path):
        columns = [
            {"top1": np.ones(4), "top5": np.ones(4), "nll": np.full(4, x), "stats/label": np.zeros(4, int)}
            for x in (1.0, 2)
        ]
        one, other = (scored(tmp_path, tag, each, "classification") for tag, each in zip("ab", columns, strict=True))
        found = difference(one, other, "nll")
        assert (found.value, found.better, found.unit, found.winner) == (1, "lower", "nats", "first")
        assert difference(one, other, "top1").winner == ""

    def test_items_are_joined_by_name(self, tmp_path: Path):
        first = scored(tmp_path, "a", {"AP": [0.1, 0.2, 0.3]}, names=["x", "y", "z"])
        second = scored(tmp_path, "b", {"AP": [0.3, 0.1, 0.2]}, names=["z", "x", "y"])
        found = difference(first, second, "mAP")
        assert (found.low, found.high, found.p) == (0, 0, 1)
        assert difference(second, first, "mAP") == found

    def test_of_copies_it_is_nothing(self, tmp_path: Path):
        scores = np.random.default_rng(0).random(50)
        found = difference(*two(tmp_path, scores, scores), "mAP")
        assert (found.value, found.low, found.high, found.p, found.winner) == (0, 0, 0, 1, "")

    def test_items_without_a_value_are_left_out_in_pairs_and_counted(self, tmp_path: Path):
        nan = np.nan
        found = difference(*two(tmp_path, [nan, 0.5, 0.5, 0.5], [0.9, nan, 0.75, 1]), "mAP")
        assert (found.first, found.second, found.n_items, found.n_undefined) == (0.5, 0.875, 2, 2)
        nothing = difference(*two(tmp_path / "b", [nan, 0.5], [0.9, nan]), "mAP")
        assert (nothing.value, nothing.low, nothing.p, nothing.n_items, nothing.n_undefined) == (None, None, None, 0, 2)

    def test_groups_are_swapped_whole(self, tmp_path: Path):
        one, other = two(tmp_path, np.zeros(4), [0.25, 0.25, 0.5, 0], group=["s", "t", "s", ""])
        found = difference(one, other, "mAP")
        assert (found.n_items, found.n_units) == (4, 3)
        assert found.p == 2 / 4  # sums .75 and .25 of two groups that differ; the item without a group does not

    def test_columns_of_zeros_and_ones_have_mcnemars_test(self, tmp_path: Path):
        found = difference(*two(tmp_path, [1.0, 0, 0, 0, 0, 0, 1], [0.0, 1, 1, 1, 1, 1, 1]), "mAP")
        assert found.mcnemar is not None
        assert (found.mcnemar.only_first, found.mcnemar.only_second, found.mcnemar.p) == (1, 5, 14 / 64)
        assert found.p == 14 / 64
        assert difference(*two(tmp_path / "b", [0.5, 0], [1.0, 0]), "mAP").mcnemar is None

    def test_metrics_are_found_in_any_case(self, tmp_path: Path):
        one, other = two(tmp_path, [0.5, 0], [1.0, 0])
        assert difference(one, other, "MAP") == difference(one, other, "mAP")
        with pytest.raises(UsageError, match=r"no metric 'miou' here; there are mAP, recall@1"):
            difference(one, other, "miou")

    def test_nothing_in_common_is_an_error(self, tmp_path: Path):
        one, other = (scored(tmp_path, tag, {"AP": [0.5]}, names=[tag]) for tag in "ab")
        with pytest.raises(UsageError, match="no item in common"):
            difference(one, other, "mAP")


def segmented(root: Path, tag: str, positives: Sequence[tuple[int, int]], **more: Any) -> Experiment:
    """Images of ten pixels of either class, of which so many are right; the others are called the other class."""
    right = np.array(positives, np.uint32)
    true = np.full_like(right, 10)
    iou = (right / (true + (true - right)[:, ::-1])).mean(axis=1)
    columns = {"stats/true_positives": right, "stats/predicted": right + (true - right)[:, ::-1], "stats/true": true}
    return scored(root, tag, {**columns, "miou_per_image": iou}, "semantic_segmentation", **more)


class TestScoresOfTheWholeSet:
    def test_two_images_by_hand(self, tmp_path: Path):
        first, second = segmented(tmp_path, "a", [(10, 0), (10, 0)]), segmented(tmp_path, "b", [(10, 10), (10, 10)])
        found = difference(first, second, "miou", resamples=100)
        # all are called the first class: 20 of 40, and 0 of 20; only no swap and both swaps are as far apart
        assert (found.first, found.second, found.p) == (0.25, 1, 2 / 4)
        assert (found.low, found.high) == (0.75, 0.75)

    def test_an_unequal_number_of_pixels_is_no_mean_of_images(self, tmp_path: Path):
        rng = np.random.default_rng(0)
        first, second = (segmented(tmp_path, tag, rng.integers(0, 11, (30, 2))) for tag in "ab")
        found, per_image = (difference(first, second, m, resamples=200) for m in ("miou", "miou_per_image"))
        assert (
            found.value
            == first.family.summarize(second.columns)["miou"] - first.family.summarize(first.columns)["miou"]
        )
        assert found.value != per_image.value
        assert found.p != per_image.p

    def test_it_takes_the_group_into_account(self, tmp_path: Path):
        group = ["s"] * 3 + ["t"] * 3
        first = segmented(tmp_path, "a", [(5, 5)] * 6, group=group)
        second = segmented(tmp_path, "b", [(6, 6)] * 6, group=group)
        assert difference(first, second, "miou", resamples=10).p == 2 / 4

    def test_copies_do_not_differ(self, tmp_path: Path):
        rows = np.random.default_rng(0).integers(0, 11, (30, 2))
        found = difference(segmented(tmp_path, "a", rows), segmented(tmp_path, "b", rows), "miou", resamples=100)
        assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 1)

    def test_what_items_do_not_tell_has_no_interval(self, tmp_path: Path):
        columns = {"silhouette": [0.1, 0.2], "alignment": [1.0, 2], "stats/label": [0, 1]}
        one, other = (scored(tmp_path, tag, columns, "feature_quality") for tag in "ab")
        for each, value in ((one, 8.0), (other, 9.5)):
            each.record["scores"]["rankme"]["value"] = value
        aligned = Aligned([one, other])
        rankme = metric_named(one.family, "rankme")
        found = differences(aligned, (0, 1), [rankme], QUICK)[0]
        assert (found.first, found.second, found.value) == (8, 9.5, 1.5)
        assert (found.low, found.high, found.p, found.significant) == (None, None, None, False)
        some = Aligned([one, scored(tmp_path, "c", {k: [*v, v[0]] for k, v in columns.items()}, "feature_quality")])
        assert differences(some, (0, 1), [rankme], QUICK)[0].value is None  # theirs are over other items

    def test_what_only_informs_is_not_tested(self, tmp_path: Path):
        one, other = two(tmp_path, [0.0] * 6, [1.0] * 6)
        informs = Metric("AP_told", "neither", "", column="AP")
        found = compared(Aligned([one, other]), [informs, one.family.metrics()[0]], [], QUICK, 0)
        told, tested = found.pairs[0].differences.values()
        assert (told.value, told.low, told.p, told.mcnemar, verdict(told)) == (1, 1, None, None, "")
        assert (tested.p, tested.adjusted, verdict(tested), found.n_tests) == (2 / 64, 2 / 64, "B is better", 1)

    def test_holm_is_over_what_has_a_p(self, tmp_path: Path):
        found = difference(*two(tmp_path, [0.0] * 6, [1.0] * 6), "mAP")
        assert found.p == 2 / 64
        assert found.significant
        assert [each.adjusted for each in adjusted([found, found])] == [4 / 64, 4 / 64]
        assert not adjusted([found, found])[0].significant


class TestWhatIsCompared:
    def test_another_protocol_is_refused_by_name(self, tmp_path: Path, capsys: pytest.CaptureFixture):
        scored(tmp_path, "a", {"AP": [0.5, 1]})
        scored(tmp_path, "b", {"AP": [0.5, 1]}, head={"name": "knn"}, size=224)
        assert run(tmp_path, "a", "b") == 2
        err = capsys.readouterr().err
        assert "head.name (embed, knn), size (None, 224)" in err
        assert err.count("\n") == 1
        assert run(tmp_path, "a", "b", "--allow-missing") == 2

    def test_other_data_of_the_same_names_is_refused(self, tmp_path: Path):
        scored(tmp_path, "a", {"AP": [0.5, 1]})
        scored(tmp_path, "b", {"AP": [0.5, 1]}, dataset_id="e")
        with pytest.raises(UsageError, match=r"dataset_id \(d, e\)"):
            compare("retrieval", ["a", "b"], outputs=tmp_path, allow_missing=True)

    def test_items_that_one_lacks_are_named(self, tmp_path: Path, capsys: pytest.CaptureFixture):
        scored(tmp_path, "a", {"AP": [0.5, 0.5, 1]}, names=["x", "y", "only"])
        scored(tmp_path, "b", {"AP": [1, 1]}, names=["y", "x"], dataset_id="e", skipped=["only"])
        assert run(tmp_path, "a", "b") == 2
        err = capsys.readouterr().err
        assert "a has 1 that not all have (only)" in err
        assert "--allow-missing" in err
        assert run(tmp_path, "a", "b", "--allow-missing", "--metric", "mAP") == 0
        out = capsys.readouterr().out
        assert "items: 2 that all tags have" in out
        assert "1 of a (only)" in out
        assert (
            compare("retrieval", ["a", "b"], outputs=tmp_path, allow_missing=True).pairs[0].differences["mAP"].first
            == 0.5
        )

    def test_sets_are_summarised_over_the_common_items(self, tmp_path: Path):
        first = segmented(tmp_path, "a", [(10, 10), (0, 0)], names=["x", "y"])
        second = segmented(tmp_path, "b", [(5, 5), (10, 10)], names=["x", "z"])
        found = difference(first, second, "miou")
        assert (found.first, found.n_items) == (1, 1)
        assert found.second == pytest.approx(1 / 3)
        assert (found.low, found.p) == (None, 1)

    def test_common_items_with_another_truth_are_refused(self, tmp_path: Path):
        names = ["x", "y", "z"]
        one = scored(tmp_path, "a", {"AP": [0.5, 0.5, 1]}, names=names, labels=[0, 1, 0])
        same = scored(tmp_path, "b", {"AP": [1, 1]}, names=["y", "x"], labels=[1, 0])
        other = scored(tmp_path, "c", {"AP": [1, 1]}, names=["y", "x"], labels=[0, 0])
        refuse_unequal(Aligned([one, same]), allow_missing=True)
        with pytest.raises(UsageError, match=r"differs \(label in targets.h5\)"):
            refuse_unequal(Aligned([one, other]), allow_missing=True)

    def test_one_tag_is_no_comparison(self, tmp_path: Path):
        scored(tmp_path, "a", {"AP": [0.5, 1]})
        assert run(tmp_path, "a", "a") == 2
        assert run(tmp_path, "a") == 2
        assert run(tmp_path, "a", "b") == 2  # there is none

    def test_stars_stand_for_scored_tags(self, tmp_path: Path):
        for tag in ("a", "vit_s", "vit_b"):
            scored(tmp_path, tag, {"AP": [0.5, 1]})
        assert compare("retrieval", ["a", "vit_*"], outputs=tmp_path).tags == ["a", "vit_b", "vit_s"]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty items on which `b` is like `a` but for noise, and `c` far worse on all but one."""
    root = tmp_path_factory.mktemp("outputs")
    rng = np.random.default_rng(0)
    base = rng.uniform(0.5, 0.8, 40)
    scored(root, "a", {"AP": base, "recall@1": np.r_[np.ones(30), np.zeros(10)]})
    scored(root, "b", {"AP": base + rng.normal(0, 0.02, 40), "recall@1": np.r_[np.ones(29), np.zeros(11)]})
    scored(root, "c", {"AP": np.r_[base[:39] - 0.4, 0.95], "recall@1": np.zeros(40)})
    return root


class TestTheCommand:
    def test_the_table_says_which_is_better(self, three: Path, capsys: pytest.CaptureFixture):
        assert run(three, "a", "c", "--metric", "map", "recall@1") == 0
        out = capsys.readouterr().out
        assert out.startswith("retrieval: A is a, B is c\n")
        row = next(line for line in out.splitlines() if "mAP (higher)" in line)
        assert "A is better" in row
        assert "items: 40 that all tags have" in out
        assert "p (Holm): for all 2 tests" in out
        assert "recall@1 A 30, B 0, p <.0001" in out
        assert "recall@5" not in out
        assert run(three, "a", "b", "--metric", "map") == 0
        assert "no difference shown" in capsys.readouterr().out

    def test_it_says_how_many_items_where_not_all_count(self, tmp_path: Path, capsys: pytest.CaptureFixture):
        two(tmp_path, [0.5, 0.5, np.nan], [0.25, 1, 1], group=["s", "s", "t"])
        assert run(tmp_path, "first", "second", "--metric", "mAP") == 0
        out = capsys.readouterr().out
        assert next(line for line in out.splitlines() if "mAP (higher)" in line).split()[-1] == "2"
        assert "items left out, as A or B has no value: mAP 1" in out
        assert "drawn and swapped as 2 groups" in out
        assert "fewer than 20 groups (here 1)" in out

    def test_more_than_two_are_ranked_and_counted(self, three: Path, capsys: pytest.CaptureFixture):
        assert run(three, "c", "a", "b", "--metric", "mAP") == 0
        out = capsys.readouterr().out
        assert "ranking by mAP: 1. " in out
        groups = compare("retrieval", ["c", "a", "b"], outputs=three).groups
        assert [sorted(group) for group in groups] == [["a", "b"], ["c"]]
        assert "wins by AP:" in out
        assert "97.5% (0.0% ties)" in out

    def test_items_with_the_largest_differences_are_named(self, three: Path, capsys: pytest.CaptureFixture):
        assert run(three, "a", "c", "--items", "1") == 0
        out = capsys.readouterr().out
        assert "B gains most in AP, A -> B: i039 " in out
        assert out.count("i0") == 2
        assert run(three, "a", "c", "--items", "0") == 0
        assert "most in" not in capsys.readouterr().out
        assert run(three, "a", "c", "--items", "-1") == 2

    @pytest.mark.parametrize(("style", "begins"), [("markdown", "| metric"), ("latex", r"\begin{tabular}")])
    def test_tables_can_be_pasted(self, three: Path, capsys: pytest.CaptureFixture, style: str, begins: str):
        assert run(three, "a", "c", "--format", style) == 0
        assert capsys.readouterr().out.splitlines()[1].startswith(begins)

    def test_csv_is_for_programs(self, three: Path, capsys: pytest.CaptureFixture):
        import csv

        assert run(three, "a", "b", "c", "--format", "csv", "--fail-if", "map < -.1") == 1
        captured = capsys.readouterr()
        rows = list(csv.DictReader(captured.out.splitlines()))
        assert [(row["A"], row["B"], row["metric"]) for row in rows[:1]] == [("a", "b", "mAP")]
        assert len(rows) == 8
        found = compare("retrieval", ["a", "b", "c"], outputs=three).pairs[1].differences["mAP"]
        assert float(rows[4]["difference"]) == found.value
        assert captured.err.count("gate") == 2

    def test_json_holds_everything_and_no_nan(self, three: Path, capsys: pytest.CaptureFixture):
        assert run(three, "a", "b", "c", "--json", "--fail-if", "map < -.1 and significant") == 1
        told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        assert told["tags"] == ["a", "b", "c"]
        first = told["pairs"][1]["differences"][0]
        assert first["difference"] == pytest.approx(first["second"] - first["first"])
        assert first["winner"] == "first"
        assert told["pairs"][1]["items"]["gained"][0]["name"] == "i039"
        assert told["pairs"][1]["items"]["lost"][0]["second"] < 0.5
        assert [bool(gate["failure"]) for gate in told["gates"]] == [False, True]
        assert told["ranking"]["groups"][-1] == ["c"]

    def test_equal_inputs_give_equal_outputs(self, three: Path, capsys: pytest.CaptureFixture):
        said = []
        for _ in range(2):
            assert run(three, "a", "b", "c", "--json") == 0
            said.append(capsys.readouterr().out)
        assert said[0] == said[1]

    def test_infinite_scores_of_items_are_null(self, tmp_path: Path):
        one, other = two(tmp_path, [np.inf, 0.5, np.inf, 0.5], [0.5, np.inf, np.inf, 0.5])
        told = plain(compared(Aligned([one, other]), one.family.metrics()[:1], [], QUICK, 5))
        assert [item["name"] for item in told["pairs"][0]["items"]["gained"]] == ["i001"]
        json.dumps(told, allow_nan=False)


class TestGates:
    def gate(self, text: str):
        return read_gate(text, family_of({"family": "classification", "conf": {"eval": {}}}))

    @pytest.mark.parametrize(
        ("text", "metric", "relation", "number"),
        [
            ("top1 < -0.5", "top1", "<", -0.5),
            ("TOP1<-.5", "top1", "<", -0.5),
            ("  top1 <= -0.5%", "top1", "<=", -0.005),
            ("nll > 1e-2", "nll", ">", 0.01),
            ("ece>=+.1", "ece", ">=", 0.1),
        ],
    )
    def test_a_limit_is_in_the_metrics_own_unit(self, text: str, metric: str, relation: str, number: float):
        ((limit,),) = (clause.limits for clause in self.gate(text).clauses)
        assert (limit.metric, limit.relation) == (metric, relation)
        assert limit.number == pytest.approx(number)

    def test_and_binds_closer_than_or(self):
        gate = self.gate("top1 < 0 AND significant or nll > 1 and top5 < -1% Or mean_class_acc < -.1")
        assert [len(clause.limits) for clause in gate.clauses] == [1, 2, 1]
        assert [clause.significant for clause in gate.clauses] == [True, False, False]
        assert gate.metrics == ["top1", "nll", "top5", "mean_class_acc"]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "empty"),
            ("significant", "beside a limit"),
            ("top1 < 0 or", "empty"),
            ("top1 < 0 and", "empty"),
            ("and top1 < 0", "empty"),
            ("top1", "no limit"),
            ("top1 < ", "no limit"),
            ("top1 = 0", "no part of it"),
            ("top1 == 0", "no part of it"),
            ("top1 < 0 significant", "no limit"),
            ("0 > top1", "no limit"),
            ("top1 < nan", "no limit"),
            ("top1 < inf", "no limit"),
            ("top1 < 1 < 2", "no limit"),
            ("__import__('os') < 1", "no metric"),
            ("miou < 0", "there are top1, top5, mean_class_acc, nll, ece"),
            ("nll > 1%", "nats"),
            ("top1 < 0\x1b[2J and significant", "\\x1b"),
        ],
    )
    def test_what_cannot_be_read_says_what_a_gate_is(self, text: str, said: str):
        with pytest.raises(UsageError) as caught:
            self.gate(text)
        assert said in str(caught.value)
        assert "\x1b" not in str(caught.value)

    def test_what_only_informs_is_never_significant(self):
        family = find("eval", "relative_pose")
        matches = family.build(family.settings())
        assert read_gate("num_matches < -10", matches).metrics == ["num_matches"]
        with pytest.raises(UsageError, match="only informs"):
            read_gate("num_matches < -10 and significant", matches)

    @pytest.mark.parametrize(
        ("gates", "status"),
        [
            (["map < -.5"], 0),
            (["map < -.1"], 1),
            (["map < -10% and significant"], 1),
            (["map < -.5 or recall@1 < -.5"], 1),
            (["map < -.5 and recall@1 < -.5"], 0),
            (["map < -.5", "recall@1 < -.5"], 1),
            (["map > 0"], 0),
        ],
    )
    def test_a_gate_that_holds_ends_with_one(self, three: Path, gates: list[str], status: int):
        assert run(three, "a", "c", *(word for gate in gates for word in ("--fail-if", gate))) == status

    def test_rounding_is_no_difference(self, tmp_path: Path):
        assert 0.97 - 0.98 < -0.01
        two(tmp_path, [1.0] * 98 + [0.0] * 2, [1.0] * 97 + [0.0] * 3)
        assert run(tmp_path, "first", "second", "--fail-if", "map < -1%") == 0
        assert run(tmp_path, "first", "second", "--fail-if", "map <= -1%") == 1

    def test_significant_is_after_holm(self, three: Path, capsys: pytest.CaptureFixture):
        assert run(three, "a", "b", "--fail-if", "recall@1 < 0") == 1
        assert run(three, "a", "b", "--fail-if", "recall@1 < 0 and significant") == 0
        assert "gate 'recall@1 < 0 and significant', B is b: passed" in capsys.readouterr().out

    def test_its_metrics_are_compared_though_others_were_asked_for(self, three: Path):
        found = compare("retrieval", ["a", "c"], metrics=["recall@5"], fail_if=["mAP < -.1"], outputs=three)
        assert [metric.name for metric in found.metrics] == ["mAP", "recall@5"]
        assert found.failed

    def test_what_is_undefined_fails(self, tmp_path: Path):
        two(tmp_path, [np.nan, 0.5], [0.9, np.nan])
        found = compare("retrieval", ["first", "second"], fail_if=["mAP < -.1"], outputs=tmp_path)
        assert found.endings[0].failure == "the difference in mAP is undefined"
        assert run(tmp_path, "first", "second", "--fail-if", "mAP < -.1") == 1

    def test_one_that_cannot_be_read_is_wrong_usage(self, three: Path, capsys: pytest.CaptureFixture):
        assert run(three, "a", "c", "--fail-if", "miou < -.5") == 2
        assert "there are mAP" in capsys.readouterr().err


class TestJUnit:
    def test_a_test_for_every_gate_and_pair(self, three: Path, tmp_path: Path):
        file = tmp_path / "compare.xml"
        assert run(three, "a", "b", "c", "--fail-if", "map < -.1", "--fail-if", "map < -.9", "--junit", str(file)) == 1
        suite = ElementTree.parse(file).getroot()[0]
        assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
        failed = [case for case in suite if case.find("failure") is not None]
        assert [case.get("name") for case in failed] == ["c - a: map < -.1"]
        assert "mAP differs by -0.3" in (failed[0].find("failure").get("message") or "")  # type: ignore[union-attr]

    def test_without_a_gate_a_test_for_every_metric(self, three: Path, tmp_path: Path):
        file = tmp_path / "compare.xml"
        assert run(three, "a", "c", "--junit", str(file)) == 0
        suite = ElementTree.parse(file).getroot()[0]
        assert [case.get("name") for case in suite][:2] == ["c - a: mAP", "c - a: recall@1"]
        assert "A is better" in (suite[0].findtext("system-out") or "")


class TestTextsOfStrangers:
    TAG = "<img src=x onerror=alert(1)>\x1b[2J"
    ITEM = 'x"<b>&\x07'

    @pytest.fixture
    def found(self, tmp_path: Path):
        names = [self.ITEM, "other"]
        one = scored(tmp_path, "a", {"AP": [0.5, 1]}, names=names)
        other = scored(tmp_path, self.TAG, {"AP": [0.25, 1]}, names=names)
        gate = read_gate("mAP < 0", one.family)
        return compared(Aligned([one, other]), one.family.metrics(), [gate], QUICK, 5)

    def test_in_xml_they_are_escaped_and_lose_control_characters(self, found):
        (case,) = ElementTree.fromstring(junit(found))[0]
        assert case.get("name") == "<img src=x onerror=alert(1)>[2J - a: mAP < 0"

    def test_in_terminals_they_are_printable(self, found):
        text = "\n".join([*lines(found), *(cell for row in differences_table(found)[1] for cell in row)])
        assert text.isprintable() or text.replace("\n", "").isprintable()
        assert "<img src=x onerror=alert(1)>\\x1b[2J" in text
        assert "\\x07 0.5 -> 0.25" in text

    def test_in_json_they_are_as_they_are(self, found):
        told = json.loads(json.dumps(plain(found)))
        assert told["tags"][1] == self.TAG
        assert told["pairs"][0]["items"]["lost"][0]["name"] == self.ITEM


class TestRanking:
    def groups(self, scores, p, better="higher"):
        return tied_groups(scores, better, lambda one, other: p.get((one, other), 1.0))

    def test_those_not_told_apart_from_the_best_of_a_group_are_in_it(self):
        # Three pairs: p counts threefold. 2 leads, 0 is like it, 1 is not.
        assert self.groups([0.8, 0.1, 0.9], {(2, 0): 0.4, (2, 1): 0.01}) == [[2, 0], [1]]
        assert self.groups([0.8, 0.1, 0.9], {(2, 0): 0.01, (0, 1): 0.04}) == [[2], [0, 1]]
        assert self.groups([0.8, 0.1, 0.9], {(2, 0): 0.01, (0, 1): 0.01}, "lower") == [[1, 0, 2]]

    def test_without_a_score_is_last(self):
        assert self.groups([None, 0.1, 0.9, None], {}) == [[2, 1], [0, 3]]
        assert self.groups([None, None], {}) == [[0, 1]]


class TestItems:
    def test_wins_and_ties_by_hand(self, tmp_path: Path):
        one, other = two(tmp_path, [0.5, 0.5, 0.5, np.nan], [0.25, 0.5, 1, 1])
        found = wins(Aligned([one, other]))
        assert found is not None
        assert found.column == "AP"
        assert found.counts.tolist() == [[3, 3], [3, 4]]
        assert found.shares[0, 1] == found.shares[1, 0] == found.ties[0, 1] == 1 / 3
        assert found.shares[0, 0] == 0

    def test_lower_is_better_where_the_family_says_so(self, tmp_path: Path):
        columns = [{"top1": np.ones(2), "nll": [1.0, 2], "top5": np.ones(2), "stats/label": [0, 1]} for _ in "ab"]
        one, other = (scored(tmp_path, t, c, "classification") for t, c in zip("ab", columns, strict=True))
        one.family.order = lambda columns: ("nll", "lower")  # type: ignore[method-assign]
        aligned = Aligned([one, other])
        aligned.columns[1]["nll"] = np.array([0.5, 3.0])
        found = flips(aligned, (0, 1), 5)
        assert found is not None
        assert [(item.name, item.first, item.second) for item in found.gained] == [("i000", 1, 0.5)]
        assert [item.name for item in found.lost] == ["i001"]

    def test_the_largest_come_first_and_undefined_ones_never(self, tmp_path: Path):
        one, other = two(tmp_path, [0.1, 0.1, 0.1, np.nan, 0.5], [0.2, 0.4, 0.4, 1, 0.5])
        found = flips(Aligned([one, other]), (0, 1), 2)
        assert found is not None
        assert [item.name for item in found.gained] == ["i001", "i002"]
        assert found.lost == []


@pytest.mark.slow
class TestRealExports:
    def test_a_copy_does_not_differ_and_collapsed_features_do(self, tmp_path: Path, capsys: pytest.CaptureFixture):
        first = exported(tmp_path, "retrieval", "first")
        another(first, "same")
        another(first, "collapsed", lambda columns: {"embedding": np.ones_like(columns["embedding"])})
        found = compare("retrieval", ["first", "same", "collapsed"], outputs=tmp_path)
        for each in found.pairs[0].differences.values():
            assert (each.value, each.low, each.high, each.p) == (0, 0, 0, 1)
            assert each.first == first.record["scores"][each.metric]["value"]
        assert found.pairs[1].differences["mAP"].winner == "first"
        assert run(tmp_path, "first", "same", "--fail-if", "map < 0") == 0
        assert run(tmp_path, "first", "collapsed", "--fail-if", "map < 0") == 1
        assert "24 that all tags have" in capsys.readouterr().out
