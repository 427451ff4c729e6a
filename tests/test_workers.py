"""Several workers: whose share is what, who is missing, and that together they make what one alone makes."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import tiny_models
import torch
from tiny_processes import heeding_ctrl_c

from benchkit.commands._signals import stoppable
from benchkit.errors import UsageError
from benchkit.export import export
from benchkit.export.batches import Picture, Pictures, batches, own, owners
from benchkit.export.coverage import resuming
from benchkit.export.job import Outcome
from benchkit.export.model import choose_device
from benchkit.export.shares import Share, cpus, local_rank, own_share
from benchkit.export.workers import DONE, STOPPED, WORKING, forget, signs, work_id, working
from benchkit.preprocess import Preprocess
from benchkit.store.files import boot, host
from benchkit.store.verify import folder_content

HERE = Path(__file__).parent
SMALL = ["data.side=32", "data.n_test=24", "model.batch_size=4"]
TINY = "model: {backbone: {name: module, path: tiny_models.%s, size: 32, mean: [0, 0, 0], std: [1, 1, 1]}}\n"


class TestWhoseShareIsWhat:
    """From the flag, else torchrun, else SLURM."""

    STEP: Mapping[str, str] = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_NTASKS": "8"}
    ARRAY: Mapping[str, str] = {
        "SLURM_ARRAY_TASK_ID": "3",
        "SLURM_ARRAY_TASK_COUNT": "4",
        "SLURM_ARRAY_TASK_MIN": "1",
        "SLURM_ARRAY_TASK_MAX": "4",
    }

    @pytest.mark.parametrize(
        ("shard", "environment", "share"),
        [
            (None, {}, Share(0, 1)),
            ("2/3", {"RANK": "0", "WORLD_SIZE": "2"}, Share(2, 3)),
            (None, {"RANK": "1", "WORLD_SIZE": "2", **STEP}, Share(1, 2, "torchrun")),
            (None, STEP, Share(5, 8, "srun")),
            (None, ARRAY, Share(2, 4, "the SLURM array")),
            (None, {**ARRAY, **STEP}, Share(2 * 8 + 5, 4 * 8, "srun")),
            (None, {**ARRAY, "SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MAX": "7"}, Share(2, 4, "the SLURM array")),
            (None, {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, Share(0, 1)),
            (None, {**STEP, "SLURM_PROCID": "0", "SLURM_PTY_PORT": "1"}, Share(0, 1)),
        ],
        ids=["none", "flag", "torchrun", "srun", "array", "array of steps", "spaced", "batch script", "shell"],
    )
    def test_the_first_that_is_there_counts(self, shard: str | None, environment: Mapping[str, str], share: Share):
        assert own_share(shard, environment) == share

    def test_an_array_of_what_was_missing_does_all_that_is_missing(self):
        alone = {**self.ARRAY, "SLURM_ARRAY_TASK_COUNT": "1", "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_MAX": "3"}
        assert own_share(None, alone) == Share(0, 1)

    @pytest.mark.parametrize(
        ("environment", "said"),
        [
            ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK='x'"),
            ({"RANK": "2", "WORLD_SIZE": "2"}, "worker 2 of 2"),
            ({**ARRAY, "SLURM_ARRAY_TASK_MAX": "9"}, "not evenly spaced"),
        ],
    )
    def test_what_cannot_be_read_is_said(self, environment: Mapping[str, str], said: str):
        with pytest.raises(UsageError, match=said):
            own_share(None, environment)

    def test_only_the_first_of_those_started_together_tells_of_its_progress(self):
        assert [Share(1, 2, source).leads for source in ("--shard", "torchrun", "srun")] == [True, False, False]
        assert Share(0, 2, "torchrun").leads

    def test_each_worker_of_a_machine_takes_a_device_and_its_part_of_the_cpus(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
        monkeypatch.setenv("LOCAL_RANK", "6")
        assert choose_device("auto") == torch.device("cuda", 2)
        assert choose_device("cuda") == torch.device("cuda", 2)
        assert choose_device("cuda:1") == torch.device("cuda", 1)
        assert local_rank({"SLURM_LOCALID": "3", "SLURM_STEP_ID": "0"}) == 3
        assert local_rank({"SLURM_LOCALID": "3"}) == 0
        assert cpus({"LOCAL_WORLD_SIZE": str(10 * (os.cpu_count() or 1))}) == 1


class TestSharesOfEqualCost:
    """Whole batches of one shape are dealt, the dearest first."""

    def pictures(self, sizes: Sequence[tuple[int, int]]) -> list[Picture]:
        return [Picture(f"{n:05d}", f"{n:064x}", *size, None) for n, size in enumerate(sizes)]  # type: ignore[arg-type]

    @pytest.mark.parametrize("count", [1, 2, 3, 7])
    def test_no_worker_has_a_batch_more_than_another_by_pixels(self, count: int):
        """Six shapes of very unlike areas: by turns, as sorted by height, one worker would have all the large ones."""
        preprocess = Preprocess(512, "native", 512, "bilinear", (0.0,) * 3, (1.0,) * 3)
        sides = [(h, w) for h in (16, 24, 32) for w in (16, 512)]
        pictures = self.pictures([sides[n % len(sides)] for n in range(400)])
        whose = dict(zip((p.sha256 for p in pictures), owners(pictures, preprocess, 4, count), strict=True))
        whole = list(batches(pictures, preprocess, 4))
        assert all(len({whose[p.sha256] for p in batch}) == 1 for batch in whole)
        cost = [0] * count
        for batch in whole:
            cost[whose[batch[0].sha256]] += batch[0].height * batch[0].width
        assert max(cost) - min(cost) <= 32 * 512

    def test_of_one_shape_every_nth_batch_is_ones_own(self):
        preprocess = Preprocess(32, "squash", 32, "bilinear", (0.0,) * 3, (1.0,) * 3)
        pictures = self.pictures([(40, 40)] * 26)
        mine = own(pictures, preprocess, 4, Share(1, 3))
        assert [int(p.view) for p in mine] == [4, 5, 6, 7, 16, 17, 18, 19]
        shares = [own(pictures, preprocess, 4, Share(n, 3)) for n in range(3)]
        assert sorted(p.view for each in shares for p in each) == [p.view for p in pictures]
        assert list(own(pictures, preprocess, 4, Share())) == pictures


class TestSignsOfLife:
    """What workers leave beside the bank, and what others read in it."""

    def written(self, folder: Path, **told: object) -> None:
        (folder / ".workers").mkdir(exist_ok=True)
        whole = {"state": WORKING, "host": "far", "machine": "far.1", "boot": "b", "pid": 1, **told}
        (folder / ".workers" / "w-1-of-3.worker").write_text(json.dumps(whole))

    def test_a_worker_says_how_it_left(self, tmp_path: Path):
        with working(tmp_path, "w", Share(0, 2)):
            assert [(s.state, s.process, s.missing) for s in signs(tmp_path, "w")] == [(WORKING, "alive", False)]
        with pytest.raises(RuntimeError), working(tmp_path, "w", Share(1, 2)):
            raise RuntimeError
        assert [(s.index, s.state) for s in signs(tmp_path, "w")] == [(0, DONE), (1, STOPPED)]
        assert signs(tmp_path, "other") == []
        forget(tmp_path, "w")
        assert list(tmp_path.iterdir()) == []

    def test_one_that_does_everything_leaves_nothing(self, tmp_path: Path):
        with working(tmp_path, "w", Share()):
            assert list(tmp_path.iterdir()) == []

    @pytest.mark.fault("killed worker of several", "clock set back")
    def test_dead_is_told_by_process_here_and_by_age_elsewhere(self, tmp_path: Path):
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        self.written(tmp_path, machine=host(), boot=boot(), pid=gone.pid)
        assert signs(tmp_path, "w")[0].missing
        self.written(tmp_path, machine=host(), boot="another", pid=os.getpid())
        assert signs(tmp_path, "w")[0].process == "dead"
        self.written(tmp_path)
        assert not signs(tmp_path, "w")[0].missing
        path = tmp_path / ".workers" / "w-1-of-3.worker"
        os.utime(path, (0, time.time() - 720))
        assert signs(tmp_path, "w")[0].missing
        assert 700 < signs(tmp_path, "w")[0].age < 800
        os.utime(path, (0, time.time() + 9e5))  # its clock was set back
        assert signs(tmp_path, "w")[0].age == 0

    @pytest.mark.parametrize("text", ["", "[]", '{"pid": "x"}', "{" * 20_000, "\x00"])
    def test_a_file_that_cannot_be_read_says_nothing(self, tmp_path: Path, text: str):
        self.written(tmp_path)
        (tmp_path / ".workers" / "w-1-of-3.worker").write_text(text)
        assert signs(tmp_path, "w") == []

    def test_other_images_are_other_work(self):
        pictures = Pictures.of([Picture(name, name, 1, 1, None) for name in "abc"])  # type: ignore[arg-type]
        assert work_id(pictures) == work_id(pictures) != work_id(pictures[:2])

    def test_the_command_that_resumes_is_ones_own_with_that_share(self):
        assert resuming("benchkit export --shard 0/3 --conf a", "1/3") == "benchkit export --conf a --shard 1/3"
        assert resuming("benchkit export --conf a --finish", "1/3") == "benchkit export --conf a --shard 1/3"
        assert "shard='1/3'" in resuming("", "1/3")


class TestWhoIsMissing:
    """What a worker says whose share is done."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> Callable[..., Outcome]:
        (tmp_path / "tiny.yaml").write_text(TINY % "TinyNet")

        def work(**options: object) -> Outcome:
            given = {"outputs": tmp_path / "outputs", "say": str, "command": "benchkit export --conf t", **options}
            return export(tmp_path / "tiny.yaml", "retrieval", arguments=SMALL, **given)[0]  # type: ignore[return-value,arg-type]

        return work

    def bank(self, tmp_path: Path) -> Path:
        return next((tmp_path / "outputs" / "features").iterdir())

    def test_shares_that_nobody_has_begun_are_named_with_their_command(self, run: Callable[..., Outcome]):
        left = run(shard="0/3").left
        assert "16 of 24 images" in left
        assert "shard 1/3 has not begun: 8 images missing, such as 'test/000004', 'test/000005'" in left
        assert "start it with: benchkit export --conf t --shard 2/3" in left

    @pytest.mark.fault("killed worker of several")
    def test_one_that_has_died_is_named_and_one_at_work_is_not_missed(
        self, tmp_path: Path, run: Callable[..., Outcome]
    ):
        run(shard="0/3")
        (path,) = self.bank(tmp_path).glob(".workers/*-0-of-3.worker")
        told = {**json.loads(path.read_text()), "state": WORKING, "host": "node7"}
        for index, pid in ((1, 1), (2, 2**22 - 1)):  # process 1 lives, and there is no process of the largest number
            path.with_name(path.name.replace("-0-", f"-{index}-")).write_text(json.dumps({**told, "pid": pid}))
        left = run(shard="0/3").left
        assert "shard 1/3 (host node7, pid 1) is at work: 8 images to go" in left
        assert "shard 2/3 (host node7, pid 4194303) has died: 8 images missing" in left
        assert "resume it with: benchkit export --conf t --shard 2/3" in left
        end = run(finish=True)
        assert isinstance(end, UsageError)
        assert "without --finish. Shard 1/3 (host node7, pid 1) is at work" in str(end)
        assert "pid 4194303) has died" in str(end)

    def test_when_all_is_done_the_signs_are_gone(self, tmp_path: Path, run: Callable[..., Outcome]):
        assert [run(shard=f"{n}/2").state for n in range(2)] == ["waiting", "finished"]
        assert not (self.bank(tmp_path) / ".workers").exists()

    def test_workers_of_torchrun_do_their_shares_and_one_tells(
        self, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Outcome]
    ):
        said: list[str] = []
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", "1")
        tiny_models.forwarded.clear()
        assert run(say=said.append).forwards == 12
        assert said == []
        monkeypatch.setenv("RANK", "0")
        end = run(say=said.append)
        assert (end.state, end.forwards, end.share) == ("finished", 12, Share(0, 2, "torchrun"))
        assert any("12 to forward" in text for text in said)


