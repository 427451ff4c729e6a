"""The bench command finds its parts and prints what they measure, one JSON line a figure."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "scripts" / "bench_parts"


@pytest.fixture
def bench(monkeypatch):
    spec = importlib.util.spec_from_file_location("bench_all", FOLDER / "all.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "path", [*sys.path])  # it adds its own folder
    return module


def part(name, seen):
    made = ModuleType(name)

    def run(threads, long=False):
        seen.append((name, threads, long))
        return [{"figure": name, "ratio": 0.5}]

    made.run = run
    return made


@pytest.mark.parametrize(("argv", "expected"), [([], ["first", "second"]), (["second"], ["second"])])
def test_all_parts_or_those_named(bench, monkeypatch, capsys, argv, expected):
    seen: list = []
    for name in ("first", "second"):
        monkeypatch.setitem(sys.modules, name, part(name, seen))
    monkeypatch.setattr(bench, "PARTS", ["first", "second"])
    bench.main([*argv, "--threads", "3", "--long"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["figure"] for line in lines] == expected
    assert seen == [(name, 3, True) for name in expected]
    assert all(line["threads"] == 3 and line["blas"] for line in lines)


def test_every_part_there_is_can_be_run(bench, capsys):
    sys.path.insert(0, str(FOLDER))
    assert bench.PARTS == [
        "dense",
        "export",
        "gpu",
        "inspector",
        "logreg",
        "masks",
        "matches",
        "pose",
        "retrieval",
        "reuse",
        "scale",
        "verify",
    ]
    assert all(callable(importlib.import_module(name).run) for name in bench.PARTS)
    with pytest.raises(SystemExit):
        bench.main(["absent"])
    assert "there is no part 'absent'" in capsys.readouterr().err


def test_scale_is_a_part_of_its_own(bench, monkeypatch, capsys):
    made = ModuleType("scale")
    made.run = lambda threads, scale=None: [{"figure": "scale", "value": scale}]
    monkeypatch.setitem(sys.modules, "scale", made)
    bench.main(["--scale", "5000"])
    bench.main(["--scale"])
    assert [json.loads(line)["value"] for line in capsys.readouterr().out.splitlines()] == [5000, 1_280_000]


def test_gpu_is_a_part_of_its_own(bench, monkeypatch, capsys):
    seen: list = []
    monkeypatch.setitem(sys.modules, "gpu", part("gpu", seen))
    bench.main(["--gpu"])
    assert [json.loads(line)["figure"] for line in capsys.readouterr().out.splitlines()] == ["gpu"]
    assert len(seen) == 1
