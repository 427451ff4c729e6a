"""A DINOv2 of its authors' code as a Backbone: layers by `get_intermediate_layers`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from benchkit.backbones.base import Backbone, Preprocess, Tokens
from benchkit.features import FINAL, Layer


class DinoV2Backbone(Backbone):
    """A DINOv2. Numbered layers are raw outputs of blocks; `final` is the last one after the final norm.

    Registers are in neither map nor mean.
    """

    layer_unit = "block"
    own_pool = "cls"
    pools = inner_pools = ("cls", "mean", "patch")
    can_norm = True

    def __init__(self, net: Any, name: str, preprocess: Preprocess) -> None:
        super().__init__()
        self.net, self.name, self.preprocess = net, name, preprocess
        self.depth = int(net.n_blocks)
        self.patch = self.stride = int(net.patch_size)

    def inner_norm(self, values: Tensor) -> Tensor:
        """The norm after the last block, over the last axis."""
        return self.net.norm(values)

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Tokens]:
        """Tokens of each layer from one forward. image: (B, 3, H, W), normalised."""
        last = self.depth - 1
        numbers = sorted({last if layer == FINAL else int(layer) for layer in layers})
        given = self.net.get_intermediate_layers(image, n=numbers, reshape=True, return_class_token=True, norm=False)
        at: dict[Layer, Tokens] = {n: Tokens(cls, spatial) for n, (spatial, cls) in zip(numbers, given, strict=True)}
        if FINAL in layers:
            cls, spatial, *_ = at[last]
            assert cls is not None
            assert spatial is not None
            at[FINAL] = Tokens(self.net.norm(cls), self.net.norm(spatial.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        return [at[layer] for layer in layers]
