"""From a folder of frames to a board: manifest, audit, submission, verification, ranking; and what each refuses."""

from __future__ import annotations

import copy
import csv
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from benchkit.__main__ import main
from benchkit.conf.build import build
from benchkit.errors import UsageError
from benchkit.eval import evaluate
from benchkit.submissions.audit import audit
from benchkit.submissions.board import rank, rows
from benchkit.submissions.entry import make_entry, read_entry, write_entry
from benchkit.submissions.manifest import build_manifest, differences, read_manifest
from benchkit.submissions.verify import _other_truth

ROWS = [("test", "a"), ("test", "a"), ("test", "b"), ("train", "c"), ("train", "c"), ("train", "d")]
FAST = ("data.size=64", "model.batch_size=2", "model.head.epochs=3", "model.head.batch_size=2", "model.head.lr=0.05",
        "model.head.batchnorm=true", "model.head.warmup_epochs=1")  # fmt: skip


def photo(seed: int, size: tuple[int, int] = (64, 48)) -> Image.Image:
    """Blobs of colour that look like no other seed's."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)


def mask(seed: int, size: tuple[int, int] = (64, 48)) -> Image.Image:
    small = np.random.default_rng(seed).choice(np.uint8([0, 1, 2, 3, 8]), (3, 4))
    return Image.fromarray(small).resize(size, Image.Resampling.NEAREST)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six frames of four walls."""
    return write_data(tmp_path / "data")


def write_data(root: Path) -> Path:
    for part in ("frames", "masks"):
        (root / part).mkdir(parents=True)
    lines = [["file", "mask", "split", "wall_id"]]
    for k, (split, wall) in enumerate(ROWS):
        photo(k).save(root / f"frames/{k}.png")
        mask(k).save(root / f"masks/{k}.png")
        lines.append([f"frames/{k}.png", f"masks/{k}.png", split, wall])
    write_table(root, lines)
    return root


