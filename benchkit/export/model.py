"""The backbone of a job, loaded: its identity, its preprocessing, the keys that a head wants of it."""

from __future__ import annotations

import contextlib
import dataclasses
import platform as machine
import re
from collections.abc import Iterator
from functools import cached_property
from importlib.metadata import version
from typing import Any

import torch

from benchkit.allocation import keep_freed_memory
from benchkit.backbones.base import Backbone, module_state_hash
from benchkit.backbones.base import Preprocess as OwnPreprocess
from benchkit.conf.build import Conf
from benchkit.conf.diff import identity_view
from benchkit.errors import UsageError
from benchkit.export.forward import Forward
from benchkit.export.job import Job
from benchkit.export.pairs import check_images
from benchkit.export.probe import probe
from benchkit.export.shares import local_rank
from benchkit.features import FeatureKey, plan_fixed, plan_keys, plan_points
from benchkit.heads.base import ModelSide
from benchkit.preprocess import PADDED, Preprocess
from benchkit.provenance.code import code_hash
from benchkit.provenance.identity import identity_hash
from benchkit.registry import names

NOT_ARCHITECTURE = ("checkpoint", "pretrained", "weights", "labels")  # settings that change no feature by themselves
BANK_VERSION = 1  # raised when the same identity could give other features


