"""Names of classes, with WordNet ids where they are those of ImageNet-1k in its order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from timm.data import ImageNetInfo

from benchkit.backbones.base import Label
from benchkit.conf.find import configs_dir
from benchkit.errors import UsageError
from benchkit.provenance import strict

COUNT = 1000
SPELLINGS = 20  # classes whose name may be spelt otherwise ("crane bird") in a list that is ImageNet's all the same


def names_of(given: Sequence[str]) -> list[str]:
    """Names of classes; or one word, a list that ships with benchkit (voc, ade20k, ...) or a file, a name a line.

    Raises:
        UsageError: there is no such list or file.
    """
    if len(given) > 1:
        return list(given)
    places = [configs_dir() / "labels" / f"{given[0]}.txt", Path(given[0]).expanduser()]
    path = next((each for each in places if os.path.isfile(each)), None)
    if path is None:
        shipped = ", ".join(sorted(each.stem for each in places[0].parent.glob("*.txt")))
        raise UsageError(
            f"model.backbone.labels={given[0]}: there is no such file, and the lists that ship are {shipped}."
        )
    return [line for _, line in strict.read_lines(path)]


def labels_of(names: Sequence[str]) -> tuple[Label, ...]:
    """Labels of classes whose libraries give names only, such as "tench" or "tench, Tinca tinca".

    A list of 1,000 is ImageNet-1k's if its names are, one by one, among the synonyms of the WordNet id at that place.
    """
    given = [tuple(name.split(", ")) for name in names]
    if len(given) != COUNT:
        return tuple(Label("", each) for each in given)
    info = ImageNetInfo("imagenet-1k")
    known = [tuple(info.index_to_description(number).split(", ")) for number in range(COUNT)]
    others = sum(not _share(*pair) for pair in zip(given, known, strict=True))
    if others > SPELLINGS:
        return tuple(Label("", each) for each in given)
    every = [tuple(dict.fromkeys([*ours, *theirs])) for ours, theirs in zip(given, known, strict=True)]
    return tuple(Label(info.index_to_label_name(number), each) for number, each in enumerate(every))


def _share(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    return not {name.lower() for name in ours}.isdisjoint(name.lower() for name in theirs)