def write_table(root: Path, lines: list[list[str]]) -> None:
    with (root / "frames.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows(lines)


def table(root: Path) -> list[list[str]]:
    with (root / "frames.csv").open(newline="") as handle:
        return list(csv.reader(handle))


def run(*argv: Any) -> int:
    return main([str(word) for word in argv])


class TestManifest:
    def test_is_of_the_bytes_and_of_nothing_else(self, data: Path, tmp_path: Path):
        made = build_manifest(data)
        assert set(made) == {"dataset_id", "taxonomy_version", "dataset_ids", "frames"}
        assert made["dataset_id"] == made["dataset_ids"]["test"]
        assert made["frames"][0]["size"] == [48, 64]
        elsewhere = shutil.copytree(data, tmp_path / "elsewhere")
        lines = table(elsewhere)
        write_table(elsewhere, [lines[0], *lines[:0:-1]])  # rows in another order
        assert build_manifest(elsewhere) == made
        frames = [{k: f[k] for k in ("file", "mask", "split", "wall_id")} for f in made["frames"]]
        (elsewhere / "frames.csv").unlink()
        (elsewhere / "frames.json").write_text(json.dumps(frames))
        assert build_manifest(elsewhere) == made

    def test_the_id_by_hand(self, data: Path):
        digests = [[hashlib.sha256((data / f"{part}/{k}.png").read_bytes()).hexdigest() for part in ("frames", "masks")]
                   for k in range(3)]  # fmt: skip
        text = "".join(f"frames/{k}.png\t{d[0]}\t{d[1]}\ttest\t{ROWS[k][1]}\n" for k, d in enumerate(digests))
        assert build_manifest(data)["dataset_id"] == "pv1:" + hashlib.sha256(text.encode()).hexdigest()

    def test_names_what_changed(self, data: Path, capsys: pytest.CaptureFixture[str]):
        assert run("painting", "manifest", data) == 0
        assert run("painting", "manifest", data) == 0
        assert "byte for byte" in capsys.readouterr().out
        photo(99).save(data / "frames/0.png")
        mask(99).save(data / "masks/1.png")
        (data / "frames/2.png").unlink()
        photo(98).save(data / "frames/new.png")
        lines = table(data)
        lines[4][2], lines[5][3] = "val", "z"
        write_table(data, lines)
        assert sorted(differences(data, read_manifest(data / "data_manifest.json"))) == [
            "frames/0.png was changed",
            "frames/2.png is missing",
            "frames/3.png: split is val in frames.csv and train in the manifest",
            "frames/4.png: wall_id is z in frames.csv and c in the manifest",
            "frames/new.png was added: the manifest does not know it",
            "masks/1.png was changed",
        ]
        assert run("painting", "manifest", data) == 2
        assert "frames/0.png was changed" in capsys.readouterr().err

    def test_an_edited_manifest_is_refused(self, data: Path):
        made = build_manifest(data)
        made["frames"][0]["wall_id"] = "elsewhere"
        path = data / "data_manifest.json"
        path.write_text(json.dumps(made))
        with pytest.raises(UsageError, match="dataset_id is not that of its frames"):
            read_manifest(path)
        for broken in ("[]", "{", '{"frames": [{"file": 3}]}', '{"frames": [1]}'):
            path.write_text(broken)
            with pytest.raises(UsageError):
                read_manifest(path)

    def test_a_manifest_leads_nowhere_else(self, data: Path):
        """Paths out of the folder are refused; what is no regular file is never read."""
        made = build_manifest(data)
        path = data / "data_manifest.json"
        for key, value in (
            ("file", "/dev/zero"),
            ("mask", "../x.png"),
            ("file", "a\0b"),
            ("file", "x" * 5000),
            ("wall_id", " "),
        ):
            odd = copy.deepcopy(made)
            odd["frames"][0][key] = value
            path.write_text(json.dumps(odd))
            with pytest.raises(UsageError):
                read_manifest(path)
        (data / "frames/0.png").unlink()
        (data / "frames/0.png").symlink_to("/dev/zero")
        assert "frames/0.png is missing" in differences(data, made)

    @pytest.mark.parametrize(
        "edit",
        [
            lambda m: m["frames"][0].update(size=["a", {}]),
            lambda m: m["frames"][0].update(size=[]),
            lambda m: m["frames"].append(m["frames"][-1]),
            lambda m: m["dataset_ids"].update(train="pv1:0"),
            lambda m: m.update(dataset_id=m["dataset_ids"]["train"]),
            lambda m: m.update(taxonomy_version="2.0"),
        ],
    )
    def test_every_edit_is_seen(self, data: Path, edit: Callable[[Any], None]):
        made = build_manifest(data)
        edit(made)
        path = data / "data_manifest.json"
        path.write_text(json.dumps(made))
        with pytest.raises(UsageError):
            read_manifest(path)

    def test_another_size_and_files_anywhere_are_named(self, data: Path):
        made = build_manifest(data)
        made["frames"][0]["size"] = [1, 2]
        mask(7).save(data / "masks/zz.png")
        (data / "more").mkdir()
        photo(7).save(data / "more/x.png")
        assert differences(data, made) == [
            "frames/0.png: size is [1, 2] in the manifest, and the image's is [48, 64]",
            "masks/zz.png was added: the manifest does not know it",
            "more/x.png was added: the manifest does not know it",
        ]

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            (["../x.png", "m.png", "test", "a"], "leads out of the folder"),
            (["/etc/x.png", "m.png", "test", "a"], "leads out of the folder"),
            (["frames/0.png", "m.png", "test", "a"], "listed a second time"),
            (["frames/9.png", "masks/0.png", "test", "a"], "is the mask of frames/0.png already"),
            (["frames/9.png", "m.png", "", "a"], "has no split"),
        ],
    )
    def test_wrong_tables(self, data: Path, row: list[str], message: str):
        write_table(data, [*table(data), row])
        with pytest.raises(UsageError, match=message):
            build_manifest(data)


