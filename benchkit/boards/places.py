"""Which rows of a board share a place."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchkit.boards.board import Board


def placed(boards: Sequence[Board]) -> list[Board]:
    """The boards with places."""
    return [_placed(board) for board in boards]


def _placed(board: Board) -> Board:
    rows = [
        row if row.value is None else dataclasses.replace(row, first=place, last=place)
        for place, row in enumerate(board.rows, 1)
    ]
    return dataclasses.replace(board, rows=tuple(rows))
