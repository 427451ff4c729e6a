"""A Hugging Face vision model as a Backbone: its own forward, what its head reads, texts of an image-text model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchkit.backbones._taps import Taps
from benchkit.backbones._transformers_images import patchified
from benchkit.backbones._transformers_layouts import Placed, layout_of
from benchkit.backbones.base import Backbone, Preprocess, Tokens
from benchkit.errors import UsageError
from benchkit.features import FINAL, Layer

TEXTS = 256  # prompts that are embedded at once


class TransformersBackbone(Backbone):
    """A vision model, with a classifier or without, or the image tower of an image-text model.

    `own` is what the classifier reads; without a classifier, what the model calls its pooled output. A head that reads
    more than the class token or the mean (DINOv2's reads both) leaves cls@final as it is.

    Args:
        net: the model in eval mode.
        name, preprocess: see Backbone; its size is that of the images.
        tokenizer: makes the model's tokenizer; called when texts are asked for.
    """

    def __init__(self, net: Any, name: str, preprocess: Preprocess, tokenizer: Callable[[], Any]) -> None:
        super().__init__()
        self.net, self.name, self.preprocess = net, name, preprocess
        self.tokenizer = tokenizer
        self.trunk_name = trunk_name(net)
        self.trunk: Any = net.get_submodule(self.trunk_name)
        self.classifies = classifies(net)
        # An image-text model is called for its images only.
        self._called: Any = net if self.classifies else self.trunk
        self._known = set(inspect.signature(self._called.forward).parameters)
        self.layout = layout_of(self.trunk, self._hidden_states, preprocess.size)
        prefix = f"{self.trunk_name}." if self.trunk_name else ""
        self._names = {part: f"{prefix}{part}" for part in self.layout.parts}
        # DeiT's two classifiers are averaged: there is no one vector that is read.
        self._read = ["classifier"] if self.classifies and hasattr(net, "classifier") else []
        self._taps = Taps(net, [*self._names.values(), self.trunk_name], self._read)
        self.depth, self.stride = len(self.layout.strides), self.layout.strides[-1]
        self.layer_unit = self.layout.unit
        self.patch = self.stride if self.layer_unit == "block" else None
        self.can_norm = self.layout.norm is not None
        self.own_pool, self._own_fits = self._look()
        self.inner_pools = ("cls", "mean", "patch") if self.has_cls else ("mean", "patch")
        attn = ("attn",) if self.own_pool == "attn" else ()
        also = (("logits",) if self.classifies else ()) + (("proj",) if self._projects else ())
        self.pools = (*self.inner_pools[:-1], *attn, "patch", *also)
        if getattr(net, "logit_scale", None) is not None:
            self.logit_scale = float(net.logit_scale.detach().exp())
            bias = getattr(net, "logit_bias", None)
            self.logit_bias = None if bias is None else float(bias.detach())

    @property
    def has_cls(self) -> bool:
        """Whether there is a class token."""
        return bool(getattr(self.layout, "has_cls", False))

    @property
    def _projects(self) -> bool:
        return not self.classifies and (hasattr(self.net, "visual_projection") or hasattr(self.net, "text_model"))

    def inner_norm(self, values: Tensor) -> Tensor:
        """The norm after the last block, over the last axis."""
        assert self.layout.norm is not None
        return self.layout.norm(values)

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Tokens]:
        """Tokens of each layer from one forward. image: (B, 3, H, W), normalised."""
        numbers, final = [int(layer) for layer in layers if layer != FINAL], FINAL in layers
        parts = {self.layout.parts[n] for n in ([*numbers, self.depth - 1] if final else numbers) if self.layout.parts}
        whole = final or not self.layout.parts
        wanted = {self._names[part] for part in parts} | ({self.trunk_name} if whole else set())
        if final:
            wanted |= {f"{name}:in" for name in self._read}
        result, given = self._taps.run(lambda: self._forward(image), wanted, whole=whole)
        seen, output = {part: given[self._names[part]] for part in parts}, given.get(self.trunk_name)
        size = (image.shape[2], image.shape[3])
        at: dict[Layer, Tokens] = {n: Tokens(*self.layout.inner(n, seen, output, size)) for n in numbers}
        if final:
            at[FINAL] = self._final(self.layout.final(seen, output, size), result, output, given.get("classifier:in"))
        return [at[layer] for layer in layers]

    def _final(self, placed: Placed, result: Any, output: Any, read: Tensor | None) -> Tokens:
        pooled = getattr(output, "pooler_output", None)
        own = read if self.classifies else pooled
        extra: dict[str, Callable[[], Tensor]] = {}
        if self.classifies:
            extra["logits"] = lambda: result.logits
        if self._projects:
            project = getattr(self.net, "visual_projection", None) or nn.Identity()
            extra["proj"] = lambda: project(pooled)
        return Tokens(*placed, own.flatten(1) if own is not None and self._own_fits else None, extra)

    def _look(self) -> tuple[str, bool]:
        """Name of the pool that the model's head reads, and whether what it reads is that pool alone.

        Found with an image of noise: whether that vector is the class token, the mean, or neither.
        """
        image = torch.randn(2, 3, *[self.preprocess.size] * 2, generator=torch.Generator().manual_seed(0))
        self._own_fits = True
        with torch.inference_mode():
            cls, spatial, own, _ = self.tokens(image, [FINAL])[0]
        assert spatial is not None
        fallback = "mean" if cls is None else "cls"
        if own is None or own.shape[1] != spatial.shape[1]:
            return fallback, False
        if cls is not None and torch.allclose(own, cls, rtol=1e-3, atol=1e-4):
            return "cls", True
        attends = not self.classifies and hasattr(getattr(self.trunk, "head", None), "probe")
        return "attn" if attends else "mean", True

    def _forward(self, image: Tensor) -> Any:
        return self._called(**self._inputs(image), **({} if self.layout.parts else {"output_hidden_states": True}))

    def _hidden_states(self, image: Tensor) -> Any:
        return self._called(image, output_hidden_states=True).hidden_states

    def _inputs(self, image: Tensor) -> dict[str, Any]:
        """Arguments of the forward. MAE's shuffles its patches by noise: rising noise leaves them in their order."""
        rows, size, config = len(image), tuple(image.shape[2:]), self.trunk.config
        inputs: dict[str, Any] = {"pixel_values": image}
        own = getattr(config, "image_size", None)
        if "interpolate_pos_encoding" in self._known and own and size != _pair(own):
            inputs["interpolate_pos_encoding"] = True
        patch = self.layout.strides[0]
        cells = (size[0] // patch, size[1] // patch)
        count = cells[0] * cells[1]
        if config.model_type == "vit_mae":
            inputs["noise"] = torch.arange(count, dtype=torch.float32, device=image.device).expand(rows, -1)
        if "spatial_shapes" in self._known:  # SigLIP 2 takes patches
            inputs["pixel_values"] = patchified(image, patch)
            inputs["pixel_attention_mask"] = torch.ones(rows, count, dtype=torch.int32, device=image.device)
            inputs["spatial_shapes"] = torch.tensor(cells, device=image.device).expand(rows, -1)
        return inputs

    def text(self, prompts: Sequence[str]) -> Tensor:
        """Embeddings (P, D) of prompts in the space of proj@final, not normalised, by the model's own tokenizer."""
        if not hasattr(self.net, "get_text_features"):
            return super().text(prompts)
        tokenizer = self.tokenizer()
        # SigLIP was trained on lower case, without a mask, on texts filled up to their length; all of them at the right.
        siglip = "siglip" in self.net.config.model_type
        given = tokenizer(
            [prompt.lower() for prompt in prompts] if siglip else list(prompts),
            padding="max_length",
            padding_side="right",
            truncation=True,
            max_length=min(int(self.net.text_model.config.max_position_embeddings), tokenizer.model_max_length),
            return_tensors="pt",
        )
        # The library makes an empty tokenizer where the files of one are missing.
        if set(given["input_ids"].flatten().tolist()) <= set(tokenizer.all_special_ids):
            raise UsageError(
                f"the tokenizer of {self.name} knows none of the words in {list(prompts)[:2]}: its files are not all there. "
                "Get all of the model's files, or name another with model.backbone.tokenizer=NAME or FOLDER."
            )
        names = ("input_ids",) if siglip else ("input_ids", "attention_mask")
        inputs = {name: given[name].to(self.net.logit_scale.device) for name in names if name in given}
        parts = []
        for start in range(0, len(prompts), TEXTS):
            features = self.net.get_text_features(**{k: v[start : start + TEXTS] for k, v in inputs.items()})
            parts.append(features if isinstance(features, Tensor) else features.pooler_output)
        return torch.cat(parts)


def classifies(net: Any) -> bool:
    """Whether the net is a classifier of images."""
    return "ForImageClassification" in type(net).__name__


def trunk_name(net: Any) -> str:
    """Dotted name of the vision model in the net: "" where the net itself is one.

    Raises:
        UsageError: it reads no images; the message is the end of a sentence.
    """
    for name in ("vision_model", net.base_model_prefix if classifies(net) else ""):
        if name and isinstance(getattr(net, name, None), nn.Module):
            return name
    if net.main_input_name != "pixel_values":
        raise UsageError("it reads no images")
    return ""


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
