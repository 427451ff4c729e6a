"""What an export meets besides processes that die and disks that fail: images that cannot be read, clocks that are set back,
locks and rests of others, file systems that lack something; and the table of faults itself."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fault_table
import pytest
from test_image_folder import put
from tiny_processes import heeding_ctrl_c

from benchkit.errors import BenchkitError
from benchkit.eval import evaluate
from benchkit.experiments.experiment import Experiment
from benchkit.export import export
from benchkit.export.job import Outcome
from benchkit.store.files import boot, host
from benchkit.store.outputs import Outputs
from benchkit.store.usage import holdings
from benchkit.store.verify import folder_content

pytest_plugins = ["pytester"]
Injected = Callable[..., None]
HERE = Path(__file__).parent
UNREADABLE = Path("/proc/self/mem")  # opens, and cannot be read at its beginning: error 5, input/output error


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two splits of three classes of four photos."""
    for split in ("train", "test"):
        put(tmp_path / "photos", *(f"{split}/{name}/{n}.jpg" for name in ("cat", "dog", "owl") for n in range(4)))
    return tmp_path / "photos"


@pytest.fixture
def run(tmp_path: Path, photos: Path) -> Callable[..., Outcome | BenchkitError]:
    """Export retrieval of the photos by a colour histogram."""

    def work(where: str = "outputs", *settings: str, **options: Any) -> Outcome | BenchkitError:
        given = [f"data.root={photos}", "model.batch_size=4", *settings]
        made = {"outputs": tmp_path / where, "arguments": given, "say": str, **options}
        return export("color_histogram", "retrieval", tag="tiny", **made)[0]

    return work


def content(end: Outcome | BenchkitError) -> str:
    """Content hash of what was exported, scored."""
    assert isinstance(end, Outcome), end
    evaluate("retrieval", "tiny", outputs=end.folder.parents[2])
    return folder_content(end.folder)


def is_told(end: Outcome | BenchkitError, *words: str) -> None:
    """One paragraph that has these words."""
    assert isinstance(end, BenchkitError), end
    assert all(word in str(end) for word in words), str(end)
    assert "Traceback" not in str(end)


class TestImagesThatCannotBeRead:
    """The disk of the data set gives an error: a real one, of a file that Linux refuses to read."""

    pytestmark = pytest.mark.skipif(not UNREADABLE.exists(), reason="needs a file that opens and cannot be read")

    @pytest.mark.fault("read error in the data set")
    def test_from_the_start(self, photos: Path, run: Callable[..., Any]):
        good = content(run("good"))
        broken = photos / "test" / "dog" / "2.jpg"
        data = broken.read_bytes()
        broken.unlink()
        broken.symlink_to(UNREADABLE)
        is_told(run(), "dog/2.jpg", "data.on_error=skip")
        broken.unlink()
        broken.write_bytes(data)
        assert content(run()) == good

    @pytest.mark.fault("read error in the data set")
    def test_after_the_images_were_counted(self, photos: Path, run: Callable[..., Any]):
        """Between the first look at each file and its forward."""
        good = content(run("good"))
        broken = photos / "test" / "owl" / "1.jpg"
        data = broken.read_bytes()

        def break_it(said: str) -> None:
            if "to forward" in said and not broken.is_symlink():
                broken.unlink()
                broken.symlink_to(UNREADABLE)

        is_told(run(say=break_it), "owl/1.jpg", os.strerror(5))
        assert broken.is_symlink()
        broken.unlink()
        broken.write_bytes(data)
        assert content(run()) == good


