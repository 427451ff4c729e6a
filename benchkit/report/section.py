"""One benchmark of a page: everything that is computed and drawn for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.inspect.aligned import Aligned
from benchkit.report.chosen import chosen_items
from benchkit.report.drawn import Drawings, Drawn
from benchkit.report.embed import data_uri

if TYPE_CHECKING:
    from benchkit.boards import Board
    from benchkit.experiments.experiment import Experiment


@dataclasses.dataclass(frozen=True)
class Section:
    """A benchmark with all its boards."""

    benchmark: str
    boards: Sequence[Board]

    @cached_property
    def experiments(self) -> list[Experiment]:
        """Those on boards, best first, then those on none."""
        rows = [*(row for board in self.boards for row in board.rows), *(row for b in self.boards for row in b.alone)]
        return [row.experiment for row in rows]

    @cached_property
    def aligned(self) -> Aligned:
        """Their scores at the same items."""
        return Aligned(self.experiments)

    @property
    def chosen(self) -> list[str]:
        """Items that pictures are made of, the most telling first."""
        if not self.aligned.columns:
            return self.aligned.names
        column = self.aligned.columns[0]
        metric = self.experiments[0].metric_of(column)
        rows = chosen_items(self.aligned.scores(column), metric.better if metric else "higher")
        return [self.aligned.names[row] for row in rows]


def sections_of(boards: Sequence[Board]) -> list[Section]:
    """Boards by benchmark, in their order; none for a benchmark where nothing is scored."""
    found: dict[str, list[Board]] = {}
    for board in boards:
        found.setdefault(board.benchmark, []).append(board)
    return [Section(name, own) for name, own in found.items() if any(board.rows or board.alone for board in own)]


def pictures_of(section: Section, most: int, budget: int, told: Callable[[], None]) -> dict[str, Any]:
    """Pictures of chosen items by their row, as `data:` addresses: `shared` of all experiments, and each one's `own`.

    Args:
        most: so many items at most.
        budget: bytes that they may take; the item that would go beyond it is the last that is drawn, and left out.
        told: called after each item.
    """
    found: dict[str, Any] = {}
    with Drawings(section.experiments) as drawings:
        for name in section.chosen[:most]:
            shared, own = drawings.item(name)
            made = {"shared": _addresses(shared), "own": [_addresses(each) for each in own]}
            budget -= _size(made)
            told()
            if budget < 0:
                break
            found[str(section.aligned.position[name])] = made
    return found


def _addresses(drawn: Sequence[Drawn]) -> list[tuple[str, str]]:
    return [(each.caption, data_uri(each.encoded)) for each in drawn]


def _size(made: Mapping[str, Any]) -> int:
    return sum(len(address) for shots in [made["shared"], *made["own"]] for _, address in shots)


def flips_of(section: Section, asked: Sequence[str] | None) -> tuple[int, int]:
    """Places of the two experiments whose flips are shown first: those asked for, else the best and the next."""
    tags = section.aligned.tags
    if asked and all(tag in tags for tag in asked):
        return tags.index(asked[0]), tags.index(asked[1])
    return 0, min(1, len(tags) - 1)


def items_counted(sections: Sequence[Section]) -> int:
    """Items of all benchmarks together."""
    return int(np.sum([len(section.aligned.names) for section in sections]))
