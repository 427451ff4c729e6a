"""Every command of the README runs, in its order, in a folder with photos; so does its Python."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ELSEWHERE = ("bash scripts/test", "bash scripts/check")  # this test is part of them


def fences(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    lines = [line.split("  #")[0].strip() for block in fences("bash") for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(ELSEWHERE)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder with photos of two classes: bright dots and dark stripes."""
    folder = tmp_path_factory.mktemp("readme")
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(12):
            pixels = rng.integers(0, 80, (60, 80, 3), np.uint8)
            pixels[:, :: 4 if name == "cat" else 9] += 120
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.jpg")
    return folder


def run(command: str | list[str], folder: Path) -> subprocess.CompletedProcess:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "BENCHKIT_OUTPUTS": str(folder / "outputs")}
    shell = isinstance(command, str)
    return subprocess.run(command, shell=shell, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_there_are_commands_to_run():
    assert len(commands()) >= 12


@pytest.mark.slow
def test_every_command_runs_in_order(folder):
    for command in commands():
        if command == "bash scripts/demo":
            continue
        done = run(command, folder)
        assert done.returncode == 0, (command, done.stdout, done.stderr)


@pytest.mark.slow
@pytest.mark.long
def test_the_demo_runs_in_a_minute_and_shows_every_model_and_benchmark(folder):
    done = run(["bash", str(ROOT / "scripts" / "demo"), "--outputs", str(folder / "demo")], folder)
    assert done.returncode == 0, done.stderr
    for word in ("classification", "retrieval", "efficientnet_lite0+random", "color_histogram", "floor"):
        assert word in done.stdout
    assert (folder / "demo" / "demo.png").stat().st_size > 5000


@pytest.mark.slow
def test_the_python_runs(folder):
    for block in fences("python"):
        done = run([sys.executable, "-c", block], folder)
        assert done.returncode == 0, (block, done.stderr)


def test_the_yaml_is_a_conf(tmp_path):
    from benchkit.conf.build import build

    for number, block in enumerate(fences("yaml")):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block, encoding="utf-8")
        assert build(path, "classification").backbone.name == "timm"
