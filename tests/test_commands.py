"""The commands from outside: statuses, flags, help, errors as one paragraph, interrupts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tiny_processes import heeding_ctrl_c

from benchkit import __version__, registry
from benchkit.__main__ import main, names
from benchkit.commands import _shared
from benchkit.commands import doctor as doctor_command
from benchkit.commands import export as export_command
from benchkit.commands import list as list_command
from benchkit.commands import run as run_command
from benchkit.conf.find import benchmark_names, find_benchmark
from benchkit.errors import RunError, UsageError

REPOSITORY = Path(__file__).parents[1]
SMALL = ["data.n_train=24", "data.n_test=18", "data.side=32"]
FAST = ["--conf", "color_histogram", "--benchmark", "retrieval", "data.n_test=18", "data.side=16"]

SLOW = '''
import os
import time
import torch
from torch import nn


class Slow(nn.Module):
    """Takes a while, and says so, from its third batch of data on: four calls before look at what it is."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 6:
            print("busy", flush=True)
            time.sleep(float(os.environ["SLEEP"]))
        return x.mean((2, 3))
'''


def benchkit(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment}
    return subprocess.run(
        [sys.executable, "-m", "benchkit", *argv], env=env, capture_output=True, text=True, timeout=120
    )


def one_paragraph(text: str) -> bool:
    return len(text.strip().splitlines()) == 1 and "Traceback" not in text


class TestStatuses:
    def test_done(self, tmp_path: Path, capsys: Any):
        assert run_command.main([*FAST, "--outputs", str(tmp_path)]) == 0
        assert "mAP" in capsys.readouterr().out

    @pytest.mark.parametrize(
        "argv",
        [
            ["export"],
            ["export", "--conf", "color_histogram"],
            ["export", "--conf", "color_histogramm", "--benchmark", "retrieval"],
            ["export", "--conf", "color_histogram", "--benchmark", "retreival"],
            ["export", *FAST, "data.n_tets=3"],
            ["export", *FAST, "data.n_test=three"],
            ["export", *FAST, "n_test=3"],
            ["export", *FAST, "--shard", "2/2"],
            ["export", *FAST, "--limit", "0"],
            ["export", *FAST, "--tag", "a/b"],
            ["export", *FAST, "data.train_split=train"],
            ["eval", "retrieval", "--tag", "nothing"],
            ["eval", "retrieval"],
            ["list", "nothing"],
            ["doctor", "/nowhere"],
        ],
        ids=" ".join,
    )
    def test_wrong_usage(self, tmp_path: Path, capsys: Any, monkeypatch: Any, argv: list[str]):
        monkeypatch.setenv("BENCHKIT_OUTPUTS", str(tmp_path))
        assert main(argv) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert one_paragraph(err), err

    @pytest.mark.parametrize(
        "argv",
        [["export", "--nonsense"], ["eval"], ["list", "--tag"], ["export", "--limit", "x"]],
        ids=" ".join,
    )
    def test_wrong_flags(self, capsys: Any, argv: list[str]):
        with pytest.raises(SystemExit) as caught:
            main(argv)
        assert caught.value.code == 2
        assert one_paragraph(capsys.readouterr().err)

    def test_failed_while_running(self, tmp_path: Path, capsys: Any):
        """A damaged file: 3, and the file is named."""
        assert run_command.main([*FAST, "--outputs", str(tmp_path)]) == 0
        path = tmp_path / "results" / "retrieval" / "color_histogram" / "predictions.h5"
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[:-100])
        capsys.readouterr()
        assert main(["eval", "retrieval", "--tag", "color_histogram", "--outputs", str(tmp_path)]) == 3
        err = capsys.readouterr().err
        assert one_paragraph(err)
        assert str(path) in err

    def test_unknown_command(self):
        end = benchkit("exprot")
        assert end.returncode == 2
        assert one_paragraph(end.stderr)
        assert "export" in end.stderr

    def test_anything_uncaught_is_3_and_one_paragraph(self, capsys: Any):
        def broken() -> int:
            raise ZeroDivisionError("division\n\nby zero")

        assert _shared.guarded(broken, False) == 3
        err = capsys.readouterr().err
        assert one_paragraph(err)
        assert "unexpected ZeroDivisionError: division by zero" in err

    @pytest.mark.parametrize(("error", "status"), [(UsageError, 2), (RunError, 3), (ValueError, 3)])
    def test_traceback_shows_where_and_keeps_the_status(self, capsys: Any, error: type[Exception], status: int):
        def fails() -> int:
            raise error("odd")

        assert _shared.guarded(fails, True) == status
        assert "in fails" in capsys.readouterr().err

    def test_interrupted(self, capsys: Any):
        def stops() -> int:
            raise KeyboardInterrupt

        assert _shared.guarded(stops, False) == 130
        assert one_paragraph(capsys.readouterr().err)
        assert _shared.guarded(stops, False, goes_on=False) == 130
        assert "goes on" not in capsys.readouterr().err

    @pytest.mark.parametrize("command", ["export", "run"])
    def test_traceback_of_one_benchmark_of_several(self, tmp_path: Path, capsys: Any, command: str):
        """Each ends on its own: the good one is made, the worst status is returned, the traceback is the bad one's."""
        argv = [command, "--conf", "color_histogram", "--benchmark", "nonsense", "retrieval", *FAST[4:]]
        assert main([*argv, "--outputs", str(tmp_path), "--traceback"]) == 2
        assert (tmp_path / "results" / "retrieval" / "color_histogram" / "record.json").exists()
        err = capsys.readouterr().err
        assert "Traceback" in err
        assert "did you mean" in err or "nonsense" in err

    def test_a_closed_pipe_is_no_error(self):
        code = "import sys; from benchkit.commands._shared import guarded; "
        code += "sys.exit(guarded(lambda: print('x' * 100 + chr(10), end='') or [print('y' * 99) for _ in range(9999)]"
        code += " and 0, False))"
        command = f"'{sys.executable}' -c \"{code}\" | head -1; echo ${{PIPESTATUS[0]}}"
        end = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=REPOSITORY, timeout=60)
        assert end.stdout.splitlines()[-1] == "0"
        assert end.stderr == ""


class TestFlags:
    def test_underscores_are_dashes(self, capsys: Any, tmp_path: Path):
        assert _shared.dashed(["--overwrite_eval", "--a_b=c_d", "x_y=1", "-a_b", "__"]) == [
            "--overwrite-eval", "--a-b=c_d", "x_y=1", "-a_b", "__",
        ]  # fmt: skip
        for flag in ("--overwrite_eval", "--overwrite-eval"):
            assert run_command.main([*FAST, flag, "--outputs", str(tmp_path)]) == 0

    @pytest.mark.parametrize(
        "argv",
        [
            ["--conf", "a", "--benchmark", "b", "x=1", "--limit", "3", "y=2"],
            ["x=1", "y=2", "--conf", "a", "--benchmark", "b", "--limit", "3"],
            ["--conf", "a", "x=1", "--limit", "3", "--benchmark", "b", "y=2"],
            ["--limit", "3", "x=1", "--conf", "a", "--benchmark", "b", "--overwrite", "y=2"],
        ],
    )
    def test_settings_stand_anywhere(self, argv: list[str]):
        made = _shared.parser("x", "")
        export_command.add_export_flags(made)
        given = _shared.parse(made, argv)
        settings = _shared.take_settings(given.conf, given.benchmark) + given.settings
        assert (given.conf, given.benchmark, given.limit, sorted(settings)) == (["a"], ["b"], 3, ["x=1", "y=2"])

    def test_a_path_with_an_equals_sign_is_a_path(self, tmp_path: Path):
        conf = tmp_path / "lr=0.1" / "conf.yaml"
        conf.parent.mkdir()
        conf.write_text("")
        names = [str(conf), "x=1"]
        assert _shared.take_settings(names) == ["x=1"]
        assert names == [str(conf)]

    def test_flags_are_not_abbreviated(self, capsys: Any):
        with pytest.raises(SystemExit):
            main(["export", "--over"])

    def test_a_changed_eval_setting_is_never_dropped(self, tmp_path: Path, capsys: Any):
        argv = ["--conf", "color_histogram", "--benchmark", "classification", *SMALL, "--outputs", str(tmp_path)]
        assert run_command.main(argv) == 0
        assert run_command.main([*argv, "eval.ece_bins=3"]) == 2
        assert "eval.ece_bins was 15, now 3" in capsys.readouterr().err
        assert run_command.main([*argv, "eval.ece_bins=3", "--overwrite-eval"]) == 0
        record = json.loads((tmp_path / "results/classification/color_histogram/record.json").read_text())
        assert record["conf"]["eval"] == {"ece_bins": 3}

    def test_records_of_export(self, tmp_path: Path, capsys: Any):
        lines = tmp_path / "records.jsonl"
        for _ in range(2):
            assert main(["export", *FAST, "--outputs", str(tmp_path), "--records", str(lines)]) == 0
        assert [json.loads(line)["tag"] for line in lines.read_text().splitlines()] == ["color_histogram"] * 2

    def test_what_to_do_next_can_be_pasted(self, tmp_path: Path, capsys: Any):
        """Also for an instance or a path, which has no module of its own, and a tag with a space."""
        instance = tmp_path / "mine.yaml"
        instance.write_text("family: retrieval\ntitle: mine\n")
        outputs = ["--outputs", str(tmp_path)]
        argv = ["export", *FAST[:3], str(instance), *FAST[4:], "--tag", "my tag", *outputs]
        assert main(argv) == 0
        out = capsys.readouterr().out
        assert "python -m benchkit.eval mine --tag 'my tag'" in out
        assert main(["eval", "mine", "--tag", "my tag", *outputs]) == 0


class TestHelp:
    @pytest.mark.parametrize("command", names())
    def test_of_every_command(self, capsys: Any, command: str):
        """An unescaped % would end here with a traceback."""
        with pytest.raises(SystemExit) as caught:
            main([command, "--help"])
        assert caught.value.code == 0
        out = capsys.readouterr().out
        assert out.startswith(f"usage: benchkit {command}")
        assert "--traceback" in out

    def test_a_percent_sign_in_a_setting(self, capsys: Any, monkeypatch: Any):
        import dataclasses

        from benchkit.eval.classification import Settings
        from benchkit.settings import setting

        @dataclasses.dataclass
        class Odd(Settings):
            share: float = setting(0.5, "at 50 % of %s and 100%")

        monkeypatch.setattr("benchkit.eval.classification.Settings", Odd)
        assert main(["export", "--benchmark", "classification", "--help"]) == 0
        assert "at 50 % of %s and 100%" in capsys.readouterr().out

    def test_overview(self, capsys: Any):
        for argv in ([], ["-h"], ["--help"]):
            assert main(argv) == 0
            out = capsys.readouterr().out
            assert all(f"benchkit {name}" in out for name in names())
        assert main(["--version"]) == 0
        assert capsys.readouterr().out.strip() == __version__

    @pytest.mark.parametrize("argv", [["export", "--help"], ["eval", "--help"], ["run", "--help"], ["--help"]])
    def test_is_quick(self, argv: Sequence[str]):
        """Under .3 s on an idle machine; compared with an empty interpreter, since this one may be busy."""
        ours = min(_seconds([sys.executable, "-m", "benchkit", *argv]) for _ in range(5))
        empty = min(_seconds([sys.executable, "-c", "import numpy"]) for _ in range(5))
        assert ours < 0.3 or ours < 2 * empty

    @pytest.mark.parametrize("name", benchmark_names())
    def test_of_a_benchmark(self, capsys: Any, name: str):
        assert main(["list", name]) == 0
        text = capsys.readouterr().out
        instance = find_benchmark(name)
        found = registry.find("eval", instance.family)
        for metric in found.build(found.settings()).metrics():
            assert f"{metric.name} " in text
            assert ("for information" if metric.better == "neither" else f"{metric.better} is better") in text
        data = registry.find("datasets", instance.layer.below("data").values.get("name") or found.build.folder)
        assert data.module.LAYOUT in text
        assert found.build.source in text
        for key in ("data.root", "data.split", "model.batch_size", "model.features.layers"):
            assert key in text
        for argv in (["export", "--benchmark", name, "--help"], ["run", "-h", f"--benchmark={name}"]):
            assert main(argv) == 0
            shown = capsys.readouterr().out
            assert text.strip() in shown
            assert "--shard" in shown

    def test_defaults_are_the_instance_s_own(self, capsys: Any, tmp_path: Path):
        path = tmp_path / "mine.yaml"
        path.write_text(
            "family: classification\ntitle: mine\nobtain: ask\nlayout: flat\n"
            "data: {name: image_folder, split: val}\nmodel: {head: {name: knn, k: 7}}\neval: {ece_bins: 9}\n"
        )
        assert main(["list", str(path)]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        shown = {line[0]: line[1] for line in lines if len(line) > 1}
        assert shown["data.split"] == "val"
        assert shown["model.head.k"] == "7"
        assert shown["model.head.temperature"] == "0.07"
        assert shown["eval.ece_bins"] == "9"
        assert shown["obtain:"] == "ask"


def _seconds(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
    return time.perf_counter() - started


class TestList:
    def test_everything(self, capsys: Any):
        assert list_command.main([]) == 0
        out = capsys.readouterr().out
        for kind in ("datasets", "backbones", "heads"):
            assert all(f"  {name} " in out for name in registry.names(kind))
        assert all(f"  {name} " in out for name in benchmark_names())
        assert out.index("high level") < out.index("  classification ") < out.index("    imagenette ")
        assert "benchkit[hf]" in next(line for line in out.splitlines() if line.startswith("  hf "))
        row = next(line for line in out.splitlines() if line.strip().startswith("dinov2_vits14 "))
        assert all(part in row for part in ("22.1", "Apache-2.0", "lvd-142m"))

    def test_one_list(self, capsys: Any):
        assert list_command.main(["heads"]) == 0
        assert capsys.readouterr().out.splitlines()[0] == "heads"

    def test_an_estimator(self, capsys: Any):
        assert list_command.main(["poselib"]) == 0
        out = capsys.readouterr().out
        assert "(eval.estimator=poselib)" in out
        assert "eval.options.max_iterations" in out

    def test_what_is_no_family(self, capsys: Any):
        assert list_command.main(["torch.nn.Linear"]) == 2
        assert "no family of benchmarks" in capsys.readouterr().err

    def test_tags(self, tmp_path: Path, capsys: Any):
        outputs = ["--outputs", str(tmp_path)]
        assert list_command.main(["--tags", *outputs]) == 0
        assert "no tags" in capsys.readouterr().out
        assert main(["export", *FAST, *outputs]) == 0
        folder = tmp_path / "results" / "retrieval"
        for name in ("[red]scored", "damaged", "unfinished"):
            shutil.copytree(folder / "color_histogram", folder / name)
        assert main(["eval", "retrieval", "--tag", "[red]scored", *outputs]) == 0
        for name, text in (("damaged", "{"), ("unfinished", None)):
            (folder / name / "record.json").unlink()
            if text:
                (folder / name / "record.json").write_text(text)
        capsys.readouterr()
        assert list_command.main(["--tags", *outputs]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines() if "retrieval" in line]
        states = {line[1]: line[2] for line in lines}
        assert states == {
            "[red]scored": "scored", "color_histogram": "exported", "damaged": "damaged", "unfinished": "not",
        }  # fmt: skip


class TestDoctor:
    @pytest.fixture(scope="class")
    def outputs(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        root = tmp_path_factory.mktemp("doctor")
        assert run_command.main([*FAST, "--outputs", str(root)]) == 0
        return root

    def verify(self, path: Path, capsys: Any) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        status = doctor_command.main([str(path), "--json"])
        return status, json.loads(capsys.readouterr().out)

    def test_whole(self, outputs: Path, capsys: Any):
        status, report = self.verify(outputs, capsys)
        assert status == 0
        assert report["damaged"] == 0
        assert len(report["content"]) == 64
        assert any(name.endswith("predictions.h5") for name in report["files"])
        assert doctor_command.main([str(outputs)]) == 0
        assert f"{report['content'][:16]}  content of all" in capsys.readouterr().out

    def test_the_content_of_a_tag_is_its_own_wherever_it_lies(self, outputs: Path, tmp_path: Path, capsys: Any):
        from benchkit.store.verify import folder_content

        tag = outputs / "results" / "retrieval" / "color_histogram"
        shutil.copytree(tag, tmp_path / "copy")
        contents = {self.verify(path, capsys)[1]["content"] for path in (tag, tmp_path / "copy")}
        assert contents == {folder_content(tag)}

    def test_damaged(self, outputs: Path, tmp_path: Path, capsys: Any):
        shutil.copytree(outputs, tmp_path / "copy")
        path = tmp_path / "copy" / "results" / "retrieval" / "color_histogram" / "results.h5"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 8
        path.unlink()
        path.write_bytes(data)
        status, report = self.verify(tmp_path / "copy", capsys)
        assert status == 3
        assert report["damaged"] == 1
        bad = [name for name, facts in report["files"].items() if facts["problem"]]
        assert bad == ["results/retrieval/color_histogram/results.h5"]

    def test_nothing_to_verify(self, tmp_path: Path, capsys: Any):
        assert doctor_command.main([str(tmp_path)]) == 2
        assert doctor_command.main([str(tmp_path / "absent")]) == 2

    def test_machine(self, capsys: Any):
        assert doctor_command.main(["--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["benchkit"] == __version__
        assert facts["numpy"] != "not installed"
        assert doctor_command.main([]) == 0


class TestInterrupt:
    def test_ctrl_c_keeps_what_is_done(self, tmp_path: Path):
        """Three batches of 4 are done when the model hangs; the rerun forwards only the others, and hashes agree."""
        from benchkit.store.verify import folder_content

        (tmp_path / "slow_net.py").write_text(SLOW)
        argv = [
            "export", "--conf", str(tmp_path / "slow.yaml"), "--benchmark", "retrieval", "--outputs", "out",
            "data.n_test=18", "data.side=16", "model.batch_size=4",
        ]  # fmt: skip
        (tmp_path / "slow.yaml").write_text(
            "model: {backbone: {name: module, path: slow_net.Slow, size: 16, mean: [0, 0, 0], std: [1, 1, 1], crop_pct: 1.0}}\n"
        )
        end, err = self.interrupt(argv, tmp_path)
        assert end == 130, err
        assert "interrupted" in err
        assert "Traceback" not in err
        tag = tmp_path / "out" / "results" / "retrieval" / "slow"
        assert not (tag / "record.json").exists()
        assert not [p for p in (tmp_path / "out").rglob("*.tmp-*")]
        banked = len(list((tmp_path / "out" / "features").rglob("part-*.h5")))
        assert banked >= 1
        done = self.call(argv, tmp_path)
        assert done.returncode == 0, done.stderr
        shutil.move(tmp_path / "out", tmp_path / "resumed")
        assert self.call(argv, tmp_path).returncode == 0
        contents = {folder_content(tmp_path / o / "results" / "retrieval" / "slow") for o in ("out", "resumed")}
        assert len(contents) == 1

    def environment(self, folder: Path, seconds: int) -> dict[str, str]:
        return {
            **os.environ,
            "SLEEP": str(seconds),
            "PYTHONPATH": f"{folder}:{REPOSITORY}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def call(self, argv: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "benchkit", *argv]
        return subprocess.run(
            command, cwd=folder, env=self.environment(folder, 0), capture_output=True, text=True, timeout=120
        )

    def interrupt(self, argv: Sequence[str], folder: Path) -> tuple[int, str]:
        """Run until the module says it is busy, then press Ctrl-C."""
        process = subprocess.Popen(
            [sys.executable, "-m", "benchkit", *argv],
            cwd=folder, env=self.environment(folder, 60), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=heeding_ctrl_c,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        _, err = process.communicate(timeout=60)
        assert time.monotonic() - started < 20
        return process.returncode, err
