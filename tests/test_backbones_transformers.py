"""Hugging Face models as backbones: layers, heads, texts and image processors agree with the library's own."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cosine_similarity

transformers = pytest.importorskip("transformers")

from huggingface_hub import constants  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers, processors  # noqa: E402

from benchkit import preprocess as inputs  # noqa: E402
from benchkit.backbones import transformers as component  # noqa: E402
from benchkit.backbones._transformers_images import patchified, preprocess_of, unpatchified  # noqa: E402
from benchkit.backbones._transformers_layers import TransformersBackbone  # noqa: E402
from benchkit.backbones._transformers_source import quiet  # noqa: E402
from benchkit.backbones.base import Preprocess, module_state_hash  # noqa: E402
from benchkit.errors import UsageError  # noqa: E402

WIDE = {"hidden_size": 48, "num_attention_heads": 3}
VIT = {**WIDE, "num_hidden_layers": 3, "intermediate_size": 64, "image_size": 32, "patch_size": 8}
TEXT = {"hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 32, "vocab_size": 16}
TEXT |= {"max_position_embeddings": 12, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SWIN = {"image_size": 64, "patch_size": 4, "embed_dim": 12, "depths": [1, 2, 1, 1], "num_heads": [1, 2, 2, 4]}
CNN = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
# model_type -> (configuration, prefix tokens, own pool, whether a final norm fits inner layers)
BLOCKS = {
    "vit": (VIT, 1, "cls", True),
    "deit": (VIT, 2, "cls", True),
    "dinov2": ({**VIT, "mlp_ratio": 2}, 1, "cls", True),
    "dinov2_with_registers": ({**VIT, "mlp_ratio": 2, "num_register_tokens": 4}, 5, "cls", True),
    "dinov3_vit": ({**VIT, "num_register_tokens": 4}, 5, "cls", True),
    "beit": (VIT, 1, "mean", False),
    "ijepa": (VIT, 0, "mean", True),
    "vit_mae": (VIT, 1, "cls", True),
    "clip_vision_model": (VIT, 1, "cls", True),
    "siglip_vision_model": (VIT, 0, "attn", True),
    "siglip2_vision_model": ({**VIT, "num_patches": 16}, 0, "attn", True),
}
STAGES = {
    "swin": ({**SWIN, "window_size": 2}, (4, 8, 16, 32)),
    "swinv2": ({**SWIN, "window_size": 2}, (4, 8, 16, 32)),
    "convnext": (CNN, (4, 8, 16, 32)),
    "dinov3_convnext": (CNN, (4, 8, 16, 32)),
    "resnet": ({**CNN, "embedding_size": 8}, (4, 8, 16, 32)),
    "regnet": ({**CNN, "embedding_size": 8, "groups_width": 8}, (2, 4, 8, 16, 32)),
}
HEADS = {
    "ViTForImageClassification": ("vit", VIT),
    "DeiTForImageClassificationWithTeacher": ("deit", VIT),
    "Dinov2ForImageClassification": ("dinov2", {**VIT, "mlp_ratio": 2}),
    "Dinov2WithRegistersForImageClassification": ("dinov2_with_registers", {**VIT, "mlp_ratio": 2}),
    "BeitForImageClassification": ("beit", VIT),
    "SwinForImageClassification": ("swin", STAGES["swin"][0]),
    "ConvNextForImageClassification": ("convnext", CNN),
    "ResNetForImageClassification": ("resnet", STAGES["resnet"][0]),
    "CLIPForImageClassification": ("clip", {"vision_config": VIT, "text_config": TEXT}),
    "SiglipForImageClassification": ("siglip", {"vision_config": VIT, "text_config": {**TEXT, **WIDE}}),
}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def images(rows: int, height: int, width: int | None = None) -> torch.Tensor:
    return torch.randn(rows, 3, height, width or height, generator=torch.Generator().manual_seed(0))


def side_of(fields: dict[str, Any]) -> int:
    return 64 if "depths" in fields else 32


def trained(kind: str, fields: dict[str, Any], named: str | None = None) -> Any:
    """A net whose every parameter is away from its start, so that norms, biases and scales do something."""
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(kind, **fields)
        net = (getattr(transformers, named) if named else transformers.MODEL_MAPPING[type(config)])(config).eval()
        for name, value in net.named_parameters():
            if "logit" not in name:
                value.data += 0.1 * torch.randn_like(value)
        for name, value in net.named_buffers():
            if "running" in name:
                value.data += 0.1 * torch.rand_like(value)
    return net


def saved(folder: Path, net: Any, processor: Any = None) -> str:
    """A folder as the hub has it; images are squashed to the net's side unless a processor is given."""
    config = getattr(net.config, "vision_config", net.config).to_dict()
    side = side_of(config)
    own = processor or transformers.ViTImageProcessor(size={"height": side, "width": side})
    with quiet():
        net.save_pretrained(folder)
        own.save_pretrained(folder)
    return str(folder)


