"""The networks of dense heads: a 1x1 convolution, and DPT.

`Linear`: one 1x1 convolution of all layers' maps side by side, each resized bilinearly to the largest of their grids (VisBench,
heads/linear.py; DINOv2's linear heads concatenate so). Convolution and resizing commute, so each layer is convolved on its
own grid and what comes out is resized: the same numbers for a fraction of the work.

`Dpt`: Ranftl et al. 2021, "Vision Transformers for Dense Prediction", in probe3d's form (evals/models/probes.py: `DPT`): each
layer is reassembled by a 1x1 convolution, then fused from the deepest to the shallowest by residual units of two 3x3
convolutions; two more make the output. Layers of one grid (ViT) are doubled first, as there; a pyramid (CNN, Swin) keeps the
grids it has, as the ResNet stages in Ranftl's hybrid do. Resizing is bilinear with align_corners false (probe3d: true).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchkit.heads.solvers.dense_grid import Level, Share, enlarge, to_level
from benchkit.heads.solvers.dense_outputs import Output

PYRAMID_UP, EQUAL_UP = 2, 4  # how much finer the last convolutions work than the finest fused map


@dataclasses.dataclass
class Group:
    """Images of a batch whose maps have the same shapes.

    Attributes:
        rows: their places in the batch.
        maps: one per layer, float32 (b, C, h, w).
        levels: where the cells lie, the same for all but for the share.
        shares: per image, of its levels.
        kept: per layer, (b, C, 1, 1) to multiply with: 0 where dropout drops a channel; none outside training.
    """

    rows: list[int]
    maps: list[Tensor]
    levels: tuple[Level, ...]
    shares: list[tuple[Share, ...]]
    kept: list[Tensor] = dataclasses.field(default_factory=list)


class CellNorm(nn.Module):
    """BatchNorm over all cells of a batch, whatever the shapes of its maps (DINOv2's linear segmentation heads begin so).

    Outside training it uses the mean over all batches seen: features are frozen, so old batches count as much as new ones.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.mean, self.variance = nn.Buffer(torch.zeros(channels)), nn.Buffer(torch.ones(channels))
        self.batches = nn.Buffer(torch.zeros((), dtype=torch.int64))

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Maps (b, C, h, w) of several shapes, normalised together."""
        cells = torch.cat([each.transpose(0, 1).flatten(1) for each in maps], dim=1)
        share, learning = 0.0, self.training and cells.shape[1] > 1  # one cell has no variance
        if learning:
            self.batches.add_(1)
            share = 1 / int(self.batches)
        normal = functional.batch_norm(cells.T, self.mean, self.variance, self.weight, self.bias, learning, share).T
        parts = normal.split([each[:, 0].numel() for each in maps], dim=1)
        return [
            part.reshape(len(part), len(each), *each.shape[2:]).transpose(0, 1)
            for part, each in zip(parts, maps, strict=True)
        ]


class DenseNet(nn.Module):
    """What both networks share: normalisation and dropout of the layers' maps, and which grid the output is on.

    Args:
        channels: per layer.
        batchnorm: normalise each layer's channels first.
    """

    def __init__(self, channels: Sequence[int], batchnorm: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList(CellNorm(each) for each in channels) if batchnorm else None

    def forward(self, groups: Sequence[Group]) -> list[Output]:
        """One output per image of the batch, in its order."""
        outputs: dict[int, Output] = {}
        for group, maps in zip(groups, self._prepared(groups), strict=True):
            reference = largest(group.levels)
            values = self.compute(maps, group.levels).unbind(0)
            for row, raw, shares in zip(group.rows, values, group.shares, strict=True):
                outputs[row] = Output(raw, shares[reference])
        return [outputs[row] for row in range(len(outputs))]

    def _prepared(self, groups: Sequence[Group]) -> list[list[Tensor]]:
        maps = [list(group.maps) for group in groups]
        for layer, norm in enumerate(self.norms or ()):
            for prepared, normal in zip(maps, norm([each[layer] for each in maps]), strict=True):
                prepared[layer] = normal
        return [
            [each * kept for each, kept in zip(prepared, group.kept, strict=True)] if group.kept else prepared
            for prepared, group in zip(maps, groups, strict=True)
        ]

    def compute(self, maps: Sequence[Tensor], levels: Sequence[Level]) -> Tensor:
        """(b, C, h, w) per layer -> (b, channels of the output, rows, columns)."""
        raise NotImplementedError

    def grid(self, levels: Sequence[Level]) -> tuple[int, int]:
        """Rows and columns of the output."""
        raise NotImplementedError

    def work(self, levels: Sequence[Level]) -> int:
        """Multiplications of one image's convolutions, about."""
        weights = sum(p.numel() for p in self.parameters() if p.dim() > 1)
        return weights * math.prod(self.grid(levels))


class Linear(DenseNet):
    """A 1x1 convolution on all layers side by side."""

    def __init__(self, channels: Sequence[int], out: int, batchnorm: bool = False) -> None:
        super().__init__(channels, batchnorm)
        self.widths = list(channels)
        self.convolution = nn.Conv2d(sum(channels), out, 1)

    def compute(self, maps: Sequence[Tensor], levels: Sequence[Level]) -> Tensor:
        reference = largest(levels)
        total = None
        for x, level, weight in zip(maps, levels, self.convolution.weight.split(self.widths, dim=1), strict=True):
            part = to_level(functional.conv2d(x, weight), level, levels[reference])
            total = part if total is None else total + part
        assert total is not None
        return total + self.convolution.bias[:, None, None]  # type: ignore[index]

    def grid(self, levels: Sequence[Level]) -> tuple[int, int]:
        return levels[largest(levels)].cut


class ResidualUnit(nn.Module):
    """Two 3x3 convolutions, each followed by ReLU, around a skip."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.second(functional.relu(self.first(x)))) + x


class Dpt(DenseNet):
    """Reassemble and fusion; `hidden` is the width of every inner map (probe3d: 512)."""

    def __init__(self, channels: Sequence[int], out: int, hidden: int, batchnorm: bool = False) -> None:
        super().__init__(channels, batchnorm)
        self.reassemble = nn.ModuleList(nn.Conv2d(each, hidden, 1) for each in channels)
        self.skips = nn.ModuleList(
            ResidualUnit(hidden) for _ in channels[1:]
        )  # the deepest layer has nothing to add to
        self.fusions = nn.ModuleList(ResidualUnit(hidden) for _ in channels)
        self.last = nn.Sequential(
            nn.Conv2d(hidden, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, out, 3, padding=1)
        )

    def compute(self, maps: Sequence[Tensor], levels: Sequence[Level]) -> Tensor:
        double = _equal(levels)
        parts = [convolution(x) for convolution, x in zip(self.reassemble, maps, strict=True)]
        if double:
            parts = [enlarge(each, 2) for each in parts]
        fused = self.fusions[-1](parts[-1])
        for layer in range(len(parts) - 2, -1, -1):
            fused = fused if double else to_level(fused, levels[layer + 1], levels[layer])
            fused = self.fusions[layer](self.skips[layer](parts[layer]) + fused)
        if not double:
            fused = to_level(fused, levels[0], levels[largest(levels)])
        return self.last(enlarge(fused, EQUAL_UP if double else PYRAMID_UP))

    def grid(self, levels: Sequence[Level]) -> tuple[int, int]:
        factor = 2 * EQUAL_UP if _equal(levels) else PYRAMID_UP
        height, width = levels[largest(levels)].cut
        return factor * height, factor * width


def largest(levels: Sequence[Level]) -> int:
    """The layer with the largest grid; of equals the first."""
    return max(range(len(levels)), key=lambda layer: math.prod(levels[layer].full))


def _equal(levels: Sequence[Level]) -> bool:
    return len({level.full for level in levels}) == 1


def initialised(make: Callable[[], DenseNet], generator: torch.Generator) -> DenseNet:
    """A network as torch's constructors draw it, from a generator of its own: whatever else was drawn does not matter."""
    with torch.random.fork_rng(devices=[]):
        net = make()
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_uniform_(module.weight, a=5**0.5, generator=generator)
            bound = math.prod(module.weight.shape[1:]) ** -0.5
            assert module.bias is not None
            nn.init.uniform_(module.bias, -bound, bound, generator=generator)
    return net
