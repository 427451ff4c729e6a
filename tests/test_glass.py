"""Real photos of a glass wall: a linear head on an ImageNet model's stages tells frame from glass."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.__main__ import main
from benchkit.eval import evaluate


@pytest.mark.data
@pytest.mark.slow
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
