"""Score against cost of the tags on a board, for the page's script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchkit.report.tables import SPEED

if TYPE_CHECKING:
    from benchkit.boards import Board

TOLD = {"images_per_s": f"images/s: {SPEED}."}  # beside the plot of a cost


def costs_of(board: Board) -> dict[str, Any]:
    """Plain JSON: tags, values with their direction, and of each cost in which tags differ its values and Pareto front."""
    from benchkit.boards.costs import COSTS, front

    columns = {cost: [getattr(row, cost.column) for row in board.rows] for cost in COSTS}
    return {
        "title": f"{board.benchmark}{f', board {board.number}' if board.protocol else ''}",
        "metric": board.metric,
        "better": board.better,
        "tags": [row.tag for row in board.rows],
        "values": [row.value for row in board.rows],
        "costs": [
            {"name": cost.name, "told": TOLD.get(cost.column, ""), "values": values, "front": front(board, cost)}
            for cost, values in columns.items()
            if len({each for each in values if each is not None}) > 1
        ],
    }
