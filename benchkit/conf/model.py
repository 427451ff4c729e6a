"""The model section of a conf: which frozen model, which features, which head, and how the forward runs."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchkit.settings import setting


@dataclasses.dataclass
class FeatureSettings:
    """Which features of the backbone are kept."""

    layers: Any = setting("final", "final, last4, quarters, all, or numbers: blocks or stages from 0")
    pool: str = setting("default", "default (the model's own), cls, mean, attn; dense heads read the patch map anyway")
    norm: bool = setting(False, "apply the model's final norm to inner layers too")
    dense_dtype: str = setting("float16", "how patch maps are stored: float16 or float32; pooled features are float32")


@dataclasses.dataclass
class PreprocessSettings:
    """Overrides of the model's own preprocessing; every one is part of the backbone's identity."""

    interpolation: str | None = setting(None, "bilinear, bicubic or nearest (default: the model's own)")
    mean: list[float] | None = setting(None, "three means in the 0..1 range (default: the model's own)")
    std: list[float] | None = setting(None, "three standard deviations in the 0..1 range (default: the model's own)")


@dataclasses.dataclass
class ModelSettings:
    """Settings of the forward; `backbone` and `head` are components of their own beside these."""

    features: FeatureSettings = dataclasses.field(default_factory=FeatureSettings)
    preprocess: PreprocessSettings = dataclasses.field(default_factory=PreprocessSettings)
    precision: str = setting("fp32", "fp32, bf16 or fp16 autocast: part of the identity")
    batch_size: int = setting(32, "rows of every forward: part of the identity, since bits depend on it")
    device: str = setting("auto", "auto, cpu, cuda, cuda:1, mps", identity=False)
    compile: bool = setting(False, "torch.compile: at most 1.25 times faster after 14-47 s")
    seed: int = setting(0, "seed of everything random, together with the item's name")
    random: bool = setting(False, "random weights in place of the trained ones: the twin that shows what training gave")
    on_nonfinite: str = setting("stop", "stop or skip, when the model returns NaN or infinity")
