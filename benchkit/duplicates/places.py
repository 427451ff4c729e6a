"""Where the views of an export belong: split, item, label; from its own files and, where they are, the train targets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchkit.store.content import table_hash
from benchkit.store.outputs import targets_near
from benchkit.store.table import Table


class Place(NamedTuple):
    """One use of a view: its split, the item it is part of, the item's label (None where there is none, or unknown)."""

    split: str
    item: str
    label: str | None


@dataclass
class Places:
    """Where every view belongs.

    Attributes:
        split: the evaluated split.
        items: views of every evaluated item.
        of: view -> its places.
        left_out: what could not be known: a sentence each.
    """

    split: str
    items: dict[str, list[str]]
    of: Mapping[str, list[Place]]
    left_out: list[str]

    def splits(self, view: str) -> set[str]:
        """The splits that a view is in."""
        return {place.split for place in self.of[view]}

    def labels(self, view: str) -> set[str]:
        """The known labels of a view."""
        return {place.label for place in self.of[view] if place.label is not None}


def read_places(folder: Path, record: Mapping[str, Any], views: Sequence[str]) -> Places:
    """Places of all views of a tag's folder; a view that no evaluated item shows is one of train.

    Raises:
        RunError: targets.h5 or the train targets are damaged.
    """
    data = record["data"]
    split, train = data["split"], data["train_split"]
    of: dict[str, list[Place]] = defaultdict(list)
    with Table(folder / "targets.h5", "targets") as table:
        items = _add(of, split, table)
    left_out: list[str] = []
    if train is not None and train != split and not _add_train(of, folder, train, data.get("train_targets")):
        left_out.append(
            f"labels of {train} are not known, so only {split} was checked for two labels: the targets of {train} are not "
            "below the outputs folder"
        )
    for view in views:
        if view not in of:
            of[view] = [Place(train or split, view, None)]
    return Places(split, items, of, left_out)


def _add_train(of: dict[str, list[Place]], folder: Path, split: str, content: str | None) -> bool:
    if content is None or not (path := targets_near(folder, content)).is_file():
        return False
    with Table(path, "targets") as table:
        if table_hash(table) != content:  # another file whose hash begins alike
            return False
        _add(of, split, table)
    return True


def _add(of: dict[str, list[Place]], split: str, table: Table) -> dict[str, list[str]]:
    items = {item: views.split("\n") for item, views in zip(table.names, table.read("views"), strict=True)}
    labels = _labels(table)
    for row, (item, views) in enumerate(items.items()):
        label = labels[row] if labels is not None and len(views) == 1 else None  # of a triplet, it says which is nearer
        for view in views:
            of[view].append(Place(split, item, label))
    return items


def _labels(table: Table) -> Sequence[str] | None:
    if "label" in table and table.shape("label") == ():
        classes = table.meta.get("classes")
        return [classes[int(i)] if classes else str(i) for i in np.asarray(table.read("label"))]
    return table.read("category/class") if "category/class" in table else None
