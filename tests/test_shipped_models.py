"""Every shipped conf: an image whose colours are coordinates comes out where the conf's publication says; tags, tokens."""

from __future__ import annotations

import functools
import hashlib
import types
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

from benchkit import registry
from benchkit.backbones import _open_clip_tags, _timm_build
from benchkit.backbones import timm as timm_component
from benchkit.backbones.base import Preprocess
from benchkit.conf.build import Conf, build
from benchkit.conf.find import conf_names
from benchkit.errors import UsageError
from benchkit.export.batches import Picture
from benchkit.export.decoding import decode
from benchkit.export.model import input_preprocess
from benchkit.preprocess import Preprocess as InputPreprocess

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
HALF = ((0.5,) * 3, (0.5,) * 3)
LITE = ((127 / 255,) * 3, (128 / 255,) * 3)
NONE = ((0.0,) * 3, (1.0,) * 3)
# By hand, from each model's publication: short side before the crop of 224 (None: squashed), interpolation, mean and std.
EXPECTED = {
    "augreg_vitb16": (248, "bicubic", HALF),
    "clip_vitb16_laion2b": (224, "bicubic", CLIP),
    "clip_vitb16_openai": (224, "bicubic", CLIP),
    "clip_vitb32_laion2b": (224, "bicubic", CLIP),
    "clip_vitb32_openai": (224, "bicubic", CLIP),
    "clip_vitl14_laion2b": (224, "bicubic", HALF),
    "clip_vitl14_openai": (224, "bicubic", CLIP),
    "color_histogram": (256, "bilinear", NONE),
    "convnext_base": (256, "bicubic", IMAGENET),
    "deit3_vitb16": (248, "bicubic", IMAGENET),
    "dino_vitb16": (256, "bicubic", IMAGENET),
    "dino_vitb8": (256, "bicubic", IMAGENET),
    "dinov2_vitb14": (256, "bicubic", IMAGENET),
    "dinov2_vitb14_reg4": (256, "bicubic", IMAGENET),
    "dinov2_vitl14": (256, "bicubic", IMAGENET),
    "dinov2_vitl14_reg4": (256, "bicubic", IMAGENET),
    "dinov2_vits14": (256, "bicubic", IMAGENET),
    "dinov2_vits14_hf": (256, "bicubic", IMAGENET),
    "dinov2_vits14_hub": (256, "bicubic", IMAGENET),
    "dinov2_vits14_reg4": (256, "bicubic", IMAGENET),
    "dinov3_vitb16": (256, "bicubic", IMAGENET),
    "dinov3_vitl16": (256, "bicubic", IMAGENET),
    "dinov3_vits16": (256, "bicubic", IMAGENET),
    "efficientnet_lite0": (256, "bicubic", LITE),
    "eva02_vitb14": (248, "bicubic", CLIP),
    "mae_vitb16": (256, "bicubic", IMAGENET),
    "mobilenetv2": (256, "bicubic", HALF),
    "resnet18": (235, "bicubic", IMAGENET),
    "resnet50_a1": (235, "bicubic", IMAGENET),
    "resnet50_tv2": (232, "bilinear", IMAGENET),
    "sam_vitb16": (256, "bicubic", IMAGENET),
    "siglip2_vitb16": (None, "bicubic", HALF),
    "siglip_vitb16": (None, "bicubic", HALF),
    "swin_base": (248, "bicubic", IMAGENET),
    "vit_small": (248, "bicubic", HALF),
}
SIDE = 224
# Confs of models with a mask head: size of their inputs, how they are resized, interpolation, mean and std, classes.
MASK_HEADS: dict[str, Any] = {
    "deeplabv3_mobilenet_voc": (520, "crop", "bilinear", IMAGENET, 21),
    "segformer_ade": (512, "squash", "bilinear", IMAGENET, 150),
}
# Confs of local features: their kind, what matches them, numbers of a descriptor.
LOCAL: dict[str, Any] = {
    "akaze": ("akaze", None, 488),
    "aliked": ("aliked", None, 128),
    "aliked_lightglue": ("aliked", "lightglue", 128),
    "disk": ("disk", None, 128),
    "orb": ("orb", None, 256),
    "sift": ("sift", None, 128),
    "superpoint": ("superpoint", None, 256),
}
DENSE_MATCHERS = {"loftr": "loftr"}  # confs of matchers that read the images themselves: their head
POOLED = [stem for stem in conf_names() if stem not in {*MASK_HEADS, *LOCAL, *DENSE_MATCHERS}]
DATA = {
    "ade20k",
    "coco",
    "imagenet-1k",
    "imagenet-21k",
    "lvd-142m",
    "lvd-1689m",
    "wit-400m",
    "laion-2b",
    "webli",
    "sa-1b",
    "megadepth",
    "revisitop1m",
}