def loaded(folder: str, **more: Any) -> TransformersBackbone:
    fields = {field.name for field in dataclasses.fields(component.Settings)}
    settings = {name: more.pop(name) for name in list(more) if name in fields and name != "size"}
    return component.build(component.Settings(model_id=folder, **settings), **more)


def everything(backbone: TransformersBackbone, image: torch.Tensor) -> dict[str, torch.Tensor]:
    keys = [f"{p}@final" for p in backbone.pools] + [
        f"{p}@{n}" for n in range(backbone.depth) for p in backbone.inner_pools
    ]
    with torch.inference_mode():
        return backbone(image, keys)


def rows_of(spatial: torch.Tensor) -> torch.Tensor:
    return spatial.flatten(2).transpose(1, 2)


# --- blocks ---


def library(net: Any, image: torch.Tensor) -> Any:
    """The library's forward, with all patches and with its hidden states."""
    more: dict[str, Any] = {"pixel_values": image}
    if net.config.model_type == "vit_mae":
        net.config.mask_ratio = 0.0
        more["noise"] = torch.arange(16.0).expand(len(image), -1)
    if net.config.model_type == "siglip2_vision_model":
        patches = image.reshape(-1, 3, 4, 8, 4, 8).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, 192)
        ones, shapes = torch.ones(len(image), 16), torch.tensor([[4, 4]] * len(image))
        more |= {"pixel_values": patches, "pixel_attention_mask": ones, "spatial_shapes": shapes}
    with torch.inference_mode():
        return net(**more, output_hidden_states=True)


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks(kind: str, tmp_path: Path):
    fields, prefix, own, norm = BLOCKS[kind]
    net = trained(kind, fields)
    backbone, image = loaded(saved(tmp_path, net)), images(2, 32)
    given, there = everything(backbone, image), library(net, image)
    assert (backbone.depth, backbone.patch, backbone.stride, backbone.layer_unit) == (3, 8, 8, "block")
    assert (backbone.own_pool, backbone.can_norm) == (own, norm)
    assert ("cls" in backbone.pools) == (prefix > 0)
    last = there.last_hidden_state
    if kind == "clip_vision_model":  # whose output has the norm on the class token alone
        with torch.inference_mode():
            last = net.post_layernorm(last)
    assert last.shape[1] == prefix + 16
    torch.testing.assert_close(rows_of(given["patch@final"]), last[:, prefix:])
    if own != "mean":
        torch.testing.assert_close(given["mean@final"], last[:, prefix:].mean(1))
    if prefix:
        torch.testing.assert_close(given["cls@final"], last[:, 0])
    for number in range(3):
        hidden = there.hidden_states[number + 1]
        torch.testing.assert_close(rows_of(given[f"patch@{number}"]), hidden[:, prefix:])
        if prefix:
            torch.testing.assert_close(given[f"cls@{number}"], hidden[:, 0])
    if norm:
        with torch.inference_mode():
            normed = backbone(image, ["patch@2+norm", "mean@2+norm"])
        torch.testing.assert_close(normed["patch@2+norm"], given["patch@final"])
        assert not torch.allclose(given["patch@2"], given["patch@final"], atol=1e-2)


@pytest.mark.parametrize("kind", [k for k in BLOCKS if k not in ("vit", "deit", "ijepa", "vit_mae")])
def test_the_pooled_output_is_the_models_own(kind: str, tmp_path: Path):
    """Of ViT, DeiT and I-JEPA it is a tanh layer made for BERT, which is left out; MAE has none."""
    fields, _, own, _ = BLOCKS[kind]
    net = trained(kind, fields)
    backbone = loaded(saved(tmp_path, net))
    pooled = library(net, images(2, 32)).pooler_output
    torch.testing.assert_close(everything(backbone, images(2, 32))[f"{own}@final"], pooled)
    assert not any("pooler.dense" in name for name in backbone.net.state_dict())


def test_berts_pooler_is_left_out(tmp_path: Path):
    assert not any("pooler" in name for name in loaded(saved(tmp_path, trained("vit", VIT))).net.state_dict())


