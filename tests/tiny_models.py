"""Models of a few lines, named in test confs by dotted path."""

import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn

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