class TestAudit:
    def test_a_right_folder(self, data: Path, capsys: pytest.CaptureFixture[str]):
        found = audit(data)
        assert found.problems == []
        assert found.counts == {"test": (3, 2), "train": (3, 2)}
        whole = sum(
            np.bincount(np.asarray(Image.open(data / f"masks/{k}.png")).ravel(), minlength=10) for k in range(3)
        )
        np.testing.assert_allclose(found.shares["test"], whole / whole.sum())
        assert run("painting", "audit", data) == 0
        assert "wall_painted" in capsys.readouterr().out

    def edited(self, data: Path, row: int, column: int, value: str) -> list[str]:
        lines = table(data)
        lines[row + 1][column] = value
        write_table(data, lines)
        return audit(data).problems

    def test_a_wall_in_two_splits(self, data: Path, capsys: pytest.CaptureFixture[str]):
        (problem,) = self.edited(data, 3, 3, "a")
        assert problem.startswith("wall a is in 2 splits: test (frames/0.png, frames/1.png); train (frames/3.png)")
        assert run("painting", "audit", data) == 2
        assert "is refused: 1 problem" in capsys.readouterr().err

    def test_the_same_bytes_under_two_walls(self, data: Path):
        shutil.copy(data / "frames/0.png", data / "frames/2.png")
        (problem,) = audit(data).problems
        assert problem == "frames/0.png and frames/2.png are the same photo (the same bytes) under two wall_ids (a, b)"

    def test_a_copy_that_was_saved_anew_in_another_split(self, data: Path):
        photo(0, (128, 96)).save(data / "frames/5.jpg", quality=70)
        mask(5, (128, 96)).save(data / "masks/5.png")
        (problem,) = self.edited(data, 5, 0, "frames/5.jpg")
        assert problem.startswith("frames/0.png and frames/5.jpg are the same photo (")
        assert "two wall_ids (a, d) and two splits (test, train)" in problem

    def test_two_frames_of_one_wall_may_be_alike(self, data: Path):
        shutil.copy(data / "frames/0.png", data / "frames/1.png")
        assert audit(data).problems == []

    def test_masks_that_are_none(self, data: Path):
        Image.fromarray(np.full((48, 64), 11, np.uint8)).save(data / "masks/0.png")
        mask(1, (32, 24)).save(data / "masks/1.png")
        (data / "masks/2.png").unlink()
        (data / "frames/3.png").write_bytes(b"no image")
        found = audit(data).problems
        assert len(found) == 4
        assert "frames/0.png: its mask masks/0.png: its mask holds an unknown label, 11 (3,072 pixels)" in found[0]
        assert "frames/1.png: its mask masks/1.png is 32 x 24 pixels, and the image 64 x 48" in found[1]
        assert found[2] == "frames/2.png: masks/2.png is missing"
        assert found[3].startswith("frames/3.png: ")


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, outputs and submission.json."""
    folder = tmp_path_factory.mktemp("submitted")
    data, outputs, path = write_data(folder / "data"), folder / "outputs", folder / "submission.json"
    assert run("painting", "manifest", data) == 0
    argv = ["painting", "run", "--data", data, "--conf", "color_histogram", "--outputs", outputs]
    assert run(*argv, "--emit-submission", path, *FAST) == 0
    return folder


@pytest.fixture
def submitted(made_once: Path, tmp_path: Path) -> tuple[Path, Path, Path]:
    """(data, outputs, submission.json), a copy that may be changed."""
    shutil.copytree(made_once, tmp_path / "mine")
    return tmp_path / "mine/data", tmp_path / "mine/outputs", tmp_path / "mine/submission.json"


class TestSubmission:
    def test_says_what_was_scored_and_verifies(self, submitted: Any, capsys: pytest.CaptureFixture[str]):
        _, outputs, path = submitted
        entry = json.loads(path.read_text())
        assert list(entry) == ["benchmark_version", "taxonomy_version", "dataset_id", "split", "checkpoint_sha256",
                               "shared_metrics", "paint_state_metrics", "inference_size", "extra"]  # fmt: skip
        scores = evaluate("painting_vision", "color_histogram@data", outputs=outputs).summaries
        assert entry["shared_metrics"]["mIoU"] == scores["mIoU"]
        assert entry["paint_state_metrics"]["painted_coverage_mae"] == scores["painted_coverage_mae"]
        assert entry["extra"]["floor"]["mIoU"] == scores["floor_mIoU"]
        assert entry["inference_size"] == 64
        capsys.readouterr()
        assert self.verify(submitted) == 0
        assert capsys.readouterr().out.splitlines() == [f"{path}: all that could be recomputed agrees"]

    def verify(self, submitted: Any, *more: Any) -> int:
        data, outputs, path = submitted
        manifest = data / "data_manifest.json"
        return run(
            "submit", "--verify", path, "--dataset-manifest", manifest, "--data", data, "--outputs", outputs, *more
        )

    @pytest.mark.parametrize(
        ("edit", "said"),
        [
            (lambda e: e.update(benchmark_version="1.1"), "benchmark_version is 1.1, and this benchkit computes 1.0"),
            (lambda e: e.update(taxonomy_version="2.0"), "taxonomy_version is 2.0"),
            (lambda e: e.update(dataset_id="pv1:" + "0" * 64), "dataset_id is pv1:000"),
            (lambda e: e.update(split="train"), "split"),
            (lambda e: e.update(checkpoint_sha256="0" * 64), "checkpoint_sha256 is 000"),
            (lambda e: e.update(inference_size=65), "inference_size is 65, and recomputed it is 64"),
            (lambda e: e["shared_metrics"].update(mIoU=0.999), "shared_metrics/mIoU is 0.999"),
            (lambda e: e["shared_metrics"].update(window_recall=None), "shared_metrics/window_recall is None"),
            (lambda e: e["paint_state_metrics"].update(painted_coverage_mae=0.0), "painted_coverage_mae is 0.0"),
            (lambda e: e["extra"]["floor"].update(mIoU=0.0), "extra/floor/mIoU is 0.0"),
        ],
    )
    def test_an_edited_number_is_named(
        self, submitted: Any, edit: Callable[[Any], None], said: str, capsys: pytest.CaptureFixture[str]
    ):
        entry = json.loads(submitted[2].read_text())
        edit(entry)
        submitted[2].write_text(json.dumps(entry))
        assert self.verify(submitted) == 2
        assert said in capsys.readouterr().err

    def test_one_pixel_of_a_frame_or_a_mask_is_named(self, submitted: Any, capsys: pytest.CaptureFixture[str]):
        data = submitted[0]
        for name in ("frames/0.png", "masks/1.png"):
            kept = (data / name).read_bytes()
            pixels = np.array(Image.open(data / name))
            pixels[0, 0] = 1 - np.minimum(pixels[0, 0], 1)
            Image.fromarray(pixels).save(data / name)
            assert self.verify(submitted) == 2
            assert f"{name} was changed" in capsys.readouterr().err
            (data / name).write_bytes(kept)
        assert self.verify(submitted) == 0

    def test_another_head_or_checkpoint_is_named(self, submitted: Any, capsys: pytest.CaptureFixture[str]):
        _, outputs, path = submitted
        head = outputs / "results/painting_vision/color_histogram@data/head.safetensors"
        assert self.verify(submitted, "--checkpoint", path) == 2
        assert "checkpoint_sha256 is" in capsys.readouterr().err
        assert self.verify(submitted, "--checkpoint", head) == 0
        head.chmod(0o644)
        head.write_bytes(head.read_bytes()[:-1] + b"\1")
        assert self.verify(submitted) == 2
        assert "head.safetensors has" in capsys.readouterr().err

    def test_without_data_or_outputs_it_says_what_was_not_checked(
        self, submitted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        capsys.readouterr()
        assert run("submit", "--verify", submitted[2], "--outputs", tmp_path / "none") == 0
        said = capsys.readouterr().out
        for what in (
            "the data: no --dataset-manifest",
            "the scores: ",
            "the checkpoint: no --checkpoint",
        ):
            assert f"not checked: {what}" in said

    def test_a_limited_run_cannot_be_submitted(self, submitted: Any, capsys: pytest.CaptureFixture[str]):
        data, outputs, _ = submitted
        argv = ["export", "--conf", "color_histogram", "--benchmark", "painting_vision", "--limit", 2, "--tag", "few"]
        assert run(*argv, "--outputs", outputs, f"data.root={data}", *FAST) == 0
        manifest, out = data / "data_manifest.json", outputs / "few.json"
        argv = ["submit", "painting_vision", "few", "--dataset-manifest", manifest, "--emit-submission", out]
        assert run(*argv, "--outputs", outputs) == 2
        assert "a limited run cannot be submitted" in capsys.readouterr().err
        assert not out.exists()

    def test_data_other_than_the_manifests(self, submitted: Any):
        data, outputs, _ = submitted
        photo(77).save(data / "frames/0.png")
        with pytest.raises(UsageError, match="which is not the manifest's split 'test'"):
            make_entry("painting_vision", "color_histogram@data", build_manifest(data), outputs)

    def refused(self, submitted: Any, *settings: str) -> str:
        """Export with other settings, then why that may not be submitted."""
        data, outputs, _ = submitted
        argv = ["export", "--conf", "color_histogram", "--benchmark", "painting_vision", "--tag", "odd", "--overwrite"]
        assert run(*argv, "--outputs", outputs, f"data.root={data}", *FAST, *settings) == 0
        with pytest.raises(UsageError) as caught:
            make_entry("painting_vision", "odd", read_manifest(data / "data_manifest.json"), outputs)
        return str(caught.value)

    def test_what_may_not_be_submitted(self, submitted: Any):
        assert "data.resize=crop: whole frames are scored" in self.refused(submitted, "data.resize=crop")
        assert "data.resize=squash" in self.refused(submitted, "data.resize=squash")
        assert "learned from split 'test'" in self.refused(submitted, "data.train_split=test")
        assert "scored on split 'train'" in self.refused(submitted, "data.split=train", "data.train_split=test")

    def test_a_wall_in_two_splits_of_the_manifest(self, submitted: Any):
        data, outputs, _ = submitted
        lines = table(data)
        lines[4][3] = "A"  # as wall a, but for its case
        write_table(data, lines)
        assert run("export", "--conf", "color_histogram", "--benchmark", "painting_vision", "--tag", "odd", "--outputs", outputs,
                   f"data.root={data}", *FAST) == 0  # fmt: skip
        with pytest.raises(UsageError, match="wall a is in 2 splits"):
            make_entry("painting_vision", "odd", build_manifest(data), outputs)

    def test_verify_writes_nothing_and_follows_no_path(self, submitted: Any, tmp_path: Path, capsys: Any):
        _, outputs, path = submitted
        folder = outputs / "results/painting_vision/color_histogram@data"
        summaries = folder / "summaries.json"
        summaries.chmod(0o644)
        summaries.write_text(summaries.read_text().replace("mIoU", "miou"))

        def state() -> dict[str, Any]:
            return {str(p): (p.stat().st_mtime_ns, p.stat().st_ino) for p in sorted(outputs.rglob("*")) if p.is_file()}

        before = state()
        assert self.verify(submitted) == 0
        entry = json.loads(path.read_text())
        for benchmark in ("../../outputs/results/painting_vision", str(folder.parent), "x" * 5000, "retrieval", ""):
            entry["extra"]["benchmark"] = benchmark[:200]
            path.write_text(json.dumps(entry))
            assert run("submit", "--verify", path, "--outputs", tmp_path / "elsewhere") == 0
            assert "not checked: the scores" in capsys.readouterr().out
        assert state() == before
        assert not (tmp_path / "elsewhere").exists()

    @pytest.mark.parametrize("key", ["intervals", "counts", "predictions_content", "model", "backbone_weights", "head"])
    def test_what_stands_beside_the_scores_is_recomputed_too(self, submitted: Any, key: str, capsys: Any):
        entry = json.loads(submitted[2].read_text())
        value = entry["extra"][key]
        entry["extra"][key] = {**value, next(iter(value)): 0.125} if isinstance(value, dict) else "0" * 64
        submitted[2].write_text(json.dumps(entry))
        assert self.verify(submitted) == 2
        assert f"extra/{key}" in capsys.readouterr().err

    def test_a_tag_scored_against_other_masks(self, submitted: Any):
        data, outputs, _ = submitted
        folder = outputs / "results/painting_vision/color_histogram@data"
        assert list(_other_truth(folder, data)) == []
        mask(55).save(data / "masks/1.png")
        (line,) = _other_truth(folder, data)
        assert "another mask of frames/1.png" in line

    def test_only_a_submission_is_replaced(self, submitted: Any, capsys: Any):
        data, outputs, path = submitted
        manifest = data / "data_manifest.json"
        argv = [
            "submit",
            "painting_vision",
            "color_histogram@data",
            "--dataset-manifest",
            manifest,
            "--outputs",
            outputs,
        ]
        before = manifest.read_bytes()
        assert run(*argv, "--emit-submission", manifest) == 2
        assert "is there and is no submission" in capsys.readouterr().err
        assert manifest.read_bytes() == before
        assert run(*argv, "--emit-submission", path) == 0
        assert run(*argv, "--emit-submission", outputs / "none" / "s.json") == 2
        assert "is no folder" in capsys.readouterr().err

    def test_the_schema_refuses(self, submitted: Any, tmp_path: Path):
        entry = json.loads(submitted[2].read_text())
        for edit, where in (
            (lambda e: e.pop("extra"), "'extra' is a required property"),
            (lambda e: e.update(more=1), "'more' was unexpected"),
            (lambda e: e.update(dataset_id="mine"), "dataset_id: 'mine' does not match"),
            (lambda e: e["shared_metrics"].update(mIoU=1.5), "shared_metrics/mIoU: 1.5 is greater"),
            (lambda e: e["shared_metrics"]["iou"].update(wall="high"), "shared_metrics/iou/wall"),
            (lambda e: e.update(inference_size=640.5), "inference_size"),
        ):
            odd = copy.deepcopy(entry)
            edit(odd)  # type: ignore[no-untyped-call]
            path = tmp_path / "odd.json"
            path.write_text(json.dumps(odd))
            with pytest.raises(UsageError, match=where):
                read_entry(path)
        path.write_text(json.dumps(entry).replace("64,", "NaN,", 1))
        with pytest.raises(UsageError, match="no number of JSON"):
            read_entry(path)
        for old, new, where in (
            ('"1.0"', '"1.0\\n"', "benchmark_version"),
            ('"split": ', '"split": "test", "split": ', "names a key twice"),
            ('"inference_size": 64', '"inference_size": 64.0', "no whole number"),
            ('"inference_size": 64', '"inference_size": 1' + "0" * 400, "inference_size"),
            ('"floor": {"mIoU": ', '"floor": {"mIoU": "low", "x": ', "extra/floor/mIoU"),
            ('"floor": {"mIoU": ', '"floor": {"other": ', "'mIoU' is a required property"),
            ('"floor": {"mIoU": ', '"floor": {"mIoU": true, "x": ', "extra/floor/mIoU"),
            ('"model": "', '"model": "' + "x" * 300, "extra/model"),
        ):
            text = json.dumps(entry)
            assert old in text
            path.write_text(text.replace(old, new, 1))
            with pytest.raises(UsageError, match=where):
                read_entry(path)

    def test_other_benchmarks_have_no_board(self, submitted: Any, capsys: pytest.CaptureFixture[str]):
        assert run("leaderboard", "retrieval", "--from", submitted[2]) == 2
        assert "has no board" in capsys.readouterr().err


BASELINE = """
model:
  backbone: {name: module, path: test_segmenter.ByColour, size: 64, mean: [0, 0, 0], std: [1, 1, 1],
    labels: [wall, "windowpane;window", sky]}
