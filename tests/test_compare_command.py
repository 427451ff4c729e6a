"""`benchkit compare`: its tables, JSON, gates and JUnit file, and texts of strangers in them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from tiny_experiments import another, exported
from tiny_scores import scored, two

from benchkit.__main__ import main
from benchkit.compare import compare
from benchkit.compare.aligned import Aligned
from benchkit.compare.comparison import compared
from benchkit.compare.differences import Chance
from benchkit.compare.gates import read_gate
from benchkit.compare.junit import junit
from benchkit.compare.plain import plain
from benchkit.compare.tables import differences_table, lines
from benchkit.errors import UsageError
from benchkit.experiments.experiment import family_of
from benchkit.registry import find

QUICK = Chance(resamples=200, permutations=999, set_permutations=199)


def run(root: Path, *argv: str, benchmark: str = "retrieval") -> int:
    return main(["compare", benchmark, *argv, "--outputs", str(root)])


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

    def test_tables_can_be_pasted(self, three: Path, capsys: pytest.CaptureFixture):
        assert run(three, "a", "b", "c", "--format", "latex") == 0
        head, begin, top, *rest = capsys.readouterr().out.splitlines()
        assert head.startswith("% retrieval: A is a")
        assert (begin, top) == (r"\begin{tabular}{llrrrrrrrl}", r"\toprule")
        assert any(line.startswith("c & mAP (higher) &") and " & $-$0." in line for line in rest)
        assert all(line.startswith("% ") for line in rest[-8:])
        assert run(three, "a", "b", "c", "--format", "markdown") == 0
        out = capsys.readouterr().out
        tables = [part for part in out.split("\n\n") if part.startswith("|")]
        assert len(tables) == 2  # an empty line before and after each
        assert all(line.startswith("|") for table in tables for line in table.splitlines())

    def test_a_tag_is_no_markup_beside_a_table_either(self, tmp_path: Path, capsys: pytest.CaptureFixture):
        one, _ = two(tmp_path, [0.5, 0.25], [0.25, 0.5])
        shutil.copytree(one.folder, one.folder.with_name("<img>"))
        assert run(tmp_path, one.tag, "<img>", "--format", "markdown") == 0
        assert re.search(r"(?<!\\)<img>", capsys.readouterr().out) is None

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
        assert first["better_side"] == first["verdict"] == "first"
        assert told["pairs"][1]["items"]["gained"][0]["name"] == "i039"
        assert told["pairs"][1]["items"]["lost"][0]["second"] < 0.5
        assert [bool(gate["failure"]) for gate in told["gates"]] == [False, True]
        assert told["ranking"]["groups"][-1] == ["c"]

    def test_a_better_side_is_no_verdict(self, tmp_path: Path):
        one, other = two(tmp_path, [0.5, 0.5, 0.75, 0.25], [0.5, 0.5, 0.75, 0.5])
        (told,) = plain(compared(Aligned([one, other]), one.family.metrics()[:1], [], QUICK, 5))["pairs"][0][
            "differences"
        ]
        assert (told["better_side"], told["significant"], told["verdict"]) == ("second", False, None)

    def test_a_name_that_is_no_utf8_is_escaped_everywhere(self, tmp_path: Path, capsys: pytest.CaptureFixture):
        one, _ = two(tmp_path, [0.5, 0.25], [0.25, 0.5])
        shutil.copytree(one.folder, one.folder.with_name("bad\udcff"))
        for argv in (["--json"], ["--format", "csv"], ["--format", "markdown"], []):
            assert run(tmp_path, one.tag, "bad*", *argv) == 0
            assert r"bad\udcff" in capsys.readouterr().out.replace(r"\\", "\\")

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

    @pytest.mark.parametrize("number", ["1e999", "-1e400%", "\N{FULLWIDTH DIGIT ONE}", "inf", "nan"])
    def test_a_limit_is_finite_and_in_ascii(self, number: str):
        with pytest.raises(UsageError, match=r"too large|no limit"):
            self.gate(f"top1 < {number}")

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
    def test_the_file_is_the_users_and_a_link_is_written_through(self, three: Path, tmp_path: Path):
        file, link = tmp_path / "there.xml", tmp_path / "link.xml"
        link.symlink_to(file)
        assert run(three, "a", "b", "--junit", str(link)) == 0
        assert link.is_symlink()
        assert file.stat().st_mode & 0o200

    def test_where_it_cannot_be_written_the_comparison_is_printed(
        self, three: Path, tmp_path: Path, capsys: pytest.CaptureFixture
    ):
        assert run(three, "a", "b", "--junit", str(tmp_path)) == 2  # before any work
        assert "is a folder" in capsys.readouterr().err
        (tmp_path / "file").write_text("")
        assert run(three, "a", "b", "--junit", str(tmp_path / "file/x.xml")) == 3
        assert capsys.readouterr().out.startswith("retrieval: A is a, B is b")

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
        assert '\\x07" 0.5 -> 0.25' in text

    def test_in_json_they_are_as_they_are(self, found):
        told = json.loads(json.dumps(plain(found)))
        assert told["tags"][1] == self.TAG
        assert told["pairs"][0]["items"]["lost"][0]["name"] == self.ITEM


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
