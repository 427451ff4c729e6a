"""Eval on finished tags: what is computed when, what is refused, and the numbers recomputed by other means."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml
from sklearn import metrics as sk

import benchkit
from benchkit.commands import eval as eval_command
from benchkit.commands import export as export_command
from benchkit.commands import run as run_command
from benchkit.errors import RunError, UsageError
from benchkit.eval import evaluate
from benchkit.export import export
from benchkit.metrics.intervals import bootstrap
from benchkit.provenance.record import sealed
from benchkit.store.verify import folder_content

DATA = ["data.n_train=60", "data.n_test=30", "data.side=32"]
PREPROCESS = {"size": 32, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "crop_pct": 1.0}
FAMILIES = ("classification", "retrieval")

SOURCE = '''
import torch
from torch import nn
from benchkit.datasets.scenes import Scenes, Settings as ScenesSettings


class Net(nn.Module):
    """Mean colours and edges of four parts of the image, mixed by fixed weights."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 8, 8)
        with torch.no_grad():
            ramp = torch.arange(self.conv.weight.numel()).reshape(self.conv.weight.shape)
            self.conv.weight.copy_(torch.sin(ramp * 0.7) * 0.2)
            self.conv.bias.zero_()

    def forward(self, x):
        return torch.tanh(self.conv(x)).mean((2, 3))


class Grouped(Scenes):
    Settings = ScenesSettings

    def group(self, item):
        return f"room {int(item.split('/')[1]) // 6}"


class Half(Scenes):
    """Every other item is in one group, the others stand alone."""
    Settings = ScenesSettings

    def group(self, item):
        return "room" if int(item.split('/')[1]) % 2 else ""
