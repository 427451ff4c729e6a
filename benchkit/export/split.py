"""The items of one split as an export sees them: limited, checked, with their files' facts."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from benchkit.datasets.base import Dataset
from benchkit.errors import UsageError, folded
from benchkit.export.facts import Facts, ManyFacts
from benchkit.export.manifest import read_manifest, read_truths
from benchkit.export.truth import FramedTruth
from benchkit.provenance.identity import Line, dataset_id
from benchkit.store.columns import Column, Ragged, Rows
from benchkit.store.items import ArrayItems
from benchkit.store.outputs import Outputs

_SHOWN = 5  # names in a message


@dataclasses.dataclass
class Split:
    """Items of one split in name order, the facts of their views, and those of the files of their truth."""

    dataset: Dataset
    name: str
    items: list[str]
    facts: ManyFacts
    truths: Mapping[str, Facts] = dataclasses.field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """dataset_id of this split (design: identity and comparability)."""
        own = None
        if type(self.dataset).own_id is not Dataset.own_id:
            own = self.dataset.own_id(self.name, {i: self.facts[self.dataset.views(i)[0]].sha256 for i in self.items})
        return own or dataset_id(self._lines())

    def _lines(self) -> Iterator[Line]:
        """What `dataset_id` hashes of each item."""
        group, files = self.dataset.group, self.dataset.target_files
        if self.truths or type(self.dataset).views is not Dataset.views:
            return ((item, group(item), self.name, self._content(item)) for item in self.items)
        contents = zip(self.items, self.facts.hashes(self.items), strict=True)  # an item is its one view
        return ((item, group(item), self.name, "+".join((sha256, *files(item)))) for item, sha256 in contents)

    def _content(self, item: str) -> str:
        files = [self.facts[view].sha256 for view in self.dataset.views(item)]
        examined = [self.truths[item].sha256] if item in self.truths else []
        return "+".join([*files, *self.dataset.target_files(item), *examined])

    def columns(self, items: Sequence[str], truth: FramedTruth | None = None) -> dict[str, Column]:
        """Table columns of the truth: target fields, group, category/<name>, views.

        Args:
            items: names.
            truth: the fields in the scored frame, whose pixel maps are made item by item while they are written; default:
                as the data set gives them.
        """
        if truth is not None and (self.dataset.maps or truth.derive):
            columns = self._maps(items, truth)
        else:
            columns = self._fields(items)
            for name in self._left_out(items):
                columns[name] = stacked([self.dataset.field(item, name) for item in items])
        categories = [self.dataset.category(item) for item in items]
        for name in categories[0] if categories else ():
            columns[f"category/{name}"] = [c[name] for c in categories]
        columns["group"] = [self.dataset.group(item) for item in items]
        columns["views"] = ["\n".join(self.dataset.views(item)) for item in items]
        return columns

    def _fields(self, items: Sequence[str]) -> dict[str, Column]:
        """Columns of what `target` gives, in memory."""
        targets = [self.dataset.target(item) for item in items]
        return {field: stacked([t[field] for t in targets]) for field in (targets[0] if targets else ())}

    def _left_out(self, items: Sequence[str]) -> list[str]:
        """The maps that `target` leaves to `field`."""
        if not items or not self.dataset.maps:
            return []
        there = self.dataset.target(items[0])
        return [name for name in self.dataset.map_fields(items[0]) if name not in there]

    def _maps(self, items: Sequence[str], truth: FramedTruth) -> dict[str, Column]:
        """Columns of pixel maps, one map in memory at a time; each is made once where its shape is known beforehand."""
        left_out = [] if truth.derive else self._left_out(items)
        if left_out:
            return {**self._fields(items), **{name: self._alone(items, truth, name) for name in left_out}}
        columns: dict[str, Column] = {}
        for field, sample in truth(items[0]).items() if items else ():
            each = functools.partial(_each, items, truth, field)
            if field in self.dataset.stacks:
                columns[field] = Ragged(sample.dtype, sample.ndim, each)
            elif truth.uniform:
                columns[field] = Rows(sample.dtype, sample.shape, (value[None] for value in each()))
            else:
                shapes = [(*self._size(item), *sample.shape[2:]) for item in items]
                columns[field] = Ragged(sample.dtype, sample.ndim, each, shapes)
        return columns

    def _alone(self, items: Sequence[str], truth: FramedTruth, name: str) -> Column:
        """The column of a map that is read by itself."""
        sample = truth.field(items[0], name)
        view = self.dataset.map_views.get(name, 0)
        shapes = [self.dataset.map_shape(i, name) or (*self._size(i, view), *sample.shape[2:]) for i in items]
        each = functools.partial(_alone_each, items, truth, name)
        if len(set(shapes)) == 1:
            return Rows(sample.dtype, sample.shape, (value[None] for value in each()))
        return Ragged(sample.dtype, sample.ndim, each, shapes)

    def _size(self, item: str, view: int = 0) -> tuple[int, int]:
        facts = self.facts[self.dataset.views(item)[view]]
        return facts.height, facts.width

    def truth(self, items: Sequence[str]) -> ArrayItems:
        """The truth of some items in memory."""
        return ArrayItems(items, self.columns(items), self.dataset.meta())

    def bad(self) -> dict[str, str]:
        """Items with an unreadable view, or with truth that cannot be used: which, and why."""
        wrong = {self.facts.names[row]: problem for row, problem in self.facts.problems.items()}
        views = {
            item: f"{view}: {wrong[view]}"
            for item in (self.items if wrong else ())
            for view in self.dataset.views(item)
            if view in wrong
        }
        truths = {item: f"{item}: {facts.problem}" for item, facts in self.truths.items() if facts.problem}
        return {**truths, **views}


def read_splits(
    dataset: Dataset, names: Iterable[str], limit: int | None, outputs: Outputs, settings: Mapping[str, Any]
) -> dict[str, Split]:
    """The splits by name, each limited, with what is known of all their files.

    Args:
        dataset: to read.
        names: of the splits, none twice.
        limit: at most so many items each.
        outputs: where facts are remembered.
        settings: what the truth's files are examined against.

    Raises:
        UsageError: a split is empty.
    """
    items = {name: limited(dataset, dataset.items(name), limit) for name in names}
    empty = next((name for name, found in items.items() if not found), None)
    if empty is not None:
        raise UsageError(f"split {empty!r} of {type(dataset).__name__} is empty.")
    every = in_order(name for found in items.values() for name in found)
    views = every if type(dataset).views is Dataset.views else in_order(dataset.views_of(every))
    facts = read_manifest(dataset, views, outputs)
    truths = read_truths(dataset, every, outputs, settings)
    return {
        name: Split(dataset, name, found, facts, {i: truths[i] for i in found if i in truths} if truths else {})
        for name, found in items.items()
    }


def in_order(names: Iterable[str]) -> list[str]:
    """Names in their order, each once; fast where whole lists of them are in order already."""
    return list(dict.fromkeys(sorted(names)))


def _each(items: Sequence[str], truth: FramedTruth, field: str) -> Iterator[np.ndarray]:
    return (np.asarray(truth(item)[field]) for item in items)


def _alone_each(items: Sequence[str], truth: FramedTruth, name: str) -> Iterator[np.ndarray]:
    return (np.asarray(truth.field(item, name)) for item in items)


def stacked(values: Sequence[np.ndarray]) -> Column:
    """One array where all shapes agree, else a ragged column."""
    arrays = [np.asarray(v) for v in values]
    if len({a.shape for a in arrays}) <= 1:
        return np.stack(arrays) if arrays else np.zeros(0)
    return Ragged(arrays[0].dtype, arrays[0].ndim, arrays)


def limited(dataset: Dataset, names: Sequence[str], limit: int | None) -> list[str]:
    """At most `limit` items, equally many per class, chosen by the hash of their names: 100 are a subset of 200."""
    if limit is None or limit >= len(names):
        return sorted(names)
    by_label: dict[str | None, list[tuple[bytes, str]]] = defaultdict(list)
    for name in names:
        by_label[dataset.label(name)].append((hashlib.sha256(name.encode()).digest(), name))
    turns = [(turn, *pair) for members in by_label.values() for turn, pair in enumerate(sorted(members))]
    return sorted(name for _, _, name in sorted(turns)[:limit])


def counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def check_readable(splits: Sequence[Split], on_error: str) -> dict[str, str]:
    """Unreadable items and why.

    Raises:
        UsageError: there are some and `on_error` is stop, or no other image is left of a class; names the files.
    """
    bad = {item: why for split in splits for item, why in split.bad().items()}
    if bad and on_error == "stop":
        raise UsageError(
            f"{counted(len(bad), 'item', 'items')} cannot be used{_below(splits[0])}: {_said(bad)}. Mend or remove "
            "such files, or leave them out with data.on_error=skip."
        )
    check_left(splits, bad)
    return bad


def check_left(splits: Sequence[Split], skipped: Mapping[str, str]) -> None:
    """See that every class keeps items when some are left out, since the others would be scored as if they were all.

    Raises:
        UsageError: nothing is left of a class; names it, and the files.
    """
    for split in splits if skipped else ():
        left = class_counts(split, (item for item in split.items if item not in skipped))
        lost = class_counts(split, split.items).keys() - left.keys()
        if lost:
            gone = {item: skipped[item] for item in split.items if split.dataset.label(item) in lost}
            what = ", ".join(f"class {label!r}" for label in sorted(lost, key=str) if label is not None) or "any item"
            raise UsageError(f"no image can be used of {what} in split {split.name!r}{_below(split)}: {_said(gone)}.")


def _said(bad: Mapping[str, str]) -> str:
    return folded(bad.values(), _SHOWN)


def _below(split: Split) -> str:
    root = split.dataset.settings.root
    return f" below {root}" if root else ""


def untrained_classes(train: Split | None, test: Split) -> list[str]:
    """Classes that are evaluated and never occur in train: no head can know them, and they count as wrong."""
    if train is None:
        return []
    missing = class_counts(test, test.items).keys() - class_counts(train, train.items).keys()
    return sorted(label for label in missing if label is not None)


def class_counts(split: Split, items: Iterable[str]) -> Counter[str | None]:
    """Items per class."""
    return Counter(split.dataset.label(item) for item in items)