def of(kind: str) -> list[str]:
    """Confs whose backbone is of that kind."""
    return [stem for stem in conf_names() if build(stem, "retrieval").backbone.name == kind]


def small_first(stems: list[str]) -> list[Any]:
    """Parameters; those of wide models are slow."""
    slow = [stem for stem in stems if "vitb" in stem or "vitl" in stem]
    return [pytest.param(stem, marks=pytest.mark.slow if stem in slow else ()) for stem in stems]


def conf_of(stem: str) -> Conf:
    return build(stem, "retrieval", ["model.random=true"])


@functools.cache
def own_preprocess(stem: str) -> tuple[Preprocess, int]:
    """The model's own preprocessing and its stride; of large libraries' models without making their weights."""
    conf = conf_of(stem)
    settings: Any = conf.backbone.settings
    if conf.backbone.name == "timm":
        cfg = timm.models.get_pretrained_cfg(settings.arch).to_dict()
        net = types.SimpleNamespace(pretrained_cfg=cfg)  # all that is read of one
        return _timm_build.preprocess_of(net, settings.size or cfg["input_size"][-1], settings.crop_pct), 1
    if conf.backbone.name == "open_clip":
        return _open_clip_tags.preprocess_of(settings.arch, settings.weights, settings.size), 1
    try:
        backbone = conf.backbone.component.build(settings, random=True)
    except UsageError as error:
        if "could not be had" in str(error):
            pytest.skip(f"its code is on a hub: {error}")
        raise
    return backbone.preprocess, backbone.stride


def preprocess_of(stem: str) -> InputPreprocess:
    """What the export does with the images of that conf."""
    return input_preprocess(conf_of(stem), *own_preprocess(stem), stem)


def coordinates(height: int, width: int) -> np.ndarray:
    """Red = 0..255 from left to right, green = 0..255 from top to bottom, blue 77."""
    y, x = np.mgrid[:height, :width]
    ramps = [np.round(x * 255 / (width - 1)), np.round(y * 255 / (height - 1)), np.full((height, width), 77)]
    return np.stack(ramps, axis=-1).astype(np.uint8)


def decoded(image: np.ndarray, preprocess: InputPreprocess, folder: Path) -> torch.Tensor:
    """The image through the export's own reading, from a file: (3, h, w), normalised."""
    file = folder / "photos" / "a" / "1.png"
    file.parent.mkdir(parents=True)
    Image.fromarray(image).save(file)
    component = registry.find("datasets", "image_folder")
    dataset = component.build(component.settings(root=str(folder / "photos")))
    height, width = image.shape[:2]
    view = next(name for split in ("train", "test") for name in dataset.items(split))
    picture = Picture(view, hashlib.sha256(file.read_bytes()).hexdigest(), height, width, dataset)
    result = decode(picture, preprocess)
    assert not result.problem
    return preprocess.normalise(result.pixels[None])[0]


def test_every_conf_says_what_is_expected_of_it():
    assert set(POOLED) == set(EXPECTED)