class TestSignals:
    """In one process; real ones below."""

    def test_signals_that_somebody_else_handles_stay_as_they_are(self):
        before = signal.signal(signal.SIGTERM, lambda *_: None)
        try:
            with stoppable():
                assert signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, None)
                os.kill(os.getpid(), signal.SIGTERM)
        finally:
            signal.signal(signal.SIGTERM, before)

    @pytest.mark.fault("SIGTERM")
    def test_the_first_stops_and_afterwards_all_is_as_before(self):
        before = signal.getsignal(signal.SIGTERM)

        def stopped() -> None:
            with stoppable():
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(5)

        with pytest.raises(KeyboardInterrupt):
            stopped()
        assert signal.getsignal(signal.SIGTERM) is before


SLOW_WRITING = "import time\nB.Bank.add = lambda *given: (print('writing', flush=True), time.sleep(60))\n"


def started(tmp_path: Path, *flags: str, part_bytes: int = 1 << 30, patch: str = "") -> subprocess.Popen:
    """A real export of SlowNet: 48 images, twelve forwards of a tenth of a second."""
    (tmp_path / "slow.yaml").write_text(TINY % "SlowNet")
    code = (
        f"import sys, benchkit.store.bank as B, benchkit.export.forward as f; f.PART_BYTES = {part_bytes}\n{patch}"
        "from benchkit.commands.export import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", code, "--conf", "slow.yaml", "--benchmark", "retrieval", "--outputs", "outputs"]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "SLOW_LOG": str(tmp_path / "log"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, *flags, "data.side=32", "data.n_test=48", "model.batch_size=4"], cwd=tmp_path, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heeding_ctrl_c,
    )  # fmt: skip


