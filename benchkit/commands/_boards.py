"""Boards as tables to read or to paste, and what is said around them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from benchkit.boards.grouping import told
from benchkit.boards.metrics import chosen_metrics
from benchkit.boards.places import units_of
from benchkit.commands import _columns as columns
from benchkit.commands._tables import digits, remark, render
from benchkit.compare.differences import lopsided
from benchkit.compare.tables import FEW, beside, few
from benchkit.errors import printable

if TYPE_CHECKING:
    from benchkit.boards import Board, Row

RULE = (
    "Rows share a place where none is significantly worse than the best of them: paired test, p < .05 after Bonferroni's "
    "correction for all pairs of a board. low and high: 95 % interval."
)
DIFFERENCES = (
    "Differences to {}, whose row holds its scores, with 95 % interval; p by paired permutation, after Holm's correction for all "
    "of a board; *: p < .05."
)
SPEED = "images/s: as exported, on its machine and under its load that day"
CSV = (
    "benchmark", "family", "level", "board", "first", "last", "tag", "model", "head", "metric", "better", "unit", "value",
    "low", "high", "floor", "ceiling", "params", "images_per_s", "device", "bytes_per_item", "prediction_bytes", "marks",
)  # fmt: skip
CSV_DIFFERENCE = (
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "p_adjusted",
    "items_compared",
    "items_left_out",
)


def print_boards(
    boards: Sequence[Board], metrics: Sequence[str], style: str, percent: bool, baseline: str | None
) -> None:
    """Print boards in one of FORMATS; as CSV a row for each tag and metric of all boards, and remarks on standard error.

    Args:
        boards: as asked for, with differences where there is a baseline.
        metrics: further ones, or `all`.
        style: of FORMATS.
        percent: scores without a unit in per cent.
        baseline: the tag to which differences are shown.
    """
    if style == "csv":
        print(_csv(boards, metrics, baseline is not None))
    for board in boards:
        print_remarks(_above(board, baseline), style)
        if board.rows and style != "csv":
            print(_table(board, metrics, style, percent), end="\n\n")
        print_remarks(_below(board, metrics), style)
        if board.apart and style == "table":
            print()
    print_remarks([DIFFERENCES.format(printable(baseline, columns.MOST)) if baseline else RULE], style)


def print_remarks(lines: Iterable[str], style: str) -> None:
    """Lines around tables: escaped in Markdown, comments in LaTeX, on standard error beside CSV."""
    for line in lines:
        print(remark(line, style), file=sys.stderr if style == "csv" else sys.stdout)


def _table(board: Board, metrics: Sequence[str], style: str, percent: bool) -> str:
    names = list(dict.fromkeys([board.metric, *chosen_metrics(board, metrics)]))
    numbers = columns.differences if _has_differences(board) else columns.scores
    parts = [*columns.named(board), *numbers(board, names, percent), *columns.costs(board)]
    parts += columns.marks(board, _shared_marks(board))
    header = [title for title, _ in parts]
    rows = list(zip(*(cells for _, cells in parts), strict=True))
    return render(header, rows, style, numeric=set(header) - set(columns.TEXTS), rules=True)


def _has_differences(board: Board) -> bool:
    return any(row.differences for row in board.rows)


def _shared_marks(board: Board) -> list[str]:
    """Marks of every one of several rows: they are said once."""
    first, *others = board.rows or (None,)
    return [mark for mark in first.marks if all(mark in row.marks for row in others)] if first and others else []


def _above(board: Board, baseline: str | None) -> list[str]:
    """Level, family, instance, the protocol where the benchmark has several, and marks of all rows."""
    name, of = printable(board.benchmark), f", {board.family}" if board.family != board.benchmark else ""
    protocol = ", ".join(f"{field} {told(value)}" for field, value in board.protocol.items())
    number = f", board {board.number} ({printable(protocol)})" if board.protocol else ""
    shared = _shared_marks(board)
    all_rows = f"; all rows: {', '.join(shared)}" if shared else ""
    said = [f"{name} ({board.level} level{of}){number}{all_rows}"]
    if baseline and board.rows and not _has_differences(board):
        said.append(f"scores, as there is nothing here to compare with {printable(baseline, columns.MOST)}")
    return said


def _below(board: Board, metrics: Sequence[str]) -> list[str]:
    """What keeps rows from being ranked or compared."""
    said = [f"places by the score alone: {board.untested}"] if board.untested else []
    said += _about_intervals(board, metrics)
    if not board.same_items:
        said.append("some items were skipped by some tags only: two tags are compared over the items that both have")
    lacking = [(row.tag, found.n_undefined) for row in board.rows for found in list(row.differences.values())[:1]]
    said += [
        f"{printable(tag, columns.MOST)}: items without a value, left out: {count}" for tag, count in lacking if count
    ]
    devices = dict.fromkeys(row.device for row in board.rows if row.images_per_s is not None)
    if len(devices) > 1:
        said.append(f"images/s are of different devices, and not to be compared: {printable('; '.join(devices))}")
    if devices:
        said.append(SPEED)
    said += [f"not ranked: {printable(tag, columns.MOST)}: {printable(why)}" for tag, why in board.apart.items()]
    return said


def _about_intervals(board: Board, metrics: Sequence[str]) -> list[str]:
    """Of too few items or groups, or to one side of their value; as `benchkit compare` says it."""
    said = []
    least = min(map(units_of, board.rows), default=FEW)
    if least < FEW:
        units = "groups" if any(any(row.experiment.group) for row in board.rows) else "items"
        said.append(few(least, units))
    names = [board.metric, *chosen_metrics(board, metrics)] if board.rows else []
    aside = [name for name in dict.fromkeys(names) if any(_lopsided(row, name) for row in board.rows)]
    instead = "trust p" if _has_differences(board) else "`benchkit compare` has a p"
    return [*said, beside(aside, instead)] if aside else said


def _lopsided(row: Row, metric: str) -> bool:
    """Whether an interval that the board shows, of the difference or else of the score, lies to one side."""
    if metric in row.differences:
        return row.differences[metric].lopsided
    score = row.scores[metric]
    return lopsided(score["value"], *(score["interval"] or (None, None)))


def _csv(boards: Sequence[Board], metrics: Sequence[str], differences: bool) -> str:
    rows = []
    for board in boards:
        for name in dict.fromkeys([board.metric, *chosen_metrics(board, metrics)]):
            rows += [_csv_row(board, row, name) + _csv_difference(row, name) * differences for row in board.rows]
    return render([*CSV, *CSV_DIFFERENCE * differences], rows, "csv")


def _csv_row(board: Board, row: Row, metric: str) -> list[str]:
    score = row.scores[metric]
    ends = score["interval"] or (None, None)
    place = [str(row.first), str(row.last)] if row.first else ["", ""]
    texts = [board.benchmark, board.family, board.level, str(board.number), *place, row.tag, row.model, row.head]
    texts += [metric, score["better"], score["unit"]]
    numbers = map(digits, (score["value"], *ends, score["floor"], score.get("ceiling")))
    costs = [
        str(row.params),
        digits(row.images_per_s),
        row.device,
        digits(row.bytes_per_item),
        digits(row.prediction_bytes),
    ]
    return [printable(cell) for cell in [*texts, *numbers, *costs, "; ".join(row.marks)]]


def _csv_difference(row: Row, metric: str) -> list[str]:
    found = row.differences.get(metric)
    if found is None:
        return [""] * len(CSV_DIFFERENCE)
    numbers = map(digits, (found.value, found.low, found.high, found.p, found.adjusted))
    return [*numbers, str(found.n_items), str(found.n_undefined)]