"""


def test_a_baseline_stands_beside_and_alone(data: Path, tmp_path: Path):
    """Its labels are mapped by name; without paint state it has nulls; alone it cites the hash of its weights."""
    (tmp_path / "generic.yaml").write_text(BASELINE)
    assert run("painting", "manifest", data) == 0
    argv = [
        "painting",
        "run",
        "--data",
        data,
        "--baseline",
        tmp_path / "generic.yaml",
        "--outputs",
        tmp_path / "outputs",
    ]
    both, alone = tmp_path / "both.json", tmp_path / "alone.json"
    assert run(*argv, "--conf", "color_histogram", "--emit-submission", both, *FAST) == 0
    assert run(*argv, "--emit-submission", alone, "data.size=64", "model.batch_size=2") == 0
    entry, beside = read_entry(alone), read_entry(both)["extra"]["baselines"]["generic+segmenter@data"]
    assert entry["paint_state_metrics"] == {"painted_coverage_mae": None, "mIoU_full_10class": None}
    assert entry["checkpoint_sha256"] == entry["extra"]["backbone_weights"]
    assert beside["shared_metrics"] == entry["shared_metrics"]
    manifest = data / "data_manifest.json"
    verify = ["submit", "--verify", alone, "--dataset-manifest", manifest, "--data", data]
    assert run(*verify, "--outputs", tmp_path / "outputs") == 0


def test_run_is_of_what_was_audited(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("painting", "manifest", data) == 0
    argv = ["painting", "run", "--data", data, "--outputs", tmp_path / "outputs"]
    for setting in ("data.root=elsewhere", "data.split=train", "data.table=alt.csv"):
        assert run(*argv, "--conf", "color_histogram", setting) == 2
        assert "say --data and --split" in capsys.readouterr().err
    assert run(*argv, "--baseline", "segformer-ade", "--checkpoint", "nosuch.pt") == 2
    assert "--checkpoint is of --conf" in capsys.readouterr().err


def test_a_folder_keeps_the_protocols_frame(data: Path):
    """640 pixels on the long side, aspect kept, whole frames scored; data.size alone changes the size alone."""
    for more, size in ((), 640), (("data.size=96",), 96):
        conf = build("color_histogram", "painting_vision", [f"data.root={data}", *more])
        assert conf.data.name == "painting"
        assert (conf.data.settings.size, conf.data.settings.resize) == (size, "pad")


def test_run_refuses_a_folder_that_was_changed_or_fails_the_audit(data: Path, tmp_path: Path, capsys: Any):
    argv = ["painting", "run", "--data", data, "--conf", "color_histogram", "--outputs", tmp_path / "outputs", *FAST]
    assert run(*argv) == 2
    assert "make it with benchkit painting manifest" in capsys.readouterr().err
    lines = table(data)
    lines[4][3] = "a"
    write_table(data, lines)
    assert run("painting", "manifest", data) == 0
    assert run(*argv) == 2
    assert "wall a is in 2 splits" in capsys.readouterr().err
    photo(66).save(data / "frames/0.png")
    assert run(*argv) == 2
    assert "frames/0.png was changed" in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()


class TestBoard:
    def entry(self, score: float, **more: Any) -> dict[str, Any]:
        made: dict[str, Any] = {
            "benchmark_version": "1.0", "taxonomy_version": "1.0", "dataset_id": "pv1:" + "a" * 64, "split": "test",
            "checkpoint_sha256": "b" * 64, "inference_size": 640,
            "shared_metrics": {"mIoU": score, "iou": dict.fromkeys(("other", "wall", "window"), score),
                               "window_precision": None, "window_recall": 0.5},
            "paint_state_metrics": {"painted_coverage_mae": None, "mIoU_full_10class": None},
            "extra": {"floor": {"mIoU": 0.2}, "model": "m"},
        }  # fmt: skip
        return {**made, **more}

    def test_ranks_within_one_triple_and_names_what_keeps_others_out(self, tmp_path: Path, capsys: Any):
        entries = {
            "low": self.entry(0.1), "high": self.entry(0.9), "mid": self.entry(0.5, inference_size=320),
            "old": self.entry(0.99, benchmark_version="0.9"), "labels": self.entry(0.99, taxonomy_version="2.0"),
            "data": self.entry(0.99, dataset_id="pv1:" + "c" * 64), "copy": self.entry(0.9),
        }  # fmt: skip
        board = rank(list(entries.items()))
        assert [name for name, _ in board.ranked] == ["copy", "mid", "low"]
        assert board.apart == {
            "high": "it is the same as copy",
            "old": "benchmark_version is 0.9, not 1.0",
            "labels": "taxonomy_version is 2.0, not 1.0",
            "data": f"dataset_id is pv1:{'c' * 64}, not pv1:{'a' * 64}",
        }
        _, lines = rows(board)
        assert [line[-1] for line in lines] == ["", "", "does not beat the floor: has learned nothing"]
        assert [line[-3] for line in lines] == ["640", "320", "640"]
        paths = []
        for name, entry in entries.items():
            paths.append(tmp_path / f"{name}.json")
            write_entry(paths[-1], entry)
        broken = tmp_path / "broken.json"
        broken.write_text("{}")
        assert run("leaderboard", "painting_vision", "--from", *paths) == 0
        said = capsys.readouterr().out
        assert "old.json: benchmark_version is 0.9" in said
        assert run("leaderboard", "painting_vision", "--from", *paths, broken) == 2
        assert "broken.json is no submission" in capsys.readouterr().err

    def test_every_form_holds_the_board_alone(self, tmp_path: Path, capsys: Any):
        paths = []
        for name, entry in {"low": self.entry(0.1), "old": self.entry(0.9, benchmark_version="0.9")}.items():
            paths.append(tmp_path / f"{name}.json")
            write_entry(paths[-1], entry)
        assert run("leaderboard", "--format", "json", "--from", *paths) == 0  # one benchmark has a board
        found = json.loads(capsys.readouterr().out)
        assert found["triple"] == ["1.0", "1.0", "pv1:" + "a" * 64]
        assert [(row["entry"], row["shared_metrics"]["mIoU"]) for row in found["rows"]] == [(str(paths[0]), 0.1)]
        assert list(found["apart"]) == [str(paths[1])]
        assert run("leaderboard", "--format", "csv", "--from", *paths) == 0
        said = capsys.readouterr()
        assert [row[1] for row in csv.reader(said.out.splitlines())] == ["entry", str(paths[0])]
        assert "old.json: benchmark_version is 0.9" in said.err

    def test_what_a_stranger_writes_is_escaped_and_what_contradicts_itself_is_marked(self):
        loud = self.entry(0.9)
        loud["extra"]["model"] = "\x1b[31m\x07" + "x" * 100
        other = self.entry(0.8, extra={"floor": {"mIoU": 0.0}, "model": "m"})
        odd = self.entry(0.5)
        odd["shared_metrics"]["mIoU"] = 0.7
        _, lines = rows(rank([("a", loud), ("b", other), ("c", odd), ("d", self.entry(0.4))]))
        assert lines[0][2].startswith("\\x1b[31m\\x07xxx")
        assert len(lines[0][2]) <= 40
        assert "its floor is not that of the others (0.2000)" in lines[1][-1]
        assert "the mean of its own iou is 0.5" in lines[2][-1]
        assert lines[3][-1] == ""

    def test_more_entries_of_other_versions_do_not_push_out_this_one(self):
        entries = [
            ("a", self.entry(0.5)),
            *((f"b{k}", self.entry(0.6 + k / 100, taxonomy_version="2.0")) for k in range(3)),
        ]
        assert [name for name, _ in rank(entries).ranked] == ["a"]

    def test_an_undefined_score_is_last(self):
        entries = [("a", self.entry(0.0)), ("b", {**self.entry(0.5), "shared_metrics": {**self.entry(0.5)["shared_metrics"],
                                                                                         "mIoU": None}})]  # fmt: skip
        assert [name for name, _ in rank(entries).ranked] == ["a", "b"]


class TestTags:
    def test_tags_are_ranked_where_no_files_are_given(self, submitted: Any, capsys: pytest.CaptureFixture[str]):
        _, outputs, _ = submitted
        capsys.readouterr()
        assert run("leaderboard", "painting_vision", "--outputs", outputs) == 0
        assert "color_histogram@data" in capsys.readouterr().out
        assert run("leaderboard", "retrieval", "--outputs", outputs) == 2
        assert "has no scored tag of retrieval" in capsys.readouterr().err


class Ten(torch.nn.Module):
    """A convolution to the ten classes, at a stride of 8."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 10, 8, 8)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"out": self.layer(image)}


