"""An export that was stopped goes on where it was; what cannot end well is said, and nothing finished is lost."""

import os
import signal
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from tiny_processes import heeding_ctrl_c

import benchkit.export.forward
import benchkit.export.run
from benchkit.datasets.scenes import Scenes
from benchkit.errors import BenchkitError
from benchkit.eval import evaluate
from benchkit.export import export
from benchkit.export.job import Outcome
from benchkit.images import Unreadable
from benchkit.provenance.record import read_record
from benchkit.store.table import Table
from benchkit.store.verify import folder_content

HERE = Path(__file__).parent
SMALL = ["data.side=32", "data.n_train=24", "data.n_test=24", "model.batch_size=4", "model.backbone.size=32"]
FAST = "benchmarks.classification.model.head.strength=1"
Export = Callable[..., list[Outcome | BenchkitError]]

PREPARED = "size: 224, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several parts of a few rows."""
    monkeypatch.setattr(benchkit.export.forward, "PART_BYTES", 12_000)
    tiny_models.forwarded.clear()


@pytest.fixture
def run(tmp_path: Path) -> Export:
    """Export a model of tiny_models into tmp_path/outputs."""

    def work(model: str, benchmarks: str = "retrieval", *settings: str, **options: object) -> list:
        conf = tmp_path / f"{model}.yaml"
        conf.write_text(f"model: {{backbone: {{name: module, path: tiny_models.{model}, {PREPARED}}}}}\n")
        fast = [FAST] if "classification" in benchmarks else []
        given = {"outputs": tmp_path / "outputs", "say": str, **options}
        return export(conf, benchmarks.split(), arguments=[*SMALL, *fast, *settings], **given)

    return work


def banked(outputs: Path) -> list[str]:
    """Image hashes in all parts, repeated ones too."""
    names = []
    for part in sorted(outputs.glob("features/*/part-*.h5")):
        with Table(part, "bank") as table:
            names += table.names
    return names


def failed(ends: list, status: int) -> str:
    """The message of the only outcome, which is an error of that status."""
    assert len(ends) == 1
    assert isinstance(ends[0], BenchkitError), ends
    assert ends[0].status == status
    return str(ends[0])


# Stopped from outside


def slow_export(tmp_path: Path, part_bytes: int) -> subprocess.Popen:
    """A real process that exports classification for at least a second of forwards."""
    (tmp_path / "other_name.yaml").write_text(
        f"model: {{backbone: {{name: module, path: tiny_models.SlowNet, {PREPARED}}}}}\n"
    )
    code = (
        f"import sys, benchkit.export.forward as f; f.PART_BYTES = {part_bytes}\n"
        "from benchkit.commands.export import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", code, "--conf", tmp_path / "other_name.yaml", "--benchmark", "classification"]
    command += ["--tag", "SlowNet", "--outputs", tmp_path / "outputs", *SMALL, FAST]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "SLOW_LOG": str(tmp_path / "log"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=heeding_ctrl_c)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.fault("killed worker of several")
