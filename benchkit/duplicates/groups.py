"""From pairs to groups of views that show one photo, and to the evaluated items that a score is better without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchkit.duplicates.find import BYTES, KINDS, Copies
from benchkit.duplicates.places import Places

ACROSS = "across splits"


@dataclass
class Group:
    """Views of one photo.

    Attributes:
        views: in name order.
        pairs: how they were found to be the same: (first, second) -> kind.
        where: `within <split>` or ACROSS.
        labels: known labels, in name order; several of them are a contradiction.
    """

    views: list[str]
    pairs: dict[tuple[str, str], str]
    where: str
    labels: list[str]

    @property
    def kinds(self) -> list[str]:
        """The kinds of its pairs, in the order of KINDS; a view alone is the same in bytes."""
        return [kind for kind in KINDS if kind in self.pairs.values()] or [BYTES]

    @property
    def two_labels(self) -> bool:
        """Whether one photo has several labels."""
        return len(self.labels) > 1

    def plain(self, places: Places) -> dict[str, Any]:
        """For JSON."""
        views = [{"name": v, "places": [place._asdict() for place in places.of[v]]} for v in self.views]
        pairs = [{"first": first, "second": second, "kind": kind} for (first, second), kind in self.pairs.items()]
        return {"kinds": self.kinds, "where": self.where, "two_labels": self.two_labels, "views": views, "pairs": pairs}


def make_groups(copies: Copies, places: Places) -> list[Group]:
    """Groups of views that are linked by pairs, and views of two splits or labels; those across splits first.

    The views of one item may look alike: that is what a triplet asks about.
    """
    found = _linked(copies.pairs)
    paired = {view: number for number, views in enumerate(found) for view in views}
    pairs: list[dict[tuple[str, str], str]] = [{} for _ in found]
    for pair, kind in sorted(copies.pairs.items()):
        pairs[paired[pair[0]]][pair] = kind
    alone = [view for view in places.of if view not in paired]
    shared = [view for view in alone if len(places.splits(view)) > 1 or len(places.labels(view)) > 1]
    groups = [_group(views, how, places) for views, how in zip(found, pairs, strict=True)]
    groups += [_group([view], {}, places) for view in shared]
    groups = [group for group in groups if BYTES in group.kinds or len(_items(group, places)) > 1]
    return sorted(groups, key=lambda g: (g.where != ACROSS, not g.two_labels, g.where, g.views))


def _linked(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The groups that pairs make, each in name order, in the order of their first views."""
    parent: dict[str, str] = {}

    def top(view: str) -> str:
        while parent.setdefault(view, view) != view:
            parent[view] = view = parent[parent[view]]
        return view

    for first, second in pairs:
        low, high = sorted((top(first), top(second)))
        parent[high] = low
    groups: dict[str, list[str]] = {}
    for view in sorted(parent):
        groups.setdefault(top(view), []).append(view)
    return list(groups.values())


def _group(views: list[str], pairs: dict[tuple[str, str], str], places: Places) -> Group:
    splits = set().union(*(places.splits(view) for view in views))
    labels = set().union(*(places.labels(view) for view in views))
    return Group(views, pairs, ACROSS if len(splits) > 1 else f"within {splits.pop()}", sorted(labels))


def _items(group: Group, places: Places) -> set[tuple[str, str]]:
    return {(place.split, place.item) for view in group.views for place in places.of[view]}


def flagged_items(groups: Iterable[Group], places: Places) -> dict[str, str]:
    """Evaluated items that a score is better without, and why: what is also in train, what has two labels, and of
    items that are copies of each other in all their views all but the first."""
    of_view = {view: group for group in groups for view in group.views}
    flagged: dict[str, str] = {}
    seen: dict[tuple[str, ...], str] = {}
    for item, views in sorted(places.items.items()):
        found = [(view, of_view[view]) for view in views if view in of_view]
        first = seen.setdefault(tuple(of_view[v].views[0] if v in of_view else v for v in views), item)
        reason = _reason(found, places) or (f"copy of {first} ({_kinds(found)})" if first != item and found else "")
        if reason:
            flagged[item] = reason
    return flagged


def _reason(found: list[tuple[str, Group]], places: Places) -> str:
    for view, group in found:
        if group.where == ACROSS:
            other = next(v for v in group.views if places.splits(v) != {places.split})
            return f"{ACROSS}: {other} ({_kind(group, view, other)})"
    for view, group in found:
        if group.two_labels:
            other = next((v for v in group.views if places.labels(v) != places.labels(view)), view)
            return f"two labels: {other} ({_kind(group, view, other)})"
    return ""


def _kind(group: Group, view: str, other: str) -> str:
    pair = min(view, other), max(view, other)
    return group.pairs.get(pair, ", ".join(group.kinds))


def _kinds(found: list[tuple[str, Group]]) -> str:
    return ", ".join(kind for kind in KINDS if any(kind in group.kinds for _, group in found))


def counts(groups: Iterable[Group]) -> Mapping[str, int]:
    """How many groups there are by where, of two labels, and by kind."""
    groups = list(groups)
    wheres = {where: sum(g.where == where for g in groups) for where in sorted({g.where for g in groups})}
    kinds = {kind: sum(kind in g.kinds for g in groups) for kind in KINDS}
    return {"groups": len(groups), **wheres, "two labels": sum(g.two_labels for g in groups), **kinds}