@pytest.mark.parametrize("stem", POOLED)
class TestPreprocessing:
    @pytest.mark.parametrize("size", [(300, 400), (405, 301)])
    def test_coordinates_arrive_where_they_belong(self, stem: str, size: tuple[int, int], tmp_path: Path):
        """Resized once and cropped once: the values of every output pixel, from the geometry alone."""
        short, _, (mean, std) = EXPECTED[stem]
        values = decoded(coordinates(*size), preprocess_of(stem), tmp_path)
        assert values.shape == (3, SIDE, SIDE)
        pixels = 255 * (values * torch.tensor(std)[:, None, None] + torch.tensor(mean)[:, None, None]).numpy()
        (height, width), corner = size, (0, 0)
        if short is None:
            resized = (SIDE, SIDE)
        else:
            least = min(size)
            resized = tuple(short if side == least else int(short * side / least) for side in size)
            corner = tuple(round((side - SIDE) / 2) for side in resized)
        xs = ((np.arange(SIDE) + corner[1] + 0.5) * width / resized[1] - 0.5) * 255 / (width - 1)
        ys = ((np.arange(SIDE) + corner[0] + 0.5) * height / resized[0] - 0.5) * 255 / (height - 1)
        inner = slice(4, -4)  # where the filter reaches over the border it is one-sided
        wide = np.ones(SIDE - 8)
        np.testing.assert_allclose(pixels[0, inner, inner], np.outer(wide, xs[inner]), atol=1.5)
        np.testing.assert_allclose(pixels[1, inner, inner], np.outer(ys[inner], wide), atol=1.5)
        np.testing.assert_allclose(pixels[2], 77, atol=0.01)

    def test_filter_and_normalisation(self, stem: str):
        _, interpolation, (mean, std) = EXPECTED[stem]
        found = preprocess_of(stem)
        assert (found.size, found.interpolation) == (SIDE, interpolation)
        np.testing.assert_allclose([found.mean, found.std], [mean, std], rtol=1e-6)


