"""Real photos of a glass wall: a linear head on an ImageNet model's stages tells frame from glass."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchkit.__main__ import main
from benchkit.eval import evaluate


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.long
def test_glass_curtain_wall(tmp_path: Path, shared: Path):
    """22 photos, every fourth is evaluated (6 of them); answering glass everywhere has a mIoU of .2."""
    root = shared / "data" / "glass_curtain_wall"
    stems = sorted(path.stem.removeprefix("img") for path in (root / "images").glob("*.jpg"))
    test = stems[1::4]
    assert (len(stems), len(test)) == (22, 6)
    (tmp_path / "test.txt").write_text("\n".join(test))
    (tmp_path / "train.txt").write_text("\n".join(stem for stem in stems if stem not in test))
    argv = ["export", "--conf", "efficientnet_lite0", "--benchmark", "semantic_segmentation", "--tag", "glass"]
    argv += [f"data.root={root}", "data.image_dir=images", "data.targets=masks", "data.image_prefix=img"]
    argv += ["data.target_prefix=mask", f"data.stems={tmp_path}/test.txt", f"data.train_stems={tmp_path}/train.txt"]
    argv += ["data.classes=[other,frame,glass]", "data.size=448", "model.features.layers=1,2,3,4", "model.batch_size=4"]
    argv += ["model.head.epochs=50", "model.head.batchnorm=true", "model.head.lr=0.003"]
    assert main([*argv, "--outputs", str(tmp_path / "outputs")]) == 0
    found = evaluate("semantic_segmentation", "glass", outputs=tmp_path / "outputs").summaries
    assert found["miou"] > 0.6
    assert found["floor_miou"] < 0.25


RUNS = {
    "a": (15, 16, 17, 20), "b": (41, 42, 43), "c": (49, 50, 51, 52), "d": (56, 58, 59, 60), "e": (86, 87, 88),
    "f": (94, 95, 96, 97),
}  # fmt: skip
TAXONOMY = np.array([0, 3, 8], np.uint8)  # other, frame, glass -> other, wall_uncertain, window


@pytest.fixture
def painting(tmp_path: Path, shared: Path) -> Path:
    """The photos as a Painting Vision folder: a wall per run of the camera, two of six runs are evaluated."""
    source, root = shared / "data" / "glass_curtain_wall", tmp_path / "data"
    for part in ("frames", "masks"):
        (root / part).mkdir(parents=True)
    lines = ["file,mask,split,wall_id"]
    for wall, numbers in RUNS.items():
        for number in numbers:
            shutil.copy(source / "images" / f"img{number:03d}.jpg", root / "frames" / f"{number:03d}.jpg")
            (mask,) = (source / "masks").glob(f"mask{number:03d}.*")
            Image.fromarray(TAXONOMY[np.asarray(Image.open(mask))]).save(root / "masks" / f"{number:03d}.png")
            split = "test" if wall in "be" else "train"
            lines.append(f"frames/{number:03d}.jpg,masks/{number:03d}.png,{split},{wall}")
    (root / "frames.csv").write_text("\n".join(lines) + "\n")
    return root


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.long
def test_painting_vision_on_real_photos(painting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    outputs, submission = str(tmp_path / "outputs"), str(tmp_path / "submission.json")
    manifest = str(painting / "data_manifest.json")
    assert main(["painting", "manifest", str(painting)]) == 0
    argv = ["painting", "run", "--data", str(painting), "--conf", "efficientnet_lite0", "--outputs", outputs]
    argv += ["--emit-submission", submission, "data.size=448", "model.batch_size=4", "model.features.layers=1,2,3,4"]
    argv += ["model.head.batchnorm=true", "model.head.lr=0.01", "model.head.epochs=20"]
    assert main(argv) == 0
    found = evaluate("painting_vision", "efficientnet_lite0@data", outputs=outputs).summaries
    assert found["mIoU"] > 0.6 > 2 * found["floor_mIoU"]
    assert found["painted_coverage_mae"] is None  # no wall is decided in any truth
    assert found["n_undefined_painted_coverage_mae"] == found["n_items"] == 6
    verify = ["submit", "--verify", submission, "--dataset-manifest", manifest, "--data", str(painting)]
    assert main([*verify, "--outputs", outputs]) == 0
    pixels = np.array(Image.open(painting / "masks" / "041.png"))
    pixels[0, 0] = 8 - pixels[0, 0]
    Image.fromarray(pixels).save(painting / "masks" / "041.png")
    capsys.readouterr()
    assert main([*verify, "--outputs", outputs]) == 2
    assert "masks/041.png was changed" in capsys.readouterr().err
