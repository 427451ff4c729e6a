"""torchvision's segmentation models (DeepLabV3, FCN, LR-ASPP) as Backbones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchkit.backbones.base import Backbone, Preprocess, Tokens
from benchkit.features import Layer

STRIDE_SIDE = 256  # of the image that shows the stride


class TorchvisionSegmenter(Backbone):
    """`masks@final`: logits (B, K, h, w) before the model's own bilinear enlarging; `patch@final`: the map they are made of.

    Args:
        net: a model of torchvision.models.segmentation, in eval mode.
        name, preprocess: see Backbone.
    """

    depth = 1
    layer_unit = "stage"
    pools = ("mean", "patch", "masks")
    inner_pools = ()

    def __init__(self, net: nn.Module, name: str, preprocess: Preprocess) -> None:
        super().__init__()
        self.net, self.name, self.preprocess = net, name, preprocess
        with torch.inference_mode():
            spatial = self._map(self._features(torch.zeros(1, 3, STRIDE_SIDE, STRIDE_SIDE)))
        self.stride = STRIDE_SIDE // spatial.shape[2]

    def _features(self, image: Tensor) -> Any:
        part: nn.Module = self.net.get_submodule("backbone")
        return part(image)

    def _map(self, features: dict[str, Tensor]) -> Tensor:
        return features["out"] if "out" in features else features["high"]  # LR-ASPP reads a low map and a high one

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Tokens]:
        """The one layer. image: (B, 3, H, W), normalised."""
        features = self._features(image)
        head: nn.Module = self.net.get_submodule("classifier")
        extra = {"masks": lambda: head(features.get("out", features))}
        return [Tokens(None, self._map(features), None, extra) for _ in layers]
