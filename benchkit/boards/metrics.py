"""Which metrics are shown beside the headline: by name, in any case of letters, or all."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit.boards.board import Board
from benchkit.errors import UsageError, printable

ALL = "all"


def chosen_metrics(board: Board, metrics: Sequence[str]) -> list[str]:
    """Those of the names that a board has, in any case of letters, in its own order; `all` are all."""
    wanted = {name.lower() for name in metrics}
    having = board.rows[0].scores if board.rows else {}
    return [name for name in having if ALL in wanted or name.lower() in wanted]


def refuse_unknown_metrics(boards: Sequence[Board], metrics: Sequence[str]) -> None:
    """Raises UsageError for a name that no board has."""
    known = dict.fromkeys(name for board in boards for row in board.rows[:1] for name in row.scores)
    for name in metrics:
        if name.lower() not in {ALL, *(each.lower() for each in known)}:
            raise UsageError(
                f"--metrics {printable(name, 80)}: no board here has it; there are {', '.join(known)}, and all."
            )
