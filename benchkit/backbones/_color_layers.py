"""Colour histogram and colour map as a Backbone."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from benchkit.backbones.base import Backbone, Preprocess, Tokens
from benchkit.errors import UsageError
from benchkit.features import Layer


class ColorHistogram(Backbone):
    """`mean@final`: joint RGB histogram (B, bins^3), L1-normalised, square root (so dot products are Bhattacharyya's).

    `patch@final`: mean and standard deviation of the colours of each cell, (B, 6, h, w); cells at the right and bottom
    edge may be smaller. Under `data.resize: pad` the padding is counted like any other pixel.
    """

    name = "color_histogram"
    layer_unit = "stage"
    inner_pools = ()

    def __init__(self, bins: int = 8, cell: int = 16, size: int = 224) -> None:
        super().__init__()
        if bins < 1 or cell < 1:
            raise UsageError(f"model.backbone.bins={bins}, cell={cell}: both must be 1 or more.")
        self.bins, self.stride = bins, cell
        self.preprocess = Preprocess(size, "bilinear", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 0.875)
        # A buffer, so that the hash of the state tells two settings apart.
        self.register_buffer("layout", torch.tensor([bins, cell]))

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Tokens]:
        """Histogram and cells. image: (B, 3, H, W) in 0..1."""
        pixels = image.float().clamp(0, 1)
        mean = self._cells(pixels)
        deviation = (self._cells(pixels.square()) - mean.square()).clamp_min(0).sqrt()
        return [Tokens(None, torch.cat([mean, deviation], 1), self.histogram(pixels)) for _ in layers]

    def histogram(self, pixels: Tensor) -> Tensor:
        """Square root of the share of pixels in each cube of colour, red slowest: (B, bins^3). pixels in 0..1."""
        rows, entries = len(pixels), self.bins**3
        level = (pixels * self.bins).long().clamp_max(self.bins - 1)
        index = (level[:, 0] * self.bins + level[:, 1]) * self.bins + level[:, 2]
        index = index + entries * torch.arange(rows, device=pixels.device).view(-1, 1, 1)
        counts = torch.bincount(index.flatten(), minlength=rows * entries).view(rows, entries).float()
        return (counts / counts.sum(1, keepdim=True)).sqrt()

    def _cells(self, values: Tensor) -> Tensor:
        return avg_pool2d(values, self.stride, ceil_mode=True, count_include_pad=False)