@pytest.mark.parametrize("kind", ["dinov2_with_registers", "dinov3_vit"])
def test_registers_are_neither_in_the_mean_nor_in_the_map(kind: str, tmp_path: Path):
    backbone = loaded(saved(tmp_path, trained(kind, BLOCKS[kind][0])))
    blocks = backbone.net.get_submodule("encoder.layer" if kind != "dinov3_vit" else "model.layer")
    keys = ["mean@1", "patch@1", "cls@1", "mean@2"]
    with torch.inference_mode():
        before = backbone(images(2, 32), keys)
        # Before benchkit looks, the registers are changed in the output of block 1.
        blocks[1].register_forward_hook(
            lambda m, a, out: torch.cat([out[:, :1], 9 * out[:, 1:5].flip(-1), out[:, 5:]], 1), prepend=True
        )
        after = backbone(images(2, 32), keys)
    assert all(torch.equal(before[key], after[key]) for key in keys[:3])
    assert not torch.allclose(before["mean@2"], after["mean@2"], atol=1e-2)


ORIENTED = ["vit", "dinov2", "dinov3_vit", "vit_mae", "clip_vision_model", "siglip2_vision_model", "swin", "convnext"]


@pytest.mark.parametrize("kind", ORIENTED)
def test_patches_are_in_the_order_of_the_image(kind: str, tmp_path: Path):
    """MAE shuffles its patches, SigLIP 2 takes them one by one: one bright cell of a wide image says where they end."""
    fields = BLOCKS[kind][0] if kind in BLOCKS else STAGES[kind][0]
    backbone = loaded(saved(tmp_path, trained(kind, fields)), pad=True)
    cell = backbone.stride
    plain = torch.zeros(1, 3, 3 * cell, 5 * cell)
    dot = plain.clone()
    dot[:, :, cell : 2 * cell, 3 * cell : 4 * cell] = 3.0  # row 1, column 3
    with torch.inference_mode():
        before, after = (backbone(image, ["patch@0", "patch@final"]) for image in (plain, dot))
    assert after["patch@final"].shape[2:] == (3, 5)
    change = (after["patch@0"] - before["patch@0"]).square().sum((0, 1))
    pooled = nn.functional.adaptive_avg_pool2d(change[None, None], (3, 5))[0, 0]
    assert np.unravel_index(int(pooled.argmax()), (3, 5)) == (1, 3)


def test_mae_sees_every_patch_and_nothing_of_chance(tmp_path: Path):
    backbone = loaded(saved(tmp_path, trained("vit_mae", VIT)))
    first, again = (everything(backbone, images(2, 32)) for _ in range(2))
    assert all(torch.equal(first[key], again[key]) for key in first)


@pytest.mark.parametrize("kind", ["vit", "beit", "dinov3_vit", "clip_vision_model", "siglip_vision_model", "vit_mae"])
def test_other_sizes_get_their_grid(kind: str, tmp_path: Path):
    folder = saved(tmp_path, trained(kind, BLOCKS[kind][0]))
    backbone = loaded(folder, size=48)
    assert backbone.preprocess.size == 48
    assert backbone.shapes(48, 48, ["patch@final"]) == {"patch@final": (48, 6, 6)}
    with pytest.raises(UsageError, match=r"use data\.size=40 or 48"):
        loaded(folder, size=44)


# --- stages ---


