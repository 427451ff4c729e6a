"""Which of a model's labels stand for which class of a data set: by WordNet id, by name, or as the conf says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchkit.errors import UsageError, some
from benchkit.heads.base import ModelSide

REST = "*"  # in a map: every label that is no other class's
_WNID = re.compile(r"n\d{8}")
_SHOWN = 5  # names in a message


class Matching:
    """Labels of a model matched to classes.

    A label fits a class of its WordNet id, or of any of its names (case, `_` and `-` aside). A name that fits several labels
    (crane: a bird, a machine) is no match until the map says which.

    Args:
        model: its name and labels.
        classes: of the data set; aliases: their names in words where `classes` are ids.
        said: class -> labels, commas between them; * for all labels that are no other class's.

    Attributes:
        names: of the model's labels, for messages.
        matched: class -> labels, by number; classes without a label are not in it.
        ambiguous: classes that several labels fit.

    Raises:
        UsageError: the map is wrong, two classes have one label, or fewer than two classes have any.
    """

    def __init__(
        self, model: ModelSide, classes: Sequence[str], aliases: Sequence[str], said: Mapping[str, str]
    ) -> None:
        self.classes, self.said = list(classes), dict(said)
        self.names = [" / ".join(filter(None, (wnid, names[0] if names else ""))) for wnid, names in model.labels]
        self.ambiguous: list[str] = []
        index = _index(model.labels)
        self._refuse_unknown_classes()
        found = {n: self._labels_of(*pair, index) for n, pair in enumerate(zip(classes, aliases, strict=True))}
        self.matched = {number: labels for number, labels in found.items() if labels}
        self._take_rest()
        self._check(model)

    def _refuse_unknown_classes(self) -> None:
        odd = [name for name in self.said if name not in self.classes]
        if odd:
            raise UsageError(f"model.head.map.{odd[0]}: the data set has no class {odd[0]!r}; {some(self.classes)}.")

    def _labels_of(self, name: str, alias: str, index: Mapping[str, list[int]]) -> list[int]:
        if name in self.said:
            parts = [part for part in self.said[name].split(",") if part.strip() != REST]
            return [label for part in parts for label in self._said(name, part, index)]
        if _WNID.fullmatch(name):
            return index.get(name, [])
        found = sorted({*index.get(plain(name), ()), *index.get(plain(alias), ())})
        if len(found) > 1:
            self.ambiguous.append(f"{name} ({', '.join(self.names[label] for label in found)})")
        return found if len(found) == 1 else []

    def _said(self, name: str, part: str, index: Mapping[str, list[int]]) -> list[int]:
        found = index.get(plain(part), [])
        if len(found) != 1:
            several = ": " + ", ".join(self.names[label] for label in found) if found else ""
            raise UsageError(f"model.head.map.{name}={part.strip()} fits {len(found)} labels of the model{several}.")
        return found

    def _take_rest(self) -> None:
        takers = [
            n for n, name in enumerate(self.classes) if REST in self.said.get(name, "").replace(" ", "").split(",")
        ]
        if len(takers) > 1:
            both = " and ".join(self.classes[number] for number in takers[:2])
            raise UsageError(f"model.head.map: only one class can have the rest of the labels (*), not {both}.")
        used = {label for labels in self.matched.values() for label in labels}
        for number in takers:
            rest = [label for label in range(len(self.names)) if label not in used]
            if rest:
                self.matched[number] = self.matched.get(number, []) + rest
        self.matched = dict(sorted(self.matched.items()))

    def _check(self, model: ModelSide) -> None:
        used = [label for labels in self.matched.values() for label in labels]
        twice = next((label for label in used if used.count(label) > 1), None)
        if twice is not None:
            owners = [self.classes[number] for number, labels in self.matched.items() if twice in labels]
            raise UsageError(f"the label {self.names[twice]} is matched to {' and '.join(owners)}: see model.head.map.")
        if len(self.matched) < 2:
            also = f" Several labels fit: {'; '.join(self.ambiguous[:_SHOWN])}." if self.ambiguous else ""
            raise UsageError(
                f"{len(self.matched)} of the data set's classes ({some(self.classes)}) are classes of {model.name} "
                f"({some(self.names)}), and a score needs two: say which with model.head.map.CLASS=LABEL.{also}"
            )

    def told(self) -> dict[str, list[str]]:
        """Class -> labels, by name."""
        return {self.classes[number]: [self.names[i] for i in found] for number, found in self.matched.items()}


def counts(known: Matching | None) -> dict[str, float]:
    """How many of the data set's classes have a label, of how many, and how many classes the model has; 0 before matching."""
    sizes = (0, 0, 0) if known is None else (len(known.matched), len(known.classes), len(known.names))
    return dict(zip(("covered_classes", "classes", "model_classes"), map(float, sizes), strict=True))


def _index(labels: Sequence[tuple[str, tuple[str, ...]]]) -> dict[str, list[int]]:
    """Labels by WordNet id and by each plain name."""
    found: dict[str, list[int]] = {}
    for number, (wnid, names) in enumerate(labels):
        for key in {wnid, *map(plain, names)} - {""}:
            found.setdefault(key, []).append(number)
    return found


def plain(name: str) -> str:
    """A name without case, `_` and `-`."""
    return " ".join(re.sub(r"[_\-\s]+", " ", name).lower().split())
