"""Score against cost of the tags on a board, and which of them no other beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from benchkit.boards import Board


class Cost(NamedTuple):
    """A column of `boards.Row` that costs: its name in the page, and whether less of it is better."""

    column: str
    name: str
    less: bool


COSTS = (
    Cost("params", "parameters", True),
    Cost("images_per_s", "images/s", False),
    Cost("bytes_per_item", "bytes of features per item", True),
)


def pareto(costs: Sequence[float | None], values: Sequence[float | None], less: bool, better: str) -> list[int]:
    """Places of those that no other beats in one of cost and value without losing in the other, the best value last.

    Args:
        costs, values: of each; one that lacks either is left out.
        less: whether less cost is better.
        better: which value is: "lower", else higher.
    """
    known = [
        (cost if less else -cost, -value if better == "lower" else value, place)
        for place, (cost, value) in enumerate(zip(costs, values, strict=True))
        if cost is not None and value is not None
    ]
    front: list[tuple[float, float, int]] = []
    for cost, value, place in sorted(known, key=lambda each: (each[0], -each[1], each[2])):
        if not front or value > front[-1][1] or (cost, value) == front[-1][:2]:
            front.append((cost, value, place))
    return [place for *_, place in front]


def costs_of(board: Board) -> dict[str, Any]:
    """Plain JSON for the page: tags, values with intervals, costs by name, and the front of each."""
    rows = board.rows
    values = [row.value for row in rows]
    columns = {cost: [getattr(row, cost.column) for row in rows] for cost in COSTS}
    return {
        "title": f"{board.benchmark}{f', board {board.number}' if board.protocol else ''}",
        "metric": board.metric,
        "better": board.better,
        "tags": [row.tag for row in rows],
        "values": values,
        "costs": [
            {"name": cost.name, "values": found, "front": pareto(found, values, cost.less, board.better)}
            for cost, found in columns.items()
            if any(each is not None for each in found)
        ],
    }
