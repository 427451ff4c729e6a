"""HPatches: its own folders, which sequences count, what frame scores are in, and a whole export and evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import benchkit
from benchkit.conf.build import build
from benchkit.datasets.hpatches import LARGE, HPatches, Settings
from benchkit.errors import UsageError
from benchkit.export.job import Job
from benchkit.store.outputs import Outputs

SEQUENCES = {"i_ajuntament": (96, 72), "v_abstract": (60, 90), "v_artisans": (96, 72)}  # width and height of the first
SHIFTS = range(2, 7)


def homography(k: int) -> np.ndarray:
    """Of the k-th picture: moved by k to the right and 2 k down, half as large for k = 6."""
    scale = 0.5 if k == 6 else 1.0
    return np.array([[scale, 0, k], [0, scale, 2 * k], [0, 0, 1]])


def put_sequences(root: Path) -> None:
    """Pictures whose pixels say where they were in the first one: red x, green y; the sixth picture half as large."""
    for name, (width, height) in SEQUENCES.items():
        (root / name).mkdir(parents=True)
        for k in range(1, 7):
            H = np.eye(3) if k == 1 else homography(k)
            size = (width // 2 + 6, height // 2 + 12) if k == 6 else (width, height)
            x, y = np.meshgrid(np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5)
            back = np.einsum("ij,jhw->ihw", np.linalg.inv(H), np.stack([x, y, np.ones_like(x)]))
            noise = np.random.default_rng(k).integers(0, 255, x.shape)
            pixels = np.stack([np.clip(2 * back[0], 0, 255), np.clip(2 * back[1], 0, 255), noise], axis=-1)
            Image.fromarray(pixels.astype(np.uint8)).save(root / name / f"{k}.ppm")
            if k > 1:  # as in the archive: blanks at the ends of lines, several between numbers
                text = "\n".join("  ".join(f"{number:.6g}" for number in row) + " " for row in H)
                (root / name / f"H_1_{k}").write_text(text + "\n \n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put_sequences(tmp_path / "hpatches-sequences-release")
    return tmp_path / "hpatches-sequences-release"


def test_items(root):
    dataset = HPatches(Settings(root=str(root)))
    items = dataset.items("test")
    assert items == [f"{name}/1_{k}" for name in ("i_ajuntament", "v_abstract") for k in SHIFTS]
    assert dataset.views("v_abstract/1_4") == ("v_abstract/1.ppm", "v_abstract/4.ppm")
    assert [dataset.group(item) for item in items[4:6]] == ["i_ajuntament", "v_abstract"]
    assert [dataset.category(item)["kind"] for item in items[4:6]] == ["illumination", "viewpoint"]
    assert len(HPatches(Settings(root=str(root), large=True)).items("test")) == 15
    assert len(set(LARGE)) == 8


def test_truth_is_what_the_pictures_show(root):
    """The colour of a pixel of the first picture is found where the homography takes it, centre to centre."""
    dataset = HPatches(Settings(root=str(root)))
    for item in ("i_ajuntament/1_3", "v_abstract/1_5", "v_abstract/1_6"):
        target = dataset.target(item)
        first, second = (dataset.image(view).astype(int) for view in dataset.views(item))
        for x, y in ((8, 6), (20, 31), (40, 12)):
            u, v, w = target["homography"] @ [x + 0.5, y + 0.5, 1]
            assert np.abs(first[y, x, :2] - second[int(v / w), int(u / w), :2]).max() <= 2


def test_sizes_and_scales(root):
    """480 / short side of each picture by itself: 72 -> 6.667, 60 -> 8, and the sixth of 36 x 57 -> 13.333."""
    dataset = HPatches(Settings(root=str(root)))
    target = dataset.target("v_abstract/1_6")
    assert target["size0"].tolist() == [60, 90]
    assert target["size1"].tolist() == [36, 57]
    assert (float(target["scale0"]), float(target["scale1"])) == (8, pytest.approx(480 / 36))
    assert float(HPatches(Settings(root=str(root), short_side=240)).target("i_ajuntament/1_2")["scale1"]) == 240 / 72


def test_numbers_that_count_from_the_centre_of_a_pixel(root):
    """x' = x / 2 + 6 of centres is x' - .5 = (x - .5) / 2 + 6 of corners: 6.25."""
    matrix = HPatches(Settings(root=str(root), pixels="centre")).target("v_abstract/1_6")["homography"]
    np.testing.assert_allclose(matrix, [[0.5, 0, 6.25], [0, 0.5, 12.25], [0, 0, 1]])


def test_refused(root):
    with pytest.raises(UsageError, match=r"HPatches needs data.root=DIR"):
        HPatches(Settings())
    with pytest.raises(UsageError, match=r"holds no sequences of HPatches"):
        HPatches(Settings(root=str(root / "v_abstract")))
    with pytest.raises(UsageError, match=r"has the split test, not 'val'"):
        HPatches(Settings(root=str(root))).items("val")
    (root / "v_abstract" / "H_1_4").unlink()
    (root / "v_abstract" / "5.ppm").unlink()
    with pytest.raises(UsageError, match=r"v_abstract holds no H_1_4, 5.ppm"):
        HPatches(Settings(root=str(root)))


@pytest.mark.parametrize("text", ["1 0 0 0 1 0 0 0", "1 0 0 2 0 0 0 0 1", "1 0 0 0 1 x 0 0 1", "1 0 0 0 1 0 0 0 0"])
def test_a_file_that_is_no_homography(root, text):
    (root / "i_ajuntament" / "H_1_3").write_text(text)
    conf = build("color_histogram", "hpatches", [f"data.root={root}"])
    with pytest.raises(UsageError, match=r"H_1_3: "):
        Job(conf, Outputs(root.parent / "outputs"), None)


def test_an_unreadable_picture_can_be_skipped(root):
    (root / "i_ajuntament" / "4.ppm").write_bytes(b"")
    conf = build("color_histogram", "hpatches", [f"data.root={root}", "data.on_error=skip"])
    assert list(Job(conf, Outputs(root.parent / "outputs"), None).skipped) == ["i_ajuntament/1_4"]


@pytest.mark.slow
def test_found_at_home_exported_and_scored(root, monkeypatch):
    pytest.importorskip("cv2")
    monkeypatch.setenv("BENCHKIT_DATA", str(root.parent))
    result = benchkit.run("orb", "hpatches", outputs=root.parent / "outputs", say=lambda _: None)
    assert result.record["tag"] == "orb"
    assert result.summaries["n_items"] == 10
    assert {"prec@3px", "H_error_dlt@3px", "H_error_poselib@5px"} <= result.summaries.keys()