@pytest.mark.parametrize("kind", STAGES)
def test_stages(kind: str, tmp_path: Path):
    fields, strides = STAGES[kind]
    net = trained(kind, fields)
    backbone, image = loaded(saved(tmp_path, net)), images(2, 64)
    given, there = everything(backbone, image), library(net, image)
    assert (backbone.layer_unit, backbone.own_pool, backbone.depth) == ("stage", "mean", len(strides))
    assert [64 // given[f"patch@{n}"].shape[2] for n in range(backbone.depth)] == list(strides)
    torch.testing.assert_close(given["mean@final"], there.pooler_output.flatten(1))
    last = given["patch@final"]
    if kind.startswith("swin"):
        torch.testing.assert_close(rows_of(last), there.last_hidden_state)
        torch.testing.assert_close(last.mean((2, 3)), given["mean@final"])
        for number in range(3):  # the library's hidden states come after the merging of patches
            merge, grid = net.encoder.layers[number].downsample, given[f"patch@{number}"].shape[2:]
            with torch.inference_mode():
                merged = merge(rows_of(given[f"patch@{number}"]), tuple(grid))
            torch.testing.assert_close(merged, there.hidden_states[number + 1])
        return
    for number, hidden in enumerate(there.hidden_states[-backbone.depth :]):
        assert torch.equal(given[f"patch@{number}"], hidden)
    if kind == "dinov3_convnext":
        torch.testing.assert_close(rows_of(last), there.last_hidden_state[:, 1:])
    else:
        assert torch.equal(last, there.last_hidden_state)


# --- classifiers ---


@pytest.mark.parametrize("named", HEADS)
def test_classifiers(named: str, tmp_path: Path):
    kind, fields = HEADS[named]
    names = {number: f"class {number}, also {number}" for number in range(5)}
    net = trained(kind, {**fields, "id2label": names}, named)
    backbone, image = loaded(saved(tmp_path, net)), images(2, side_of(fields))
    given = everything(backbone, image)
    with torch.inference_mode():
        torch.testing.assert_close(given["logits@final"], net(image).logits)
        own = given[f"{backbone.own_pool}@final"]
        if "Dinov2" in named:  # reads class token and mean side by side
            read = torch.cat([given["cls@final"], given["mean@final"]], 1)
        elif "Teacher" in named:
            return
        else:
            read = own
        torch.testing.assert_close(net.classifier(read), given["logits@final"])
    assert [label.names for label in backbone.labels] == [(f"class {n}", f"also {n}") for n in range(5)]
    assert {label.wnid for label in backbone.labels} == {""}


def test_own_pool_is_what_the_classifier_reads(tmp_path: Path):
    pools = {}
    for named, (kind, fields) in HEADS.items():
        net = trained(kind, fields, named)
        pools[named.removesuffix("ForImageClassification")] = loaded(saved(tmp_path / named, net)).own_pool
    assert pools.pop("DeiTForImageClassificationWithTeacher") == "cls"
    assert [name for name, pool in pools.items() if pool == "cls"] == ["ViT", "Dinov2", "Dinov2WithRegisters"]
    assert [name for name, pool in pools.items() if pool == "mean"] == [
        *("Beit", "Swin", "ConvNext", "ResNet", "CLIP", "Siglip")
    ]


def test_names_that_nobody_gave_are_no_labels(tmp_path: Path):
    net = trained("vit", {**VIT, "num_labels": 7}, "ViTForImageClassification")
    backbone = loaded(saved(tmp_path, net))
    assert backbone.labels == ()
    assert everything(backbone, images(1, 32))["logits@final"].shape == (1, 7)


# --- image-text models ---


def words(folder: Path, kind: str = "clip") -> None:
    """A tokenizer of ten words, or for SigLIP 2 of the letters of its own kind, saved as the hub has it."""
    if kind == "siglip2":
        letters = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "\u2581", *"abcdefghijklmnopqrstuvwxyz"]
        transformers.Siglip2Tokenizer({letter: number for number, letter in enumerate(letters)}, []).save_pretrained(
            folder
        )
        return
    known = ["<pad>", "<s>", "</s>", "<unk>", "a", "photo", "of", "cat", "dog", "the"]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(known)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special).save_pretrained(folder)


IMAGE_TEXT = {
    "clip": {"vision_config": VIT, "text_config": TEXT, "projection_dim": 20},
    "siglip": {"vision_config": VIT, "text_config": {**TEXT, **WIDE, "projection_size": 48}},
    "siglip2": {
        "vision_config": {**VIT, "num_patches": 16},
        "text_config": {**TEXT, **WIDE, "projection_size": 48, "vocab_size": 32},
    },
}