'''


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A user's module with a small net and data sets with groups."""
    folder = tmp_path_factory.mktemp("users")
    (folder / "tiny_for_eval.py").write_text(SOURCE)
    sys.path.insert(0, str(folder))
    import tiny_for_eval

    yield tiny_for_eval
    sys.path.remove(str(folder))


@pytest.fixture(scope="session")
def finished(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An outputs folder with the exported tag `net` of both families, not scored yet."""
    root = tmp_path_factory.mktemp("finished")
    path = ["model.backbone.name=module", "model.backbone.path=tiny_for_eval.Net", *_said()]
    ends = export(None, FAMILIES, arguments=[*DATA, *path], tag="net", outputs=root, say=lambda _: None)
    assert [end.state for end in ends] == ["finished", "finished"]
    return root


def _said() -> list[str]:
    joined = {k: ",".join(map(str, v)) if isinstance(v, list) else v for k, v in PREPROCESS.items()}
    return [f"model.backbone.{k}={v}" for k, v in joined.items()]


@pytest.fixture
def outputs(finished: Path, tmp_path: Path) -> Path:
    """A copy of the tags' folders alone: no bank, no targets beside them."""
    root = tmp_path / "outputs"
    for family in FAMILIES:
        shutil.copytree(finished / "results" / family / "net", root / "results" / family / "net")
    return root


@pytest.fixture
def folder(outputs: Path) -> Path:
    return outputs / "results" / "classification" / "net"


def scored(outputs: Path, family: str = "classification", **how: Any) -> Any:
    return evaluate(family, "net", outputs=outputs, **how)


def read(path: Path) -> dict[str, np.ndarray]:
    """Columns of a results or predictions file, by h5py alone."""
    found: dict[str, np.ndarray] = {}

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and not name.startswith("crc/"):
            found[name] = node[...]

    with h5py.File(path) as file:
        file.visititems(visit)
    return found


def write_over(path: Path, data: bytes) -> None:
    """Replace a read-only file's bytes."""
    path.unlink()
    path.write_bytes(data)


class TestNumbers:
    def test_classification(self, outputs: Path, folder: Path):
        """Every summary from predictions.h5 and targets.h5 by scikit-learn, or a loop."""
        found = scored(outputs).summaries
        predicted, true = read(folder / "predictions.h5"), read(folder / "targets.h5")
        assert [n.decode() for n in predicted["names"]] == [n.decode() for n in true["names"]]
        scores, labels = predicted["scores"].astype(float), true["label"]
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        every = np.arange(12)
        assert found["top1"] == pytest.approx(sk.accuracy_score(labels, scores.argmax(1)))
        assert found["top5"] == pytest.approx(sk.top_k_accuracy_score(labels, scores, k=5, labels=every))
        assert found["mean_class_acc"] == pytest.approx(sk.balanced_accuracy_score(labels, scores.argmax(1)))
        assert found["nll"] == pytest.approx(sk.log_loss(labels, shares, labels=every))
        assert found["ece"] == pytest.approx(_ece(shares, labels))
        assert 0 < found["top1"] < 1
        assert found["n_items"] == 30

    def test_retrieval(self, outputs: Path):
        found = scored(outputs, "retrieval").summaries
        folder = outputs / "results" / "retrieval" / "net"
        rows, labels = read(folder / "predictions.h5")["embedding"].astype(float), read(folder / "targets.h5")["label"]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        similar = rows @ rows.T
        precision, first = [], []
        for query in range(30):
            others = np.delete(np.arange(30), query)
            positive = labels[others] == labels[query]
            precision.append(sk.average_precision_score(positive, similar[query, others]))
            order = np.argsort(-similar[query, others], kind="stable")
            first.append(positive[order].argmax())
        assert found["mAP"] == pytest.approx(np.mean(precision))
        for k in (1, 5, 10):
            assert found[f"recall@{k}"] == pytest.approx(np.mean(np.array(first) < k))

    def test_predictions_come_from_the_stored_head(self, outputs: Path, folder: Path):
        from safetensors.numpy import load_file

        state, kept = load_file(folder / "head.safetensors"), read(folder / "features.h5")
        column = next(name for name in kept if name.startswith("features/"))
        rows = {name: row for name, row in zip(kept["names"], kept[column], strict=True)}
        predicted = read(folder / "predictions.h5")
        inputs = np.stack([rows[name] for name in predicted["names"]])
        np.testing.assert_allclose(inputs @ state["weight"] + state["bias"], predicted["scores"], rtol=1e-4, atol=1e-4)

    def test_floor(self, outputs: Path):
        """24 train scenes of 12 classes, 30 test scenes: the first class has 3 of them."""
        found = scored(outputs).summaries
        assert found["floor_top1"] == pytest.approx(0.1)
        assert found["floor_mean_class_acc"] == pytest.approx(1 / 12)
        assert scored(outputs).record["scores"]["top1"]["floor"] == found["floor_top1"]

    def test_intervals_come_near_another_bootstrap(self, outputs: Path):
        result = scored(outputs)
        items, rng = result.items["top1"], np.random.default_rng(7)
        low, high = result.record["scores"]["top1"]["interval"]
        means = [items[rng.integers(0, 30, 30)].mean() for _ in range(4000)]
        assert low == pytest.approx(np.quantile(means, 0.025), abs=0.035)
        assert high == pytest.approx(np.quantile(means, 0.975), abs=0.035)
        for score in result.record["scores"].values():
            assert score["interval"][0] <= score["value"] <= score["interval"][1] or score["better"] == "lower"

    def test_items_are_those_of_the_summaries(self, outputs: Path):
        result = scored(outputs)
        assert result.items["names"] == [f"test/{i:06d}" for i in range(30)]
        assert result.summaries["nll"] == pytest.approx(result.items["nll"].mean())
        assert result.items["category/class"][0] == "ball plain" or result.items["category/class"][0]

    def test_summaries_are_flat_numbers_or_null(self, outputs: Path):
        for family in FAMILIES:
            scored(outputs, family)
            text = (outputs / "results" / family / "net" / "summaries.json").read_text()
            assert "NaN" not in text
            assert "Infinity" not in text
            values = json.loads(text)
            assert all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in values.values())
            names = [m for m in benchkit.load(family, "net", outputs).record["scores"]]
            assert list(values)[: len(names)] == names  # the headline first


def _ece(shares: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    sure, right, total = shares.max(1), shares.argmax(1) == labels, 0.0
    for i in range(bins):
        inside = (sure > i / bins) & (sure <= (i + 1) / bins)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - sure[inside].mean())
    return total


class TestWhen:
    def test_again_is_unchanged(self, outputs: Path, folder: Path):
        first = scored(outputs)
        before = {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir() if p.is_file()}
        again = scored(outputs)
        assert (first.fresh, again.fresh) == (True, False)
        assert first.summaries == again.summaries
        assert first.record == again.record
        assert {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir() if p.is_file()} == before

    def test_other_settings_are_refused_then_allowed(self, outputs: Path, folder: Path):
        old = scored(outputs)
        with pytest.raises(UsageError, match=r"eval\.ece_bins was 15, now 100.*--overwrite_eval"):
            scored(outputs, arguments=["eval.ece_bins=100"])
        assert json.loads((folder / "record.json").read_text()) == old.record
        new = scored(outputs, arguments=["eval.ece_bins=100"], overwrite_eval=True)
        assert new.summaries["ece"] != old.summaries["ece"]
        assert new.summaries["top1"] == old.summaries["top1"]
        assert new.record["fingerprint"] != old.record["fingerprint"]
        assert new.record["conf"]["eval"] == new.record["protocol"]["eval"] == {"ece_bins": 100}
        conf = yaml.safe_load((folder / "conf.yaml").read_text())
        assert conf == new.record["conf"]
        assert conf["data"] == old.record["conf"]["data"]
        assert not scored(outputs).fresh  # the settings it was scored with are now its own

    def test_settings_of_the_first_scoring_are_free(self, outputs: Path):
        assert scored(outputs, arguments=["benchmarks.classification.eval.ece_bins=100"]).record["conf"]["eval"] == {
            "ece_bins": 100
        }

    def test_settings_of_a_conf(self, outputs: Path, tmp_path: Path):
        conf = tmp_path / "mine.yaml"
        conf.write_text("benchmarks: {classification: {eval: {ece_bins: 3}}}\n")
        assert scored(outputs, conf=conf).record["conf"]["eval"] == {"ece_bins": 3}

    def test_settings_that_cannot_change_a_result_never_stop(self, outputs: Path):
        scored(outputs, "retrieval")
        assert not scored(outputs, "retrieval", arguments=["eval.num_workers=3"]).fresh

    @pytest.mark.parametrize("key", ["data.n_test=4", "model.batch_size=2", "data.root=/tmp", "split=test"])
    def test_other_sections_are_refused(self, outputs: Path, key: str):
        with pytest.raises(UsageError, match=key.split("=")[0].split(".")[0]):
            scored(outputs, arguments=[key])

    @pytest.mark.parametrize("name", ["results.h5", "summaries.json"])
    def test_deleted_scores_are_made_again(self, outputs: Path, folder: Path, name: str):
        scored(outputs)
        before = folder_content(folder)
        (folder / name).unlink()
        assert scored(outputs).fresh
        assert folder_content(folder) == before

    @pytest.mark.parametrize("name", ["results.h5", "summaries.json"])
    def test_edited_scores_are_made_again(self, outputs: Path, folder: Path, name: str):
        """Also where the edit keeps the size."""
        good = scored(outputs).summaries
        data = (folder / name).read_bytes()
        place = data.find(b"0.") if name == "summaries.json" else len(data) // 2
        write_over(folder / name, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        again = scored(outputs)
        assert again.fresh
        assert again.summaries == good
        assert (folder / name).read_bytes() == data

    def test_a_file_that_eval_does_not_read_may_be_absent(self, outputs: Path, folder: Path):
        scored(outputs)
        for name in ("thumbs.h5", "features.h5", "head.safetensors"):
            (folder / name).unlink()
        assert not scored(outputs).fresh
        with pytest.raises(UsageError, match="ece_bins"):
            scored(outputs, arguments=["eval.ece_bins=100"])

    def test_a_new_version_of_the_family_does_not_pass_for_the_old(self, outputs: Path, monkeypatch: Any):
        from benchkit.eval.classification import Classification

        old = scored(outputs).record
        monkeypatch.setattr(Classification, "version", old["family_version"] + 1)
        with pytest.raises(UsageError, match=r"version was 1, now 2.*--overwrite_eval"):
            scored(outputs)
        new = scored(outputs, overwrite_eval=True).record
        assert new["family_version"] == new["protocol"]["version"] == 2
        assert new["fingerprint"] != old["fingerprint"]

    def test_a_killed_eval_is_done_again(self, outputs: Path, folder: Path, monkeypatch: Any):
        """Stopped after results.h5 and before the record: the record speaks of other files."""
        good = scored(outputs)
        from benchkit.eval import _evaluation

        def stop(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(_evaluation, "write_text", stop)
            with pytest.raises(KeyboardInterrupt):
                scored(outputs, arguments=["eval.ece_bins=100"], overwrite_eval=True)
        again = scored(outputs)
        assert again.fresh
        assert again.summaries == good.summaries
        assert not list(folder.glob("*.tmp-*"))


class TestRefused:
    def test_nothing_exported(self, outputs: Path):
        with pytest.raises(UsageError, match=r"benchkit\.export --conf NAME --benchmark classification --tag 'my net'"):
            evaluate("classification", "my net", outputs=outputs)
        with pytest.raises(UsageError, match="did you mean 'net'"):
            evaluate("classification", "nett", outputs=outputs)
        with pytest.raises(UsageError, match="did you mean 'classification'"):
            evaluate("clasification", "net", outputs=outputs)
        assert not (outputs / "results" / "clasification").exists()

    def test_unfinished_export(self, outputs: Path, folder: Path):
        (folder / "record.json").unlink()
        with pytest.raises(UsageError, match=r"no finished export.*benchkit\.export"):
            scored(outputs)

    @pytest.mark.parametrize("name", ["predictions.h5", "targets.h5"])
    @pytest.mark.parametrize("source", ["another family", "same size", "absent", "truncated", "empty"])
    def test_files_that_do_not_belong(self, outputs: Path, folder: Path, name: str, source: str):
        path = folder / name
        data = path.read_bytes()
        if source == "absent":
            path.unlink()
        elif source == "another family":
            theirs = outputs / "results" / "retrieval" / "net" / name
            write_over(path, theirs.read_bytes() if name == "predictions.h5" else b"x" + theirs.read_bytes())
        elif source == "same size":
            _other_values(path)
            assert path.stat().st_size == len(data)
        else:
            write_over(path, data[: len(data) // 2] if source == "truncated" else b"")
        with pytest.raises(RunError, match=name):
            scored(outputs)
        assert not (folder / "summaries.json").exists()

    def test_a_flipped_bit_is_found(self, outputs: Path, folder: Path):
        path = folder / "predictions.h5"
        data = bytearray(path.read_bytes())
        with h5py.File(path) as file:
            data[file["scores"].id.get_offset() + 12] ^= 4
        write_over(path, bytes(data))
        with pytest.raises(RunError, match=r"predictions.h5.*test/000000"):
            scored(outputs)

    def test_damaged_record(self, outputs: Path, folder: Path):
        for text in ("{", "[]", '{"schema": "x"}', "{}"):
            write_over(folder / "record.json", text.encode())
            with pytest.raises(RunError, match=r"record.json"):
                scored(outputs)
        write_over(folder / "record.json", b'{"schema": 99}')
        with pytest.raises(UsageError, match="schema 99"):
            scored(outputs)

    def test_a_head_that_does_not_fit(self, outputs: Path, folder: Path):
        """A tag of retrieval, evaluated as classification: its predictions have no scores."""
        record = json.loads((outputs / "results" / "retrieval" / "net" / "record.json").read_text())
        record["family"] = "classification"
        record["conf"]["eval"] = {}
        write_over(outputs / "results" / "retrieval" / "net" / "record.json", json.dumps(sealed(record)).encode())
        with pytest.raises(UsageError, match=r"'scores'.*embedding.*model\.head\.name"):
            scored(outputs, "retrieval")

    def test_an_edited_record(self, outputs: Path, folder: Path):
        """A changed digit of a stored score is seen before it is printed."""
        scored(outputs)
        text = (folder / "record.json").read_text()
        write_over(folder / "record.json", re.sub(r'("floor": 0\.\d)', r"\g<1>1", text, count=1).encode())
        with pytest.raises(RunError, match=r"record\.json is damaged or was edited"):
            scored(outputs)

    def test_a_log_never_hides_a_score(self, outputs: Path, folder: Path):
        from benchkit.eval._checks import refuse_clash

        with pytest.raises(UsageError, match="'top1'"):
            refuse_clash(folder, {"top1": 0.5}, {"top1": 1.0, "train_top1": 1.0})


def _other_values(path: Path) -> None:
    """The same table with other numbers: sealed and whole, of the same size, but not the one that was exported."""
    from benchkit.store.table import Table, write_table

    with Table(path) as table:
        columns = {name: table.read(name) for name in table.columns}
        whole = {name: table.read_whole(name) for name in table.whole}
        kind, names, meta = table.kind, table.names, table.meta
    column = "scores" if "scores" in columns else "label"
    values, size, rng = columns[column], path.stat().st_size, np.random.default_rng(0)
    while np.array_equal(columns[column], values) or path.stat().st_size != size:  # a checksum has nine digits or ten
        columns[column] = rng.permutation(values)
        write_table(path, kind, names, columns, whole, meta)


class TestElsewhere:
    def test_the_folder_alone_gives_equal_hashes(self, finished: Path, outputs: Path, tmp_path: Path):
        for family in FAMILIES:
            one, other = outputs / "results" / family, tmp_path / "elsewhere" / "results" / family
            shutil.copytree(one / "net", other / "net")
            assert scored(outputs, family).summaries == scored(tmp_path / "elsewhere", family).summaries
            assert folder_content(one / "net") == folder_content(other / "net")

    def test_a_folder_under_another_name(self, outputs: Path, folder: Path):
        shutil.copytree(folder, folder.parent / "copy")
        assert evaluate("classification", "copy", outputs=outputs).record["tag"] == "copy"

    def test_one_way_or_another(self, tiny: Any, finished: Path, tmp_path: Path):
        """An object through Python, a dotted path through the commands, and export with eval: equal files."""
        path = ["model.backbone.name=module", "model.backbone.path=tiny_for_eval.Net", *_said()]
        python, run, two = (tmp_path / name for name in ("python", "run", "two"))
        for family in FAMILIES:
            benchkit.run(tiny.Net(), family, preprocess=PREPROCESS, tag="net", arguments=DATA, outputs=python)
        conf = tmp_path / "net.yaml"
        conf.write_text("title: tiny\n")
        flags = ["--conf", str(conf), "--benchmark", *FAMILIES, "--tag", "net"]
        assert run_command.main([*flags, "--outputs", str(run), *path, *DATA]) == 0
        assert export_command.main([*flags, "--outputs", str(two), *path, *DATA]) == 0
        for family in FAMILIES:
            assert eval_command.main([family, "--tag", "net", "--outputs", str(two)]) == 0
        shutil.copytree(finished, tmp_path / "old")
        contents = set()
        for root in (python, run, two, tmp_path / "old"):
            contents.add(tuple(folder_content(scored(root, family).folder) for family in FAMILIES))
        assert len(contents) == 1


class TestObjects:
    def run(self, module: Any, outputs: Path, **how: Any) -> Any:
        return benchkit.run(module, "retrieval", preprocess=PREPROCESS, arguments=DATA, outputs=outputs, **how)

    def test_another_object_under_the_same_tag_is_refused(self, tiny: Any, tmp_path: Path):
        import torch

        one, other = tiny.Net(), tiny.Net()
        with torch.no_grad():
            other.conv.weight.mul_(3)
        first = self.run(one, tmp_path)
        assert first.folder.name == "Net"
        assert not self.run(tiny.Net(), tmp_path).fresh
        with pytest.raises(UsageError, match="--overwrite"):
            self.run(other, tmp_path)
        assert self.run(other, tmp_path, overwrite=True).summaries["mAP"] != first.summaries["mAP"]

    def test_an_attribute_is_part_of_the_module(self, tiny: Any, tmp_path: Path):
        """Equal weights and code; a number that forward reads differs."""
        from torch import nn

        class Scaled(nn.Module):
            def __init__(self, scale: float) -> None:
                super().__init__()
                self.net, self.scale = tiny.Net(), scale

            def forward(self, x: Any) -> Any:
                return self.net(self.scale * x)

        one, other = (self.run(Scaled(s), tmp_path, tag=f"by {s}").summaries["mAP"] for s in (1.0, 4.0))
        assert one != other

    def test_modes_are_given_back(self, tiny: Any, tmp_path: Path):
        net = tiny.Net().train()
        net.conv.eval()
        self.run(net, tmp_path)
        assert (net.training, net.conv.training) == (True, False)

    def test_changed_eval_settings_reach_a_finished_tag(self, tiny: Any, tmp_path: Path):
        def run(**how: Any) -> Any:
            return benchkit.run(tiny.Net(), "classification", preprocess=PREPROCESS, outputs=tmp_path, **how)

        run(arguments=DATA)
        with pytest.raises(UsageError, match=r"eval\.ece_bins was 15, now 100"):
            run(arguments=[*DATA, "eval.ece_bins=100"])
        again = run(arguments=[*DATA, "eval.ece_bins=100"], overwrite_eval=True)
        assert again.record["conf"]["eval"] == {"ece_bins": 100}

    def test_what_cannot_be_known_must_be_said(self, tiny: Any, tmp_path: Path):
        with pytest.raises(UsageError, match="preprocess="):
            benchkit.run(tiny.Net(), "retrieval", outputs=tmp_path)
        with pytest.raises(UsageError, match=r"nn\.Module"):
            benchkit.run(object(), "retrieval", preprocess=PREPROCESS, outputs=tmp_path)
        with pytest.raises(UsageError, match="patch_size"):
            benchkit.run("color_histogram", "retrieval", patch_size=4, outputs=tmp_path)


class TestGroupsAndSkips:
    def export(self, outputs: Path, *arguments: str) -> None:
        path = ["model.backbone.name=module", "model.backbone.path=tiny_for_eval.Net", *_said()]
        given = [*path, *arguments]
        (end,) = export(None, "classification", arguments=given, tag="net", outputs=outputs, say=lambda _: None)
        assert not isinstance(end, Exception), end

    @pytest.mark.parametrize("name", ["Grouped", "Half"])
    def test_groups_are_resampled_whole(self, tiny: Any, tmp_path: Path, name: str):
        self.export(tmp_path, f"data.name=tiny_for_eval.{name}", *DATA)
        result = scored(tmp_path)
        number, nll = np.arange(30), result.items["nll"]
        groups = number // 6 if name == "Grouped" else np.where(number % 2, -1, number)
        rng, means = np.random.default_rng(5), []
        for _ in range(4000):
            drawn = rng.choice(np.unique(groups), len(np.unique(groups)))
            means.append(np.concatenate([nll[groups == g] for g in drawn]).mean())
        low, high = result.record["scores"]["nll"]["interval"]
        assert low == pytest.approx(np.quantile(means, 0.025), abs=0.15 * (high - low))
        assert high == pytest.approx(np.quantile(means, 0.975), abs=0.15 * (high - low))
        alone = bootstrap({"nll": nll}, lambda c: {"nll": float(c["nll"].mean())}, seed=0)["nll"]
        assert abs((high - low) / (alone[1] - alone[0]) - 1) > 0.05

    def test_skipped_items_are_shown(self, tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        from PIL import Image

        rng = np.random.default_rng(0)
        for split, count in (("train", 4), ("test", 3)):
            for label in ("cat", "dog"):
                for i in range(count):
                    path = tmp_path / "data" / split / label / f"{i}.png"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    Image.fromarray(rng.integers(0, 255, (32, 32, 3), np.uint8)).save(path)
        (tmp_path / "data" / "test" / "cat" / "1.png").write_bytes(b"")
        self.export(tmp_path, f"data.root={tmp_path / 'data'}", "data.on_error=skip", "model.head.name=knn")
        assert eval_command.main(["classification", "--tag", "net", "--outputs", str(tmp_path)]) == 0
        assert re.search(r"5 items.*1 items? skipped", capsys.readouterr().out)
        result = scored(tmp_path)
        assert result.record["data"]["skipped"].keys() == {"test/cat/1.png"}
        assert result.summaries["n_items"] == len(result.items["names"]) == 5
        assert result.summaries["top5"] is None  # two classes
        assert result.summaries["n_undefined_top5"] == 5


class TestCommand:
    @pytest.fixture
    def run(self, outputs: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
        def call(*argv: str) -> tuple[int, str, str]:
            capsys.readouterr()
            status = eval_command.main([*argv, "--outputs", str(outputs)])
            return (status, *capsys.readouterr())

        return call

    def test_twice(self, run: Any):
        status, out, err = run("classification", "--tag", "net")
        assert status == 0
        assert "top1" in out
        assert "scored: " in err
        status, again, err = run("classification", "--tag", "net")
        assert status == 0
        assert again == out
        assert "nothing has changed" in err

    def test_statuses(self, run: Any):
        assert run("classification", "--tag", "absent")[0] == 2
        assert run("classification")[0] == 2
        assert run("classification", "--tag", "net")[0] == 0
        status, _, err = run("classification", "--tag", "net", "eval.ece_bins=100")
        assert status == 2
        assert "--overwrite_eval" in err
        assert run("classification", "--tag", "net", "eval.ece_bins=100", "--overwrite_eval")[0] == 0
        assert run("classification", "--overwrite-eval", "eval.ece_bins=5", "--tag", "net")[0] == 0
        assert run("classification", "--tag", "net", "data.n_test=4")[0] == 2

    def test_each_tag_ends_on_its_own(self, run: Any, folder: Path):
        shutil.copytree(folder, folder.parent / "other")
        (folder / "predictions.h5").unlink()
        status, out, err = run("classification", "--tag", "absent", "net", "other")
        assert status == 3
        assert "other" in out
        assert "absent" in err
        assert "predictions.h5" in err

    def test_records_get_a_line_per_run(self, run: Any, tmp_path: Path):
        lines = tmp_path / "deep" / "records.jsonl"
        for _ in range(2):
            assert run("classification", "--tag", "net", "--records", str(lines))[0] == 0
        records = [json.loads(line) for line in lines.read_text().splitlines()]
        assert [r["tag"] for r in records] == ["net", "net"]
        assert records[0]["scores"]["top1"]["value"] == records[1]["scores"]["top1"]["value"]

    TAGS = ("[red]x", "lr=0.1 a_b", "50% & $5 #1 {a}^~", "ünïcode 猫", "`code` [bold]")

    @pytest.fixture
    def tagged(self, folder: Path) -> Path:
        for tag in self.TAGS:
            shutil.copytree(folder, folder.parent / tag)
        return folder.parent

    def test_tags_are_shown_literally(self, run: Any, tagged: Path):
        status, out, err = run("classification", "--tag", *self.TAGS)
        assert status == 0, err
        for tag in self.TAGS:
            assert tag in out

    def test_a_tag_with_a_tag_of_html_cannot_exist(self, run: Any):
        status, _, err = run("classification", "--tag", "<img>")
        assert status == 2
        assert "'<img>' cannot be a tag" in err

    def test_csv(self, run: Any, tagged: Path):
        status, out, err = run("classification", "--tag", *self.TAGS, "--format", "csv")
        assert status == 0
        rows = list(csv.DictReader(io.StringIO(out)))
        assert [r["tag"] for r in rows if r["metric"] == "top1"] == list(self.TAGS)
        top1 = next(r for r in rows if r["metric"] == "top1")
        summaries = json.loads((tagged / self.TAGS[0] / "summaries.json").read_text())
        assert float(top1["value"]) == summaries["top1"]  # all digits
        assert float(top1["low"]) <= float(top1["value"]) <= float(top1["high"])
        assert float(top1["floor"]) == summaries["floor_top1"]
        assert "generated images" in err

    def test_markdown(self, run: Any, tagged: Path):
        out = run("classification", "--tag", *self.TAGS, "--format", "markdown")[1]
        lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in out.splitlines()]
        assert {len(cells) for cells in lines} == {8}
        assert set("".join(lines[1])) <= set(" -")
        shown = {re.sub(r"\\(.)", r"\1", cells[1].strip()) for cells in lines[2:]}
        assert shown == set(self.TAGS)

    def test_latex(self, run: Any, tagged: Path):
        out = run("classification", "--tag", *self.TAGS, "--format", "latex")[1]
        first, *body, last = out.splitlines()
        assert first == r"\begin{tabular}{llllllll}"
        assert last == r"\end{tabular}"
        for line in body:
            assert line.endswith(r" \\")
            assert len(re.findall(r"(?<!\\)&", line)) == 7
            bare = re.sub(r"\\[a-z]+\{\}|\\[%&_#${}]", "", line.removesuffix(r" \\"))
            assert not re.search(r"[%#$_{}~^\\]", bare), line

    def test_narrow_terminals_lose_no_digit(self, run: Any, folder: Path, monkeypatch: Any):
        long = "a_very_long_tag_that_goes_on_and_on_" * 4
        shutil.copytree(folder, folder.parent / long)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", "90")
        out = run("classification", "--tag", long)[1]
        value = scored(folder.parents[2]).summaries["top1"]
        assert f"{value:.4f}" in out
        assert "…" not in out
        assert max(map(len, out.splitlines()[:4])) <= 90

    def test_picture(self, run: Any, outputs: Path):
        status, out, _ = run("classification", "--tag", "net", "--plot")
        assert status == 0
        assert (outputs / "results" / "classification" / "net" / "top1.png").read_bytes()[:4] == b"\x89PNG"
        assert "top1.png" in out

    def test_outputs_from_the_environment(self, outputs: Path, monkeypatch: Any):
        monkeypatch.setenv("BENCHKIT_OUTPUTS", str(outputs))
        assert eval_command.main(["retrieval", "--tag", "net"]) == 0
        assert (outputs / "results" / "retrieval" / "net" / "summaries.json").exists()


def test_two_evals_at_once_leave_one_result(outputs: Path, folder: Path):
    """Both wait for the tag's lock; whoever comes second finds it scored."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: scored(outputs), range(4)))
    assert sorted(r.fresh for r in results) == [False, False, False, True]
    assert len({json.dumps(r.summaries) for r in results}) == 1
    assert not [p for p in folder.rglob("*.tmp-*")]
    assert os.access(folder / "results.h5", os.R_OK)
