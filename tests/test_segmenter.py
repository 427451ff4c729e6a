"""The head `segmenter`: masks that a model already has, mapped by name to the data set's classes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from benchkit import registry
from benchkit.backbones.module import Settings as ModuleSettings
from benchkit.backbones.module import build as build_module
from benchkit.errors import BenchkitError, UsageError
from benchkit.eval import evaluate
from benchkit.export import export
from benchkit.export.job import Outcome
from benchkit.features import FeatureKey
from benchkit.heads.base import ModelSide
from benchkit.heads.segmenter import Segmenter, Settings
from benchkit.heads.solvers import dense_masks
from benchkit.heads.solvers.dense_source import Level, Sample
from benchkit.provenance.record import read_record
from benchkit.store.table import Table

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


class ByColour(nn.Module):
    """Masks of stride 4: class k is channel k of the image; `out` of a dict, or the tensor alone."""

    def __init__(self, bare: bool = False) -> None:
        super().__init__()
        self.bare, self.anchor = bare, nn.Parameter(torch.zeros(1))

    def forward(self, image: Tensor) -> Any:
        """(B, 3, H, W) -> (B, 3, H / 4, W / 4)."""
        out = functional.avg_pool2d(image, 4) * 4
        return out if self.bare else {"out": out, "aux": out.flatten(1)}


@pytest.fixture
def flags(tmp_path: Path) -> Path:
    """Two images of coloured stripes on cells of four pixels, with their masks: red 0, green 1, blue 2."""
    root = tmp_path / "flags"
    for part in ("images", "labels"):
        (root / "test" / part).mkdir(parents=True)
    for name, order in (("a", "red green blue green"), ("b", "blue red red green")):
        numbers = [list(COLOURS).index(colour) for colour in order.split()]
        mask = np.tile(np.repeat(np.array(numbers, np.uint8), 8), (32, 1))
        Image.fromarray(np.array(list(COLOURS.values()), np.uint8)[mask]).save(root / "test" / "images" / f"{name}.png")
        Image.fromarray(mask).save(root / "test" / "labels" / f"{name}.png")
    return root


def run(tmp_path: Path, conf: str, benchmark: str, *given: str, **how: Any) -> Outcome:
    path = tmp_path / "model.yaml"
    path.write_text(conf)
    end = export(path, benchmark, arguments=list(given), outputs=tmp_path / "outputs", say=str, **how)[0]
    if isinstance(end, BenchkitError):
        raise end
    return end


def by_colour(more: str) -> str:
    kept = "size: 32, mean: [0, 0, 0], std: [1, 1, 1]"
    return f"model: {{backbone: {{name: module, path: test_segmenter.ByColour, {kept}, {more}}}, head: {{name: segmenter}}}}"


class TestWholeWay:
    def test_labels_are_matched_by_name(self, tmp_path: Path, flags: Path):
        conf = by_colour("labels: [Green, blue, RED]")
        conf = conf.replace("ByColour,", "ByColour, kwargs: {bare: true}, output: masks,")
        # the model calls its channels green, blue and red: a red image is green to it
        end = run(tmp_path, conf, "semantic_segmentation", f"data.root={flags}", "data.classes=[red,green,blue]")
        with Table(end.folder / "predictions.h5", "predictions") as table:
            mask = table.item("mask", 0)
            assert table.item("grid", 0).tolist() == [8, 8]
            assert table.meta["map"] == {"red": ["RED"], "green": ["Green"], "blue": ["blue"]}
        assert mask[0, ::8].tolist() == [1, 2, 0, 2]

    def test_a_right_model_scores_all_but_the_borders(self, tmp_path: Path, flags: Path):
        given = (f"data.root={flags}", "data.classes=[red,green,blue]")
        end = run(tmp_path, by_colour("labels: [red, green, blue]"), "semantic_segmentation", *given)
        found = evaluate("semantic_segmentation", end.tag, outputs=tmp_path / "outputs").summaries
        assert found["miou"] == 1
        assert found["covered_classes"] == 3
        green, blue, red = 3 / 8, 2 / 8, 3 / 8  # of the pixels; red comes first
        assert found["floor_miou"] == pytest.approx(red / 3)
        assert found["floor_pixel_acc"] == pytest.approx(red)
        assert green + blue + red == 1
        record = read_record(end.folder)
        assert record["protocol"]["head_facts"]["map"]["red"] == ["red"]

    def test_foreground_is_all_that_is_not_background(self, tmp_path: Path, flags: Path):
        given = (f"data.root={flags}", "data.truth=foreground", "data.resize=pad", "data.size=32")
        conf = by_colour("labels: [background, green, blue]")
        end = run(tmp_path, conf, "generic_segmentation", *given)
        found = evaluate("generic_segmentation", end.tag, outputs=tmp_path / "outputs").summaries
        assert found["iou"] == 1

    def test_other_labels_need_no_second_forward(self, tmp_path: Path, flags: Path):
        given = (f"data.root={flags}", "data.classes=[red,green,blue]")
        first = run(tmp_path, by_colour("labels: [red, green, blue]"), "semantic_segmentation", *given)
        again = by_colour("labels: [blue, green, red]")
        second = run(tmp_path, again, "semantic_segmentation", *given, "model.head.map.green=green", overwrite=True)
        assert (first.forwards, second.forwards) == (2, 0)

    def test_without_names_of_classes_it_is_refused_before_the_forward(self, tmp_path: Path, flags: Path):
        with pytest.raises(UsageError, match=r"model\.backbone\.labels"):
            run(
                tmp_path,
                by_colour("crop_pct: 1.0"),
                "semantic_segmentation",
                f"data.root={flags}",
                "data.num_classes=3",
            )

    def test_a_model_without_masks_is_refused(self, tmp_path: Path, flags: Path):
        conf = "model: {backbone: {name: color_histogram}, head: {name: segmenter}}"
        with pytest.raises(UsageError, match="masks@final"):
            run(tmp_path, conf, "semantic_segmentation", f"data.root={flags}", "data.num_classes=3")

    def test_a_benchmark_without_masks_is_refused(self, tmp_path: Path):
        with pytest.raises(UsageError, match="mask"):
            run(tmp_path, by_colour("labels: [red, green]"), "depth", "data.n_test=2")


def sample(maps: np.ndarray, frame: tuple[int, int]) -> Sample:
    return Sample("a", (maps,), (Level.of(maps.shape[1:], (1.0, 1.0)),), frame)


def mask_of(
    maps: np.ndarray, frame: tuple[int, int], matched: dict[int, list[int]], adds: str = "logits"
) -> np.ndarray:
    return dense_masks.mask_of(torch.tensor(maps), sample(maps, frame), matched, adds)


class TestMasks:
    def test_resizes_before_the_largest_wins(self):
        maps = np.random.default_rng(0).normal(size=(5, 6, 7)).astype(np.float32)
        large = functional.interpolate(torch.tensor(maps)[None], (50, 61), mode="bilinear")[0]
        found = mask_of(maps, (50, 61), {k: [k] for k in range(5)})
        np.testing.assert_array_equal(found, large.argmax(0).numpy())

    def test_blocks_do_not_show(self, monkeypatch):
        maps = np.random.default_rng(0).normal(size=(5, 6, 7)).astype(np.float32)
        matched = {3: [0, 4], 1: [2], 0: [1]}
        whole = mask_of(maps, (50, 61), matched)
        monkeypatch.setattr("benchkit.heads.solvers.dense_grid.BLOCK", 61 * 5 * 3)
        np.testing.assert_array_equal(mask_of(maps, (50, 61), matched), whole)

    def test_probabilities_of_several_labels_are_added(self):
        """Logits ln 2, ln 2 against ln 3: 4 beats 3, though each alone is smaller. Label 3 belongs to nobody."""
        maps = np.log(np.array([2, 2, 3, 90], np.float32))[:, None, None]
        assert mask_of(maps, (1, 1), {0: [0], 1: [2]}).item() == 1
        assert mask_of(maps, (1, 1), {0: [0, 1], 1: [2]}).item() == 0
        assert mask_of(np.exp(maps), (1, 1), {0: [0, 1], 1: [2]}, "probabilities").item() == 0
        assert mask_of(np.exp(maps), (1, 1), {0: [0, 1], 1: [2, 3]}, "probabilities").item() == 1


def prepared(
    names: list[str], classes: list[str], said: dict[str, str] | None = None, task: str = "semantic"
) -> Segmenter:
    head = Segmenter(Settings(said or {}))
    head.prepare(ModelSide("m", [("", (name,)) for name in names]), {"classes": classes, "task": task})
    return head


class TestLabels:
    def test_a_class_without_a_label_is_counted(self):
        head = prepared(["__background__", "bird", "Cow"], ["background", "bird", "cow", "zebra"])
        assert head.matching.matched == {0: [0], 1: [1], 2: [2]}
        assert head.log() == {"covered_classes": 3, "classes": 4, "model_classes": 3}

    def test_several_labels_and_the_rest(self):
        head = prepared(
            ["sky", "car", "bus", "bird", "cat"], ["vehicle", "sky", "other"], {"vehicle": "car, bus", "other": "*"}
        )
        assert head.matching.matched == {0: [1, 2], 1: [0], 2: [3, 4]}

    def test_binary(self):
        head = prepared(["background", "bird", "cat"], ["background", "foreground"], task="binary")
        assert head.matching.matched == {0: [0], 1: [1, 2]}

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"dog": "bird"}, "no class 'dog'"),
            ({"bird": "birdie"}, "fits 0 labels"),
            ({"bird": "*", "cow": "*"}, "only one class"),
            ({"bird": "cow"}, "matched to bird and cow"),
        ],
    )
    def test_a_wrong_map_is_refused(self, said: dict[str, str], message: str):
        with pytest.raises(UsageError, match=message):
            prepared(["background", "bird", "cow"], ["background", "bird", "cow"], said)


def test_masks_are_a_key_of_maps():
    key = FeatureKey.parse("masks@final")
    assert key.dense
    assert not FeatureKey("logits").dense


def test_a_bare_map_is_of_features_unless_the_conf_says_masks():
    plain = ModuleSettings(size=32, mean=[0, 0, 0], std=[1, 1, 1])
    assert build_module(plain, module=ByColour(bare=True)).pools == ("mean", "patch")
    said = ModuleSettings(size=32, mean=[0, 0, 0], std=[1, 1, 1], output="masks", labels=["voc"])
    backbone = build_module(said, module=ByColour(bare=True))
    assert backbone.pools == ("masks",)
    assert backbone.labels[3].names == ("bird",)
    with pytest.raises(UsageError, match=r"lists that ship.*voc"):
        build_module(ModuleSettings(size=32, mean=[0] * 3, std=[1] * 3, labels=["vok"]), module=ByColour())


@pytest.mark.parametrize("arch", ["lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large"])
def test_torchvision_masks_are_those_of_its_own_forward(arch: str):
    component = registry.find("backbones", "torchvision")
    backbone = component.build(component.settings(arch=arch), size=64, random=True)
    image = torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        found = backbone(image, ["masks@final", "patch@final"])
        own = backbone.net(image)["out"]
        large = functional.interpolate(found["masks@final"], (64, 96), mode="bilinear", align_corners=False)
    torch.testing.assert_close(large, own)
    assert found["patch@final"].shape[2:] == (64 // backbone.stride, 96 // backbone.stride)
    assert [backbone.labels[k].names[0] for k in (0, 3)] == ["__background__", "bird"]
    assert backbone.preprocess.size == 64
    assert component.build(component.settings(arch=arch), random=True).preprocess.size == 520


NAMES = {"0": "wall", "1": "floor", "2": "box"}
SEGFORMER: dict[str, Any] = {
    "model_type": "segformer", "architectures": ["SegformerForSemanticSegmentation"], "depths": [1, 1, 1, 1],
    "hidden_sizes": [8, 8, 16, 16], "num_attention_heads": [1, 1, 2, 2], "decoder_hidden_size": 16, "id2label": NAMES,
}  # fmt: skip
MASK2FORMER: dict[str, Any] = {
    "model_type": "mask2former", "architectures": ["Mask2FormerForUniversalSegmentation"], "id2label": NAMES,
    "hidden_dim": 32, "feature_size": 32, "mask_feature_size": 32, "encoder_feedforward_dim": 16, "dim_feedforward": 16,
    "encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 2, "num_queries": 5,
    "backbone_config": {
        "model_type": "swin", "embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 1, 1], "window_size": 4,
        "image_size": 64, "out_features": ["stage1", "stage2", "stage3", "stage4"],
    },
}  # fmt: skip


class TestTransformers:
    image = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))

    def made(self, config: dict[str, Any]) -> Any:
        component = registry.find("backbones", "transformers")
        backbone = component.build(component.settings(config=dict(config)), size=64, random=True)
        assert backbone.pools == ("masks",)
        assert backbone.stride == 4
        assert [label.names for label in backbone.labels] == [("wall",), ("floor",), ("box",)]
        return backbone

    @torch.inference_mode()
    def test_segformer(self):
        transformers = pytest.importorskip("transformers")
        backbone = self.made(SEGFORMER)
        found = backbone(self.image, ["masks@final"])["masks@final"]
        assert found.shape == (2, 3, 16, 16)
        processor = transformers.SegformerImageProcessor()
        output = backbone.net(pixel_values=self.image)
        own = processor.post_process_semantic_segmentation(output, target_sizes=[(50, 60)] * 2)
        for maps, mask in zip(found.numpy(), own, strict=True):
            np.testing.assert_array_equal(mask_of(maps, (50, 60), {0: [0], 1: [1], 2: [2]}), mask.numpy())

    @torch.inference_mode()
    def test_mask2former(self):
        transformers = pytest.importorskip("transformers")
        backbone = self.made(MASK2FORMER)
        assert backbone.masks_are == "probabilities"
        found = backbone(self.image, ["masks@final"])["masks@final"]
        output = backbone.net(pixel_values=self.image)
        classes = output.class_queries_logits.exp() / output.class_queries_logits.exp().sum(-1, keepdim=True)
        by_hand = sum(
            classes[:, q, :3, None, None] / (1 + (-output.masks_queries_logits[:, q, None]).exp()) for q in range(5)
        )
        torch.testing.assert_close(found, by_hand)
        own = transformers.Mask2FormerImageProcessor().post_process_semantic_segmentation(
            output, target_sizes=[(64, 64)] * 2, return_segmentation_scores=True
        )
        large = functional.interpolate(found, (64, 64), mode="bilinear")
        for mine, theirs in zip(large, own, strict=True):  # which resizes before the sigmoid too
            assert (mine - theirs["segmentation_scores"]).abs().max() < 0.05 * theirs[
                "segmentation_scores"
            ].std() + 0.01

    def test_the_whole_way(self, tmp_path: Path):
        pytest.importorskip("transformers")
        conf = {"model": {"random": True, "backbone": {"name": "transformers", "config": SEGFORMER, "size": 64}}}
        import yaml

        given = ("model.head.name=segmenter", "data.n_test=2", "data.side=64", "model.head.map.sphere=box")
        with pytest.raises(UsageError, match="matched to box and sphere"):
            run(tmp_path, yaml.safe_dump(conf), "semantic_segmentation", *given)
        end = run(tmp_path, yaml.safe_dump(conf), "semantic_segmentation", *given[:-1])
        found = evaluate("semantic_segmentation", end.tag, outputs=tmp_path / "outputs").summaries
        assert (found["covered_classes"], found["model_classes"]) == (3, 3)


def test_show_draws_the_folders_own_image(tmp_path: Path, flags: Path, monkeypatch: pytest.MonkeyPatch):
    from benchkit.__main__ import main
    from benchkit.viz import panels

    seen, sheet = [], panels.sheet
    monkeypatch.setattr(panels, "sheet", lambda figure, rows, *more: (seen.extend(rows), sheet(figure, rows, *more)))
    given = (f"data.root={flags}", "data.classes=[red,green,blue]")
    end = run(tmp_path, by_colour("labels: [red, green, blue]"), "semantic_segmentation", *given)
    assert main(["show", "semantic_segmentation", end.tag, "--outputs", str(tmp_path / "outputs")]) == 0
    shown = {row.caption: row.panels[0].picture for row in seen}
    for caption, name in zip(sorted(shown), "ab", strict=True):
        own = np.asarray(Image.open(flags / "test" / "images" / f"{name}.png"))
        np.testing.assert_array_equal(shown[caption], own)


BIRD = """
model:
  backbone: {name: module, path: deeplab_mnv2.DeepLab, size: 513, mean: [.5, .5, .5], std: [.5, .5, .5], labels: [voc],
    checkpoint: CHECKPOINT}
  head: {name: segmenter}
  batch_size: 1
"""


@pytest.mark.data
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_bird(tmp_path: Path, shared: Path, dtype: str):
    folder = tmp_path / "coral" / "test"
    for part, name in (("images", "bird_segmentation"), ("masks", "bird_segmentation_mask")):
        (folder / part).mkdir(parents=True)
        shutil.copy(shared / "data" / "coral_segmentation" / f"{name}.bmp", folder / part / "bird.bmp")
    weights = shared / "weights" / "timm_converted" / "deeplabv3_mnv2_pascal_os16.fp16.safetensors"
    given = [f"data.root={folder.parent}", "data.classes=[voc]", f"model.features.dense_dtype={dtype}"]
    end = run(tmp_path, BIRD.replace("CHECKPOINT", str(weights)), "semantic_segmentation", *given)
    found = evaluate("semantic_segmentation", end.tag, outputs=tmp_path / "outputs").summaries
    assert found["iou/bird"] == pytest.approx(0.903, abs=0.001)
