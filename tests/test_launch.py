"""Exports as jobs: what is submitted, what is told of them, and that together they make what one process makes."""

import os
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fake_slurm
import pytest
from tiny_processes import heeding_ctrl_c

from benchkit.commands.export import main
from benchkit.errors import UsageError
from benchkit.export import export
from benchkit.export.job import Outcome
from benchkit.launch import watching
from benchkit.launch.clusters import Local, Slurm, minutes
from benchkit.launch.launching import _failures, _outcomes
from benchkit.launch.tasks import DONE, FAILED, RUNNING, STOPPED, WAITING, Task, finishing, tasks_of
from benchkit.launch.watching import counts, rows, watch
from benchkit.store.verify import folder_content

HERE = Path(__file__).parent
SMALL = ["data.side=32", "data.n_test=24", "model.batch_size=4"]
FAST = ["benchmarks.classification.model.head.strength=1", "data.n_train=24"]


class Job:
    """What submitit calls a job; ends as it is told after so many looks."""

    def __init__(self, folder: Path, looks: int, result: Any) -> None:
        self.looks, self.given, self.paths = looks, result, Namespace(result_pickle=folder / "r", stdout=folder / "log")
        if result is not None:
            self.paths.result_pickle.write_text("")

    def done(self) -> bool:
        self.looks -= 1
        return self.looks < 0

    def exception(self) -> object:
        return self.given if isinstance(self.given, Exception) else None

    def result(self) -> object:
        return self.given


class Cluster:
    """Jobs in memory, with the results given."""

    patience = pause = 0.0

    def __init__(self, folder: Path, at_once: int, results: Sequence[Any]) -> None:
        self.folder, self.at_once, self.results = folder, at_once, list(results)
        self.cancelled: list[Job] = []
        self.slots: list[int] = []

    def submit(self, argvs: Sequence[Sequence[str]], slots: Sequence[int]) -> list[Job]:
        self.slots += slots
        jobs = []
        for _ in argvs:
            folder = self.folder / str(len(list(self.folder.iterdir())))
            folder.mkdir()
            jobs.append(Job(folder, 2, self.results.pop(0)))
        return jobs

    def cancel(self, job: Job) -> None:
        self.cancelled.append(job)
        job.paths.result_pickle.write_text("")
        job.given, job.looks = (130, []), 0


def tasks(count: int) -> list[Task]:
    return [Task("a", f"{n}/{count}", []) for n in range(count)]


def ended(tag: str, state: str) -> tuple[str, Outcome]:
    return "a", Outcome("retrieval", tag, Path(tag), state)


