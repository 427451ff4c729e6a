"""DeepLabV3 on MobileNetV2, as its published weights in timm's names want it: named by dotted path in test confs."""

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional


class Head(nn.Module):
    """One 1x1 convolution beside the pooled image, both projected, then the logits; batch norms are folded into them."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        self.aspp_conv, self.aspp_pool = nn.Conv2d(320, 256, 1), nn.Conv2d(320, 256, 1)
        self.project, self.logits = nn.Conv2d(512, 256, 1), nn.Conv2d(256, classes, 1)

    def forward(self, spatial: Tensor) -> Tensor:
        """(B, 320, h, w) -> logits (B, K, h, w)."""
        pooled = self.aspp_pool(spatial.mean((2, 3), keepdim=True)).relu().expand(-1, -1, *spatial.shape[2:])
        joined = torch.cat([pooled, self.aspp_conv(spatial).relu()], dim=1)
        return self.logits(self.project(joined).relu())


class DeepLab(nn.Module):
    """Images (B, 3, H, W) in -1..1 -> masks as `out`, (B, 21, H, W): enlarged with corners aligned, as TensorFlow does."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = timm.create_model("mobilenetv2_100", output_stride=16, pad_type="same", num_classes=0)
        self.backbone.conv_head, self.backbone.bn2 = nn.Identity(), nn.Identity()
        self.head = Head()

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """See the class."""
        part = self.backbone
        spatial = part.blocks(part.bn1(part.conv_stem(image)))
        logits = self.head(spatial)
        return {"out": functional.interpolate(logits, image.shape[2:], mode="bilinear", align_corners=True)}
