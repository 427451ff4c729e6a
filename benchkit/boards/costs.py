"""What a score costs, and which tags of a board no other beats in both."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchkit.boards.board import Board


@dataclasses.dataclass(frozen=True)
class Cost:
    """A column of `Row` that is a cost.

    Attributes:
        column: the field.
        name: for readers.
        less: whether less of it is better.
    """

    column: str
    name: str
    less: bool


COSTS = (
    Cost("params", "parameters", True),
    Cost("images_per_s", "images/s, as exported", False),
    Cost("bytes_per_item", "bytes of features per item", True),
)


def front(board: Board, cost: Cost) -> list[int]:
    """Numbers of the rows on the Pareto front, from the cheapest: no other row is as good in both and better in one.

    Rows that lack cost or value are left out.
    """
    costs = [getattr(row, cost.column) for row in board.rows]
    return pareto(costs, [row.value for row in board.rows], cost.less, board.better)


def pareto(costs: Sequence[float | None], values: Sequence[float | None], less: bool, better: str) -> list[int]:
    """Places of those that no other beats in one of cost and value without losing in the other, the best value last.

    Args:
        costs, values: of each; one that lacks either is left out.
        less: whether less cost is better.
        better: which value is: "lower", else higher.
    """
    signs = (1 if less else -1), (1 if better == "lower" else -1)
    known = [
        (signs[0] * cost, signs[1] * value, place)
        for place, (cost, value) in enumerate(zip(costs, values, strict=True))
        if cost is not None and value is not None
    ]
    found: list[tuple[float, float, int]] = []
    for point in sorted(known):  # the cheapest first, of equally cheap ones the best
        if not found or point[1] < found[-1][1] or point[:2] == found[-1][:2]:
            found.append(point)
    return [place for *_, place in found]
