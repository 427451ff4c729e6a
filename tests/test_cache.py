"""What the outputs folder holds, who uses it, and that deleting it takes nothing from a finished tag."""

import json
import os
from pathlib import Path

import pytest

from benchkit.commands.cache import main
from benchkit.eval import evaluate
from benchkit.export import export
from benchkit.store.outputs import Outputs
from benchkit.store.usage import BUSY_SECONDS, holdings, size_text

SMALL = ["data.n_train=24", "data.n_test=18", "data.side=32"]


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """A tag of classification; a bank that no tag used beside it; all of it two days old."""
    export("color_histogram", "classification", arguments=SMALL, outputs=tmp_path, say=str)
    export("color_histogram", "retrieval", arguments=[*SMALL, "model.backbone.bins=4"], outputs=tmp_path, say=str)
    for path in (tmp_path / "results/retrieval").rglob("*"):
        if path.is_file():
            path.unlink()
    age(tmp_path, 2 * 86400)
    return tmp_path


def age(root: Path, seconds: float) -> None:
    for path in root.rglob("*"):
        stat = path.stat()
        os.utime(path, (stat.st_atime, stat.st_mtime - seconds))


def run(capsys: pytest.CaptureFixture[str], outputs: Path, *argv: str) -> tuple[int, str]:
    status = main([*argv, "--outputs", str(outputs)])
    return status, capsys.readouterr().out


def test_who_uses_what(outputs: Path):
    found = holdings(Outputs(outputs))
    banks = [each for each in found if each.kind == "bank"]
    assert sorted(each.tags for each in banks) == [(), ("classification/color_histogram",)]
    used = next(each for each in banks if each.tags)
    assert used.about == "42 rows in 1 parts: mean@final, crop 224 px, fp32"
    assert used.bytes == sum(p.stat().st_size for p in used.path.iterdir())
    targets = [each for each in found if each.kind == "targets"]
    assert sum(bool(each.tags) for each in targets) == 2  # evaluated and train; the third is of the lost tag
    assert all(each.shared == each.bytes for each in targets if each.tags and each.shared)


def test_stats(outputs: Path, capsys: pytest.CaptureFixture[str]):
    status, out = run(capsys, outputs)
    assert status == 0
    assert "classification/color_histogram" in out
    assert "2 d ago" in out
    status, out = run(capsys, outputs, "--json")
    assert {each["kind"] for each in json.loads(out)} >= {"bank", "targets"}


def test_nothing_goes_without_yes(outputs: Path, capsys: pytest.CaptureFixture[str]):
    before = sorted(outputs.rglob("*"))
    status, out = run(capsys, outputs, "prune", "--unused")
    assert status == 0
    assert "would delete bank" in out
    assert sorted(outputs.rglob("*")) == before


def test_unused_banks_go_and_tags_stay(outputs: Path, capsys: pytest.CaptureFixture[str]):
    status, out = run(capsys, outputs, "prune", "--unused", "--yes")
    assert status == 0
    assert out.count("deleted bank") == 1
    assert [each.tags for each in holdings(Outputs(outputs)) if each.kind == "bank"] == [
        ("classification/color_histogram",)
    ]
    assert evaluate("classification", "color_histogram", outputs=outputs).summaries["n_items"] == 18


def test_a_tag_is_whole_without_any_bank(outputs: Path, capsys: pytest.CaptureFixture[str]):
    whole = evaluate("classification", "color_histogram", outputs=outputs).summaries
    age(outputs, 86400)
    run(capsys, outputs, "prune", "--older", "1d", "--yes")
    assert [each for each in holdings(Outputs(outputs)) if each.kind in ("bank", "targets")] == []
    assert evaluate("classification", "color_histogram", outputs=outputs, overwrite_eval=True).summaries == whole
    ends = export("color_histogram", "classification", arguments=SMALL, outputs=outputs, say=str)
    assert ends[0].state == "unchanged"


def test_what_was_written_lately_stays_unless_it_is_named(outputs: Path, capsys: pytest.CaptureFixture[str]):
    bank = next(each for each in holdings(Outputs(outputs)) if each.kind == "bank" and not each.tags)
    for path in bank.path.iterdir():
        os.utime(path)
    assert run(capsys, outputs, "prune", "--unused", "--yes")[1].count("deleted bank") == 0
    assert bank.path.exists()
    assert run(capsys, outputs, "prune", bank.name, "--yes")[1].count("deleted bank") == 1
    assert not bank.path.exists()
    assert BUSY_SECONDS == 3600


def test_unfinished_work_goes_by_age_only(outputs: Path, capsys: pytest.CaptureFixture[str]):
    parts = outputs / "results/classification/half/.parts"
    parts.mkdir(parents=True)
    (parts / "plan.json").write_text("{}")
    stranger = outputs / "targets/abc.h5.tmp-otherhost.1-0-7-0123abcd"
    stranger.write_text("half")
    mine = outputs / f"targets/abc.h5.tmp-otherhost.1-0-{os.getpid()}-0123abcf.note"
    mine.write_text("no temporary name")
    age(parts, 3 * 86400)
    os.utime(stranger, (0, 0))
    assert "half/.parts" not in run(capsys, outputs, "prune", "--unused", "--yes")[1]
    out = run(capsys, outputs, "prune", "--older", "3d", "--yes")[1]
    assert "classification/half/.parts" in out
    assert not parts.exists()
    assert not stranger.exists()
    assert mine.exists()


def test_wrong_usage(outputs: Path, capsys: pytest.CaptureFixture[str]):
    assert run(capsys, outputs, "prune")[0] == 2
    assert run(capsys, outputs, "prune", "nothing-there")[0] == 2
    assert run(capsys, outputs, "prune", "--older", "soon")[0] == 2
    assert run(capsys, outputs / "none")[1].startswith("nothing is banked")


def test_a_damaged_bank_is_shown(outputs: Path, capsys: pytest.CaptureFixture[str]):
    part = next(outputs.glob("features/*/part-*.h5"))
    part.chmod(0o644)
    part.write_bytes(part.read_bytes()[:100])
    assert "damaged: part-" in run(capsys, outputs, "--json")[1]


def test_sizes():
    assert [size_text(n) for n in (7, 1234, 5.6e6, 7.89e9, 1e12)] == ["7 B", "1.23 KB", "5.6 MB", "7.89 GB", "1 TB"]