@pytest.mark.parametrize("kind", IMAGE_TEXT)
def test_image_text_models(kind: str, tmp_path: Path):
    """Scale x cosine + bias of proj@final and of the texts is what the library's own forward gives."""
    net = trained(kind, IMAGE_TEXT[kind])
    with torch.no_grad():
        net.logit_scale.fill_(1.5)
        if kind != "clip":
            net.logit_bias.fill_(-0.7)
    words(tmp_path, kind)
    backbone, image = loaded(saved(tmp_path, net)), images(3, 32)
    prompts = ["a photo of a cat", "dog", "a photo of the dog and a very very long list of other words that are cut"]
    with torch.inference_mode():
        text, proj = backbone.text(prompts), backbone(image, ["proj@final"])["proj@final"]
        cosine = cosine_similarity(proj[:, None], text[None], dim=-1)
        ours = backbone.logit_scale * cosine + (backbone.logit_bias or 0.0)
        tokens = transformers.AutoTokenizer.from_pretrained(tmp_path)(
            prompts, padding="max_length", padding_side="right", max_length=12, truncation=True, return_tensors="pt"
        )
        assert len(set(tokens["input_ids"][2].tolist())) > 4
        assert tokens["input_ids"][1, -1] == 0
        more: dict[str, Any] = {"pixel_values": image, "input_ids": tokens["input_ids"]}
        if kind == "clip":
            more["attention_mask"] = tokens["attention_mask"]
        if kind == "siglip2":
            ones, shapes = torch.ones(3, 16), torch.tensor([[4, 4]] * 3)
            more |= {"pixel_values": patchified(image, 8), "pixel_attention_mask": ones, "spatial_shapes": shapes}
        theirs = net(**more)
    torch.testing.assert_close(ours, theirs.logits_per_image, rtol=1e-4, atol=1e-4)
    assert backbone.logit_scale == pytest.approx(np.exp(1.5))
    assert (backbone.logit_bias is None) == (kind == "clip")
    assert backbone.own_pool == ("cls" if kind == "clip" else "attn")
    assert text.std() > 1e-3
    torch.testing.assert_close(backbone.text(prompts[1:2]), text[1:2], rtol=1e-4, atol=1e-5)
    if kind != "clip":
        torch.testing.assert_close(backbone.text(["Dog"]), text[1:2], rtol=1e-4, atol=1e-5)


def test_the_projected_tower_alone_and_texts_without_a_tokenizer(tmp_path: Path):
    net = trained("clip_vision_model", {**VIT, "projection_dim": 20}, "CLIPVisionModelWithProjection")
    backbone = loaded(saved(tmp_path / "vision", net))
    with torch.inference_mode():
        torch.testing.assert_close(everything(backbone, images(2, 32))["proj@final"], net(images(2, 32)).image_embeds)
    with pytest.raises(UsageError, match="no text tower"):
        backbone.text(["a cat"])
    both = loaded(saved(tmp_path / "both", trained("clip", IMAGE_TEXT["clip"])))
    with pytest.raises(UsageError, match=r"knows none of the words.*model\.backbone\.tokenizer"):
        both.text(["a cat"])
    words(tmp_path / "words")
    other = loaded(str(tmp_path / "both"), tokenizer=str(tmp_path / "words"))
    assert other.text(["a cat", "dog"]).shape == (2, 20)


# --- image processors ---

KEPT = {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}
PROCESSORS = [
    ("BitImageProcessor", KEPT, (224, "bicubic", 0.875, "crop"), 0.48145466),
    ("CLIPImageProcessor", {}, (224, "bicubic", 1.0, "crop"), 0.48145466),
    ("ViTImageProcessor", {}, (224, "bilinear", 1.0, "squash"), 0.5),
    ("SiglipImageProcessor", {}, (224, "bicubic", 1.0, "squash"), 0.5),
    ("ConvNextImageProcessor", {"size": {"shortest_edge": 224}}, (224, "bicubic", 0.875, "crop"), 0.5),
    ("ConvNextImageProcessor", {"size": {"shortest_edge": 384}}, (384, "bicubic", 1.0, "squash"), 0.5),
    ("DINOv3ViTImageProcessor", {}, (224, "bilinear", 1.0, "squash"), 0.485),
    ("BeitImageProcessor", {"resample": 0}, (224, "nearest", 1.0, "squash"), 0.5),
]


@pytest.mark.parametrize(("named", "fields", "want", "mean"), PROCESSORS)
def test_processors_are_followed(named: str, fields: dict[str, Any], want: tuple[Any, ...], mean: float):
    processor = getattr(transformers, named)(**fields)
    own, notes = preprocess_of(processor, "model")
    assert (own.size, own.interpolation, own.crop_pct, own.resize) == want
    assert own.mean is not None
    assert own.mean[0] == pytest.approx(mean)
    assert notes == ()
    # An image of its own, by another way than the one that benchkit tries the processor with: PIL's resize.
    image = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    given = torch.as_tensor(processor(images=image, return_tensors="pt")["pixel_values"][0])
    ours = inputs.Preprocess(
        own.size, own.resize, int(own.size / own.crop_pct), own.interpolation, own.mean, own.std or ()
    )
    expected = ours.normalise(ours.apply(image)[None])[0]
    assert given.shape == expected.shape
    assert (given - expected).abs().mean() < 0.03