def test_killed_midway_goes_on_with_another_number_of_shards(tmp_path: Path, run: Export) -> None:
    process = slow_export(tmp_path, 9_000)
    wait_for(lambda: len(list((tmp_path / "outputs").glob("features/*/part-*.h5"))) >= 2, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = banked(tmp_path / "outputs")
    assert 0 < len(before) < 48
    ends = [run("SlowNet", "classification", shard=f"{i}/3")[0] for i in (2, 0, 1)]
    assert [end.state for end in ends] == ["waiting", "waiting", "finished"]
    assert sum(end.forwards for end in ends) == 48 - len(before)
    assert len(banked(tmp_path / "outputs")) == len(set(banked(tmp_path / "outputs"))) == 48
    whole = run("SlowNet", "classification", outputs=tmp_path / "whole")[0]
    assert folder_content(ends[-1].folder) == folder_content(whole.folder)


@pytest.mark.fault("Ctrl-C, once")
def test_interrupted_writes_the_open_part_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = slow_export(tmp_path, 1 << 30)
    log = tmp_path / "log"
    wait_for(lambda: log.exists() and log.read_text().count("4\n") >= 5, process)
    process.send_signal(signal.SIGINT)
    message = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "the same command goes on from there" in message
    assert "Traceback" not in message
    rows = banked(tmp_path / "outputs")
    assert 8 <= len(rows) < 48
    assert len(rows) % 4 == 0
    assert not list((tmp_path / "outputs").rglob("*.tmp-*"))


# Stopped from inside


def cut_off(patch: pytest.MonkeyPatch) -> None:
    """One item cannot be decoded."""
    render = Scenes.image

    def image(self: Scenes, view: str) -> np.ndarray:
        if view == "test/000013":
            raise Unreadable("it is cut off")
        return render(self, view)

    patch.setattr(Scenes, "image", image)


@pytest.mark.fault("read error in the data set")
def test_a_read_error_keeps_what_was_finished(tmp_path: Path, run: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        cut_off(patch)
        message = failed(run("TinyNet"), 3)
        assert "test/000013: it is cut off" in message
        assert "data.on_error=skip" in message
    kept = banked(tmp_path / "outputs")
    assert len(kept) == 12
    assert run("TinyNet")[0].forwards == 24 - 12


@pytest.fixture
def white(monkeypatch: pytest.MonkeyPatch) -> str:
    """One item is white all over; the model WhiteIsNaN has no features for it."""
    render, name = Scenes.image, "test/000013"
    monkeypatch.setattr(
        Scenes, "image", lambda self, view: np.full((32, 32, 3), 255, np.uint8) if view == name else render(self, view)
    )
    return name


@pytest.mark.fault("NaN from the model")
def test_nan_stops_and_keeps_what_was_finished(tmp_path: Path, run: Export, white: str) -> None:
    message = failed(run("WhiteIsNaN"), 3)
    assert white in message
    assert "NaN" in message
    assert "model.on_nonfinite=skip" in message
    assert len(banked(tmp_path / "outputs")) == 12


@pytest.mark.fault("NaN from the model", times=2)
def test_nan_is_left_out_when_asked_and_counted(tmp_path: Path, run: Export, white: str) -> None:
    failed(run("WhiteIsNaN"), 3)
    end = run("WhiteIsNaN", "retrieval", "model.on_nonfinite=skip", overwrite=True)[0]
    assert end.forwards == 12
    record = evaluate("retrieval", end.tag, outputs=tmp_path / "outputs").record
    assert record["data"]["n_items"] == 23
    assert list(record["data"]["skipped"]) == [white]
    assert record["protocol"]["skipped"] == [white]
    assert run("WhiteIsNaN", "retrieval", "model.on_nonfinite=skip")[0].state == "unchanged"


@pytest.mark.fault("NaN from the model", times=2)
def test_rows_left_out_by_another_tag_do_not_pass_where_they_shall_stop(run: Export, white: str) -> None:
    run("WhiteIsNaN", "retrieval", "model.on_nonfinite=skip", tag="skips")
    message = failed(run("WhiteIsNaN", "retrieval", tag="stops"), 3)
    assert white in message
    assert "model.on_nonfinite=skip" in message


@pytest.mark.fault("read error in the data set", times=2)
def test_unreadable_rows_left_out_by_another_tag_do_not_pass_either(
    run: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        cut_off(patch)
        skips = run("TinyNet", "retrieval", "data.on_error=skip", tag="skips")[0]
        assert list(read_record(skips.folder)["data"]["skipped"]) == ["test/000013"]
    assert "cut off" in failed(run("TinyNet", "retrieval", tag="stops"), 3)


@pytest.mark.fault("out of memory on the device")
def test_out_of_memory_names_a_size_that_fits(run: Export) -> None:
    message = failed(run("Large", "retrieval", "model.batch_size=16"), 3)
    assert "model.batch_size=2" in message
    assert "model.batch_size=16; 2 fits" in message
    end = run("Large", "retrieval", "model.batch_size=2", overwrite=True)[0]
    assert end.forwards == 24


# Found out before the first forward

Usage = namedtuple("Usage", "total used free")


@pytest.mark.fault("disk full, foreseen")
def test_not_enough_disk(tmp_path: Path, run: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchkit.export.run.shutil, "disk_usage", lambda path: Usage(10**9, 10**9 - 5000, 5000))
    message = failed(run("TinyNet"), 2)
    assert "5 KB free" in message
    assert banked(tmp_path / "outputs") == []
    assert sum(tiny_models.forwarded) <= 11  # grey and noisy images that tell what the module is; none of the data


@pytest.mark.fault("disk full, foreseen")
def test_much_data_is_asked_about(tmp_path: Path, run: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchkit.export.run, "ASK_ABOVE", 1000)
    message = failed(run("TinyNet"), 2)
    assert "--yes" in message
    assert "model.features.dense_stride=2" in message
    assert banked(tmp_path / "outputs") == []
    assert run("TinyNet", yes=True)[0].forwards == 24


def test_finishing_by_hand_says_what_is_missing(tmp_path: Path, run: Export) -> None:
    run("TinyNet", shard="0/2")
    message = failed(run("TinyNet", finish=True), 2)
    assert "12 of 24 images" in message
    assert "test/" in message
    run("TinyNet", shard="1/2")
    assert run("TinyNet", finish=True)[0].state == "unchanged"


# Each ends on its own


def test_a_benchmark_that_cannot_be_made_leaves_the_others_alone(tmp_path: Path, run: Export) -> None:
    ends = run("TinyNet", "classification retrieval", "benchmarks.classification.model.features.pool=attn")
    assert isinstance(ends[0], BenchkitError)
    assert ends[1].state == "finished"


def test_publishing_leaves_the_users_own_files(tmp_path: Path, run: Export) -> None:
    end = run("TinyNet")[0]
    (end.folder / "notes.md").write_text("mine")
    evaluate("retrieval", end.tag, outputs=tmp_path / "outputs")
    assert run("TinyNet", "retrieval", "model.seed=3", overwrite=True)[0].state == "finished"
    assert (end.folder / "notes.md").read_text() == "mine"
    assert not (end.folder / "results.h5").exists()
    assert read_record(end.folder)["scores"] is None
