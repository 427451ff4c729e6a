"""The model's own classifier, on the classes that it and the data set share.

Its labels are matched to the data set's classes by WordNet id or by name (any of a label's names; case, `_` and `-` aside).
Only matched labels compete, as is usual on subsets of ImageNet (Hendrycks et al. 2021, "Natural Adversarial Examples" and
ImageNet-R); a class of several labels has the sum of their probabilities. Items of a class without a label have no score,
and are counted. A name that fits several labels (crane: a bird, a machine) is no match until model.head.map says which.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.heads.base import Head, ModelSide, Wants
from benchkit.settings import setting
from benchkit.store.items import Items

_WNID = re.compile(r"n\d{8}")
_SHOWN = 5  # names in a message


@dataclasses.dataclass
class Settings:
    """How labels are matched."""

    map: dict[str, str] = setting(
        {}, "class -> label of the model, by WordNet id or name, where they cannot be matched; several with commas"
    )


class Classifier(Head):
    """`scores`: log-probabilities (N, K) up to a constant; -inf in the columns of classes without a label."""

    gives = ("scores",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.classes: list[str] = []
        self.matched: dict[int, list[int]] = {}  # class -> labels
        self.ambiguous: list[str] = []
        self.names: list[str] = []

    def wants(self) -> Wants:
        """The model's logits."""
        return Wants(pool="logits")

    def prepare(self, model: ModelSide, meta: Mapping[str, Any]) -> list[str]:
        """Match the classes.

        Raises:
            UsageError: nobody names the model's classes, none is a class of the data set, or the map is wrong.
        """
        if not model.labels:
            raise UsageError(
                f"nobody says what the classes of {model.name}'s classifier are, so they cannot be matched to the data set's: "
                "use a trained head (model.head.name=logreg)."
            )
        self.classes = list(meta["classes"])
        self.names = [" / ".join(filter(None, (wnid, names[0] if names else ""))) for wnid, names in model.labels]
        self.matched, self.ambiguous = {}, []
        index = _index(model.labels)
        aliases = list(meta.get("class_names") or self.classes)
        self._refuse_unknown_classes()
        for number, (name, alias) in enumerate(zip(self.classes, aliases, strict=True)):
            found = self._labels_of(name, alias, index)
            if found:
                self.matched[number] = found
        self._check(model)
        return []

    def _refuse_unknown_classes(self) -> None:
        odd = [name for name in self.settings.map if name not in self.classes]
        if odd:
            raise UsageError(f"model.head.map.{odd[0]}: the data set has no class {odd[0]!r}; {_some(self.classes)}.")

    def _labels_of(self, name: str, alias: str, index: Mapping[str, list[int]]) -> list[int]:
        if name in self.settings.map:
            return [label for part in self.settings.map[name].split(",") for label in self._said(name, part, index)]
        if _WNID.fullmatch(name):
            return index.get(name, [])
        found = sorted({*index.get(_plain(name), ()), *index.get(_plain(alias), ())})
        if len(found) > 1:
            self.ambiguous.append(f"{name} ({', '.join(self.names[label] for label in found)})")
        return found if len(found) == 1 else []

    def _said(self, name: str, part: str, index: Mapping[str, list[int]]) -> list[int]:
        found = index.get(_plain(part), [])
        if len(found) != 1:
            several = ": " + ", ".join(self.names[label] for label in found) if found else ""
            raise UsageError(f"model.head.map.{name}={part.strip()} fits {len(found)} labels of the model{several}.")
        return found

    def _check(self, model: ModelSide) -> None:
        used = [label for labels in self.matched.values() for label in labels]
        twice = next((label for label in used if used.count(label) > 1), None)
        if twice is not None:
            owners = [self.classes[number] for number, labels in self.matched.items() if twice in labels]
            raise UsageError(f"the label {self.names[twice]} is matched to {' and '.join(owners)}: see model.head.map.")
        if len(self.matched) < 2:
            also = f" Several labels fit: {'; '.join(self.ambiguous[:_SHOWN])}." if self.ambiguous else ""
            raise UsageError(
                f"{len(self.matched)} of the data set's classes ({_some(self.classes)}) are classes of {model.name} "
                f"({_some(self.names)}), and a score needs two: say which with model.head.map.CLASS=LABEL.{also}"
            )

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """Log of the summed probabilities of each class's labels, up to one constant a row."""
        logits = np.asarray(features.read(key), np.float64)
        if logits.shape[1] != len(self.names):
            raise UsageError(
                f"the model's logits have {logits.shape[1]} classes and {len(self.names)} names: they are another list's."
            )
        scores = np.full((len(logits), len(self.classes)), -np.inf, np.float32)
        for number, labels in self.matched.items():
            scores[:, number] = np.logaddexp.reduce(logits[:, labels], axis=1)
        return {"scores": scores}

    def meta(self) -> dict[str, Any]:
        """`covered`: the classes that have a label; `map`: which."""
        labels = {self.classes[number]: [self.names[i] for i in found] for number, found in self.matched.items()}
        return {**super().meta(), "covered": sorted(self.matched), "map": labels, "ambiguous": self.ambiguous}

    def protocol(self) -> dict[str, Any]:
        """Scores on other classes are other scores."""
        return {"covered": [self.classes[number] for number in sorted(self.matched)]}

    def log(self) -> dict[str, float]:
        """How many of the data set's classes are scored, of how many, and how many classes the model has."""
        return {
            "covered_classes": float(len(self.matched)),
            "classes": float(len(self.classes)),
            "model_classes": float(len(self.names)),
        }


def _index(labels: Sequence[tuple[str, tuple[str, ...]]]) -> dict[str, list[int]]:
    """Labels by WordNet id and by each plain name."""
    found: dict[str, list[int]] = {}
    for number, (wnid, names) in enumerate(labels):
        for key in {wnid, *map(_plain, names)} - {""}:
            found.setdefault(key, []).append(number)
    return found


def _plain(name: str) -> str:
    return " ".join(re.sub(r"[_\-\s]+", " ", name).lower().split())


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


build = Classifier