class TestClockSetBack:
    """Times decide nothing but whether a file is read again."""

    @pytest.mark.fault("clock set back")
    def test_between_two_runs(self, tmp_path: Path, photos: Path, run: Callable[..., Any]):
        """All that lies there is of tomorrow; a photo changes without changing its size; scores are not stale."""
        changed = photos / "test" / "cat" / "0.jpg"
        photo = changed.read_bytes()
        changed.write_bytes(photo + b"\0")
        first = content(run())
        tomorrow = time.time() + 86_400
        for path in (*photos.rglob("*"), *(tmp_path / "outputs").rglob("*")):
            os.utime(path, (tomorrow, tomorrow))
        assert content(run()) == first
        changed.write_bytes(photo + b"\1")
        os.utime(changed, (tomorrow, tomorrow))
        is_told(run(), "dataset_id", "--overwrite")
        assert content(run(overwrite=True)) == content(run("good"))

    @pytest.mark.fault("clock set back")
    def test_within_a_run(self, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
        """Each look at the clock is an hour before the last one."""
        good = content(run("good"))
        clock = iter(range(2_000_000_000, 0, -3600))
        monkeypatch.setattr(time, "time", lambda: float(next(clock)))
        end = run()
        assert content(end) == good
        timings = Experiment(end.folder).record["timings"]
        assert all(value >= 0 for value in timings.values())

    @pytest.mark.fault("clock set back")
    def test_nothing_is_younger_than_now(self, tmp_path: Path, run: Callable[..., Any]):
        content(run())
        for path in (tmp_path / "outputs").rglob("*"):
            os.utime(path, (time.time() + 9e5, time.time() + 9e5))
        assert all(each.age == 0 for each in holdings(Outputs(tmp_path / "outputs")))


class TestWhatOthersLeft:
    """Lock files and unfinished files, here and of another host."""

    @pytest.mark.parametrize(
        "owner",
        [
            pytest.param(f"{host()} {boot()} 4194303", marks=pytest.mark.fault("lock of a killed process")),
            pytest.param("node7 0ldb00t 4711", marks=pytest.mark.fault("lock of another host")),
        ],
        ids=["killed", "elsewhere"],
    )
    def test_a_lock_file_is_no_lock(self, tmp_path: Path, run: Callable[..., Any], owner: str):
        """The kernel holds the lock, not the file: whoever left it, and whatever is in it."""
        lock = Outputs(tmp_path / "outputs").lock("retrieval", "tiny")
        lock.parent.mkdir(parents=True)
        lock.write_text(owner)
        assert content(run()) == content(run("good"))

    @pytest.mark.fault("unfinished file of another host", "unfinished file of a killed process", times=2)
    def test_unfinished_files(self, tmp_path: Path, run: Callable[..., Any]):
        """Those of a dead process here go; those of another host stay, and are no part of anything."""
        content(run())
        outputs = tmp_path / "outputs"
        bank = next((outputs / "features").iterdir())
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        places = bank / "part-0.h5", outputs / "results" / "retrieval" / "tiny" / "results.h5"
        mine = [f"{place}.tmp-{host()}-{boot()}-{gone.pid}-0123abcd" for place in places]
        others = [f"{place}.tmp-{socket.gethostname()}2-{boot()}-{gone.pid}-0123abcd" for place in places]
        for name in (*mine, *others):
            Path(name).write_bytes(b"half")
        good = content(run("good"))
        assert content(run(overwrite=True)) == good
        assert [Path(name).exists() for name in (*mine, *others)] == [False, False, True, True]


class TestFileSystemsThatLackSomething:
    """As FAT, some network file systems and some containers."""

    @pytest.mark.fault("file system without hard links")
    def test_hard_links(self, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
        good = content(run("good"))
        monkeypatch.setattr(os, "link", refused)
        assert content(run()) == good

    @pytest.mark.fault("file system without locks")
    def test_locks(self, tmp_path: Path, photos: Path):
        """Said before the first forward, by the command as it is typed."""
        code = (
            "import errno, fcntl, sys\n"
            "def none(*_): raise OSError(errno.ENOLCK, 'No locks available')\n"
            "fcntl.flock = none\n"
            "from benchkit.commands.export import main; sys.exit(main())"
        )
        command = [sys.executable, "-c", code, "--conf", "color_histogram", "--benchmark", "retrieval", "--tag", "tiny"]
        done = subprocess.run(
            [*command, "--outputs", tmp_path / "outputs", f"data.root={photos}"], capture_output=True, text=True
        )
        assert done.returncode == 3
        assert "No locks available. Use --outputs on a file system with locks." in done.stderr
        assert "Traceback" not in done.stderr
        assert not list((tmp_path / "outputs").glob("features/*/part-*.h5"))


def refused(*_: Any, **__: Any) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.fault("Ctrl-C, once", times=4)
def test_commands_that_only_read_do_not_say_that_they_go_on(tmp_path: Path):
    for command in (["list"], ["show", "b", "t"], ["inspect", "b", "t"], ["doctor", str(tmp_path)]):
        code = (
            "import os, signal, sys, importlib\n"
            f"command = importlib.import_module('benchkit.commands.{command[0]}')\n"
            "def stop(*_): os.kill(os.getpid(), signal.SIGINT)\n"
            "command._run = command._work = stop\n"
            "sys.exit(command.main(sys.argv[1:]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *command[1:]], capture_output=True, text=True, preexec_fn=heeding_ctrl_c
        )
        assert done.returncode == 130, done.stderr
        stopping = "stopping: once more, and it ends at once.\n" if command[0] == "doctor" else ""
        assert done.stderr == f"{stopping}interrupted: the same command starts anew.\n"


class TestTable:
    """What a run of tests tells of faults."""

    def tell(self, pytester: pytest.Pytester, text: str, *flags: str) -> pytest.RunResult:
        pytester.makeconftest((HERE / "conftest.py").read_text())
        pytester.makeini(f"[pytest]\ntestpaths = .\npythonpath = {HERE}\nmarkers =\n  long: x\n  data: x\n  hub: x\n")
        pytester.makepyfile(text)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *flags)

    def test_a_wrong_and_a_missing_one_are_named_and_fail(self, pytester: pytest.Pytester):
        text = """
            import pytest
            @pytest.mark.fault("SIGTERM", times=3)
            def test_one(): pass
            @pytest.mark.fault("NaN from the model", "file cut off")
            def test_two(injected):
                injected(4, "file cut off")
                injected(5, "file cut off")
            @pytest.mark.fault("file copied by half")
            def test_three(): assert False
            @pytest.mark.fault("disk full, foreseen")
            def test_four(): pytest.skip("no disk")
        """
        done = self.tell(pytester, text)
        told = [line.split() for line in done.outlines]
        assert ["SIGTERM", "3"] in [words[:2] for words in told]
        assert [*["file", "cut", "off", "9"]] in [words[:4] for words in told]
        assert any(line.startswith("file copied by half") and "WRONG: " in line for line in done.outlines)
        assert any(line.startswith("disk full, foreseen") and "skipped: no disk" in line for line in done.outlines)
        assert sum("MISSING" in line for line in done.outlines) == len(fault_table.FAULTS) - 5
        assert done.ret == pytest.ExitCode.TESTS_FAILED

    def test_one_that_is_missing_is_enough(self, pytester: pytest.Pytester):
        text = """
            import pytest
            @pytest.mark.fault("SIGTERM")
            def test_one(): pass
        """
        done = self.tell(pytester, text)
        assert any(line.startswith("Ctrl-C, once") and "MISSING" in line for line in done.outlines)
        assert done.ret == pytest.ExitCode.TESTS_FAILED

    def test_a_run_of_some_tests_misses_nothing(self, pytester: pytest.Pytester):
        text = """
            import pytest
            @pytest.mark.fault("SIGTERM")
            def test_one(): pass
            def test_two(): pass
        """
        done = self.tell(pytester, text, "-k", "one")
        assert not any("MISSING" in line for line in done.outlines)
        assert done.ret == pytest.ExitCode.OK

    def test_a_name_that_is_none_is_refused(self, pytester: pytest.Pytester):
        done = self.tell(pytester, "import pytest\n@pytest.mark.fault('flood')\ndef test_one(): pass")
        assert done.ret == pytest.ExitCode.USAGE_ERROR
        assert any("'flood' is none of the faults" in line for line in (*done.outlines, *done.errlines))