class LoadedModel:
    """A backbone built from a conf.

    Attributes:
        name: for tables, from the conf.
        folder: readable part of the bank's name, from the model itself: confs of one model share its bank.
        identity: everything that can change a feature: weights in memory, architecture, preprocessing, precision, batch size.
        preprocess: images -> inputs.
        facts: what the record says of the model.
    """

    def __init__(self, conf: Conf) -> None:
        keep_freed_memory()
        self.conf = conf
        model = conf.model
        self.device = choose_device(model.device)
        self.backbone = _built(conf)
        self.name = conf.stem.rsplit(".", 1)[-1] + ("+random" if model.random else "")
        own = self.backbone.name if self.backbone.name != Backbone.name else conf.backbone.name.rsplit(".", 1)[-1]
        self.folder = re.sub(r"[^A-Za-z0-9_.+-]", "_", own) + ("+random" if model.random else "")
        self.preprocess = input_preprocess(conf, self.backbone.preprocess, self.backbone.stride, self.name)
        if not self.backbone.reads_images:
            small = self.backbone.preprocess.size
            self.preprocess = dataclasses.replace(self.preprocess, size=small, resize="squash")
        self.weights = module_state_hash(self.backbone)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """See the class."""
        model = self.conf.model
        settings = identity_view(self.conf)["model"]["backbone"]
        pre = self.preprocess
        return {
            "bank_version": BANK_VERSION,
            "weights": self.weights,
            "upstream": self.backbone.upstream,
            "code": self._code(),
            "probe": self._probe(),
            "architecture": {k: v for k, v in settings.items() if k not in NOT_ARCHITECTURE},
            "preprocess": {
                "size": pre.size,
                "resize": pre.resize,
                "short": pre.short if pre.resize in ("crop", "short") else None,
                "interpolation": pre.interpolation,
                "mean": list(pre.mean),
                "std": list(pre.std),
                "multiple": pre.multiple if pre.resize in PADDED else None,
                "decoder": pre.decoder,
            },
            "precision": model.precision,
            "batch_size": model.batch_size,
            "compile": model.compile,
            "dense_dtype": model.features.dense_dtype,
            **({"dense_stride": model.features.dense_stride} if model.features.dense_stride > 1 else {}),
        }

    @property
    def _shipped(self) -> bool:
        """Backbones that ship with benchkit are named by their settings and their library's version."""
        return self.conf.backbone.name in names("backbones") and self.conf.backbone.name != "module"

    def _code(self) -> str | None:
        return None if self._shipped else code_hash(self.backbone, getattr(self.backbone, "code_of", ()))

    def _probe(self) -> dict[str, list[float]] | None:
        if self._shipped:
            return None
        pools = [
            pool
            for pool in self.backbone.pools
            if pool in ("cls", "mean", "attn", "patch", "masks", "keypoints", "descriptors")
        ]
        return probe(self.forward([FeatureKey(pool) for pool in pools]))

    @cached_property
    def identity_hash(self) -> str:
        """sha256 of the identity."""
        return identity_hash(self.identity)

    def keys(self, job: Job) -> list[Any]:
        """The feature keys of a job: what the head reads, for every layer asked for."""
        features, wants = job.conf.model.features, job.head.wants()
        if wants.kind == "images":
            check_images(job, self.backbone)
            return []
        if wants.points == "only" or (wants.points == "rather" and self.backbone.local_features):
            return plan_points(features.layers, job.conf.head.name, self.backbone)
        if self.backbone.local_features and wants.kind == "patch":
            raise UsageError(
                f"{self.name} gives keypoints, and the head {job.conf.head.name} reads maps: take one that reads keypoints, "
                "model.head.name=match."
            )
        if wants.kind is None and not self.backbone.pools:
            return []
        if wants.pool:
            return plan_fixed(wants.pool, features.layers, features.pool, job.conf.head.name, self.backbone)
        return plan_keys(features.layers, features.pool, features.norm, wants.kind or "pool", self.backbone)

    def check_grids(self, job: Job, keys: list[Any]) -> None:
        """See that the maps of several layers have one grid, where the head needs that.

        Raises:
            UsageError: they have not; says which grids there are.
        """
        maps = [key for key in keys if key.dense]
        if not job.head.one_grid or len(maps) < 2:
            return
        grids = {key: shape[1:] for key, shape in self.forward(maps).shapes.items()}
        if len(set(grids.values())) > 1:
            told = ", ".join(f"{key} {rows} x {columns}" for key, (rows, columns) in grids.items())
            raise UsageError(
                f"the head {job.conf.head.name} reads layers side by side, and the maps of {self.name} have different grids "
                f"({told}): take one layer, or layers of one grid; model.features.layers=all scores each by itself."
            )

    @property
    def side(self) -> ModelSide:
        """What heads may know of the model."""
        own = self.backbone
        labels = [(label.wnid, label.names) for label in own.labels]
        return ModelSide(self.name, labels, own.logit_scale, own.logit_bias, own.masks_are, own.local_features)

    def forward(self, keys: list[Any]) -> Forward:
        """Ready to fill a bank."""
        return Forward(self.backbone, keys, self.conf.model, self.preprocess, self.device, self.platform)

    @property
    def facts(self) -> dict[str, Any]:
        """For the record."""
        parameters = sum(p.numel() for p in self.backbone.parameters())
        return {
            "about": self.conf.about,
            "backbone": {
                "name": self.name,
                "notes": list(self.backbone.notes),
                "parameters": parameters,
                "weights": self.weights,
                "depth": self.backbone.depth,
            },
        }

    @property
    def platform(self) -> dict[str, Any]:
        """What equality in bits is promised within: device, its capability, library versions.

        And threads on a CPU: in batches of 4 they change the last bits of MobileNetV2, EfficientNet-Lite0 and ResNets
        (1 against 2 threads, torch 2.x, AVX-512; none in batches of 16 and 32).
        """
        cuda = self.device.type == "cuda"
        device = torch.cuda.get_device_name(self.device) if cuda else machine.machine()
        return {
            "device": f"{self.device.type}: {device}",
            **({"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()} if cuda else {}),
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "threads": torch.get_num_threads() if self.device.type == "cpu" else None,
            **{name: version(name) for name in ("torch", "torchvision", "timm", "numpy", "simplejpeg", "pillow")},
        }


_kept: list[tuple[Any, Backbone]] | None = None  # the last backbone that was built; None outside `sharing`


@contextlib.contextmanager
def sharing() -> Iterator[None]:
    """Inside, a backbone is not built again where nothing that it is built from differs: jobs of one export share it."""
    global _kept
    _kept = []
    try:
        yield
    finally:
        _kept = None


def _built(conf: Conf) -> Backbone:
    component, model, data = conf.backbone.component, conf.model, conf.data.settings
    how = {"size": data.size, "random": model.random, "seed": model.seed, "pad": data.resize in PADDED}
    key = (conf.backbone.name, repr(conf.backbone.settings), how)
    if _kept is None or getattr(component.build, "of_object", False):
        return component.build(conf.backbone.settings, **how)
    if not _kept or _kept[0][0] != key:
        _kept.clear()  # first: two would take twice the memory
        _kept.append((key, component.build(conf.backbone.settings, **how)))
    return _kept[0][1]


def input_preprocess(conf: Conf, own: OwnPreprocess, stride: int, name: str) -> Preprocess:
    """How images become inputs: the model's own way, as far as the conf does not say otherwise.

    Args:
        conf: its data and model.preprocess sections.
        own: the model's own preprocessing; stride: of its last map, in pixels; name: for messages.

    Raises:
        UsageError: nobody says mean and std, or the settings make no sense together.
    """
    data, chosen = conf.data.settings, conf.model.preprocess
    size, mean, std = data.size or own.size, chosen.mean or own.mean, chosen.std or own.std
    if mean is None or std is None:
        raise UsageError(
            f"say how images of {name} are normalised: model.backbone.mean and .std, three numbers each in the 0..1 "
            "range, as it was trained. They cannot be inferred, and another model's give wrong numbers silently."
        )
    family = conf.family_component.build
    dense = family.dense  # the whole short side is scored, in one frame for all models
    resize = _resize(data, own, family)
    if family.whole_views and resize == "crop":
        raise UsageError(
            f"{conf.benchmark} scores keypoints of whole views: use data.resize=squash, pad or native, not crop."
        )
    return Preprocess(
        size=size,
        resize=resize,
        short=data.resize_short or (size if dense else int(size / own.crop_pct)),
        interpolation=chosen.interpolation or own.interpolation,
        mean=tuple(mean),
        std=tuple(std),
        multiple=stride * conf.model.features.dense_stride,
        decoder=data.decoder,
    )


def _resize(data: Any, own: OwnPreprocess, family: Any) -> str:
    """How images are resized; a short side means a crop, or of whole views that they keep their aspect."""
    short = (
        data.resize_short and not data.size
    )  # a side that somebody asks for goes before the short side of an instance
    if data.resize == "pad" or (family.whole_views and short and not data.resize):
        return "short" if short else "pad"
    if data.resize:
        return data.resize
    if family.whole_views:
        return "squash" if own.resize != "native" else "pad" if data.size else "native"
    return "crop" if data.resize_short or family.dense else own.resize


def choose_device(name: str) -> torch.device:
    """cuda, else mps, else cpu for `auto`; of several workers on a machine each takes a cuda device of its own.

    Raises:
        UsageError: the device named is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"model.device={name} is no torch device: use auto, cpu, cuda, cuda:1 or mps.") from error
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device.type == "cuda" and device.index is None and there["cuda"]:
        device = torch.device("cuda", local_rank() % torch.cuda.device_count())
    if not there.get(device.type, True):
        raise UsageError(f"model.device={name}, but torch finds no such device here: use model.device=cpu.")
    return device
