"""torchvision models as backbones: layers, what the classifier sees, weights with their own transforms."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from timm.data import ImageNetInfo
from torch import nn
from torchvision import models
from torchvision.models.vgg import VGG
from torchvision.models.vgg import make_layers as vgg_layers
from torchvision.models.vision_transformer import VisionTransformer

from benchkit.backbones import torchvision as component
from benchkit.backbones._imagenet import labels_of
from benchkit.backbones._torchvision_build import _converted, _load, known_weights
from benchkit.backbones._torchvision_layers import FAMILIES, TorchvisionBackbone, classifier_of, layers_of
from benchkit.backbones.base import Label, Preprocess, module_state_hash
from benchkit.errors import UsageError

SMALL = "shufflenet_v2_x0_5"  # 1.4 million parameters
# arch -> (side, strides of its layers, what turns the last map into the vector that the last linear part reads)
MEAN = {"resnet18", "densenet121", "efficientnet_b0", "googlenet", "mnasnet0_5", "regnet_y_400mf", SMALL, "swin_t"}
STAGES = {
    "resnet18": (64, (2, 4, 8, 16, 32)),
    "alexnet": (64, (4, 8, 16, 32)),
    "convnext_tiny": (64, (4, 8, 16, 32)),
    "densenet121": (64, (2, 4, 8, 16, 32)),
    "efficientnet_b0": (64, (2, 4, 8, 16, 32)),
    "googlenet": (64, (2, 4, 8, 16, 32)),
    "inception_v3": (107, (2, 4, 8, 16, 32)),
    "maxvit_t": (224, (2, 4, 8, 16, 32)),
    "mnasnet0_5": (64, (2, 4, 8, 16, 32)),
    "mobilenet_v2": (64, (2, 4, 8, 16, 32)),
    "mobilenet_v3_small": (64, (2, 4, 8, 16, 32)),
    "regnet_y_400mf": (64, (2, 4, 8, 16, 32)),
    SMALL: (64, (2, 8, 16, 32)),
    "squeezenet1_1": (64, (2, 4, 8, 16)),
    "swin_t": (64, (4, 8, 16, 32)),
    "swin_v2_t": (64, (4, 8, 16, 32)),
    "vgg11": (64, (1, 2, 4, 8, 16, 32)),
}
SLOW = {"maxvit_t", "vgg11", "alexnet", "inception_v3", "swin_v2_t", "densenet121"}


def marked(names: Any) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@functools.cache
def random_twin(arch: str, size: int = 64, seed: int = 0) -> TorchvisionBackbone:
    return component.build(component.Settings(arch=arch), random=True, size=size, seed=seed)


def images(rows: int, height: int, width: int | None = None) -> torch.Tensor:
    return torch.randn(rows, 3, height, width or height, generator=torch.Generator().manual_seed(0))


def every_key(backbone: TorchvisionBackbone) -> list[str]:
    layers = range(backbone.depth)
    return [f"{p}@final" for p in backbone.pools] + [f"{p}@{n}" for n in layers for p in backbone.inner_pools]


# --- families ---


def test_the_table_has_every_classification_family():
    modules = {models.get_model_builder(name).__module__.rpartition(".")[2] for name in models.list_models(models)}
    assert modules == FAMILIES.keys()


@pytest.mark.parametrize("arch", marked(STAGES))
def test_stages(arch: str):
    side, strides = STAGES[arch]
    backbone = random_twin(arch, side)
    net, image = backbone.net, images(2, side)
    kept = {}  # copies made while the net runs: parts that work in place may overwrite what they are given
    hooks = [
        net.get_submodule(name).register_forward_hook(lambda m, a, out, n=name: kept.setdefault(n, out.clone()))
        for name in {*backbone.layers, backbone.final}
    ]
    with torch.inference_mode():
        logits = net(image)
        for hook in hooks:
            hook.remove()
        features = backbone(image, every_key(backbone))
    assert torch.equal(features["logits@final"], logits)
    assert layers_of(net, 224)[1] == strides
    assert (backbone.layer_unit, backbone.own_pool, backbone.depth) == ("stage", "mean", len(strides))
    for number, name in enumerate(backbone.layers):
        kept_map = kept[name].permute(0, 3, 1, 2) if "swin" in arch else kept[name]
        assert torch.equal(features[f"patch@{number}"], kept_map)
        grid = features[f"patch@{number}"].shape[2]
        assert abs(grid - side / strides[number]) <= 1 + side / strides[number] / 8  # some convolutions do not pad
        torch.testing.assert_close(features[f"mean@{number}"], kept_map.mean((2, 3)))
    check_own(arch, net, features)


def check_own(arch: str, net: Any, features: dict[str, torch.Tensor]) -> None:
    """The pooled vector is what the last linear part reads, and comes from the last map by the model's own head."""
    last, own = features["patch@final"], features["mean@final"]
    with torch.inference_mode():
        if arch == "squeezenet1_1":  # classifies each cell, then pools
            torch.testing.assert_close(own, last.mean((2, 3)))
            torch.testing.assert_close(features["logits@final"], net.classifier(last).flatten(1))
            return
        torch.testing.assert_close(features["logits@final"], net.get_submodule(classifier_of(net))(own))
        if arch in MEAN or arch in ("mobilenet_v2", "inception_v3", "swin_v2_t"):
            torch.testing.assert_close(own, last.mean((2, 3)))
        elif arch == "maxvit_t":
            torch.testing.assert_close(own, net.classifier[:-1](last))
        elif arch == "convnext_tiny":
            torch.testing.assert_close(own, net.classifier[:-1](net.avgpool(last)))
            assert not torch.allclose(own, last.mean((2, 3)), atol=1e-2)  # the norm comes after the pooling
        else:
            torch.testing.assert_close(own, net.classifier[:-1](net.avgpool(last).flatten(1)))


