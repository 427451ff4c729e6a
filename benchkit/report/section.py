"""One benchmark of a page: everything that is computed and drawn for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.errors import printable
from benchkit.experiments.joined import Joined
from benchkit.report.chosen import chosen_items
from benchkit.report.damage import Damage
from benchkit.report.drawn import Drawings, Drawn
from benchkit.report.embed import data_uri

if TYPE_CHECKING:
    from benchkit.boards import Board, Row
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
    def tags(self) -> list[str]:
        """Names of the experiments as the page shows them."""
        return [printable(tag) for tag in self.joined.tags]

    @cached_property
    def joined(self) -> Joined:
        """Their scores at the same items."""
        return Joined(self.experiments)

    @cached_property
    def order(self) -> tuple[str, str]:
        """The column by which items are ordered, and which direction is better; "" and "" where they have no score."""
        first = self.experiments[0]
        column, better = first.family.order(first.columns)
        return (column, better) if column in self.joined.columns else (next(iter(self.joined.columns), ""), "")

    @property
    def chosen(self) -> list[str]:
        """Items that pictures are made of, the most telling first."""
        column, better = self.order
        if not column:
            return self.joined.names
        return [self.joined.names[row] for row in chosen_items(self.joined.scores(column), better)]


def readable(board: Board, damage: Damage) -> Board:
    """The board with tags as a page shows them, and those whose scores of items cannot be read apart."""
    apart = {printable(tag): printable(why) for tag, why in board.apart.items()}
    rows, alone = (_kept(rows, apart, damage) for rows in (board.rows, board.alone))
    return dataclasses.replace(board, apart=apart, rows=rows, alone=alone)


def _kept(rows: Sequence[Row], apart: dict[str, str], damage: Damage) -> tuple[Row, ...]:
    shown = [dataclasses.replace(row, tag=printable(row.tag)) for row in rows]
    kept = [row for row in shown if _reads(row.experiment, damage)]
    apart.update({row.tag: "its scores of items cannot be read" for row in shown if row not in kept})
    return tuple(kept)


def _reads(experiment: Experiment, damage: Damage) -> bool:
    with damage.of(experiment):
        _ = experiment.item_scores, experiment.categories
        return True
    return False


def sections_of(boards: Sequence[Board]) -> list[Section]:
    """Boards by benchmark, in their order; none for a benchmark where nothing is scored."""
    found: dict[str, list[Board]] = {}
    for board in boards:
        found.setdefault(board.benchmark, []).append(board)
    return [Section(name, own) for name, own in found.items() if any(board.rows or board.alone for board in own)]


def pictures_of(
    section: Section, most: int, room: int, told: Callable[[], None], damage: Damage
) -> tuple[dict[str, Any], int]:
    """Pictures of chosen items by their row, as `data:` addresses: `shared` of all experiments, each one's `own`, and the
    `key` to their colours; and how many characters they take.

    Args:
        most: so many items at most.
        room: characters that they may take; the item that would go beyond it is the last that is drawn, and left out.
        told: called after each item.
        damage: takes the errors of tags whose pictures cannot be drawn.
    """
    found: dict[str, Any] = {}
    taken = 0
    with Drawings(section.experiments, damage) as drawings:
        for name in section.chosen[:most]:
            drawn = drawings.item(name)
            own = [_addresses(each) for each in drawn.own]
            made = {"shared": _addresses(drawn.shared), "own": own, "key": list(drawn.key.items())}
            told()
            if taken + _size(made) > room:
                break
            taken += _size(made)
            found[str(section.joined.position[name])] = made
    return found, taken


def _addresses(drawn: Sequence[Drawn]) -> list[tuple[str, str]]:
    return [(each.caption, data_uri(each.encoded)) for each in drawn]


def _size(made: Mapping[str, Any]) -> int:
    return sum(len(address) for shots in [made["shared"], *made["own"]] for _, address in shots)


def flips_of(section: Section, asked: Sequence[str] | None) -> tuple[int, int]:
    """Places of the two experiments whose flips are shown first: those asked for, else the best and the next."""
    tags = section.tags
    shown = [printable(tag) for tag in asked or ()]
    if asked and all(tag in tags for tag in shown):
        return tags.index(shown[0]), tags.index(shown[1])
    return 0, min(1, len(tags) - 1)


def items_counted(sections: Sequence[Section]) -> int:
    """Items of all benchmarks together."""
    return int(np.sum([len(section.joined.names) for section in sections]))