CHECKPOINT = """
model:
  backbone: {name: module, path: test_submissions.Ten, size: 64, mean: [0, 0, 0], std: [1, 1, 1], labels: [painting]}
  head: {name: segmenter}
"""


def test_a_checkpoint_of_the_ten_classes_is_cited_by_its_file(data: Path, tmp_path: Path, capsys: Any):
    """Both tiers; the file's sha256; another file under its name is refused, named."""
    (tmp_path / "mine.yaml").write_text(CHECKPOINT)
    torch.manual_seed(0)
    checkpoint, path = tmp_path / "best.pt", tmp_path / "submission.json"
    torch.save(Ten().state_dict(), checkpoint)
    assert run("painting", "manifest", data) == 0
    argv = ["painting", "run", "--data", data, "--conf", tmp_path / "mine.yaml", "--checkpoint", checkpoint, "--outputs",
            tmp_path / "outputs", "--emit-submission", path]  # fmt: skip
    assert run(*argv, "data.size=64", "model.batch_size=2") == 0
    entry = read_entry(path)
    assert entry["checkpoint_sha256"] == hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    assert entry["paint_state_metrics"]["mIoU_full_10class"] is not None
    verify = ["submit", "--verify", path, "--dataset-manifest", data / "data_manifest.json", "--data", data]
    assert run(*verify, "--outputs", tmp_path / "outputs") == 0
    torch.save(Ten().state_dict(), checkpoint)
    capsys.readouterr()
    assert run(*verify, "--outputs", tmp_path / "outputs") == 2
    assert f"{checkpoint} has" in capsys.readouterr().err
