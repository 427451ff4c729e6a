"""Boards as differences to one tag, by the paired statistics of `compare.differences`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchkit.boards.board import Board, Row
from benchkit.boards.metrics import chosen_metrics
from benchkit.compare.aligned import Aligned
from benchkit.compare.differences import Chance, Difference, adjusted, differences, metric_named
from benchkit.errors import UsageError, printable
from benchkit.progress import Progress


def with_differences(boards: Sequence[Board], baseline: str, metrics: Sequence[str] = ()) -> list[Board]:
    """The boards with `Row.differences` to the baseline, p after Holm's correction for all of a board's.

    Boards without that tag, and the tag's own row, have none. A progress line appears where it takes long.

    Args:
        boards: of any benchmarks.
        baseline: a tag that is on one of them at least.
        metrics: names of those compared beside the headline, where a board has them, or `all`.

    Raises:
        UsageError: the tag is on no board.
    """
    against = {place: row for place, board in enumerate(boards) for row in board.rows if row.tag == baseline}
    if not against:
        alone = [row.tag for board in boards for row in board.alone]
        why = (
            "no other tag follows its protocol"
            if baseline in alone
            else "`benchkit list --tags` shows the tags there are"
        )
        raise UsageError(f"--baseline {printable(baseline, 80)} is on none of these boards: {why}.")
    progress = Progress(sum(len(boards[place].rows) - 1 for place in against), "comparing", "rows")
    try:
        return [
            _compared(board, against[place], metrics, progress) if place in against else board
            for place, board in enumerate(boards)
        ]
    finally:
        progress.finish()


def _compared(board: Board, against: Row, metrics: Sequence[str], progress: Progress) -> Board:
    wanted = list(dict.fromkeys([board.metric, *chosen_metrics(board, metrics)]))
    others = [row for row in board.rows if row is not against]
    tests = len(wanted) * len(others)
    found: list[Difference] = []
    for row in others:
        found += _differences(against, row, wanted, tests)
        progress.advance()
    told = iter(adjusted(found))
    by_tag = {row.tag: {name: next(told) for name in wanted} for row in others}
    rows = [dataclasses.replace(row, differences=by_tag.get(row.tag, {})) for row in board.rows]
    return dataclasses.replace(board, rows=tuple(rows))


def _differences(against: Row, row: Row, metrics: Sequence[str], tests: int) -> list[Difference]:
    family = against.experiment.family
    pair = Aligned([against.experiment, row.experiment])
    return differences(pair, (0, 1), [metric_named(family, name) for name in metrics], Chance().for_tests(tests))
