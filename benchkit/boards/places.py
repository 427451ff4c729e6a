"""Which rows of a board share a place: those that are not significantly worse than the best of them.

Down the board each row is tested once, against the best row of the group above it, by the paired permutation test of
`compare.differences`. If it is significantly worse a new group begins with it. A board of n rows makes n - 1 tests, so p is
multiplied by n - 1 (Bonferroni): which rows are tested depends on the results before, so Holm's smaller factors would not hold.
Two shortcuts save time and change no answer that is not borderline: intervals so far apart that no pairing could make the
difference insignificant are not tested, and a test whose first permutations say that chance does it often is not continued.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import NormalDist

from benchkit.boards.board import Board, Row
from benchkit.compare.differences import LEVEL, Difference, difference
from benchkit.errors import UsageError, reason
from benchkit.progress import Progress

WIDTH = 1.96  # standard errors from a score to an end of its 95 % interval
MANY = 30  # units from which an interval is trusted to be nearly that of a normal distribution
FIRST = 99  # permutations after which a test may stop
OFTEN = 0.15  # p at which it does; the chance to stop a test whose p is .05 is below 1 in 4,000


class Untestable(Exception):
    """Two rows cannot be paired, or rows do not tell the metric."""


def placed(boards: Sequence[Board]) -> list[Board]:
    """The boards with places, first to last of each group. A progress line appears where it takes long."""
    progress = Progress(sum(max(len(_valued(board)) - 1, 0) for board in boards), "comparing", "rows")
    try:
        return [_placed(board, progress) for board in boards]
    finally:
        progress.finish()


def _placed(board: Board, progress: Progress) -> Board:
    rows = _valued(board)
    try:
        starts, untested = _starts(rows, board, progress), ""
    except Untestable as error:
        starts, untested = [k for k, row in enumerate(rows) if k == 0 or row.value != rows[k - 1].value], str(error)
    ends = [*starts[1:], len(rows)]
    spans = [(start + 1, end) for start, end in zip(starts, ends, strict=False) for _ in range(start, end)]
    found = [dataclasses.replace(row, first=a, last=b) for row, (a, b) in zip(rows, spans, strict=True)]
    return dataclasses.replace(board, rows=(*found, *board.rows[len(rows) :]), untested=untested)


def _valued(board: Board) -> list[Row]:
    """Rows with a value: those without are last, and have no place."""
    return [row for row in board.rows if row.value is not None]


def _starts(rows: Sequence[Row], board: Board, progress: Progress) -> list[int]:
    """Numbers of the rows with which a group begins."""
    starts = [0] if rows else []
    for number in range(1, len(rows)):
        if _worse(rows[starts[-1]], rows[number], board, len(rows) - 1):
            starts.append(number)
        progress.advance()
    return starts


def _worse(best: Row, row: Row, board: Board, tests: int) -> bool:
    """Whether a row is significantly worse than a better one, on a board that makes so many tests.

    Raises:
        Untestable: nothing tells.
    """
    if _far(best, row, LEVEL / tests):
        return True
    found = _tested(best, row, board.metric, FIRST)
    if found.p is None:
        raise Untestable(f"single items do not tell how far two values of {board.metric} are apart by chance")
    if found.p >= OFTEN:
        return False
    p = _tested(best, row, board.metric, None).p
    return p is not None and p * tests < LEVEL


def _tested(best: Row, row: Row, metric: str, permutations: int | None) -> Difference:
    try:
        return difference(best.experiment, row.experiment, metric, resamples=0, permutations=permutations)
    except UsageError as error:
        raise Untestable(reason(error)) from error


def _far(best: Row, row: Row, level: float) -> bool:
    """Whether two scores are so far apart that their difference is significant however their items go together.

    The standard error of a difference is at most the sum of both standard errors, which the intervals tell.
    """
    if best.value is None or row.value is None or _units(best) < MANY:
        return False
    ends = (best.low, row.high) if best.value > row.value else (best.high, row.low)
    if ends[0] is None or ends[1] is None:
        return False
    errors = (abs(best.value - ends[0]) + abs(row.value - ends[1])) / WIDTH
    return 0 < errors * NormalDist().inv_cdf(1 - level / 2) < abs(best.value - row.value)


def _units(row: Row) -> int:
    """Groups of a row's items; an item without one stands alone."""
    labels = row.experiment.group
    return labels.count("") + len({label for label in labels if label})
