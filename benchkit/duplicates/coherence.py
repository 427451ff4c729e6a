"""Whether groups hold together: to show one photo is transitive, to look alike is not.

Two handwritten digits may agree as well as a photo and its crop. But then each agrees with others, which agree with
others again, and two of such a group mostly do not agree. Of a group that does not hold together only its closest pairs
are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np

from benchkit.duplicates.agreement import agreement
from benchkit.duplicates.pictures import Pictures

LEAST = (0.78, 0.95)  # agreement of copies, and of copies among pictures that are alike
SMALL = 3  # views of a group that holds together in any case
SAMPLE = 64  # pairs of a larger one that are compared
HOLDS = 0.5  # least share of them that agree

Pair = tuple[int, int]
Name = TypeVar("Name", int, str)


def held_together(pictures: Pictures, agreements: Mapping[Pair, float]) -> tuple[dict[Pair, float], int]:
    """Pairs that are copies, and how many other views there are that agree with some.

    Args:
        pictures: what the pairs are rows of.
        agreements: how well pairs agree.

    Returns:
        for every pair of copies the agreement that it needed; the number of views that are alike but no copies.
    """
    copies: dict[Pair, float] = {}
    left = {pair: value for pair, value in agreements.items() if value >= LEAST[0]}
    alike = {row for pair in left for row in pair}
    for least in LEAST:
        left = {pair: value for pair, value in left.items() if value >= least}
        loose: set[int] = set()
        for members in linked(left):
            if len(members) > SMALL and not _holds(pictures, members, least):
                loose.update(members)
        copies.update({pair: least for pair in left if pair[0] not in loose})
        left = {pair: value for pair, value in left.items() if pair[0] in loose}
    return copies, len(alike - {row for pair in copies for row in pair})


def _holds(pictures: Pictures, members: list[int], least: float) -> bool:
    rng = np.random.default_rng(0)
    first = rng.integers(0, len(members), SAMPLE)
    second = (first + rng.integers(1, len(members), SAMPLE)) % len(members)  # never the first itself
    rows = np.array(members)
    both = [agreement(pictures, rows[first], rows[second], mirrored).max(axis=1) for mirrored in (False, True)]
    return float((np.maximum(*both) >= least).mean()) >= HOLDS


def linked(pairs: Iterable[tuple[Name, Name]]) -> list[list[Name]]:
    """The groups that pairs make, each in order, in the order of their first members."""
    parent: dict[Name, Name] = {}

    def top(member: Name) -> Name:
        while parent.setdefault(member, member) != member:
            parent[member] = member = parent[parent[member]]
        return member

    for first, second in pairs:
        low, high = sorted((top(first), top(second)))
        parent[high] = low
    groups: dict[Name, list[Name]] = defaultdict(list)
    for member in sorted(parent):
        groups[top(member)].append(member)
    return [groups[first] for first in sorted(groups)]
