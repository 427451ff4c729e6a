"""Which rows of a board share a place: those that are not significantly worse than the best of them (`compare.ranking`).

A board asks for a test for each row, so what takes long is told in another way. Scores whose own intervals are so far apart
that no pairing could make the difference insignificant are not tested. Scores of a whole set (mIoU, an area under a curve),
whose permutations would take minutes at the small p that many rows call for, are tested by the paired bootstrap's standard
error and a normal distribution, where there are items or groups enough for that. All others: paired permutations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import NormalDist

from benchkit.boards.board import Board, Row
from benchkit.compare.differences import LEVEL, Chance, difference, metric_named
from benchkit.compare.ranking import tied_groups
from benchkit.errors import UsageError, reason
from benchkit.progress import Progress

WIDTH = 1.96  # standard errors from a score to an end of its 95 % interval
MANY = 30  # items or groups from which an interval is taken for nearly that of a normal distribution
FIRST = 99  # permutations of a score of a whole set, after which no more are made
OFTEN = 0.2  # where p is above this: if it is .05 for all permutations, that happens once in 10 million times
RESAMPLES = 200  # of a standard error, which is then within about 5 % of that of many more


class Untestable(Exception):
    """Two rows cannot be paired, or rows do not tell the metric."""


def placed(boards: Sequence[Board], tied: bool = True) -> list[Board]:
    """The boards with places, first to last of each group; equal values alone share one if not `tied`.

    A progress line appears where it takes long.
    """
    if not tied:
        return [_with_places(board, _equal(_valued(board)), "") for board in boards]
    progress = Progress(sum(max(len(_valued(board)) - 1, 0) for board in boards), "comparing", "rows")
    try:
        return [_placed(board, progress) for board in boards]
    finally:
        progress.finish()


def _placed(board: Board, progress: Progress) -> Board:
    rows = _valued(board)
    pairs = len(rows) * (len(rows) - 1) // 2

    def p(best: int, other: int) -> float:
        found = _p(rows[best], rows[other], board.metric, pairs)
        progress.advance()
        return found

    try:
        groups, untested = tied_groups([row.value for row in rows], board.better, p), ""
    except Untestable as error:
        groups, untested = _equal(rows), str(error)
    return _with_places(board, groups, untested)


def _with_places(board: Board, groups: Sequence[Sequence[int]], untested: str) -> Board:
    rows = [
        dataclasses.replace(board.rows[n], first=group[0] + 1, last=group[-1] + 1) for group in groups for n in group
    ]
    return dataclasses.replace(board, rows=(*rows, *board.rows[len(rows) :]), untested=untested)


def _valued(board: Board) -> list[Row]:
    """Rows with a value: those without are last, and have no place."""
    return [row for row in board.rows if row.value is not None]


def _equal(rows: Sequence[Row]) -> list[list[int]]:
    """Numbers of rows by value."""
    groups: dict[float | None, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(row.value, []).append(number)
    return list(groups.values())


def _p(best: Row, row: Row, metric: str, tests: int) -> float:
    """p of the difference of two rows, for a board with so many pairs.

    Raises:
        Untestable: nothing tells.
    """
    units = units_of(best)
    if units >= MANY and _far(best, row, LEVEL / tests):
        return 0.0
    try:
        p = (
            _normal(best, row, metric)
            if _of_set(best, metric) and units >= MANY
            else _permuted(best, row, metric, tests)
        )
    except UsageError as error:
        raise Untestable(reason(error)) from error
    if p is None:
        raise Untestable(f"single items do not tell by how much chance changes {metric}")
    return p


def _of_set(row: Row, metric: str) -> bool:
    """Whether a metric is no mean over items."""
    return metric_named(row.experiment.family, metric).column not in row.experiment.columns


def units_of(row: Row) -> int:
    """What chance draws: groups of a row's items; an item without one stands alone."""
    labels = row.experiment.group
    return labels.count("") + len({label for label in labels if label})


def _far(best: Row, row: Row, level: float) -> bool:
    """Whether two scores are so far apart that their difference is significant however their items go together.

    The standard error of a difference is at most the sum of both standard errors, which the intervals tell.
    """
    if best.value is None or row.value is None:
        return False
    ends = (best.low, row.high) if best.value > row.value else (best.high, row.low)
    if ends[0] is None or ends[1] is None:
        return False
    error = (abs(best.value - ends[0]) + abs(row.value - ends[1])) / WIDTH
    return 0 < error * NormalDist().inv_cdf(1 - level / 2) < abs(best.value - row.value)


def _permuted(best: Row, row: Row, metric: str, tests: int) -> float | None:
    def p(permutations: int) -> float | None:
        return difference(best.experiment, row.experiment, metric, resamples=0, permutations=permutations).p

    chance = Chance().for_tests(tests)
    if not _of_set(best, metric):
        return p(chance.permutations)
    first = p(FIRST)
    return first if first is None or first > OFTEN else p(chance.set_permutations)


def _normal(best: Row, row: Row, metric: str) -> float | None:
    """Two-sided p of a difference as large as this, in standard errors of the paired bootstrap."""
    found = difference(best.experiment, row.experiment, metric, resamples=RESAMPLES, permutations=1)
    if found.value is None or found.low is None or found.high is None:
        return None
    error = (found.high - found.low) / (2 * WIDTH)
    if error == 0:
        return float(found.value == 0)
    return 2 * NormalDist().cdf(-abs(found.value) / error)
