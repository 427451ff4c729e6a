"""`benchkit leaderboard`: what is ranked, in every form, of tags that are well, loud, damaged or not scored."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tiny_experiments import another, exported, noisy

from benchkit.__main__ import main
from benchkit.boards import boards_of
from benchkit.boards.plain import plain_board
from benchkit.boards.selection import chosen_benchmarks
from benchkit.errors import RunError
from benchkit.experiments.experiment import Experiment
from benchkit.provenance.record import read_record, sealed
from benchkit.store.files import write_json
from benchkit.store.outputs import Outputs

LOUD = "<img onerror=x>$a_b$|"


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
        assert LOUD in run(outputs, "retrieval", "--tag", LOUD)[1]

    def test_a_name_with_brackets_is_no_pattern(self, copied: Path, run: Any):
        (copied / "results/retrieval/second").rename(copied / "results/retrieval/a[1]")
        assert "a[1]" in run(copied, "retrieval", "--tag", "a[1]")[1]

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
        first, second = (
            100 * Experiment(outputs / "results/retrieval" / tag).record["scores"]["mAP"]["value"]
            for tag in ("first", "second")
        )
        assert f" {second:.1f} " in lines["second"]
        assert "difference of mAP [%]" in out
        assert f" {first - second:+.1f}" in lines["first"]
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

    def test_a_wide_csv_holds_the_differences_of_the_table(self, outputs: Path, run: Any):
        _, out, _ = run(outputs, "retrieval", "--wide", "--baseline", "second", "--metrics", "all", "--format", "csv")
        header, *rows = csv.reader(io.StringIO(out))
        cells = {row[0]: row[1:] for row in rows}
        first, second = (
            Experiment(outputs / "results/retrieval" / tag).record["scores"] for tag in ("first", "second")
        )
        assert header[1] == "difference of mAP ↑"
        assert float(cells["first"][0]) == pytest.approx(first["mAP"]["value"] - second["mAP"]["value"])
        assert set(cells["second"]) == {""}  # the baseline's own: no score stands among differences

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

    def test_exchanged_files_of_equal_size_are_refused_and_the_others_ranked(self, copied: Path, run: Any):
        one, other = (copied / "results/retrieval" / tag for tag in ("first", "second"))
        path = one / "results.h5"
        path.unlink()
        shutil.copy(other / "results.h5", path)
        assert path.stat().st_size == (other / "results.h5").stat().st_size
        status, out, err = run(copied, "retrieval")
        assert status == RunError.status
        assert "results.h5 is not the file" in err
        assert "not ranked: first:" in out
        shutil.copytree(other, copied / "results/homography/moved")
        assert "is of retrieval, not of homography" in run(copied, "homography")[2]

    def test_a_level_that_does_not_exist_is_a_paragraph(self, copied: Path, run: Any):
        change(copied / "results/retrieval/first", level="underground")
        status, out, err = run(copied, "retrieval")
        assert status == RunError.status
        assert "has the level 'underground': there are high, mid, low, geometry" in err
        assert "not ranked: first: " in out
