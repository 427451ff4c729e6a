"""Segmentation models of transformers as Backbones: SegFormer and its like, MaskFormer, Mask2Former."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchkit.backbones.base import Backbone, Preprocess, Tokens
from benchkit.errors import UsageError
from benchkit.features import Layer

MASKS = ("ForSemanticSegmentation", "ForUniversalSegmentation", "ForInstanceSegmentation")  # ends of classes' names


class TransformersSegmenter(Backbone):
    """`masks@final` (B, K, h, w): logits, or of models that predict masks with a class each, what the library makes of them.

    That is, over the queries, the sum of class probability (without "no object") times mask probability, as in the image
    processors' `post_process_semantic_segmentation`; Mask2Former's first resizes the masks' logits to 384 x 384, which is left
    out: they stay at the model's own stride.

    Args:
        net: the model, in eval mode.
        name, preprocess: see Backbone.
    """

    depth = 1
    layer_unit = "stage"
    pools = ("masks",)
    inner_pools = ()
    classifies = True

    def __init__(self, net: Any, name: str, preprocess: Preprocess) -> None:
        super().__init__()
        self.net, self.name, self.preprocess = net, name, preprocess
        with torch.inference_mode():
            output = net(pixel_values=torch.zeros(1, 3, preprocess.size, preprocess.size))
        if getattr(output, "masks_queries_logits", None) is not None:
            self.masks_are = "probabilities"
        self.stride = max(1, -(-preprocess.size // self._masks(output).shape[2]))

    def _masks(self, output: Any) -> Tensor:
        if self.masks_are == "logits":
            masks = getattr(output, "logits", None)
            if not isinstance(masks, Tensor) or masks.ndim != 4:
                raise UsageError(f"{self.name} gives neither logits (B, K, h, w) nor masks of queries.")
            return masks
        classes = output.class_queries_logits.softmax(dim=-1)[..., :-1]
        return torch.einsum("bqc,bqhw->bchw", classes, output.masks_queries_logits.sigmoid())

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Tokens]:
        """The one layer. image: (B, 3, H, W), normalised."""
        net: nn.Module = self.net
        masks = self._masks(net(pixel_values=image))
        return [Tokens(None, None, None, {"masks": lambda: masks}) for _ in layers]
