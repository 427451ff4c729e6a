"""Zero-shot classification: an image's class is the prompt it lies nearest to.

Source: Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision", 3.1: every prompt's
embedding is normalised, averaged over the templates, and normalised again; the score is the model's own scale times the
cosine (plus its bias, which moves all classes alike). The default templates are the paper's 80 for ImageNet, and WordNet
ids get the paper's names of ImageNet's classes, both as the open_clip library lists them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.errors import RunError, UsageError
from benchkit.heads.base import Head, ModelSide, Wants
from benchkit.provenance import strict
from benchkit.settings import setting
from benchkit.store.items import Items

BLOCK = 1024  # rows that are multiplied together: fixed, so that a row's bits do not depend on how many there are
_WNID = re.compile(r"n\d{8}")


@dataclasses.dataclass
class Settings:
    """What the prompts say."""

    templates: list[str] = setting(
        ["openai80"],
        "openai80, openai7, photo (a photo of a {}.), a text file with a template a line, or the templates themselves",
    )
    names: dict[str, str] = setting({}, "class -> what the prompts call it (default: the data set's own name)")

    def __post_init__(self) -> None:
        if not self.templates:
            raise ValueError("templates is empty: name openai80, openai7 or photo, or write some with {} for the class")


class Zeroshot(Head):
    """`scores`: the model's own logits, scale x cosine + bias, float32 (N, K)."""

    gives = ("scores",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.templates: list[str] = []
        self.names: list[str] = []
        self.classes = np.zeros((0, 0), np.float32)
        self.scale, self.bias = 1.0, 0.0

    def wants(self) -> Wants:
        """Image embeddings in the space of the texts."""
        return Wants(pool="proj")

    def prepare(self, model: ModelSide, meta: Mapping[str, Any]) -> list[str]:
        """Every prompt, once: each template with each class's name.

        Raises:
            UsageError: the model has no text tower, or a template has no {}.
        """
        if model.logit_scale is None:
            raise UsageError(
                f"{model.name} has no text tower: zero-shot needs an image-text model such as CLIP or SigLIP."
            )
        self.scale, self.bias = model.logit_scale, model.logit_bias or 0.0
        self.templates = [template for each in self.settings.templates for template in templates_of(each)]
        self.names = class_names(meta, self.settings.names)
        return list(dict.fromkeys(self._prompts()))

    def _prompts(self) -> list[str]:
        return [template.replace("{}", name) for name in self.names for template in self.templates]

    def read_texts(self, embeddings: np.ndarray) -> None:
        """One direction per class."""
        rows = dict(zip(dict.fromkeys(self._prompts()), _unit(embeddings, "prompts"), strict=True))
        each = np.stack([rows[prompt] for prompt in self._prompts()])
        mean = each.reshape(len(self.names), len(self.templates), -1).mean(axis=1)
        self.classes = _unit(mean, "mean prompts").astype(np.float32)

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """Logits in fixed blocks."""
        from benchkit.heads.solvers.blocks import affine, fixed_threads

        images = _unit(np.asarray(features.read(key)), "image embeddings").astype(np.float32)
        with fixed_threads(threads):
            cosines = affine(images, self.classes.T, np.zeros(len(self.classes), np.float32), BLOCK)
        return {"scores": (self.scale * cosines + self.bias).astype(np.float32)}

    def meta(self) -> dict[str, Any]:
        """The names in the prompts, the templates, and the scale."""
        return {**super().meta(), "names": self.names, "templates": self.templates, "logit_scale": self.scale}

    def protocol(self) -> dict[str, Any]:
        """sha256 of the templates, and of the names they are filled with."""
        return {"templates": _hash(self.templates), "names": _hash(self.names)} if self.templates else {}

    def log(self) -> dict[str, float]:
        """How many templates each class has, and how many classes share their name with another: no model can tell those
        apart, and ties are wrong (in the paper's names of ImageNet two pairs are alike)."""
        alike = sum(self.names.count(name) > 1 for name in self.names)
        return {"templates": float(len(self.templates)), "classes_named_alike": float(alike)}

    def state(self) -> dict[str, np.ndarray]:
        """`weight` (K, D): unit directions; `scale` and `bias`."""
        return {
            "weight": self.classes,
            "scale": np.array([self.scale], np.float32),
            "bias": np.array([self.bias], np.float32),
        }


def templates_of(named: str) -> list[str]:
    """The templates behind a name, a file, or a template itself.

    Raises:
        UsageError: it is none of these; or a template lacks {}.
    """
    found = _named(named) or [named]
    odd = [template for template in found if "{}" not in template]
    if odd or not found:
        raise UsageError(
            f"model.head.templates: {odd[0] if odd else named!r} has no {{}} for the class; write such templates, or name "
            "openai80, openai7, photo, or a text file of them."
        )
    return found


def _named(named: str) -> list[str] | None:
    if named == "photo":
        return ["a photo of a {}."]
    if named in ("openai80", "openai7"):
        from open_clip import zero_shot_metadata as library

        lists = {"openai80": library.OPENAI_IMAGENET_TEMPLATES, "openai7": library.SIMPLE_IMAGENET_TEMPLATES}
        return [template("{}") for template in lists[named]]
    if "{}" not in named and os.path.isfile(Path(named).expanduser()):
        return [line for _, line in strict.read_lines(Path(named).expanduser())]
    return None


def class_names(meta: Mapping[str, Any], said: Mapping[str, str]) -> list[str]:
    """What prompts call the classes: as said, else the data set's readable name, the paper's of a WordNet id, the class's.

    Raises:
        UsageError: a name is said of a class that does not exist.
    """
    classes = list(meta["classes"])
    odd = [name for name in said if name not in classes]
    if odd:
        raise UsageError(f"model.head.names.{odd[0]}: the data set has no class {odd[0]!r}.")
    readable = meta.get("class_names")
    own = list(readable) if readable else _readable(classes)
    return [said.get(name, default) for name, default in zip(classes, own, strict=True)]


def _readable(classes: Sequence[str]) -> list[str]:
    paper: dict[str, str] = {}
    if any(_WNID.fullmatch(name) for name in classes):
        from open_clip.zero_shot_metadata import IMAGENET_CLASSNAMES
        from timm.data import ImageNetInfo

        paper = dict(zip(ImageNetInfo().label_names(), IMAGENET_CLASSNAMES, strict=True))
    return [paper.get(name, name.replace("_", " ")) for name in classes]


def _unit(rows: np.ndarray, what: str) -> np.ndarray:
    """L2-normalised rows, float64."""
    values = np.asarray(rows, np.float64)
    length = np.linalg.norm(values, axis=1, keepdims=True)
    if not (length > 0).all():
        raise RunError(f"zero-shot: {int((length == 0).sum())} {what} are zero vectors, which have no direction.")
    return values / length


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


build = Zeroshot
