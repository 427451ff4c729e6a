"""Shards, in any order and at once, give the content of a single run; of two that want different things one is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def wrong(work: Path, scenario: str, trials: int) -> list[str]:
    """What the driver found wrong: its processes are forked from one that has everything imported."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
    command = [sys.executable, HERE / "shard_driver.py", work, scenario, str(trials)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_any_number_in_any_order(tmp_path: Path) -> None:
    assert wrong(tmp_path, "orders", 1) == []


@pytest.mark.parametrize(
    ("scenario", "trials"),
    [
        pytest.param("same_tag", 3, marks=pytest.mark.fault("two exports of one tag", times=3)),
        pytest.param("other_conf", 3, marks=pytest.mark.fault("two exports of one tag", times=3)),
        pytest.param("overwriting", 3, marks=pytest.mark.fault("two exports of one tag", times=3)),
        pytest.param("two_tags", 3, marks=pytest.mark.fault("two exports of one bank", times=3)),
        pytest.param("while_inspected", 2, marks=pytest.mark.fault("export while an inspector reads", times=2)),
        pytest.param("while_read", 2, marks=pytest.mark.fault("export while an eval reads", times=2)),
    ],
)
def test_at_once(tmp_path: Path, scenario: str, trials: int) -> None:
    assert wrong(tmp_path, scenario, trials) == []


@pytest.mark.slow
@pytest.mark.fault("two workers finish at once", times=60)
def test_the_last_two_end_together(tmp_path: Path) -> None:
    assert wrong(tmp_path, "at_once", 60) == []
