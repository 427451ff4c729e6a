"""open_clip backbones over tiny models of every kind: towers, projections, text, activation, sizes, weights."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

import open_clip
import pytest
import torch
from open_clip import pretrained as tables
from torch import nn

from benchkit.backbones import open_clip as component
from benchkit.backbones._open_clip_tags import preprocess_of, trained_with
from benchkit.backbones.base import Backbone, module_state_hash
from benchkit.conf.build import build as build_conf
from benchkit.errors import UsageError
from benchkit.export.model import LoadedModel
from benchkit.features import plan_keys

VIT = {"image_size": 64, "layers": 3, "width": 32, "head_width": 16, "patch_size": 16}
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
TRUNK = {"image_size": 160, "timm_model_name": "test_vit"}  # of 16-pixel patches and 64 channels
WORDS = ["a", "photo", "of", "dog", "cat"]
CONFIGS = {
    "tiny-vit": {"vision_cfg": VIT},
    "tiny-vit-quickgelu": {"vision_cfg": VIT, "quick_gelu": True},
    "tiny-average": {"vision_cfg": {**VIT, "pool_type": "avg", "final_ln_after_pool": True, "no_ln_pre": True}},
    "tiny-coca": {
        "vision_cfg": {**VIT, "attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True},
        "text_cfg": {**TEXT, "embed_cls": True, "output_tokens": True, "context_length": 76},
        "multimodal_cfg": {"context_length": 76, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
        "custom_text": True,
    },
    "tiny-resnet": {"vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None}},
    "tiny-siglip": {
        "vision_cfg": {**TRUNK, "timm_pool": "map", "timm_proj": "none"},
        "text_cfg": {**TEXT, "context_length": 16, "vocab_size": 300, "pool_type": "last", "no_causal_mask": True},
        "embed_dim": 64,
        "init_logit_bias": -10,
        "custom_text": True,
    },
    "tiny-eva": {"vision_cfg": {**TRUNK, "timm_pool": "token", "timm_proj": None}, "custom_text": True},
    "tiny-convnext": {
        "vision_cfg": {"image_size": 160, "timm_model_name": "test_convnext", "timm_pool": "", "timm_proj": "linear"}
    },
}
# arch -> own pool, pools, inner pools, layer unit, depth, stride, side of the grid
SHAPES = {
    "tiny-vit": ("cls", "cls mean patch proj", "cls mean patch", "block", 3, 16, 4),
    "tiny-vit-quickgelu": ("cls", "cls mean patch proj", "cls mean patch", "block", 3, 16, 4),
    "tiny-average": ("mean", "cls mean patch proj", "cls mean patch", "block", 3, 16, 4),
    "tiny-coca": ("attn", "cls mean attn patch proj", "cls mean patch", "block", 3, 16, 4),
    "tiny-resnet": ("mean", "mean patch proj", "mean patch", "stage", 5, 32, 2),
    "tiny-siglip": ("attn", "cls mean attn patch proj", "cls mean patch", "block", 6, 16, 10),
    "tiny-eva": ("cls", "cls mean patch proj", "cls mean patch", "block", 6, 16, 10),
    "tiny-convnext": ("mean", "mean patch proj", "mean patch", "stage", 4, 32, 5),
}
PROMPTS = ["a photo of a dog", "a photo of a cat", "a dog"]


@pytest.fixture(scope="module", autouse=True)
def _configs(tmp_path_factory: pytest.TempPathFactory):
    """The tiny models among open_clip's own; SigLIP's with a tokenizer of five words, from files."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("configs")
    for name, config in CONFIGS.items():
        config = {"embed_dim": 16, "text_cfg": TEXT, **config}
        if name == "tiny-siglip":
            config["text_cfg"] = {**config["text_cfg"], "hf_tokenizer_name": str(_tokenizer(folder / "tokenizer"))}
        (folder / f"{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)


def _tokenizer(folder: Path) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, **{w: i + 2 for i, w in enumerate(WORDS)}}, "[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    return folder


