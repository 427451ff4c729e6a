"""Fetching models: what is in the local cache needs no network, and where there is none, it is said soon and once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import save_file

from benchkit.backbones import _hub
from benchkit.backbones import open_clip as open_clip_component
from benchkit.backbones import timm as timm_component
from benchkit.backbones.base import module_state_hash
from benchkit.errors import UsageError
from benchkit.export.fetch import fetch, fetch_all, main

NOWHERE = "http://127.0.0.1:9"  # nobody listens there: refused at once


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, and a hub that does not answer."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", NOWHERE)
    asked = _hub._asked
    asked.cache_clear()
    yield tmp_path / "hub"
    asked.cache_clear()


def cached(cache: Path, repository: str, name: str) -> Path:
    """A place in the cache for a file of a repository, as the hub's client lays it out."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs/main").write_text("0" * 40)
    (folder / "snapshots" / ("0" * 40)).mkdir(parents=True, exist_ok=True)
    return folder / "snapshots" / ("0" * 40) / name


def test_weights_of_timm_in_the_cache_are_found_and_loaded(cache: Path, tmp_path: Path):
    want = timm_component.build(timm_component.Settings(arch="test_vit"), random=True, seed=7)
    file = cached(cache, "timm/test_vit.r160_in1k", "model.safetensors")
    save_file(want.net.state_dict(), file)
    conf = tmp_path / "mine.yaml"
    conf.write_text("model: {backbone: {name: timm, arch: test_vit.r160_in1k}}\n")
    assert fetch(conf) == [cache / "models--timm--test_vit.r160_in1k"]
    started = time.monotonic()
    backbone = timm_component.build(timm_component.Settings(arch="test_vit.r160_in1k"))
    assert module_state_hash(backbone.net) == module_state_hash(want.net)
    assert time.monotonic() - started < 5


def test_weights_and_tokenizer_of_open_clip_in_the_cache(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import open_clip
    from open_clip import pretrained as tables
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "cat": 2, "dog": 3}, "[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    reader = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]")
    vision = {"image_size": 64, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
    text = {
        "context_length": 8,
        "vocab_size": 8,
        "width": 32,
        "heads": 2,
        "layers": 1,
        "hf_tokenizer_name": "our/words",
    }
    arch = tmp_path / "fetched-vit.json"
    arch.write_text(json.dumps({"embed_dim": 16, "vision_cfg": vision, "text_cfg": text}))
    open_clip.add_model_config(arch)
    monkeypatch.setitem(tables._PRETRAINED, "fetched-vit", {"ours": tables._pcfg(hf_hub="our/weights/")})
    settings = open_clip_component.Settings(arch="fetched-vit", weights="ours")
    with pytest.raises(UsageError, match="weights ours of fetched-vit could not be had"):
        open_clip_component.fetch(settings)
    want = open_clip_component.build(settings, random=True, seed=3)
    weights = cached(cache, "our/weights", "open_clip_model.safetensors")
    save_file(want.net.state_dict(), weights)
    with pytest.raises(UsageError, match="tokenizer of fetched-vit could not be had"):
        open_clip_component.fetch(settings)
    words = cached(cache, "our/words", "tokenizer.json")
    reader.save_pretrained(words.parent)
    absent = words.parents[2] / ".no_exist" / words.parent.name  # what the repository has not is kept, too
    absent.mkdir(parents=True)
    (absent / "config.json").touch()
    assert open_clip_component.fetch(settings) == [weights.parents[2], words.parents[2]]
    backbone = open_clip_component.build(settings)
    assert module_state_hash(backbone.net) == module_state_hash(want.net)
    with torch.inference_mode():
        tokens = backbone.tokenizer(["dog cat"])
        assert tokens[0].tolist() == [3, 2] + [0] * 6
        torch.testing.assert_close(backbone.text(["dog cat"]), want.net.encode_text(tokens, normalize=False))


def test_a_hub_that_does_not_answer_is_asked_once_and_not_for_long(cache: Path):
    started = time.monotonic()
    said: list[str] = []
    problems = fetch_all(["resnet18", "siglip_vitb16", "efficientnet_lite0", "clip_vitl14_openai"], said.append)
    assert time.monotonic() - started < 20
    assert list(problems) == ["resnet18", "siglip_vitb16", "clip_vitl14_openai"]
    for problem in problems.values():
        assert "\n" not in problem
        assert f"not all of its files are in {cache}, and {NOWHERE} does not answer" in problem
        assert "checkpoint=FILE" in problem
    assert [line.split(":")[0] for line in said] == [
        "resnet18",
        "siglip_vitb16",
        "efficientnet_lite0",
        "clip_vitl14_openai",
    ]
    assert "MB" in said[2]
    assert said[2].endswith(".pth")


def test_the_cache_is_asked_before_the_hub(cache: Path, monkeypatch: pytest.MonkeyPatch):
    offline: list[bool] = []

    def make() -> str:
        offline.append(constants.HF_HUB_OFFLINE)
        if constants.HF_HUB_OFFLINE:
            raise FileNotFoundError("not in the cache")
        return "from the hub"

    monkeypatch.setattr(_hub, "_asked", lambda: True)
    assert _hub.from_hub(make) == "from the hub"
    assert offline == [True, False]
    assert _hub.from_hub(lambda: "from the cache") == "from the cache"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConnectionError, match="HF_HUB_OFFLINE is set"):
        _hub.from_hub(make)


def test_what_needs_no_download_is_ready(capsys: pytest.CaptureFixture[str]):
    assert main(["color_histogram", "mobilenetv2"]) == 0
    assert capsys.readouterr().out == ("color_histogram: ready, nothing to list\nmobilenetv2: ready, nothing to list\n")


def test_a_conf_that_is_not_there_stops_before_anything(capsys: pytest.CaptureFixture[str]):
    assert main(["color_histogram", "resnet19"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "resnet18" in said.err


def test_the_command_lists_at_the_end_what_is_missing(tmp_path: Path):
    env = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "BENCHKIT_OUTPUTS": str(tmp_path)}
    command = [sys.executable, "-m", "benchkit.export.fetch", "clip_vitb32_openai", "efficientnet_lite0"]
    end = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert end.returncode == 1, end.stderr
    assert "clip_vitb32_openai: could not be had\nefficientnet_lite0: ready\n" in end.stdout
    assert "1 of 2 could not be had:\n\nclip_vitb32_openai: the weights openai" in end.stderr
    assert "Retrying" not in end.stderr
