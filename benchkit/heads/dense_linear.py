"""Linear probe per pixel: a 1x1 convolution of one or several layers' maps, resized bilinearly to the frame.

Layers of other sizes (a CNN's stages) are resized to the largest grid among them and stand side by side. Outputs are resized
before anything is decided at a pixel (align_corners false). AdamW, 5e-4, 10 epochs in batches of 8, 1.5 epochs of warm-up, then
a cosine to 0. Source: probe3d (El Banani et al. 2024, evals/models/probes.py, configs/optimizer/ten_epoch.yaml) and VisBench
(heads/linear.py, tasks/dense_base.py); DINOv2's options BatchNorm and dropout. Losses: `benchkit.heads.solvers.dense_losses`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from benchkit.heads._dense import DenseHead, DenseSettings


@dataclasses.dataclass
class Settings(DenseSettings):
    """Settings of the training."""


class DenseLinear(DenseHead):
    """See the module."""

    name = "dense_linear"

    def net(self, channels: Sequence[int], out: int) -> Any:
        """A 1x1 convolution."""
        from benchkit.heads.solvers.dense_nets import Linear

        return Linear(channels, out, self.settings.batchnorm)


build = DenseLinear