@pytest.mark.parametrize(
    ("fields", "mean", "std"),
    [
        ({"do_normalize": False}, 0.0, 1.0),
        ({"image_mean": [0.4] * 3, "image_std": [0.3] * 3}, 0.4, 0.3),
        ({"do_rescale": False, "image_mean": [127.5] * 3, "image_std": [51.0] * 3}, 0.5, 0.2),
        ({"rescale_factor": 1 / 127.5, "image_mean": [1.0] * 3, "image_std": [1.0] * 3}, 0.5, 0.5),
    ],
)
def test_normalisation_is_of_pixels_in_0_to_1(fields: dict[str, Any], mean: float, std: float):
    own, _ = preprocess_of(transformers.ViTImageProcessor(**fields), "model")
    assert own.mean == pytest.approx((mean,) * 3)
    assert own.std == pytest.approx((std,) * 3)


def test_efficientnets_offset_and_second_division():
    plain = {"size": {"height": 64, "width": 64}, "resample": 2}
    offset = {**plain, "rescale_factor": 1 / 127.5, "rescale_offset": True, "do_normalize": False}
    own, _ = preprocess_of(transformers.EfficientNetImageProcessor(**offset, include_top=False), "model")
    assert (own.mean, own.std) == (pytest.approx((0.5,) * 3), pytest.approx((0.5,) * 3))
    own, _ = preprocess_of(transformers.EfficientNetImageProcessor(**plain), "model")
    assert (own.mean, own.std) == (pytest.approx((0.5,) * 3), pytest.approx((0.25,) * 3))


def test_what_is_done_otherwise_is_said():
    own, notes = preprocess_of(transformers.DeiTImageProcessor(), "model")
    assert (own.size, own.crop_pct, own.resize) == (224, 0.875, "crop")
    assert "squashes to 256 x 256" in notes[0]
    own, notes = preprocess_of(transformers.Siglip2ImageProcessor(), "model")
    assert (own.size, own.resize) == (256, "squash")
    assert "256 patches" in notes[0]


class Backwards(transformers.ViTImageProcessor):
    """A processor whose settings do not say that it turns its images round."""

    def _preprocess(self, images: Any, **more: Any) -> Any:
        given = super()._preprocess(images, **more)
        given["pixel_values"] = given["pixel_values"].flip(-1)
        return given


@pytest.mark.parametrize(
    ("processor", "said"),
    [
        (lambda: transformers.ViTImageProcessor(resample=1), r"lanczos.*processor=\{resample: 3\}"),
        (lambda: Backwards(), "does more than"),
        (lambda: transformers.LevitImageProcessor(), "does more than"),
        (lambda: transformers.MobileViTImageProcessor(), "fills up the rest"),
        (lambda: transformers.MobileViTImageProcessor(size={"shortest_edge": 288}), "does more than"),  # BGR
        (lambda: transformers.ViTImageProcessor(size={"height": 32, "width": 64}), "one square size"),
        (lambda: transformers.ViTImageProcessor(image_mean=[120.0] * 3), "range"),
        (lambda: transformers.ImageGPTImageProcessor(clusters=np.zeros((4, 3))), "does more than"),
    ],
)
def test_processors_that_cannot_be_followed_are_refused(processor: Any, said: str):
    with pytest.raises(UsageError, match=said) as caught:
        preprocess_of(processor(), "model")
    assert "model.backbone.processor" in str(caught.value)


def test_patches_are_those_of_the_processor():
    image = images(2, 32)
    processor = transformers.Siglip2ImageProcessor(
        patch_size=8, max_num_patches=16, do_normalize=False, do_rescale=False
    )
    given = processor(images=[each for each in image], return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(patchified(image, 8), given)
    torch.testing.assert_close(unpatchified(given[1], 4, 8), image[1])


def test_the_conf_overrides_the_processor_or_stands_for_it(tmp_path: Path):
    folder = saved(tmp_path, trained("vit", VIT), transformers.ViTImageProcessor(size={"height": 32, "width": 32}))
    assert loaded(folder).preprocess == Preprocess(32, "bilinear", (0.5,) * 3, (0.5,) * 3, 1.0, "squash")
    assert loaded(folder, processor={"resample": 3}).preprocess.interpolation == "bicubic"
    fields = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 64}, "crop_size": 32}
    assert loaded(folder, processor=fields).preprocess.crop_pct == 0.5
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(UsageError, match="lacks files for AutoImageProcessor"):
        loaded(folder)
    assert loaded(folder, processor=fields).preprocess.size == 32
    with pytest.raises(UsageError, match="image_processor_type=NoSuch"):
        loaded(folder, processor={"image_processor_type": "NoSuch"})