def noise(height: int, width: int) -> np.ndarray:
    """An image without symmetries: blocks of random colours."""
    blocks = np.random.default_rng(0).integers(0, 256, (height // 6 + 1, width // 6 + 1, 3), dtype=np.uint8)
    return np.ascontiguousarray(blocks.repeat(6, axis=0).repeat(6, axis=1)[:height, :width])


def as_pil_in_8_bits(ours: torch.Tensor, theirs: torch.Tensor, std: tuple[float, ...]) -> None:
    """Equal within 3/255 of an image's range: PIL rounds between its two passes."""
    assert ours.shape == theirs.shape
    off = (ours - theirs).abs() * torch.tensor(std)[:, None, None] * 255
    assert off.max() < 3
    assert off.mean() < 0.5


class TestTimm:
    @pytest.mark.parametrize("stem", of("timm"))
    def test_preprocessing_is_timms_own(self, stem: str, tmp_path: Path):
        """timm's transform for the weights, at the size and crop that the conf names where it names them."""
        conf, found = conf_of(stem), preprocess_of(stem)
        cfg = timm.models.get_pretrained_cfg(conf.backbone.settings.arch).to_dict()
        asked: dict[str, Any] = {"img_size": conf.backbone.settings.size, "crop_pct": conf.backbone.settings.crop_pct}
        chosen = conf.model.preprocess
        asked |= {"mean": chosen.mean, "std": chosen.std} if chosen.mean else {}
        data = timm.data.resolve_data_config(asked, pretrained_cfg=cfg)
        image = noise(300, 400)
        theirs = timm.data.create_transform(**data, is_training=False)(Image.fromarray(image))
        as_pil_in_8_bits(decoded(image, found, tmp_path), theirs, found.std)

    @pytest.mark.parametrize(
        ("arch", "resize", "said"),
        [
            ("vit_so400m_patch14_siglip_378.webli_ft_in1k", "squash", ""),
            ("resnet18.a1_in1k", "crop", ""),
            ("dm_nfnet_f0.dm_in1k", "squash", "timm squashes its images and crops 0.9 of them"),
            ("deepseek_vit_412m.deepseek_v4_flash_vision_exp", "crop", "between borders"),
        ],
    )
    def test_squash_is_timms_word_too(self, arch: str, resize: str, said: str):
        if not timm.is_model(arch):
            pytest.skip(f"this timm has no {arch}")
        outline = _timm_build._create(arch, {}, meta=True)
        assert _timm_build.preprocess_of(outline, 224).resize == resize
        assert said in " ".join(_timm_build.resize_notes(outline))
        assert bool(said) == bool(_timm_build.resize_notes(outline))

    @pytest.mark.parametrize("stem", of("timm"))
    def test_its_tag_exists_under_its_licence(self, stem: str):
        conf = build(stem, "retrieval")
        settings = conf.backbone.settings
        if settings.pretrained and not settings.weights:
            assert settings.arch in timm.list_pretrained()
            licence = timm.models.get_pretrained_cfg(settings.arch).license
            assert conf.about["licence"].lower().replace(" ", "-") == licence
            assert conf.about["source"] == f"https://huggingface.co/timm/{settings.arch}"

    @pytest.mark.parametrize(
        "stem", small_first([s for s in of("timm") if build(s, "retrieval").backbone.settings.size])
    )
    def test_weights_of_its_own_size_fit(self, stem: str, tmp_path: Path):
        settings = shallow(stem)
        published = timm.create_model(settings.arch, **settings.extra_kwargs)
        save_file(published.state_dict(), tmp_path / "w.safetensors")
        settings.checkpoint = str(tmp_path / "w.safetensors")
        backbone = timm_component.build(settings)
        side = SIDE // backbone.stride
        assert backbone.shapes(SIDE, SIDE, ["patch@final"])["patch@final"][1:] == (side, side)
        qkv = "blocks.0.attn.qkv.weight"
        assert torch.equal(backbone.net.state_dict()[qkv], published.state_dict()[qkv])

    @pytest.mark.parametrize("stem", small_first([s for s in of("timm") if "vit" in s]))
    def test_the_mean_is_over_the_patches_alone(self, stem: str):
        """Counted from the end: 224 / patch squared tokens; class and register tokens come before them."""
        settings = shallow(stem)
        backbone = timm_component.build(settings, random=True)
        image = torch.randn(1, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            tokens = backbone.net.forward_features(image)
            features = backbone(image, ["patch@final", "mean@0", "patch@0"])
            if tokens.ndim == 4:  # SAM: no tokens beside the patches
                assert tokens.shape[2:] == (14, 14)
                return
            patches = tokens[:, -((SIDE // backbone.patch) ** 2) :]
            registers = 4 if "reg4" in stem or "dinov3" in stem else 0
            assert tokens.shape[1] - patches.shape[1] == 1 + registers
            by_hand = backbone.net.forward_intermediates(image, indices=[0], intermediates_only=True, output_fmt="NLC")
        torch.testing.assert_close(features["patch@final"].flatten(2).mT, patches)
        torch.testing.assert_close(features["mean@0"], by_hand[0].mean(1))
        torch.testing.assert_close(features["patch@0"].flatten(2).mT, by_hand[0])


def shallow(stem: str) -> Any:
    """The conf's settings, of a net of one block."""
    settings = build(stem, "retrieval").backbone.settings
    settings.extra_kwargs = {**settings.extra_kwargs, "depth": 1}
    return settings


class TestOpenClip:
    @pytest.mark.parametrize("stem", of("open_clip"))
    def test_preprocessing_is_open_clips_own(self, stem: str, tmp_path: Path):
        settings, found = conf_of(stem).backbone.settings, preprocess_of(stem)
        entry = open_clip.get_pretrained_cfg(settings.arch, settings.weights)
        how = {key: entry[key] for key in ("mean", "std", "interpolation", "resize_mode")}
        theirs = open_clip.image_transform(SIDE, is_train=False, **how)
        image = noise(300, 400)
        as_pil_in_8_bits(decoded(image, found, tmp_path), theirs(Image.fromarray(image)), found.std)

    @pytest.mark.parametrize("stem", of("open_clip"))
    def test_its_tag_exists(self, stem: str):
        settings = build(stem, "retrieval").backbone.settings
        assert (settings.arch, settings.weights) in open_clip.list_pretrained()


@pytest.mark.parametrize("stem", conf_names())
def test_pretraining_data_have_one_name_each(stem: str):
    assert set(build(stem, "retrieval").about["pretrained_on"]) <= DATA


@pytest.mark.parametrize("stem", MASK_HEADS)
def test_mask_heads(stem: str):
    size, resize, interpolation, (mean, std), classes = MASK_HEADS[stem]
    conf = build(stem, "semantic_segmentation", ["model.random=true"])
    assert conf.head.name == "segmenter"
    backbone = conf.backbone.component.build(conf.backbone.settings, random=True)
    own = backbone.preprocess
    assert (own.size, own.resize, own.interpolation) == (size, resize, interpolation)
    np.testing.assert_allclose([own.mean, own.std], [mean, std], rtol=1e-6)
    assert backbone.shapes(64, 64, ["masks@final"])["masks@final"][0] == classes


@pytest.mark.parametrize("stem", DENSE_MATCHERS)
def test_dense_matchers(stem: str):
    conf = build(stem, "homography")
    assert (conf.head.name, conf.backbone.name, conf.model.batch_size) == (DENSE_MATCHERS[stem], "pixels", 1)
    backbone = conf.backbone.component.build(conf.backbone.settings)
    for given, resize in (([], "native"), (["data.size=840"], "pad"), (["data.resize_short=480"], "short")):
        made = input_preprocess(build(stem, "homography", given), backbone.preprocess, backbone.stride, stem)
        assert (made.resize, made.mean, made.std, made.multiple) == (resize, (0, 0, 0), (1, 1, 1), 1)


@pytest.mark.parametrize("stem", LOCAL)
def test_local_features(stem: str):
    kind, matcher, width = LOCAL[stem]
    conf = build(stem, "homography", ["model.random=true"])
    assert conf.head.name == (matcher or "match")
    assert conf.model.batch_size == 1
    backbone = conf.backbone.component.build(conf.backbone.settings, random=True)
    assert (backbone.local_features, backbone.descriptor_size, backbone.max_points) == (kind, width, 2048)
    for given, resize in (([], "native"), (["data.size=320"], "pad"), (["data.resize_short=240"], "short")):
        made = input_preprocess(build(stem, "homography", given), backbone.preprocess, backbone.stride, stem)
        assert (made.resize, made.mean, made.std, made.multiple) == (resize, (0, 0, 0), (1, 1, 1), 1)


@pytest.mark.slow
@pytest.mark.parametrize("stem", POOLED)
def test_the_whole_model_is_made_as_it_was_outlined(stem: str):
    conf = conf_of(stem)
    try:
        backbone = conf.backbone.component.build(conf.backbone.settings, random=True)
    except UsageError as error:
        if "could not be had" in str(error):
            pytest.skip(f"its code is on a hub: {error}")
        raise
    outlined = preprocess_of(stem)
    made = input_preprocess(conf, backbone.preprocess, backbone.stride, stem)
    assert {**vars(made), "multiple": 0} == {**vars(outlined), "multiple": 0}
    own = f"{backbone.own_pool}@final"
    keys = [own, "patch@final", *(["proj@final"] if "proj" in backbone.pools else [])]
    shapes = backbone.shapes(SIDE, SIDE, keys)
    assert shapes["patch@final"][1:] == (SIDE // backbone.stride,) * 2
    if conf.backbone.name == "open_clip":
        is_siglip = "siglip" in stem
        assert backbone.own_pool == ("attn" if is_siglip else "cls")
        assert backbone.logit_bias == (-10 if is_siglip else None)
        assert is_siglip or backbone.text(["a dog"]).shape == (1, *shapes["proj@final"])
