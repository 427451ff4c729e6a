"""torchvision models as Backbones: one table says where a family's layers lie; its own forward computes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchkit.backbones._taps import Taps
from benchkit.backbones.base import Backbone, Preprocess, Tokens
from benchkit.features import FINAL, Layer


@dataclass(frozen=True)
class Family:
    """Where the layers of a family's nets lie.

    Attributes:
        layers: parts in running order; `name.*` stands for the children of `name`.
        final: the part whose output is the last map (or tokens); by default the last of `layers`.
        head: how many of the last parts belong to the head, so that they are no layers but are in `final`.
        order: how outputs are laid out: NCHW, NHWC, or tokens (B, 1 + h * w, C) behind a class token.
        relu: the forward applies a ReLU of its own to `final`.
    """

    layers: tuple[str, ...]
    final: str = ""
    head: int = 0
    order: str = "NCHW"
    relu: bool = False


# By the module of torchvision.models that defines the net.
FAMILIES = {
    "alexnet": Family(("features.*",)),
    "convnext": Family(("features.*",)),
    "densenet": Family(("features.*",), final="features", head=1, relu=True),
    "efficientnet": Family(("features.*",), final="features", head=1),
    "googlenet": Family(("conv1", "conv3", "inception3b", "inception4e", "inception5b")),
    "inception": Family(("Conv2d_2b_3x3", "Conv2d_4a_3x3", "Mixed_5d", "Mixed_6e", "Mixed_7c")),
    "maxvit": Family(("stem", "blocks.*")),
    "mnasnet": Family(("layers.*",), final="layers", head=3),
    "mobilenetv2": Family(("features.*",), final="features", head=1),
    "mobilenetv3": Family(("features.*",), final="features", head=1),
    "regnet": Family(("stem", "trunk_output.*")),
    "resnet": Family(("relu", "layer1", "layer2", "layer3", "layer4")),
    "shufflenetv2": Family(("conv1", "stage2", "stage3", "stage4"), final="conv5"),
    "squeezenet": Family(("features.*",)),
    "swin_transformer": Family(("features.*",), final="norm", order="NHWC"),
    "vgg": Family(("features.*",)),
    "vision_transformer": Family(("encoder.layers.*",), final="encoder.ln", order="tokens"),
}


def family_name(net: nn.Module) -> str:
    """The module of torchvision.models that defines the net: a key of FAMILIES."""
    return type(net).__module__.rpartition(".")[2]


def classifier_of(net: nn.Module) -> str:
    """Dotted name of the last linear part (SqueezeNet: convolution), which makes the logits."""
    parts = list(net.named_modules())
    for kind in (nn.Linear, nn.Conv2d):
        if found := [name for name, part in parts if isinstance(part, kind)]:
            return found[-1]
    raise ValueError(f"{type(net).__name__} has no classifier")


@torch.inference_mode()
def layers_of(net: nn.Module, size: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names of the layers that can be asked for, and their strides in pixels, found by one forward of one black image.

    Blocks of a ViT are one each; of other nets the last part at each stride is a stage, as timm counts them. Strides are
    rounded to powers of two: AlexNet and Inception do not pad.

    Args:
        net: in eval mode, on the CPU.
        size: side of the image; large enough for the rounding (224).
    """
    family = FAMILIES[family_name(net)]
    names = _expanded(net, family.layers)
    names = names[: len(names) - family.head]
    image = torch.zeros(1, 3, size, size)
    _, seen = Taps(net, names).run(lambda: net(image), names)
    if family.order == "tokens":
        return tuple(names), (round(size / math.sqrt(seen[names[-1]].shape[1] - 1)),) * len(names)
    side = 1 if family.order == "NHWC" else 2
    strides = {name: 2 ** round(math.log2(size / seen[name].shape[side])) for name in names}
    last = {stride: name for name, stride in strides.items()}
    return tuple(last.values()), tuple(last)


def _expanded(net: nn.Module, layers: Sequence[str]) -> list[str]:
    names: list[str] = []
    for layer in layers:
        parent = layer.removesuffix(".*")
        inner = [f"{parent}.{name}" for name, _ in net.get_submodule(parent).named_children()]
        names += inner if layer.endswith(".*") else [layer]
    return names


class TorchvisionBackbone(Backbone):
    """A torchvision model. Numbered layers are raw outputs of blocks or stages; `final` is the last map or tokens.

    What the model's last linear part reads is `own`, so mean@final of ConvNeXt includes the norm after its pooling, and
    that of VGG, AlexNet, MobileNetV3 and MaxViT the hidden layers of their classifiers. Of SqueezeNet, which classifies
    before it pools, it is the mean of the map.

    Args:
        net: the model.
        name, preprocess: see Backbone.
        layers, strides: what `layers_of` gave.
        classifier: name of the last linear part, or of what stands in its place; None where nothing of a classifier is
            left. logits: whether it classifies.
    """

    def __init__(
        self,
        net: nn.Module,
        name: str,
        preprocess: Preprocess,
        layers: tuple[str, ...],
        strides: tuple[int, ...],
        classifier: str | None,
        logits: bool,
    ) -> None:
        super().__init__()
        self.net, self.name, self.preprocess = net, name, preprocess
        self.family = FAMILIES[family_name(net)]
        self.layers, self.classifier = layers, classifier
        self.final = self.family.final or _expanded(net, self.family.layers)[-1]
        self.depth, self.stride = len(layers), strides[-1]
        blocks = self.family.order == "tokens"
        self.layer_unit = "block" if blocks else "stage"
        self.patch = self.stride if blocks else None
        self.own_pool = "cls" if blocks else "mean"
        self.inner_pools = ("cls", "mean", "patch") if blocks else ("mean", "patch")
        self.pools = (*self.inner_pools, "logits") if logits else self.inner_pools
        self.can_norm = blocks
        self._taps = Taps(net, {*layers, self.final}, [classifier] if classifier else [])

    def inner_norm(self, values: Tensor) -> Tensor:
        """The norm after the last block, over the last axis."""
        norm: nn.Module = self.net.get_submodule(self.final)
        return norm(values)

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Tokens]:
        """Tokens of each layer from one forward. image: (B, 3, H, W), normalised."""
        wanted = {self.layers[int(layer)] for layer in layers if layer != FINAL}
        final = FINAL in layers
        if final:
            wanted |= {self.final} | ({f"{self.classifier}:in"} if self.classifier else set())
        logits, seen = self._taps.run(lambda: self.net(image), wanted, whole=final)
        grid = tuple(side // self.stride for side in image.shape[2:])
        at: dict[Layer, Tokens] = {n: self._inner(seen[self.layers[int(n)]], grid) for n in layers if n != FINAL}
        if final:
            at[FINAL] = self._final(seen, logits, grid)
        return [at[layer] for layer in layers]

    def _inner(self, value: Tensor, grid: tuple[int, ...]) -> Tokens:
        if self.family.order == "tokens":
            patches = value[:, 1:].transpose(1, 2)
            return Tokens(value[:, 0], patches.reshape(*patches.shape[:2], *grid))
        return Tokens(None, value.permute(0, 3, 1, 2) if self.family.order == "NHWC" else value)

    def _final(self, seen: dict[str, Any], logits: Tensor, grid: tuple[int, ...]) -> Tokens:
        value, own = seen[self.final], seen.get(f"{self.classifier}:in")
        cls, spatial, *_ = self._inner(torch.relu(value) if self.family.relu else value, grid)
        extra = {"logits": lambda: logits} if "logits" in self.pools else {}
        return Tokens(cls, spatial, own if own is not None and own.ndim == 2 else None, extra)
