"""DPT per pixel: four layers (of a CNN its pyramid) reassembled, fused from the deepest up, and decoded by convolutions.

Source: Ranftl et al. 2021, "Vision Transformers for Dense Prediction", in the form of probe3d (El Banani et al. 2024,
evals/models/probes.py and configs/probe/*_dpt.yaml). It scores higher than `dense_linear` for every backbone and narrows the
gaps between them: report both, or say which. Losses and schedule are dense_linear's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from benchkit.errors import UsageError
from benchkit.heads._dense import DenseHead, DenseSettings
from benchkit.heads.base import Wants
from benchkit.settings import setting


@dataclasses.dataclass
class Settings(DenseSettings):
    """Settings of the network and its training."""

    hidden: int = setting(512, "channels of its inner maps (probe3d: 512); on a CPU 64 takes a fiftieth of the time")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden < 1:
            raise ValueError(f"hidden is at least 1, not {self.hidden}")


class Dpt(DenseHead):
    """See the module."""

    name = "dpt"

    def wants(self) -> Wants:
        """The last layer of each quarter of the model."""
        return Wants("patch", layers="quarters")

    def check_keys(self, keys: Sequence[str]) -> None:
        """Two layers at least."""
        if len(keys) < 2:
            raise UsageError(
                "the head dpt fuses several layers and was given one: ask for model.features.layers=quarters, or numbers "
                "such as 2,5,8,11."
            )

    def net(self, channels: Sequence[int], out: int) -> Any:
        """Reassemble and fusion."""
        from benchkit.heads.solvers import dense_nets

        return dense_nets.Dpt(channels, out, self.settings.hidden, self.settings.batchnorm)


build = Dpt