class TestWatching:
    """Submitted as there is room, looked at until all have ended."""

    def test_no_more_at_once_than_asked_each_in_a_slot_of_its_own(self, tmp_path: Path):
        cluster, all_of_them, seen = Cluster(tmp_path, 2, [(0, [])] * 5), tasks(5), []
        watch(all_of_them, cluster, lambda now: seen.append(sum(task.state == RUNNING for task in now)))
        assert [task.state for task in all_of_them] == [DONE] * 5
        assert max(seen) == 2
        assert set(cluster.slots) == {0, 1}

    def test_how_each_ended(self, tmp_path: Path):
        """Well, with a status, killed, by an exception, interrupted."""
        results = [(0, [ended("t", "waiting")]), (2, []), None, RuntimeError("of submitit"), (130, [])]
        all_of_them = tasks(5)
        watch(all_of_them, Cluster(tmp_path, 5, results), lambda _: None)
        assert [task.status for task in all_of_them] == [0, 2, 3, 3, 130]
        assert [task.state for task in all_of_them] == [DONE, FAILED, FAILED, FAILED, STOPPED]
        assert counts(all_of_them) == "1 done, 3 failed, 1 stopped"
        assert [row[:3] for row in rows(all_of_them)[1]][2] == ["a", "2/5", "failed"]

    def test_ctrl_c_cancels_what_runs_and_starts_nothing_more(self, tmp_path: Path):
        cluster, all_of_them = Cluster(tmp_path, 2, [(0, [])] * 3), tasks(3)

        def pressed(_: Sequence[Task]) -> None:
            if not cluster.cancelled:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            watch(all_of_them, cluster, pressed)
        assert len(cluster.cancelled) == 2
        assert [task.state for task in all_of_them] == [STOPPED] * 3

    def test_a_result_may_come_late(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        (task,) = tasks(1)
        cluster = Cluster(tmp_path, 1, [None])
        cluster.patience = 50.0
        clock = iter(range(0, 1000, 20))
        monkeypatch.setattr(watching.time, "monotonic", lambda: float(next(clock)))
        watch([task], cluster, lambda _: None)
        assert task.status == 3
        assert next(clock) >= 80


class TestTasks:
    """From the command's arguments to those of each job."""

    GIVEN = Namespace(
        conf=["a", "b"], benchmark=["x", "y"], tag=None, checkpoint=None, limit=5, outputs="o", random=True,
        overwrite=False, yes=False, traceback=False, trust=False, jobs=2, settings=["data.side=3"],
    )  # fmt: skip

    def test_a_job_per_conf_and_share_with_all_benchmarks(self):
        made = tasks_of(self.GIVEN)
        assert [(task.conf, task.share) for task in made] == [("a", "0/2"), ("b", "0/2"), ("a", "1/2"), ("b", "1/2")]
        expected = "--conf a --benchmark x y --limit 5 --outputs o --random data.side=3 --shard 0/2"
        assert " ".join(made[0].argv) == expected
        assert finishing(self.GIVEN, "b").argv[-2:] == ["data.side=3", "--finish"]

    def test_of_each_tag_what_came_furthest_counts(self):
        first, second = tasks(2)
        first.end(0, [ended("t", "finished"), ended("u", "waiting")])
        second.end(0, [ended("t", "waiting"), ended("u", "waiting")])
        assert [(end.tag, end.state) for _, end in _outcomes([first, second])] == [("t", "finished"), ("u", "waiting")]

    def test_the_same_failure_is_said_once_with_its_last_words(self, tmp_path: Path):
        made = tasks(2)
        for task in made:
            (tmp_path / task.share[0]).mkdir()
            task.begin(Job(tmp_path / task.share[0], 0, None), 0)
            text = "forward: 3/4\nit is \x1b[31mbroken.\nsubmitit INFO (now) - Exiting\n"
            (tmp_path / task.share[0] / "log").write_text(text)
            task.end(3)
        said = f"a 0/2, a 1/2 failed with status 3: it is \\x1b[31mbroken. (log: {tmp_path}/0/log)"
        assert _failures(made) == [said]


class TestSettings:
    """What is said before anything is submitted."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("90", 90), ("2:00:00", 120), ("1-12", 36 * 60), ("1-0:30", 24 * 60 + 30), ("0:30", 1), ("1-0:00:01", 1441)],
    )
    def test_times_are_read_as_sbatch_reads_them(self, text: str, expected: int):
        assert minutes(text) == expected

    @pytest.mark.parametrize("text", ["2h", "", "1:2:3:4", "-5"])
    def test_what_is_no_time_is_refused(self, text: str):
        with pytest.raises(ValueError, match="is no time"):
            minutes(text)

    @pytest.mark.parametrize(
        ("flags", "said"),
        [
            (["--jobs", "2"], "belong to --launcher"),
            (["--launcher", "local", "--jobs", "0"], "one job at least"),
            (["--launcher", "local", "--shard", "0/2"], "leave --shard and --finish out"),
            (["--launcher", "local", "--slurm", "time=3"], "settings for --launcher slurm"),
            (["--launcher", "slurm", "--slurm", "gpu"], "--slurm gpu: its settings are key=value"),
        ],
    )
    def test_flags_that_have_no_sense(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
    ):
        given = ["--conf", "color_histogram", "--benchmark", "retrieval", "--outputs", str(tmp_path)]
        assert main([*given, *flags, *SMALL]) == 2
        assert said in capsys.readouterr().err

    def test_a_machine_without_slurm_is_told_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(UsageError, match=r"srun.*--launcher local uses this machine"):
            Slurm(tmp_path, 2, {})

    def test_settings_that_slurm_does_not_know(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        for name, value in fake_slurm.install(tmp_path).items():
            monkeypatch.setenv(name, value)
        Slurm(tmp_path, 2, {"time": "1:00:00", "gpus": "1", "mem": "32GB", "partition": "p"})
        for settings, said in ({"colour": "red"}, "colour"), ({"time": "soon"}, "time=soon is no time"):
            with pytest.raises(UsageError, match=said):
                Slurm(tmp_path, 2, settings)  # type: ignore[arg-type]

    def test_without_submitit_its_extra_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "submitit", None)
        with pytest.raises(UsageError, match="extra slurm"):
            Local(tmp_path, 2, {})


def command(tmp_path: Path, verb: str, *flags: str, **environment: str) -> subprocess.Popen:
    """A launcher in a process of its own, with part files of two batches."""
    (tmp_path / "slow.yaml").write_text(
        "model: {backbone: {name: module, path: tiny_models.SlowNet, size: 32, mean: [0, 0, 0], std: [1, 1, 1]}}\n"
    )
    given = {**os.environ, "PYTHONPATH": str(HERE), "SLOW_LOG": str(tmp_path / "log"), **environment}
    return subprocess.Popen(
        [sys.executable, "-m", "benchkit", verb, "--outputs", "outputs", *flags], cwd=tmp_path, env=given, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeding_ctrl_c,
    )  # fmt: skip


def until(condition: Callable[[], object], process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def forwards(tmp_path: Path) -> int:
    log = tmp_path / "log"
    return log.read_text().count("4\n") if log.exists() else 0


@pytest.mark.slow
class TestLocal:
    """Processes of this machine."""

    def test_a_sweep_gives_the_content_of_single_exports_and_one_table_of_scores(self, tmp_path: Path):
        flags = ["--conf", "color_histogram", "slow.yaml", "--benchmark", "retrieval", "classification"]
        run = command(tmp_path, "run", *flags, "--launcher", "local", "--jobs", "2", "--format", "csv", *SMALL, *FAST)
        out, said = run.communicate(timeout=300)
        assert run.returncode == 0, said
        table = [line.split() for line in said.splitlines() if "_log.out" in line]
        assert [row[:3] for row in table] == [
            [conf, share, "done"] for share in ("0/2", "1/2") for conf in ("color_histogram", "slow.yaml")
        ]
        assert forwards(tmp_path) - 2 * 2 <= 48 // 4  # each image once, though two benchmarks want it
        assert out.startswith("benchmark,tag,metric,value")
        found = {tuple(line.split(",")[:3]) for line in out.splitlines()[1:]}
        wanted = {
            (b, t, m)
            for b, m in (("retrieval", "mAP"), ("classification", "top1"))
            for t in ("color_histogram", "slow")
        }
        assert wanted <= found
        for benchmark in ("retrieval", "classification"):
            single = export("color_histogram", benchmark, arguments=[*SMALL, *(FAST if benchmark != "retrieval" else FAST[1:])],
                            outputs=tmp_path / "one", say=str)[0]  # fmt: skip
            many = tmp_path / "outputs" / "results" / benchmark / "color_histogram"
            assert isinstance(single, Outcome)
            assert same_exports(single.folder, many)

    @pytest.mark.fault("Ctrl-C, once", "killed worker of several")
    def test_ctrl_c_stops_the_jobs_and_a_killed_one_is_named_and_resumed(self, tmp_path: Path):
        flags = ["--conf", "slow.yaml", "--benchmark", "retrieval", "--launcher", "local", "--jobs"]
        settings = ["data.side=32", "data.n_test=80", "model.batch_size=4"]
        first = command(tmp_path, "export", *flags, "1", *settings)
        until(lambda: forwards(tmp_path) >= 6, first)
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=120)
        assert first.returncode == 130
        assert re.search(r"0/1 +stopped", said)
        assert "goes on from there: benchkit export --outputs outputs --conf slow.yaml" in said

        before = forwards(tmp_path)
        second = command(tmp_path, "export", *flags, "2", *settings)
        until(lambda: forwards(tmp_path) >= before + 6, second)
        (victim, *_) = workers(tmp_path)
        os.kill(victim, signal.SIGKILL)
        _, said = second.communicate(timeout=120)
        assert second.returncode == 3
        assert sorted(re.findall(r"(\d/2|finish) +(done|failed)", said))[-1] == ("finish", "failed")
        found = re.search(rf"pid {victim}\) has died: (\d+) images missing, such as 'test/.*--shard [01]/2", said)
        assert found, said
        (end,) = export(tmp_path / "slow.yaml", "retrieval", arguments=settings, outputs=tmp_path / "outputs", say=str)
        assert isinstance(end, Outcome), end
        assert (end.state, end.forwards) == ("finished", int(found[1]))
        assert int(found[1]) < 40 + 1


def same_exports(one: Path, other: Path) -> bool:
    """Equal content, scores (which only one of them has) left aside."""
    for name in ("results.h5", "summaries.json"):
        (other / name).unlink()
    return folder_content(one) == folder_content(other)


def workers(tmp_path: Path) -> list[int]:
    """Processes at work, by their signs of life."""
    import json

    told = [json.loads(path.read_text()) for path in tmp_path.glob("outputs/features/*/.workers/*.worker")]
    return [each["pid"] for each in told if each["state"] == "working"]


@pytest.mark.slow
@pytest.mark.fault("SIGTERM")
def test_slurm_queues_a_preempted_job_again_and_it_goes_on(tmp_path: Path):
    """On a cluster of one machine: SIGTERM and SIGUSR2 come, as with PreemptParameters=send_user_signal."""
    environment = fake_slurm.install(tmp_path)
    flags = ["--conf", "slow.yaml", "--benchmark", "retrieval", "--launcher", "slurm", "--jobs", "2", "--slurm"]
    flags += ["partition=gpu", "time=1:00:00", "data.side=32", "data.n_test=80", "model.batch_size=4"]
    launcher = command(tmp_path, "export", *flags, **environment)
    until(lambda: forwards(tmp_path) >= 6, launcher)
    child = int((tmp_path / "100_1.child").read_text())
    os.kill(child, signal.SIGTERM)
    os.kill(child, signal.SIGUSR2)
    out, said = launcher.communicate(timeout=120)
    assert launcher.returncode == 0, said
    assert (tmp_path / "100_1.starts").read_text().count("started") == 2
    assert "#SBATCH --array=0-1%2" in (tmp_path / "100.sh").read_text()
    assert "#SBATCH --partition=gpu" in (tmp_path / "100.sh").read_text()
    assert "finished outputs/results/retrieval/slow" in out
    assert forwards(tmp_path) <= 20 + 3 * 2 + 2
    assert WAITING not in out