# --- random twins and configurations ---


def twin(fields: dict[str, Any], **more: Any) -> TransformersBackbone:
    return component.build(component.Settings(config=fields, **more.pop("settings", {})), **{"random": True, **more})


def test_random_twin_of_a_configuration_depends_on_its_seed_alone():
    fields = {"model_type": "dinov2", **VIT, "mlp_ratio": 2}
    torch.manual_seed(1)
    first = module_state_hash(twin(fields, seed=3).net)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    backbone = twin(fields, seed=3)
    assert module_state_hash(backbone.net) == first
    assert torch.equal(torch.get_rng_state(), before)
    assert module_state_hash(twin(fields, seed=4).net) != first
    assert backbone.preprocess == Preprocess(32)
    assert "no image processor" in backbone.notes[0]
    assert backbone.upstream == f"transformers {transformers.__version__}"
    assert not any(value.requires_grad for value in backbone.parameters())


def test_random_twin_of_a_folder_has_its_configuration_and_processor(tmp_path: Path):
    folder = saved(tmp_path, trained("vit", VIT))
    random, real = loaded(folder, random=True), loaded(folder)
    assert random.preprocess == real.preprocess
    assert random.net.config.to_dict().keys() == real.net.config.to_dict().keys()
    assert module_state_hash(random.net) != module_state_hash(real.net)


def test_a_model_that_is_loaded_must_agree_with_the_conf(tmp_path: Path):
    folder = saved(tmp_path, trained("clip", IMAGE_TEXT["clip"]))
    agreed = {"model_type": "clip", "vision_config": {"hidden_size": 48}}
    assert loaded(folder, config=agreed).depth == 3
    with pytest.raises(UsageError, match=r"vision_config\.hidden_size is 64, and 48 in the files"):
        loaded(folder, config={**agreed, "vision_config": {"hidden_size": 64}})


