"""Whatever call a process dies at, no damaged file has a final name, and the same command again ends as if nothing was."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


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


def crash(shim: Path, work: Path, scenario: str, step: int) -> dict:
    """What the driver found at every `step`-th call."""
    environment = {**os.environ, "LD_PRELOAD": str(shim), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
    command = [sys.executable, HERE / "kill_driver.py", shim, work / "kill", scenario, str(step)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def check(found: dict, calls: int) -> None:
    assert found["wrong"] == {}
    assert found["calls"] > calls, "the shim saw too few calls: it tests nothing"
    assert {"p", "w", "r", "u"} <= set(found["kinds"])


def test_some_crash_points(shim: Path, tmp_path: Path) -> None:
    check(crash(shim, tmp_path, "fresh", 40), 300)


def test_killed_while_scoring_again(shim: Path, tmp_path: Path) -> None:
    check(crash(shim, tmp_path, "reeval", 5), 30)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("scenario", "step"), [("fresh", 3), ("overwrite", 3), ("copies", 9), ("reeval", 1)])
def test_crash_points(shim: Path, tmp_path: Path, scenario: str, step: int) -> None:
    """`step` 1 for each of them has been run; here a share, for the time it takes."""
    check(crash(shim, tmp_path, scenario, step), 30)
