"""The model section of a conf: which frozen model, which features, which head, and how the forward runs."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from benchkit.settings import setting

LAYERS = ("final", "last4", "quarters", "all")


@dataclasses.dataclass
class FeatureSettings:
    """Which features of the backbone are kept."""

    layers: Any = setting("final", "final, last4, quarters, all, or numbers: blocks or stages from 0")
    pool: str = setting(
        "default", "default (the model's own), cls, mean, attn, proj; dense heads read the patch map anyway"
    )
    norm: bool = setting(False, "apply the model's final norm to inner layers too")
    dense_dtype: Literal["float16", "float32"] = setting(
        "float16", "how patch maps are stored: float16 or float32; pooled features are float32"
    )

    dense_stride: int = setting(
        1,
        "patch maps are stored as means over so many cells a side: 2 takes a quarter of the bytes (and of the detail)",
    )

    def __post_init__(self) -> None:
        if self.dense_stride < 1:
            raise ValueError(f"dense_stride is at least 1, not {self.dense_stride}")
        asked = self.layers if isinstance(self.layers, list | tuple) else [self.layers]
        numbers = [each for each in asked if type(each) is int and each >= 0]
        if not asked or len(numbers) + sum(each in LAYERS for each in asked if isinstance(each, str)) != len(asked):
            raise ValueError(f"layers are {', '.join(LAYERS)} or numbers from 0, not {self.layers!r}")


@dataclasses.dataclass
class PreprocessSettings:
    """Overrides of the model's own preprocessing; every one is part of the backbone's identity."""

    interpolation: Literal["bilinear", "bicubic", "nearest"] | None = setting(
        None, "bilinear, bicubic or nearest (default: the model's own)"
    )
    mean: list[float] | None = setting(None, "three means in the 0..1 range (default: the model's own)")
    std: list[float] | None = setting(None, "three standard deviations in the 0..1 range (default: the model's own)")

    def __post_init__(self) -> None:
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values is not None and len(values) != 3:
                raise ValueError(f"{name} has three values, not {len(values)}")


@dataclasses.dataclass
class ModelSettings:
    """Settings of the forward; `backbone` and `head` are components of their own beside these."""

    features: FeatureSettings = dataclasses.field(default_factory=FeatureSettings)
    preprocess: PreprocessSettings = dataclasses.field(default_factory=PreprocessSettings)
    precision: Literal["fp32", "bf16", "fp16"] = setting("fp32", "fp32, bf16 or fp16 autocast: part of the identity")
    batch_size: int = setting(32, "rows of every forward: part of the identity, since bits depend on it")
    device: str = setting("auto", "auto, cpu, cuda, cuda:1, mps", identity=False)
    compile: bool = setting(False, "torch.compile: at most 1.25 times faster after 14-47 s")
    seed: int = setting(0, "seed of everything random, together with the item's name")
    random: bool = setting(False, "random weights in place of the trained ones: the twin that shows what training gave")
    on_nonfinite: Literal["stop", "skip"] = setting("stop", "stop or skip, when the model returns NaN or infinity")

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size is at least 1, not {self.batch_size}")
