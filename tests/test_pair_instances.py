"""The shipped instances of pairs: without data they say how to get them, and each one's scores have a command."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import tiny_pairs
from tiny_pairs import relative, scenes

import benchkit
from benchkit.conf.build import build
from benchkit.conf.find import find_benchmark
from benchkit.errors import UsageError
from benchkit.export.job import Job
from benchkit.store.outputs import Outputs

INSTANCES = {
    "hpatches": "homography",
    "megadepth1500": "relative_pose",
    "scannet1500": "relative_pose",
    "eth3d": "relative_pose",
    "zeb": "relative_pose",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of data."""
    monkeypatch.setenv("BENCHKIT_DATA", str(tmp_path / "home"))
    monkeypatch.setenv("BENCHKIT_OUTPUTS", str(tmp_path / "outputs"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.parametrize("name", INSTANCES)
def test_without_data_it_says_how_to_get_them(name, home):
    conf = build("color_histogram", name)
    assert conf.family == INSTANCES[name]
    with pytest.raises(UsageError) as caught:
        Job(conf, Outputs(home), None)
    said = find_benchmark(name).layer.values
    assert said["obtain"] in str(caught.value)
    assert said["layout"] in str(caught.value)


@pytest.mark.parametrize("name", INSTANCES)
def test_its_scores_have_a_command(name, home, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"benchkit.eval.{name}", "--tag", "mine"])
    with pytest.raises(SystemExit) as caught:
        runpy.run_module(f"benchkit.eval.{name}", run_name="__main__")
    assert caught.value.code == 2
    assert f"nothing was exported for {name} under the tag 'mine'" in capsys.readouterr().err


def test_only_eth3d_scores_by_depth():
    depth = {name: build("color_histogram", name).eval.depth for name in INSTANCES if name != "hpatches"}
    assert depth == {"megadepth1500": False, "scannet1500": False, "eth3d": True, "zeb": False}


def words(*parts) -> str:
    """Names, and the numbers of matrices row by row."""
    return " ".join(part if isinstance(part, str) else " ".join(map(repr, part.ravel().tolist())) for part in parts)


def put_scannet(root: Path) -> None:
    """Glue Factory's archive: names below root, K0, K1, and T_0to1."""
    tiny_pairs.put_images(root / "scene0707_00" / "color", scenes(), ".jpg")
    folder = "scene0707_00/color"
    rows = [words(f"{folder}/{a.name}.jpg {folder}/{b.name}.jpg", a.K, b.K, relative((a, b))) for a, b in scenes()]
    (root / "pairs_calibrated.txt").write_text("\n".join(rows) + "\n")


def put_megadepth(root: Path) -> None:
    """The older one of Glue Factory's archives: names below images, K0, K1, R and t."""
    tiny_pairs.put_images(root / "images", scenes(), ".jpg")
    rows = [
        words(f"{a.name}.jpg {b.name}.jpg", a.K, b.K, relative((a, b))[:3, :3], relative((a, b))[:3, 3])
        for a, b in scenes()
    ]
    (root / "pairs_calibrated.txt").write_text("\n".join(rows) + "\n")


def put_zeb(root: Path) -> None:
    """One source; a text file per pair beside its images."""
    (root / "KITTI").mkdir(parents=True)
    for a, b in scenes():
        for view in (a, b):
            tiny_pairs.put_images(root / "KITTI", [[view]])
            (root / "KITTI" / f"{view.name}.png").rename(root / "KITTI" / f"07-{view.name}.png")
        text = words(f"{a.name}.png {b.name}.png 0.5 0.5", a.K, b.K, relative((a, b)))
        (root / "KITTI" / f"07-{a.name}-{b.name}.txt").write_text(text + "\n")


LAYOUTS = {"scannet1500": put_scannet, "megadepth1500": put_megadepth, "zeb": put_zeb}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_small_copy_is_found_and_checked(name, home):
    LAYOUTS[name](home / name)
    made = Job(build("color_histogram", name), Outputs(home.parent / "outputs"), None)
    assert made.tag == "color_histogram"
    assert len(made.test.items) == 3
    pose = relative(scenes()[0])
    target = made.dataset.target(made.test.items[0])
    assert abs(target["R"] - pose[:3, :3]).max() < 1e-9
    assert abs(target["t"] - pose[:3, 3]).max() < 1e-9


@pytest.mark.slow
def test_own_pairs_from_the_table_to_the_score(home):
    """Local features of rendered pairs, whose poses are known exactly."""
    pytest.importorskip("cv2")
    tiny_pairs.put_own(home / "mine", scenes())
    result = benchkit.run("sift", "relative_pose", data=home / "mine", say=lambda _: None)
    assert result.record["tag"] == "sift@mine"
    assert result.summaries["n_items"] == 3
    assert result.summaries["rel_pose_error_poselib@20"] > 0.5
    assert result.summaries["epi_prec@5e-4"] > 2 * result.summaries["floor_epi_prec@5e-4"]
