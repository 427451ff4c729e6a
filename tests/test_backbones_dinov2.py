"""DINOv2 by its authors' code: whose code runs, its layers, and that timm's copies give the same."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchkit.backbones import dinov2 as component
from benchkit.backbones import timm as timm_component
from benchkit.backbones._dinov2_build import code_folder
from benchkit.backbones.base import Backbone, Preprocess, module_state_hash
from benchkit.errors import UsageError

SMALL = Path(__file__).parent / "hub_repo"
CACHED = code_folder(component.Settings())
upstream_code = pytest.mark.skipif(not CACHED.is_dir(), reason=f"torch.hub's cache has no {CACHED.name}")


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A repository of its own, to be changed."""
    return Path(shutil.copytree(SMALL, tmp_path / "repo", ignore=shutil.ignore_patterns("__pycache__")))


def small(arch: str = "dinov2_vits14", repo: Path = SMALL, **more: Any) -> Backbone:
    settings = component.Settings(arch=arch, repo=str(repo))
    return component.build(settings, **{"random": True, "size": 56, **more})


def images(rows: int, height: int, width: int | None = None) -> torch.Tensor:
    return torch.randn(rows, 3, height, width or height, generator=torch.Generator().manual_seed(0))


# --- layers ---


@pytest.mark.parametrize("arch", ["dinov2_vits14", "dinov2_vits14_reg"])
def test_layers_and_final(arch: str):
    backbone = small(arch)
    assert (backbone.depth, backbone.patch, backbone.stride, backbone.own_pool) == (3, 14, 14, "cls")
    keys = [f"{p}@{n}" for p in ("cls", "mean", "patch") for n in ("final", 1, "2", "2+norm")]
    image = images(2, 28, 56)
    with torch.inference_mode():
        features = backbone(image, keys)
        (raw, cls), (last, last_cls) = backbone.net.get_intermediate_layers(image, [1, 2], True, True, False)
        normed = backbone.net.norm(last.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        torch.testing.assert_close(features["cls@final"], backbone.net.norm(last_cls))
    assert features["patch@final"].shape == (2, 16, 2, 4)
    assert torch.equal(features["patch@1"], raw)
    assert torch.equal(features["cls@1"], cls)
    assert torch.equal(features["patch@2"], last)
    torch.testing.assert_close(features["patch@final"], normed)
    torch.testing.assert_close(features["mean@final"], normed.mean((2, 3)))
    for pool in ("cls", "mean", "patch"):
        torch.testing.assert_close(features[f"{pool}@2+norm"], features[f"{pool}@final"])


def test_preprocessing_is_that_of_its_evaluations():
    assert component.build(component.Settings(repo=str(SMALL)), random=True).preprocess == Preprocess(224)
    assert small().preprocess.size == 56
    with pytest.raises(UsageError, match=r"use data\.size=56 or 70"):
        small(size=60)


# --- whose code runs ---


def test_the_code_is_part_of_the_identity_and_its_place_is_not(copied: Path):
    before = small().upstream
    assert component.COMMIT in before
    assert small(repo=copied).upstream == before
    for name in ("dinov2/layers.py", "hubconf.py"):
        text = (copied / name).read_text()
        (copied / name).write_text(text + "\n# changed\n")
        assert small(repo=copied).upstream != before
        (copied / name).write_text(text.replace("\n", "\r\n"), newline="")
        assert small(repo=copied).upstream == before


def test_two_repositories_in_one_process_run_their_own_code(copied: Path):
    models = copied / "dinov2/models.py"
    models.write_text(models.read_text().replace("14, 14)", "7, 7)").replace("= 14, 3", "= 7, 3"))
    assert [small().patch, small(repo=copied).patch, small().patch] == [14, 7, 14]


def test_attention_is_torchs_own_and_the_environment_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("XFORMERS_DISABLED", raising=False)
    assert small().net.xformers is False
    assert "XFORMERS_DISABLED" not in os.environ
    monkeypatch.setenv("XFORMERS_DISABLED", "0")
    small()
    assert os.environ["XFORMERS_DISABLED"] == "0"
    assert str(SMALL) not in sys.path


def test_arguments_reach_the_entry():
    settings = component.Settings(repo=str(SMALL), extra_kwargs={"width": 8})
    assert component.build(settings, random=True, size=28).shapes(28, 28, ["cls@final"]) == {"cls@final": (8,)}
    with pytest.raises(UsageError, match=r"cannot make dinov2_vits14 with \{'depth': 3\}.*extra_kwargs"):
        component.build(component.Settings(repo=str(SMALL), extra_kwargs={"depth": 3}), random=True)


def test_what_is_no_backbone_or_no_checkout(tmp_path: Path):
    with pytest.raises(UsageError, match=r"cannot make dinov2_vitx14 .*vitg14"):
        small("dinov2_vitx14")
    with pytest.raises(UsageError, match="no layers"):
        small("classifier")
    with pytest.raises(UsageError, match=r"no hubconf\.py"):
        small(repo=tmp_path)
    with pytest.raises(UsageError, match="all 40 digits"):
        component.build(component.Settings(commit="main"), random=True)


def test_code_out_of_reach_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def offline(*args: Any, **more: Any) -> None:
        raise OSError("no network")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    with pytest.raises(UsageError) as caught:
        component.build(component.Settings(), random=True)
    said = str(caught.value)
    assert "\n" not in said
    assert f"git -C dinov2 checkout {component.COMMIT}" in said
    assert "model.backbone.repo=FOLDER" in said


# --- weights ---


def test_random_twin_depends_on_its_seed_alone():
    torch.manual_seed(1)
    first = module_state_hash(small(seed=3))
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert module_state_hash(small(seed=3)) == first
    assert torch.equal(torch.get_rng_state(), before)
    assert module_state_hash(small(seed=4)) != first


def test_checkpoint_of_a_training_run_is_unwrapped(tmp_path: Path):
    """As DINOv2's training saves it: the teacher, its backbone among heads, blocks in chunks."""
    trained = small(seed=9).net
    names = {k: k.replace("blocks.", "blocks.0.") for k in trained.state_dict()}
    inner = {f"backbone.{names[k]}": v for k, v in trained.state_dict().items()}
    torch.save({"teacher": {**inner, "dino_head.weight": torch.zeros(3)}}, tmp_path / "teacher.pth")
    settings = component.Settings(repo=str(SMALL), checkpoint=str(tmp_path / "teacher.pth"))
    backbone = component.build(settings, size=56)
    assert module_state_hash(backbone.net) == module_state_hash(trained)
    assert "'teacher'" in " ".join(backbone.notes)
    torch.save({k: v for k, v in trained.state_dict().items() if "blocks.1" not in k}, tmp_path / "teacher.pth")
    with pytest.raises(UsageError, match=r"leaves .*blocks\.1\."):
        component.build(settings, size=56)


def test_published_weights_are_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    trained = small("dinov2_vits14_reg", seed=9).net
    torch.save(trained.state_dict(), tmp_path / "hub" / "checkpoints" / "dinov2_vits14_reg4_pretrain.pth")
    settings = component.Settings(arch="dinov2_vits14_reg", repo=str(SMALL))
    assert module_state_hash(component.build(settings, size=56).net) == module_state_hash(trained)


def test_weights_out_of_reach_say_what_to_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def offline(*args: Any, **more: Any) -> None:
        raise OSError("no network")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    settings = component.Settings(arch="dinov2_vits14_reg", repo=str(SMALL))
    with pytest.raises(UsageError, match=r"dinov2_vits14/dinov2_vits14_reg4_pretrain\.pth.*checkpoint=FILE"):
        component.build(settings)
    with pytest.raises(UsageError, match="checkpoint=FILE"):
        component.build(component.Settings(repo=str(SMALL), pretrained=False))


# --- upstream's own code, where torch.hub has it ---


@upstream_code
@pytest.mark.parametrize("arch", ["dinov2_vits14", "dinov2_vits14_reg"])
def test_upstreams_layers_and_final(arch: str):
    backbone = component.build(component.Settings(arch=arch), random=True, size=56)
    net, image = backbone.net, images(2, 56, 84)
    with torch.inference_mode():
        features = backbone(image, ["cls@final", "patch@final", "mean@final", "patch@7", "cls@3"])
        whole = net.forward_features(image)
        assert torch.equal(features["cls@final"], net(image))
        tokens = net.prepare_tokens_with_masks(image)
        for number, block in enumerate(net.blocks):
            tokens = block(tokens)
            if number == 3:
                assert torch.equal(features["cls@3"], tokens[:, 0])
            if number == 7:
                rows = features["patch@7"].flatten(2).transpose(1, 2)
                assert torch.equal(rows, tokens[:, 1 + net.num_register_tokens :])
    patches = whole["x_norm_patchtokens"]
    assert patches.shape[1] == 4 * 6
    assert torch.equal(features["patch@final"].flatten(2).transpose(1, 2), patches)
    torch.testing.assert_close(features["mean@final"], patches.mean(1))


@upstream_code
@pytest.mark.parametrize(
    ("arch", "copy"),
    [
        ("dinov2_vits14", "vit_small_patch14_dinov2.lvd142m"),
        ("dinov2_vits14_reg", "vit_small_patch14_reg4_dinov2.lvd142m"),
    ],
)
def test_timms_copy_gives_the_same(arch: str, copy: str, tmp_path: Path):
    """The same weights, converted by timm, at the grid they are made for, where nothing is resampled."""
    settings = component.Settings(arch=arch, extra_kwargs={"img_size": 56})
    ours = component.build(settings, random=True, size=56)
    with torch.no_grad():
        torch.manual_seed(0)
        for name, value in ours.net.named_parameters():
            if "gamma" in name or "token" in name or name.endswith("bias"):  # all of them 1, or near 0, at the start
                value.add_(0.3 * torch.randn_like(value))
    torch.save(ours.net.state_dict(), tmp_path / "upstream.pth")
    theirs = timm_component.build(
        timm_component.Settings(arch=copy, checkpoint=str(tmp_path / "upstream.pth")), size=56
    )
    keys = ["cls@final", "mean@final", "patch@final", "patch@7", "cls@3", "cls@3+norm"]
    with torch.inference_mode():
        here, there = ours(images(3, 56), keys), theirs(images(3, 56), keys)
    for key in keys:
        torch.testing.assert_close(here[key], there[key], rtol=1e-5, atol=1e-5)


@pytest.mark.hub
def test_the_published_small_model_runs():
    backbone = component.build(component.Settings())
    assert backbone.shapes(224, 224, ["cls@final", "patch@11"]) == {"cls@final": (384,), "patch@11": (384, 16, 16)}
