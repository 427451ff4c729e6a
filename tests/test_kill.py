"""Whatever call a process dies at, or the disk fails at, no damaged file has a final name, and the same command again ends as
if nothing was."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
Injected = Callable[..., None]
COLUMNS = {
    "whole": "killed before a call that writes",
    "torn": "killed within a call that writes",
    "full": "disk full at a call that writes",
    "broken": "disk that does not write",
}
KILLED = pytest.mark.fault("killed before a call that writes", "killed within a call that writes")


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that kills, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("killing at single calls needs Linux and a C compiler")
    library = tmp_path_factory.mktemp("shim") / "killshim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "killshim.c", "-ldl"], check=True, timeout=60
    )
    return library


def crash(shim: Path, work: Path, scenario: str, step: int, error: int = 0) -> dict:
    """What the driver found at every `step`-th call: killed there, or the disk failing from there on."""
    return driven("kill_driver.py", shim, work / "kill", scenario, str(step), str(error))


def driven(driver: str, shim: Path, *arguments: object) -> dict:
    """What a driver says on standard output."""
    environment = {**os.environ, "LD_PRELOAD": str(shim), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
    command = [sys.executable, HERE / driver, shim, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def check(found: dict, calls: int, injected: Injected) -> None:
    injected(found["points"] - found["torn"], "killed before a call that writes")
    injected(found["torn"], "killed within a call that writes")
    assert found["wrong"] == {}
    assert found["calls"] > calls, "the shim saw too few calls: it tests nothing"
    assert {"p", "w", "r", "u"} <= set(found["kinds"])


@KILLED
def test_some_crash_points(shim: Path, tmp_path: Path, injected: Injected) -> None:
    check(crash(shim, tmp_path, "fresh", 60), 300, injected)


@KILLED
def test_killed_while_scoring_again(shim: Path, tmp_path: Path, injected: Injected) -> None:
    check(crash(shim, tmp_path, "reeval", 5), 30, injected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "step"),
    [
        pytest.param(errno.ENOSPC, 41, marks=pytest.mark.fault("disk full at a call that writes")),
        pytest.param(errno.EIO, 53, marks=pytest.mark.fault("disk that does not write")),
        pytest.param(errno.ENOSPC, 1, marks=[pytest.mark.long, pytest.mark.fault("disk full at a call that writes")]),
        pytest.param(errno.EIO, 1, marks=[pytest.mark.long, pytest.mark.fault("disk that does not write")]),
    ],
)
def test_a_disk_that_fails(shim: Path, tmp_path: Path, error: int, step: int, injected: Injected) -> None:
    """From a call on it is full, or broken: that is said in one paragraph, and nothing that was finished is lost."""
    found = crash(shim, tmp_path, "fresh", step, error)
    injected(found["points"])
    assert found["wrong"] == {}
    assert found["points"] > 300 // step


@KILLED
@pytest.mark.slow
@pytest.mark.fault("disk full at a call that writes", "disk that does not write")
@pytest.mark.parametrize("share", ["0/2", "1/2"])
def test_each_kind_of_file(shim: Path, tmp_path: Path, share: str, injected: Injected) -> None:
    """Written over nothing and over an older one: what has its name is never anything but the old file or the new."""
    found = driven("kill_kinds.py", shim, tmp_path / "kinds", share)["kinds"]
    for column, name in COLUMNS.items():
        injected(sum(each[column] for each in found.values()), name)
    assert {name: each["wrong"] for name, each in found.items() if each["wrong"]} == {}
    assert all(each["whole"] >= 3 for each in found.values())
    assert len(found) >= 10


@KILLED
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("scenario", "step"), [("fresh", 3), ("overwrite", 3), ("copies", 9), ("reeval", 1)])
def test_crash_points(shim: Path, tmp_path: Path, scenario: str, step: int, injected: Injected) -> None:
    """`step` 1 for each of them has been run; here a share, for the time it takes."""
    check(crash(shim, tmp_path, scenario, step), 30, injected)
