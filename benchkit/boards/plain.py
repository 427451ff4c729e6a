"""A board as plain values: numbers with all their digits, null where there is none, for JSON."""

from __future__ import annotations

from typing import Any

from benchkit.boards.board import Board, Row
from benchkit.compare.differences import Difference

COLUMNS = (
    "tag", "model", "head", "first", "last", "value", "low", "high", "floor", "ceiling",
    "params", "images_per_s", "device", "bytes_per_item", "prediction_bytes", "marks",
)  # fmt: skip


def plain_board(board: Board) -> dict[str, Any]:
    """Everything that a board says. Rows have `first` and `last` of the places they share, null without a value."""
    fields = (
        "benchmark",
        "family",
        "level",
        "number",
        "metric",
        "better",
        "unit",
        "protocol",
        "untested",
        "same_items",
    )
    return {
        **{name: getattr(board, name) for name in fields},
        "rows": [plain_row(row) for row in board.rows],
        "apart": dict(board.apart),
        "alone": [plain_row(row) for row in board.alone],
    }


def plain_row(row: Row) -> dict[str, Any]:
    """A row; `scores` as record.json has them."""
    values = {name: getattr(row, name) for name in COLUMNS}
    placed = {"first": row.first or None, "last": row.last or None, "marks": list(row.marks)}
    told = {name: _difference(each) for name, each in row.differences.items()}
    return {**values, **placed, "scores": row.scores, **({"differences": told} if told else {})}


def _difference(found: Difference) -> dict[str, Any]:
    names = ("value", "low", "high", "p", "adjusted", "significant", "n_items", "n_undefined")
    return {name: getattr(found, name) for name in names}