def test_what_cannot_be_made():
    with pytest.raises(UsageError, match="model_type=vitt"):
        twin({"model_type": "vitt"})
    with pytest.raises(UsageError, match="bert, a BertModel, is not understood: it reads no images"):
        twin({"model_type": "bert", **WIDE, "num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 9})
    with pytest.raises(UsageError, match=r"hiera.* is not understood: its hidden states"):
        twin({"model_type": "hiera", "depths": [1, 1, 1, 1], "embed_dim": 8})
    with pytest.raises(UsageError, match="say which model"):
        component.build(component.Settings(), random=True)
    with pytest.raises(UsageError, match="does not take images of 36 pixels"):
        twin({"model_type": "levit"}, size=36)
    with pytest.raises(UsageError, match=r"no weights: give model\.backbone\.model_id"):
        component.build(component.Settings(config={"model_type": "vit", **VIT}))
    with pytest.raises(UsageError, match="no such folder"):
        component.build(component.Settings(model_id="facebook/dinov2-small", folder="nowhere"))
    with pytest.raises(UsageError, match="40 digits"):
        component.build(component.Settings(model_id="facebook/dinov2-small", revision="main"))


# --- weights ---


def change(folder: Path, how: Any) -> None:
    state = load_file(folder / "model.safetensors")
    save_file(how(state), folder / "model.safetensors", metadata={"format": "pt"})


def test_a_missing_layer_is_refused_and_a_missing_classifier_left_out(tmp_path: Path):
    folder = saved(tmp_path, trained("vit", {**VIT, "num_labels": 3}, "ViTForImageClassification"))
    whole = everything(loaded(folder), images(1, 32))
    change(tmp_path, lambda state: {k: v for k, v in state.items() if "classifier" not in k})
    backbone = loaded(folder)
    assert "logits" not in backbone.pools
    assert any("no classifier" in note for note in backbone.notes)
    assert not any("classifier" in name for name in backbone.net.state_dict())
    torch.testing.assert_close(everything(backbone, images(1, 32))["cls@final"], whole["cls@final"])
    change(tmp_path, lambda state: {k: v for k, v in state.items() if ".1." not in k})
    with pytest.raises(UsageError, match=r"leaves \d+ tensors of .*\.1\."):
        loaded(folder)


def test_half_precision_is_cast_and_the_decoder_is_not_used(tmp_path: Path):
    net = trained("vit_mae", VIT, "ViTMAEForPreTraining")
    folder = saved(tmp_path, net.half())
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float16"
    backbone = loaded(folder)
    assert {value.dtype for value in backbone.net.state_dict().values()} == {torch.float32}
    assert any("decoder" in note for note in backbone.notes)


def test_checkpoint_in_place_of_the_models_own_weights(tmp_path: Path):
    net = trained("dinov2", {**VIT, "mlp_ratio": 2})
    folder = saved(tmp_path / "own", trained("dinov2", {**VIT, "mlp_ratio": 2, "layerscale_value": 0.1}))
    torch.save({"state_dict": {f"module.{k}": v for k, v in net.state_dict().items()}}, tmp_path / "w.pth")
    for settings in ({"model_id": folder}, {"config": {"model_type": "dinov2", **VIT, "mlp_ratio": 2}}):
        more = {"processor": {"image_processor_type": "BitImageProcessor"}, "checkpoint": str(tmp_path / "w.pth")}
        backbone = component.build(component.Settings(**settings, **more), size=32)
        assert module_state_hash(backbone.net) == module_state_hash(net)
        assert "'state_dict'" in backbone.notes[0]
    torch.save({k: v for k, v in net.state_dict().items() if "layer.1" not in k}, tmp_path / "w.pth")
    with pytest.raises(UsageError, match="never scored"):
        loaded(folder, checkpoint=str(tmp_path / "w.pth"))
    torch.save(trained("dinov2", {**VIT, "mlp_ratio": 3}).state_dict(), tmp_path / "w.pth")
    with pytest.raises(UsageError, match=r"mlp\.fc1.* 144"):
        loaded(folder, checkpoint=str(tmp_path / "w.pth"))


def test_a_file_of_the_hub_is_read_in_its_older_names(tmp_path: Path):
    net = trained("vit", VIT)
    folder = saved(tmp_path / "own", net)
    file = tmp_path / "own/model.safetensors"
    assert not load_file(file).keys() & {name for name in net.state_dict() if ".attention." in name}
    backbone = loaded(folder, checkpoint=str(file))
    torch.testing.assert_close(backbone.net.layers[2].attention.k_proj.weight, net.layers[2].attention.k_proj.weight)


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (os.system, (f"touch {self.target}",))


def test_code_of_a_model_never_runs(tmp_path: Path):
    folder, made = Path(saved(tmp_path / "m", trained("vit", VIT))), tmp_path / "made"
    (folder / "model.safetensors").unlink()
    torch.save({"a": torch.zeros(1), "b": Evil(made)}, folder / "pytorch_model.bin")
    with pytest.raises(UsageError, match=r"cannot be loaded|lacks files"):
        loaded(str(folder))
    assert not made.exists()
    pickle.loads(pickle.dumps(Evil(made)))
    assert made.exists()  # the file really was malicious
    made.unlink()
    config = json.loads((folder / "config.json").read_text())
    code = f"import pathlib\npathlib.Path({str(made)!r}).touch()\n"
    (folder / "own.py").write_text(code)
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="never run"):
        loaded(str(folder))
    assert not made.exists()


def test_a_folder_stands_for_the_hub(tmp_path: Path):
    folder = saved(tmp_path, trained("vit", VIT))
    settings = component.Settings(model_id="somebody/small-vit", revision="0" * 40, folder=folder)
    backbone = component.build(settings)
    assert (backbone.name, backbone.depth) == ("small-vit", 3)
    assert component.fetch(settings) == [tmp_path]
    assert backbone.upstream == f"transformers {transformers.__version__}"


def test_what_the_hub_has_not_is_one_paragraph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError) as caught:
        component.build(component.Settings(model_id="facebook/dinov2-small", revision="e" * 40))
    assert "\n" not in str(caught.value)
    assert f"hf download facebook/dinov2-small --revision {'e' * 40}" in str(caught.value)
    assert "model.backbone.folder=FOLDER" in str(caught.value)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "benchkit.backbones._transformers_build", raising=False)
    with pytest.raises(UsageError, match=re.escape("pip install 'benchkit[hf]'")):
        component.build(component.Settings(config={"model_type": "vit"}), random=True)


@pytest.mark.hub
def test_dinov2_small_of_the_hub_is_timms():
    from benchkit.backbones import timm as timm_component

    ours = component.build(component.Settings(model_id="facebook/dinov2-small"), size=518)
    theirs = timm_component.build(timm_component.Settings(arch="vit_small_patch14_dinov2.lvd142m"))
    with torch.inference_mode():
        here, there = (b(images(1, 518), ["cls@final"])["cls@final"] for b in (ours, theirs))
    assert cosine_similarity(here, there).min() > 0.9999