def forwards(tmp_path: Path) -> int:
    """Batches of data that the model has seen, those that tell what it is like left out."""
    log = tmp_path / "log"
    return log.read_text().count("4\n") if log.exists() else 0


def until(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
class TestStoppedProcesses:
    """Real ones, by real signals."""

    @pytest.mark.fault("SIGTERM")
    def test_sigterm_writes_what_is_complete_and_says_how_to_go_on(self, tmp_path: Path):
        process = started(tmp_path)
        until(lambda: forwards(tmp_path) >= 5, process)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "the same command goes on from there: benchkit export --conf slow.yaml" in said
        assert "Traceback" not in said
        assert len(list(tmp_path.glob("outputs/features/*/part-*.h5"))) == 1

    @pytest.mark.fault("Ctrl-C, twice")
    def test_twice_it_leaves_at_once(self, tmp_path: Path):
        process = started(tmp_path, patch=SLOW_WRITING, part_bytes=1)
        until(lambda: process.stdout is not None and process.stdout.readline() == "writing\n", process)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        until(lambda: "once more, and it ends at once" in process.stderr.readline(), process)
        time.sleep(1.1)
        assert process.poll() is None  # it waits for the part that is being written
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 130
        assert time.monotonic() - began < 10

    @pytest.mark.fault("killed worker of several")
    def test_a_killed_worker_is_named_and_costs_only_its_open_part(self, tmp_path: Path):
        """Parts of two batches; the second of two workers is killed, the first says so, and the command it says resumes."""
        killed = started(tmp_path, "--shard", "1/2", part_bytes=6_000)
        until(lambda: len(list(tmp_path.glob("outputs/features/*/part-*.h5"))) == 2, killed)
        killed.kill()
        killed.communicate()
        parts = len(list(tmp_path.glob("outputs/features/*/part-*.h5")))
        flags = {"outputs": tmp_path / "outputs", "say": str, "shard": "0/2"}
        settings = ["data.side=32", "data.n_test=48", "model.batch_size=4"]
        (end,) = export(
            tmp_path / "slow.yaml", "retrieval", arguments=settings, command="benchkit export --conf slow.yaml", **flags
        )  # type: ignore[arg-type]
        assert isinstance(end, Outcome)
        said = end.left
        found = re.search(rf"pid {killed.pid}\) has died: (\d+) images missing.*; resume it with: (.*)", said)
        assert found, said
        assert int(found[1]) == 24 - 8 * parts
        assert shlex.split(found[2])[-2:] == ["--shard", "1/2"]
        before = forwards(tmp_path)
        resumed = started(tmp_path, *shlex.split(found[2])[4:])
        said, problem = resumed.communicate(timeout=120)
        assert "finished" in said, problem
        assert f"{24 - 8 * parts} images forwarded here" in said
        assert forwards(tmp_path) - before - 2 <= (24 - 8 * parts) // 4


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_torchrun_gives_the_content_of_one_process(tmp_path: Path, count: int):
    options = {"arguments": SMALL, "say": str}
    export("color_histogram", "retrieval", outputs=tmp_path / "one", **options)  # type: ignore[arg-type]
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}", "--standalone"]
    command += ["-m", "benchkit.export", "--conf", "color_histogram", "--benchmark", "retrieval"]
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ["OMP_NUM_THREADS"]}
    done = subprocess.run(
        [*command, "--outputs", tmp_path / "many", *SMALL], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert sum(int(n) for n in re.findall(r"(\d+) images forwarded here", done.stdout)) == 24
    folders = [tmp_path / which / "results" / "retrieval" / "color_histogram" for which in ("one", "many")]
    assert folder_content(folders[0]) == folder_content(folders[1])