def small(arch: str, **more) -> Backbone:
    settings = {key: more.pop(key) for key in ("weights", "checkpoint", "pretrained") if key in more}
    how = {"random": "checkpoint" not in settings and "pretrained" not in settings, **more}
    return component.build(component.Settings(arch=arch, **settings), **how)


def trained(arch: str, folder: Path) -> Backbone:
    """The random model as if it had been trained: from a file of its weights, with the tokenizer of its own."""
    torch.save(small(arch).net.state_dict(), folder / f"{arch}.pt")
    return small(arch, checkpoint=str(folder / f"{arch}.pt"))


def images(rows: int, side: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, 3, side, side, generator=torch.Generator().manual_seed(seed))


def outputs_of(module: nn.Module) -> list[torch.Tensor]:
    """What the module returns from now on."""
    seen: list[torch.Tensor] = []
    module.register_forward_hook(lambda m, a, out: seen.append(out))
    return seen


# --- towers ---


@pytest.mark.parametrize("arch", CONFIGS)
def test_contract(arch):
    own, pools, inner, unit, depth, stride, grid = SHAPES[arch]
    backbone = small(arch)
    found = (backbone.own_pool, " ".join(backbone.pools), " ".join(backbone.inner_pools))
    assert found == (own, pools, inner)
    assert (backbone.layer_unit, backbone.depth, backbone.stride) == (unit, depth, stride)
    assert backbone.patch == (stride if unit == "block" else None)
    image = images(2, backbone.preprocess.size)
    keys = [f"{pool}@final" for pool in backbone.pools]
    keys += [f"{pool}@{n}" for pool in backbone.inner_pools for n in (depth - 1, 1)]
    keys += [f"{pool}@1+norm" for pool in backbone.inner_pools if backbone.can_norm]
    calls = outputs_of(next(m for m in backbone.net.visual.modules() if isinstance(m, nn.Conv2d)))
    with torch.inference_mode():
        features = backbone(image, keys)
        assert len(calls) == 1
        torch.testing.assert_close(features["proj@final"], backbone.net.encode_image(image, normalize=False))
    assert features["patch@final"].shape[2:] == (grid, grid)
    assert list(features) == keys
    assert all(value.dtype == torch.float32 and len(value) == 2 for value in features.values())
    torch.testing.assert_close(features["mean@1"], features["patch@1"].mean((2, 3)))
    assert list(map(str, plan_keys("final", "default", False, "pool", backbone))) == [f"{own}@final"]


@pytest.mark.parametrize("arch", ["tiny-vit", "tiny-resnet", "tiny-siglip"])
def test_inner_layers_are_the_same_with_and_without_final(arch):
    backbone = small(arch)
    image = images(2, backbone.preprocess.size)
    with torch.inference_mode():
        alone = backbone(image, ["patch@1"])["patch@1"]
        beside = backbone(image, ["proj@final", "patch@1"])["patch@1"]
    assert torch.equal(alone, beside)


@pytest.mark.parametrize("arch", ["tiny-vit", "tiny-coca"])
def test_blocks_are_read_without_the_class_token(arch):
    backbone = small(arch)
    blocks = [outputs_of(block) for block in backbone.net.visual.transformer.resblocks]
    with torch.inference_mode():
        features = backbone(images(2, 64), ["cls@0", "patch@0", "mean@2", "cls@final", "patch@final", "mean@final"])
        tokens = [seen[0] for seen in blocks]
        last = tokens[2] if arch == "tiny-coca" else backbone.net.visual.ln_post(tokens[2])
    torch.testing.assert_close(features["cls@0"], tokens[0][:, 0])
    torch.testing.assert_close(features["patch@0"], tokens[0][:, 1:].transpose(1, 2).reshape(2, 32, 4, 4))
    torch.testing.assert_close(features["mean@2"], tokens[2][:, 1:].mean(1))
    torch.testing.assert_close(features["patch@final"], last[:, 1:].transpose(1, 2).reshape(2, 32, 4, 4))
    torch.testing.assert_close(features["mean@final"], last[:, 1:].mean(1))
    torch.testing.assert_close(features["cls@final"], last[:, 0])