def test_final_includes_what_follows_the_last_layer():
    """The head's convolution of EfficientNet, norm and ReLU of DenseNet, the norm of Swin."""
    for arch, width, last in (("efficientnet_b0", 1280, 320), ("mnasnet0_5", 1280, 160)):
        shapes = random_twin(arch).shapes(64, 64, ["patch@final", "patch@4"])
        assert (shapes["patch@final"][0], shapes["patch@4"][0]) == (width, last)
    swin = random_twin("swin_t")
    with torch.inference_mode():
        features = swin(images(1, 64), ["patch@final", "patch@3"])
    normed = swin.net.norm(features["patch@3"].permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    torch.testing.assert_close(features["patch@final"], normed)


@pytest.mark.slow
def test_densenets_final_map_is_after_its_relu():
    backbone = random_twin("densenet121")
    with torch.inference_mode():
        features = backbone(images(1, 64), ["patch@final", "patch@4"])
        normed = backbone.net.features.norm5(features["patch@4"])
    assert features["patch@final"].min() == 0 > normed.min()
    torch.testing.assert_close(features["patch@final"], normed.relu())


@pytest.mark.parametrize("arch", ["resnet18", "swin_t", "efficientnet_b0"])
def test_height_and_width_are_not_swapped(arch: str):
    backbone = random_twin(arch)
    plain = torch.zeros(1, 3, 96, 160)
    dot = plain.clone()
    dot[:, :, 32:64, 96:128] = 3.0  # row 1, column 3 of 3 x 5
    with torch.inference_mode():
        before, after = (backbone(image, ["patch@1", "patch@final"]) for image in (plain, dot))
    assert after["patch@final"].shape[2:] == (3, 5)
    change = (after["patch@1"] - before["patch@1"]).square().sum((0, 1))
    pooled = nn.functional.adaptive_avg_pool2d(change[None, None], (3, 5))[0, 0]
    assert np.unravel_index(int(pooled.argmax()), (3, 5)) == (1, 3)


def small_vit(size: int = 64, **more: Any) -> VisionTransformer:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = VisionTransformer(size, 16, 3, 3, 48, 96, num_classes=10, **more)
        for name, value in net.named_parameters():  # norms and head that do something
            if "ln" in name or "head" in name:
                nn.init.normal_(value, 1.0, 0.3)
    return net.eval()


def as_backbone(net: nn.Module, size: int = 64) -> TorchvisionBackbone:
    layers, strides = layers_of(net, size)
    return TorchvisionBackbone(net, "vit", Preprocess(size), layers, strides, classifier_of(net), True)


def test_vit_tokens_and_its_norm():
    backbone = as_backbone(small_vit())
    assert (backbone.depth, backbone.patch, backbone.stride, backbone.layer_unit) == (3, 16, 16, "block")
    assert (backbone.own_pool, backbone.can_norm) == ("cls", True)
    keys = [*every_key(backbone), "patch@2+norm", "cls@2+norm", "mean@2+norm"]
    with torch.inference_mode():
        features = backbone(images(2, 64), keys)
        net, image = backbone.net, images(2, 64)
        tokens = (
            torch.cat([net.class_token.expand(2, -1, -1), net._process_input(image)], 1) + net.encoder.pos_embedding
        )
        for block in range(3):
            tokens = net.encoder.layers[block](tokens)
            torch.testing.assert_close(features[f"cls@{block}"], tokens[:, 0])
            torch.testing.assert_close(features[f"patch@{block}"].flatten(2).transpose(1, 2), tokens[:, 1:])
        normed = net.encoder.ln(tokens)
        torch.testing.assert_close(features["logits@final"], net.heads(normed[:, 0]))
    torch.testing.assert_close(features["cls@final"], normed[:, 0])
    torch.testing.assert_close(features["mean@final"], normed[:, 1:].mean(1))
    torch.testing.assert_close(features["patch@final"].flatten(2).transpose(1, 2), normed[:, 1:])
    for pool in ("cls", "mean", "patch"):
        torch.testing.assert_close(features[f"{pool}@2+norm"], features[f"{pool}@final"])
        assert not torch.allclose(features[f"{pool}@2"], features[f"{pool}@final"], atol=1e-2)


@pytest.mark.slow
def test_vit_b_16_by_name():
    backbone = random_twin("vit_b_16")
    shapes = backbone.shapes(64, 64, ["cls@final", "patch@final", "patch@11", "logits@final"])
    assert shapes == {"cls@final": (768,), "patch@final": (768, 4, 4), "patch@11": (768, 4, 4), "logits@final": (1000,)}


# --- one forward, stopped early ---


def test_one_forward_that_ends_where_nothing_more_is_wanted():
    backbone = random_twin("resnet18")
    calls: dict[str, int] = {}
    parts = ("conv1", "layer2", "layer3", "fc")
    hooks = [
        backbone.net.get_submodule(n).register_forward_pre_hook(lambda *_, n=n: calls.update({n: calls.get(n, 0) + 1}))
        for n in parts
    ]
    try:
        with torch.inference_mode():
            early = backbone(images(1, 64), ["patch@2", "mean@1"])
            assert calls == {"conv1": 1, "layer2": 1}
            whole = backbone(images(1, 64), ["patch@2", "mean@1", "mean@final"])
            assert calls == {"conv1": 2, "layer2": 2, "layer3": 1, "fc": 1}
    finally:
        for hook in hooks:
            hook.remove()
    assert all(torch.equal(early[key], whole[key]) for key in early)


def test_nothing_is_kept_between_forwards_and_errors_are_not_swallowed():
    backbone = random_twin("resnet18")
    backbone(images(1, 64), ["patch@2"])
    assert backbone._taps._seen == {}
    with pytest.raises(RuntimeError, match="channels"):
        backbone(torch.zeros(1, 4, 64, 64), ["patch@2"])


@pytest.mark.slow
def test_compiled_it_gives_the_same():
    backbone = random_twin(SMALL)
    image = images(2, 64)
    with torch.inference_mode():
        plain = backbone(image, ["patch@1", "mean@final"])
        compiled = torch.compile(backbone, backend="eager")
        for keys in (["patch@1", "mean@final"], ["patch@1"]):
            given = compiled(image, keys)
            assert all(torch.allclose(given[key], plain[key], atol=1e-6) for key in keys)


# --- published weights: their transforms and names ---


@pytest.mark.parametrize("arch", models.list_models(module=models))
def test_every_published_weights_transforms_are_kept(arch: str):
    from benchkit.backbones._torchvision_build import preprocess_of

    for name in models.get_model_weights(arch).__members__:
        own = known_weights(arch, name).transforms()
        pre = preprocess_of(known_weights(arch, name), own.crop_size[0])
        assert int(pre.size / pre.crop_pct) == own.resize_size[0] >= own.crop_size[0]
        assert (list(pre.mean or ()), list(pre.std or ())) == (own.mean, own.std)
        assert pre.interpolation in ("bilinear", "bicubic")


def test_the_weights_say_size_and_names():
    twin = component.build(component.Settings(arch="resnet18"), random=True)
    assert twin.preprocess == Preprocess(224, "bilinear", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 0.875)
    assert known_weights("resnet50", None).name == "IMAGENET1K_V2"
    assert known_weights("resnet50", "ResNet50_Weights.IMAGENET1K_V1").transforms().resize_size == [256]
    assert known_weights("vit_b_16", "IMAGENET1K_SWAG_E2E_V1").transforms().crop_size == [384]
    with pytest.raises(UsageError, match="resnet50 has IMAGENET1K_V1, IMAGENET1K_V2"):
        known_weights("resnet50", "V3")


def test_labels_are_imagenets_by_name_and_wordnet_id():
    """torchvision's list of names agrees with the WordNet ids one by one: two of a thousand are spelt otherwise."""
    twin = component.build(component.Settings(arch="resnet18"), random=True, size=64)
    names = models.ResNet18_Weights.DEFAULT.meta["categories"]
    assert [label.names[0] for label in twin.labels] == names
    assert (twin.labels[0].wnid, twin.labels[217].wnid) == ("n01440764", "n02102040")
    assert {"English springer", "English springer spaniel"} <= set(twin.labels[217].names)
    info = ImageNetInfo("imagenet-1k")
    known = [{n.lower() for n in info.label_name_to_description(label.wnid).split(", ")} for label in twin.labels]
    assert sum(name.lower() not in synonyms for name, synonyms in zip(names, known, strict=True)) == 2
    assert len({label.wnid for label in twin.labels}) == 1000
    tens = component.build(component.Settings(arch="resnet18", extra_kwargs={"num_classes": 10}), random=True, size=64)
    assert tens.labels == ()
    assert "logits" in tens.pools


def test_names_in_imagenets_order_get_their_wordnet_ids():
    info = ImageNetInfo("imagenet-1k")
    names = [info.index_to_description(number) for number in range(1000)]  # "tench, Tinca tinca"
    assert labels_of(names)[0] == Label("n01440764", ("tench", "Tinca tinca"))
    assert {label.wnid for label in labels_of(names[::-1])} == {""}  # another order
    assert labels_of(names[:3])[2].wnid == ""
    assert labels_of(["a, b", "c"]) == (Label("", ("a", "b")), Label("", ("c",)))


def published_file(entry: Any, state: dict[str, Any], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that torch.hub would have downloaded."""
    monkeypatch.setenv("TORCH_HOME", str(home))
    (home / "hub" / "checkpoints").mkdir(parents=True)
    torch.save(state, home / "hub" / "checkpoints" / entry.url.rpartition("/")[2])


def test_published_weights_are_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trained = random_twin(SMALL, seed=5).net
    published_file(known_weights(SMALL, None), trained.state_dict(), tmp_path, monkeypatch)
    backbone = component.build(component.Settings(arch=SMALL))
    assert module_state_hash(backbone.net) == module_state_hash(trained)
    assert backbone.preprocess.size == 224
    assert len(backbone.labels) == 1000
    assert backbone.upstream.startswith("torchvision 0.")


def test_code_in_a_cached_file_never_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Evil:
        def __reduce__(self):
            return (Path(tmp_path / "made").touch, ())

    published_file(known_weights(SMALL, None), {"a": Evil()}, tmp_path, monkeypatch)
    with pytest.raises(UsageError, match="could not be had"):
        component.build(component.Settings(arch=SMALL))
    assert not (tmp_path / "made").exists()


def test_weights_out_of_reach_say_what_to_get_and_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def offline(*args: Any, **more: Any) -> None:
        raise OSError("no network")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    with pytest.raises(UsageError) as caught:
        component.build(component.Settings(arch=SMALL))
    said = str(caught.value)
    assert "\n" not in said
    assert "https://download.pytorch.org/models/shufflenetv2_x0.5" in said
    assert f"{tmp_path}/hub/checkpoints" in said
    assert "model.backbone.weights=IMAGENET1K_V1" in said


def test_a_classifier_of_nan_is_taken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """VGG16's IMAGENET1K_FEATURES: trained layers, and a classifier that holds NaN."""
    entry = models.VGG16_Weights.IMAGENET1K_FEATURES
    layers = [vgg_layers([8, "M", 8, "M", 16, "M", 16, "M", 16, "M"]) for _ in range(2)]
    nets = [VGG(layers[0], init_weights=False).eval()]
    nets[0].classifier = nn.Sequential(nn.Linear(16 * 49, 8), nn.ReLU(), nn.Linear(8, 1000))  # 4,096 wide in earnest
    nets.append(copy.deepcopy(nets[0]))
    nets[1].features = layers[1]
    for value in nets[0].classifier.parameters():
        nn.init.constant_(value, torch.nan)
    published_file(entry, nets[0].state_dict(), tmp_path, monkeypatch)
    loaded = _load(nets[1], entry, None, "name", 224)
    assert (loaded.classifier, loaded.logits) == (None, False)
    assert torch.equal(nets[1].features[0].weight, nets[0].features[0].weight)
    names, strides = layers_of(nets[1], 224)
    backbone = TorchvisionBackbone(nets[1], "vgg", Preprocess(), names, strides, *loaded[:2])
    assert backbone.pools == ("mean", "patch")
    with torch.inference_mode():
        features = backbone(images(1, 64), ["mean@final", "patch@final"])
    torch.testing.assert_close(features["mean@final"], features["patch@final"].mean((2, 3)))


# --- checkpoints ---


def saved(folder: Path, without: str = "nothing", arch: str = SMALL) -> str:
    state = random_twin(arch, seed=9).net.state_dict()
    torch.save({k: v for k, v in state.items() if not k.startswith(without)}, folder / "w.pth")
    return str(folder / "w.pth")


def test_checkpoint_gives_the_weights_it_holds(tmp_path: Path):
    backbone = component.build(component.Settings(arch=SMALL, checkpoint=saved(tmp_path)), size=64)
    assert module_state_hash(backbone.net) == module_state_hash(random_twin(SMALL, seed=9).net)
    assert "logits" in backbone.pools
    assert backbone.labels == ()  # nobody says what its thousand classes are
    said = component.Settings(arch=SMALL, checkpoint=saved(tmp_path), weights="IMAGENET1K_V1")
    assert component.build(said, size=64).labels[0].names[0] == "tench"


def test_missing_classifier_is_left_out_and_said(tmp_path: Path):
    path = saved(tmp_path, without="fc.")
    backbone = component.build(component.Settings(arch=SMALL, checkpoint=path, weights="DEFAULT"), size=64)
    assert backbone.pools == ("mean", "patch")
    assert backbone.labels == ()
    assert any("no classifier" in note for note in backbone.notes)
    assert not [name for name in backbone.net.state_dict() if name.startswith("fc")]
    with torch.inference_mode():
        ours, theirs = (b(images(1, 64), ["mean@final"]) for b in (backbone, random_twin(SMALL, seed=9)))
    assert torch.equal(ours["mean@final"], theirs["mean@final"])


def test_a_missing_layer_is_refused_by_name(tmp_path: Path):
    with pytest.raises(UsageError, match=r"leaves .*stage3\.0"):
        component.build(component.Settings(arch=SMALL, checkpoint=saved(tmp_path, without="stage3.0")), size=64)


def test_no_weights_at_all_is_an_error():
    with pytest.raises(UsageError, match="checkpoint=FILE"):
        component.build(component.Settings(arch=SMALL, pretrained=False))


def test_positions_are_resampled_as_torchvision_does():
    small, large = small_vit(64), small_vit(96)
    state = _converted(small.state_dict(), large, 96)
    assert state["encoder.pos_embedding"].shape == (1, 37, 48)
    large.load_state_dict(state)
    assert torch.equal(large.encoder.pos_embedding[:, 0], small.encoder.pos_embedding[:, 0])
    corners = small.encoder.pos_embedding[0, 1:].reshape(4, 4, 48), large.encoder.pos_embedding[0, 1:].reshape(6, 6, 48)
    torch.testing.assert_close(corners[0][0, -1], corners[1][0, -1])  # its corners stay where they are


def test_densenets_old_names_are_read():
    net = models.DenseNet(4, (1, 1, 1, 1), 8, num_classes=3)
    now = net.state_dict()
    old = {k.replace("norm1.", "norm.1.").replace("conv2.", "conv.2."): v for k, v in now.items()}
    assert old.keys() != now.keys()
    assert _converted(old, net, 64).keys() == now.keys()


# --- wrong usage ---


@pytest.mark.parametrize(
    ("arch", "said"),
    [("resnet_18", "resnet18"), ("fasterrcnn_resnet50_fpn", "another task"), ("", "not set"), ("zzzz", "list_models")],
)
def test_unknown_arch(arch: str, said: str):
    with pytest.raises(UsageError, match=said):
        component.build(component.Settings(arch=arch), random=True)


def test_sizes_that_do_not_fit():
    with pytest.raises(UsageError, match=r"use data\.size=48 or 64"):
        component.build(component.Settings(arch="vit_b_16"), random=True, size=60)
    with pytest.raises(UsageError, match=r"use data\.size=224 or 448"):
        component.build(component.Settings(arch="maxvit_t"), random=True, size=256)
    with pytest.raises(UsageError, match="crop or squash"):
        component.build(component.Settings(arch="vit_b_16"), random=True, pad=True)
    with pytest.raises(UsageError, match="its own size is 224"):
        component.build(component.Settings(arch="squeezenet1_1"), random=True, size=4)
    with pytest.raises(UsageError, match="extra_kwargs"):
        component.build(component.Settings(arch=SMALL, extra_kwargs={"depth": 3}), random=True)


def test_random_twin_depends_on_its_seed_alone():
    def state(seed: int) -> str:
        return module_state_hash(component.build(component.Settings(arch=SMALL), random=True, size=64, seed=seed).net)

    torch.manual_seed(1)
    first = state(3)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert state(3) == first
    assert torch.equal(torch.get_rng_state(), before)
    assert state(4) != first
