"""Models of a few lines, named in test confs by dotted path."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from benchkit.backbones.base import Backbone, Label, Preprocess, Tokens

forwarded: list[int] = []  # rows of every forward since it was cleared


class TinyNet(nn.Module):
    """One convolution; `seed` decides its weights. Maps (B, 8, H/4, W/4)."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 4, 4)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.conv.weight.copy_(torch.randn(self.conv.weight.shape, generator=generator) * 0.2)
            self.conv.bias.zero_()

    def forward(self, image: Tensor) -> Tensor:
        forwarded.append(len(image))
        return self.conv(image).relu()


class SlowNet(TinyNet):
    """A forward takes a tenth of a second, and is noted in the file $SLOW_LOG."""

    def forward(self, image: Tensor) -> Tensor:
        time.sleep(0.1)
        if "SLOW_LOG" in os.environ:
            with Path(os.environ["SLOW_LOG"]).open("a") as log:
                log.write(f"{len(image)}\n")
        return super().forward(image)


class WhiteIsNaN(TinyNet):
    """NaN for images that are white all over."""

    def forward(self, image: Tensor) -> Tensor:
        white = (image > 2).flatten(1).all(1)
        return super().forward(image).masked_fill(white[:, None, None, None], torch.nan)


class Large(TinyNet):
    """Has memory for two images."""

    def forward(self, image: Tensor) -> Tensor:
        if len(image) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().forward(image)


class ToyClip(Backbone):
    """An image-text model to reckon with by hand: images are their mean colour, texts their numbers of r, g and b."""

    name = "toy_clip"
    pools = ("mean", "proj", "patch")
    preprocess = Preprocess(8, "bilinear", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 1.0)
    logit_scale = 10.0
    texts_seen: ClassVar[list[str]] = []

    def __init__(self, settings: object = None, **_: object) -> None:
        super().__init__()
        self.anchor = nn.Parameter(torch.zeros(1))

    def tokens(self, image: Tensor, layers: list) -> list:
        """One map of 2 x 2 colours."""
        cells = nn.functional.adaptive_avg_pool2d(image, 2)
        return [Tokens(None, cells, None, {"proj": lambda: 3 * image.mean((2, 3))}) for _ in layers]

    def text(self, prompts: Sequence[str]) -> Tensor:
        """Letters r, g, b of each prompt."""
        self.texts_seen.extend(prompts)
        return torch.tensor([[prompt.count(letter) for letter in "rgb"] for prompt in prompts], dtype=torch.float32)


class ToyLabelled(ToyClip):
    """Has a classifier whose logits are the mean red, green and blue, and names them."""

    name = "toy_labelled"
    pools = ("mean", "patch", "logits")
    labels = (Label("n00000001", ("red", "scarlet")), Label("n00000002", ("green thing",)), Label("", ("blue",)))

    def tokens(self, image: Tensor, layers: list) -> list:
        """Logits are 255 times the colour."""
        cells = nn.functional.adaptive_avg_pool2d(image, 2)
        return [Tokens(None, cells, None, {"logits": lambda: 255 * image.mean((2, 3))}) for _ in layers]


class ToyLayers(Backbone):
    """Three layers of known quality: the first is blank, the second the mean colour dimmed, the last the mean colour."""

    name = "toy_layers"
    depth = 3
    preprocess = Preprocess(8, "bilinear", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 1.0)

    def __init__(self, settings: object = None, **_: object) -> None:
        super().__init__()
        self.anchor = nn.Parameter(torch.zeros(1))

    def tokens(self, image: Tensor, layers: list) -> list:
        """One map per layer."""
        forwarded.append(len(image))
        cells = nn.functional.adaptive_avg_pool2d(image, 2)
        gain = {0: 0.0, 1: 0.5, 2: 1.0, "final": 1.0}
        return [Tokens(None, cells * gain[layer] + 0.1) for layer in layers]