def test_the_class_token_times_the_projection_is_proj():
    backbone = small("tiny-vit")
    with torch.inference_mode():
        features = backbone(images(2, 64), ["cls@final", "proj@final", "cls@2+norm"])
        torch.testing.assert_close(features["cls@final"] @ backbone.net.visual.proj, features["proj@final"])
    torch.testing.assert_close(features["cls@2+norm"], features["cls@final"])
    assert features["cls@final"].shape == (2, 32)
    assert features["proj@final"].shape == (2, 16)


def test_siglips_pooled_vector_is_its_projection():
    backbone = small("tiny-siglip")
    with torch.inference_mode():
        features = backbone(images(2, 160), ["attn@final", "proj@final", "cls@final"])
    assert torch.equal(features["attn@final"], features["proj@final"])
    assert not torch.allclose(features["cls@final"], features["proj@final"])


@pytest.mark.parametrize("arch", ["tiny-vit", "tiny-siglip", "tiny-resnet"])
def test_height_and_width_are_not_swapped(arch):
    backbone = small(arch)
    size, cell = backbone.preprocess.size, backbone.stride
    plain = torch.zeros(1, 3, size, size)
    dot = plain.clone()
    inner = slice(cell // 4, 3 * cell // 4)
    dot[:, :, :cell, cell : 2 * cell][:, :, inner, inner] = 3.0  # row 0, column 1
    with torch.inference_mode():
        before, after = (backbone(image, ["patch@0"])["patch@0"] for image in (plain, dot))
    grid = size // cell
    change = nn.functional.adaptive_avg_pool2d((after - before).square().sum(1), (grid, grid))
    assert int(change.argmax()) == 1


# --- text ---


@pytest.mark.parametrize("arch", ["tiny-vit", "tiny-coca", "tiny-siglip", "tiny-eva"])
def test_text_is_the_models_own(arch, tmp_path):
    backbone = trained(arch, tmp_path)
    tokens = open_clip.get_tokenizer(arch)(PROMPTS)
    with torch.inference_mode():
        ours = backbone.text(PROMPTS)
        torch.testing.assert_close(ours, backbone.net.encode_text(tokens, normalize=False))
        torch.testing.assert_close(backbone.text(PROMPTS[1:2])[0], ours[1])
    context = CONFIGS[arch].get("text_cfg", TEXT)["context_length"]
    assert tokens.shape == (3, context)
    assert ours.shape[1] == backbone.shapes(*[backbone.preprocess.size] * 2, ["proj@final"])["proj@final"][0]
    assert not torch.allclose(ours.norm(dim=1), torch.ones(3), atol=0.01)


def test_siglips_tokenizer_reads_its_own_words(tmp_path):
    tokens = trained("tiny-siglip", tmp_path).tokenizer(PROMPTS)
    assert tokens[0].tolist() == [2, 3, 4, 2, 5] + [0] * 11  # no end-of-text of CLIP's, padded to 16


def test_a_random_twin_reads_bytes_where_its_words_are_a_hubs(tmp_path):
    """a is 97; no word list means anything to random weights, and none has to be fetched. CLIP's comes with the library."""
    twin = small("tiny-siglip")
    assert twin.tokenizer(["a é"])[0].tolist() == [98, 33, 196, 170] + [0] * 12
    assert twin.tokenizer(["x" * 99]).shape == (1, 16)
    assert "prompts as bytes" in twin.upstream
    assert "prompts as bytes" not in small("tiny-vit").upstream
    assert "prompts as bytes" not in trained("tiny-siglip", tmp_path).upstream
    with torch.inference_mode():
        assert twin.text(PROMPTS).shape == (3, 64)


def test_scale_and_bias_are_those_of_the_logits(tmp_path):
    clip, siglip = small("tiny-vit"), trained("tiny-siglip", tmp_path)
    assert clip.logit_scale == pytest.approx(1 / 0.07)
    assert clip.logit_bias is None
    assert (siglip.logit_scale, siglip.logit_bias) == (pytest.approx(1 / 0.07), -10.0)
    with torch.inference_mode():
        siglip.net.logit_scale.fill_(torch.tensor(117.0).log())
        other = component.build(component.Settings(arch="tiny-siglip"), random=True)
        image = images(1, 160)
        logits = siglip.net.get_logits(image, siglip.tokenizer(PROMPTS))[0]
        cosine = nn.functional.cosine_similarity(siglip(image, ["proj@final"])["proj@final"], siglip.text(PROMPTS))
    torch.testing.assert_close(logits[0], 117.0 * cosine - 10.0)
    assert other.logit_scale == pytest.approx(1 / 0.07)


def test_a_tokenizer_out_of_reach_is_one_paragraph_and_soon(tmp_path):
    config = {"embed_dim": 16, "vision_cfg": VIT, "text_cfg": {**TEXT, "hf_tokenizer_name": "nobody-f31a/no-such-one"}}
    (tmp_path / "tiny-far.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / "tiny-far.json")
    backbone = trained("tiny-far", tmp_path)
    started = time.monotonic()
    with pytest.raises(
        UsageError, match=r"tokenizer of tiny-far could not be had.*fetch_models.*reads no text"
    ) as found:
        backbone.text(PROMPTS)
    assert time.monotonic() - started < 15
    assert "\n" not in str(found.value)
    assert backbone.shapes(64, 64, ["proj@final"]) == {"proj@final": (16,)}  # images need none


# --- activation ---


def test_quickgelu_is_another_function():
    quick, plain = small("tiny-vit-quickgelu"), small("tiny-vit")
    plain.net.load_state_dict(quick.net.state_dict())
    assert module_state_hash(quick) == module_state_hash(plain)  # the weights do not say it
    image = images(2, 64)
    for net, name, by_hand in ((quick, "QuickGELU", lambda x: x * torch.sigmoid(1.702 * x)), (plain, "GELU", _gelu)):
        mlp = net.net.visual.transformer.resblocks[1].mlp
        before, after = outputs_of(mlp.c_fc), outputs_of(mlp.gelu)
        with torch.inference_mode():
            net(image, ["cls@final"])
        assert type(mlp.gelu).__name__ == name
        torch.testing.assert_close(after[0], by_hand(before[0]))
    with torch.inference_mode():
        ours, theirs = (net(image, ["proj@final"])["proj@final"] for net in (quick, plain))
        assert (ours - theirs).abs().max() > 1e-4
        texts = [net.text(PROMPTS) for net in (quick, plain)]
    assert (texts[0] - texts[1]).abs().max() > 1e-4


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return x * (1 + torch.erf(x / 2**0.5)) / 2


@pytest.mark.parametrize(
    ("arch", "tag", "match"),
    [
        ("ViT-B-32", "openai", r"has GELU.*openai were trained with QuickGELU: use .*arch=ViT-B-32-quickgelu"),
        ("RN50", "openai", r"use model\.backbone\.arch=RN50-quickgelu"),
        ("RN50", None, r"use model\.backbone\.arch=RN50-quickgelu"),
        ("ViT-B-32", None, r"weights=TAG.*quick_gelu are the file's"),
        ("ViT-L-14", None, r"mean and std and quick_gelu"),
        ("ViT-B-32-quickgelu", "laion2b_s34b_b79k", r"belongs to model\.backbone\.arch=ViT-B-32\."),
        ("ViT-B-32", "laion", r"no such weights of ViT-B-32; its tags are openai, .* and 16 more"),
        ("tiny-vit", "openai", r"it has no published weights"),
        ("ViT-B/32", "openai", r"did you mean ViT-B-32"),
        ("", None, r"arch=\(not set\)"),
    ],
)
@pytest.mark.parametrize("random", [False, True])
def test_what_cannot_be_right_is_refused(arch, tag, match, random):
    with pytest.raises(UsageError, match=match):
        component.build(component.Settings(arch=arch, weights=tag), random=random)


@pytest.mark.parametrize("pair", open_clip.list_pretrained(), ids=":".join)
def test_a_tag_runs_with_its_own_activation_alone(pair):
    """Whatever passes has the activation that the table says; what is refused names an architecture that passes."""
    arch, tag = pair
    quick = bool(open_clip.get_pretrained_cfg(arch, tag).get("quick_gelu")) or arch == "roberta-ViT-B-32"
    try:
        trained_with(arch, tag)
    except UsageError as error:
        arch = str(error).rpartition("arch=")[2].rstrip(".")
        trained_with(arch, tag)
    assert bool(open_clip.get_model_config(arch).get("quick_gelu")) == quick


def test_a_conf_that_pairs_them_wrong_stops_and_the_identity_tells_them_apart(tmp_path, monkeypatch):
    quick = small("tiny-vit-quickgelu")
    torch.save(quick.net.state_dict(), tmp_path / "w.pt")
    entry = {"file": str(tmp_path / "w.pt"), "quick_gelu": True}
    for arch in ("tiny-vit", "tiny-vit-quickgelu"):
        monkeypatch.setitem(tables._PRETRAINED, arch, {"openai": entry})
    told = ["model.backbone.name=open_clip", "model.backbone.arch=tiny-vit", "model.backbone.weights=openai"]
    with pytest.raises(UsageError, match=r"use model\.backbone\.arch=tiny-vit-quickgelu"):
        LoadedModel(build_conf(None, "retrieval", told))
    monkeypatch.delitem(tables._PRETRAINED, "tiny-vit")
    file = [told[0], f"model.backbone.checkpoint={tmp_path / 'w.pt'}"]
    plain = LoadedModel(build_conf(None, "retrieval", [*file, "model.backbone.arch=tiny-vit"]))
    good = LoadedModel(build_conf(None, "retrieval", [*file, "model.backbone.arch=tiny-vit-quickgelu"]))
    assert plain.weights == good.weights
    assert plain.identity_hash != good.identity_hash
    changed = {key for key in good.identity if good.identity[key] != plain.identity[key]}
    assert changed == {"architecture", "upstream"}
    # A file named beside the tag, or the tag's own: the same model, and the same bank.
    named = [*told[:1], "model.backbone.arch=tiny-vit-quickgelu", told[2]]
    same = [LoadedModel(build_conf(None, "retrieval", [*named, *more])).identity for more in ((), file[1:])]
    assert same[0] == same[1] == good.identity


# --- preprocessing ---


@pytest.mark.parametrize(
    ("arch", "tag", "resize", "mean"),
    [
        ("ViT-B-16", "laion2b_s34b_b88k", "crop", 0.48145466),
        ("ViT-L-14", "laion2b_s32b_b82k", "crop", 0.5),
        ("ViT-B-16-SigLIP", None, "squash", 0.5),
        ("ViT-B-16-SigLIP2", "webli", "squash", 0.5),
        ("MobileCLIP-S1", "datacompdr", "crop", 0.0),
    ],
)
def test_preprocessing_is_that_of_the_weights(arch, tag, resize, mean):
    found = preprocess_of(arch, tag)
    assert (found.resize, found.mean[0], found.crop_pct) == (resize, mean, 1.0)
    assert found.interpolation == ("bilinear" if arch.startswith("Mobile") else "bicubic")


def test_the_models_resize_holds_until_somebody_says_another():
    def preprocess(*arguments: str):
        told = ["model.backbone.name=open_clip", "model.backbone.arch=tiny-siglip", "model.random=true", *arguments]
        return LoadedModel(build_conf(None, "retrieval", told))

    own = preprocess()
    assert own.preprocess.resize == "crop"  # open_clip's own for a model without weights
    assert preprocess("data.resize=squash").preprocess.resize == "squash"
    assert preprocess("data.resize=crop").identity_hash == own.identity_hash


def test_squash_is_the_default_of_siglip(monkeypatch):
    monkeypatch.setitem(tables._PRETRAINED, "tiny-siglip", {"webli": tables._slpcfg()})
    told = ["model.backbone.name=open_clip", "model.backbone.arch=tiny-siglip", "model.backbone.weights=webli"]
    told.append("model.random=true")
    for more, resize, short in (
        ([], "squash", 160),
        (["data.resize=crop"], "crop", 160),
        (["data.resize_short=200"], "crop", 200),
    ):
        made = LoadedModel(build_conf(None, "retrieval", [*told, *more])).preprocess
        assert (made.resize, made.short, made.mean) == (resize, short, (0.5, 0.5, 0.5))


# --- sizes ---


def test_positions_are_resampled_for_another_size(tmp_path):
    trained = small("tiny-vit", seed=1).net
    torch.save(trained.state_dict(), tmp_path / "w.pt")
    backbone = small("tiny-vit", checkpoint=str(tmp_path / "w.pt"), size=96)
    own, ours = trained.visual.positional_embedding, backbone.net.visual.positional_embedding
    grid = own[1:].reshape(1, 4, 4, 32).permute(0, 3, 1, 2)
    wanted = nn.functional.interpolate(grid, size=(6, 6), mode="bicubic", antialias=True)
    torch.testing.assert_close(ours[1:], wanted.permute(0, 2, 3, 1).reshape(36, 32))
    assert torch.equal(ours[0], own[0])
    assert backbone.preprocess.size == 96
    assert backbone.shapes(96, 96, ["patch@final"]) == {"patch@final": (32, 6, 6)}


@pytest.mark.parametrize(
    ("arch", "size", "grid"), [("tiny-siglip", 96, 6), ("tiny-convnext", 96, 3), ("tiny-vit", 32, 2)]
)
def test_other_sizes_get_their_grid(arch, size, grid, tmp_path):
    torch.save(small(arch, seed=1).net.state_dict(), tmp_path / "w.pt")
    for backbone in (small(arch, size=size), small(arch, checkpoint=str(tmp_path / "w.pt"), size=size)):
        features = backbone(images(1, size), ["patch@final", "proj@final"])
        assert features["patch@final"].shape[2:] == (grid, grid)
        torch.testing.assert_close(features["proj@final"], backbone.net.encode_image(images(1, size), normalize=False))


@pytest.mark.parametrize(
    ("arch", "size", "match"),
    [
        ("tiny-vit", 60, r"no multiple of tiny-vit's 16-pixel grid: use data\.size=48 or 64"),
        ("tiny-siglip", 90, r"use data\.size=80 or 96"),
        ("tiny-resnet", 96, r"positions for images of 64 pixels only: use data\.size=64"),
    ],
)
def test_sizes_that_do_not_fit_name_good_ones(arch, size, match):
    with pytest.raises(UsageError, match=match):
        small(arch, size=size)


def test_many_shapes_are_refused():
    with pytest.raises(UsageError, match="use crop or squash"):
        small("tiny-vit", pad=True)


# --- weights ---


def test_random_twin_depends_on_its_seed_alone():
    torch.manual_seed(5)
    state, root = torch.get_rng_state(), list(logging.getLogger().handlers)
    hashes = [module_state_hash(small("tiny-siglip", seed=seed)) for seed in (0, 0, 1)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert torch.equal(torch.get_rng_state(), state)
    assert logging.getLogger().handlers == root


def test_weights_out_of_reach_say_how_to_get_them(monkeypatch):
    monkeypatch.setitem(tables._PRETRAINED, "tiny-vit", {"far": tables._pcfg(hf_hub="nobody-f31a/no-such-one/")})
    started = time.monotonic()
    with pytest.raises(UsageError, match=r"weights far of tiny-vit could not be had.*checkpoint=FILE") as found:
        small("tiny-vit", weights="far", pretrained=True)
    assert time.monotonic() - started < 15
    assert "\n" not in str(found.value)
    for settings in ({"pretrained": True, "weights": None}, {"pretrained": False, "weights": "far"}):
        with pytest.raises(UsageError, match=r"tiny-vit has no weights: name a tag with .*weights=TAG \(far\)"):
            small("tiny-vit", **settings)


def test_published_weights_and_a_file_give_what_they_hold(tmp_path, monkeypatch):
    first, other = small("tiny-vit", seed=1), small("tiny-vit", seed=2)
    torch.save({"state_dict": {f"module.{k}": v for k, v in first.net.state_dict().items()}}, tmp_path / "first.pt")
    torch.save(other.net.state_dict(), tmp_path / "other.pt")
    monkeypatch.setitem(tables._PRETRAINED, "tiny-vit", {"here": {"file": str(tmp_path / "first.pt")}})
    published = small("tiny-vit", weights="here", pretrained=True)
    assert module_state_hash(published) == module_state_hash(first)
    assert published.name == "tiny-vit.here"
    assert any("'module.'" in note for note in published.notes)
    given = small("tiny-vit", weights="here", checkpoint=str(tmp_path / "other.pt"))
    assert module_state_hash(given) == module_state_hash(other)


def test_half_precision_is_cast(tmp_path):
    half = {k: v.half() if v.is_floating_point() else v for k, v in small("tiny-vit", seed=3).net.state_dict().items()}
    half |= {"input_resolution": torch.tensor(64), "logit_scale": half["logit_scale"].reshape(1)}  # as in older files
    torch.save(half, tmp_path / "half.pt")
    backbone = small("tiny-vit", checkpoint=str(tmp_path / "half.pt"), size=96)
    assert {v.dtype for v in backbone.net.state_dict().values()} == {torch.float32}
    weight = "visual.transformer.resblocks.1.mlp.c_fc.weight"
    assert torch.equal(backbone.net.state_dict()[weight], half[weight].float())
    assert backbone.notes == ("not used of the file: input_resolution",)
    assert backbone(images(1, 96), ["proj@final"])["proj@final"].dtype == torch.float32


def test_a_text_tower_under_its_older_names(tmp_path):
    """A file of CLIP's layout, all names of the text tower at the top, for a model that keeps them under `text`."""
    want = small("tiny-eva", seed=4)
    torch.save({k.removeprefix("text."): v for k, v in want.net.state_dict().items()}, tmp_path / "flat.pt")
    assert module_state_hash(small("tiny-eva", checkpoint=str(tmp_path / "flat.pt"))) == module_state_hash(want)


def test_missing_parameters_are_refused_by_name(tmp_path):
    state = small("tiny-vit").net.state_dict()
    del state["visual.ln_post.weight"]
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(UsageError, match=r"leaves 1 of .*visual\.ln_post\.weight"):
        small("tiny-vit", checkpoint=str(tmp_path / "w.pt"))


# --- through the export ---


def test_a_model_with_published_weights_is_exported(tmp_path, monkeypatch):
    import benchkit

    torch.save(small("tiny-vit", seed=6).net.state_dict(), tmp_path / "w.pt")
    monkeypatch.setitem(tables._PRETRAINED, "tiny-vit", {"here": {"file": str(tmp_path / "w.pt")}})
    conf = tmp_path / "tiny.yaml"
    conf.write_text("model: {backbone: {name: open_clip, arch: tiny-vit, weights: here}}\n")
    small_data = ["data.n_train=24", "data.n_test=18", "data.side=32", "model.batch_size=4"]
    result = benchkit.run(conf, "retrieval", arguments=small_data, outputs=tmp_path / "outputs")
    assert 0 < result.summaries["mAP"] <= 1
    small_data.append("model.features.pool=proj")
    again = benchkit.run(conf, "retrieval", arguments=small_data, tag="proj", outputs=tmp_path / "outputs")
    assert again.summaries["mAP"] != result.summaries["mAP"]
