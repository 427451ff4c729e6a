"""All boards as one grid: tags down, benchmarks across; what may be compared in a column, and where a score lies in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchkit.boards.board import Board, Row
from benchkit.boards.metrics import chosen_metrics


@dataclasses.dataclass(frozen=True)
class Column:
    """One metric of one benchmark.

    Attributes:
        benchmark, metric, better, unit: what it is.
        rows: tag -> its row; without those that lack the metric.
        first: tags on the benchmark's first board: their scores follow one protocol.
        alone: whether the benchmark has no other column here.
        placed: whether the rows' places are by this metric, so that some may share the first.
    """

    benchmark: str
    metric: str
    better: str
    unit: str
    rows: dict[str, Row]
    first: frozenset[str]
    alone: bool = True
    placed: bool = False

    @property
    def mixed(self) -> bool:
        """Whether its scores follow different protocols, and are not to be compared."""
        return bool(self.rows.keys() - self.first)

    def value(self, tag: str) -> float | None:
        """A tag's score; None where it is undefined, or there is none."""
        row = self.rows.get(tag)
        return None if row is None else row.scores[self.metric]["value"]

    def best(self) -> set[str]:
        """Tags that are best or share the first place; nobody where scores are not to be compared, or there is one."""
        values = {tag: value for tag in self.rows if (value := self.value(tag)) is not None}
        if self.mixed or len(values) < 2 or self.better == "neither":
            return set()
        if self.placed:
            return {tag for tag in values if self.rows[tag].first == 1}
        top = (min if self.better == "lower" else max)(values.values())
        return {tag for tag, value in values.items() if value == top}

    def positions(self) -> dict[str, float]:
        """Where each score of the first board lies between the floor (without one: the worst) and the best: 0 to 1."""
        if self.better == "neither":
            return {}
        sign = -1 if self.better == "lower" else 1
        values = {tag: sign * value for tag in self.first if (value := self.value(tag)) is not None}
        floors = [sign * floor for tag in values if (floor := self.rows[tag].scores[self.metric]["floor"]) is not None]
        best, least = max(values.values(), default=0.0), min(floors or values.values(), default=0.0)
        if best <= least:  # without a floor: one score, or equal ones
            return dict.fromkeys(values, 0.0 if floors else 1.0)
        return {tag: max(0.0, (value - least) / (best - least)) for tag, value in values.items()}


@dataclasses.dataclass(frozen=True)
class Grid:
    """Tags in the order in which boards first show them, and columns in the order of boards."""

    tags: tuple[str, ...]
    columns: tuple[Column, ...]


def grid_of(boards: Sequence[Board], metrics: Sequence[str] = ()) -> Grid:
    """A grid of every benchmark's headline, or of these metrics in place of it.

    Args:
        boards: as `boards_of` gives them.
        metrics: names, or `all`.
    """
    by_benchmark: dict[str, list[Board]] = {}
    for board in boards:
        if board.rows:
            by_benchmark.setdefault(board.benchmark, []).append(board)
    columns = [column for group in by_benchmark.values() for column in _columns(group, metrics)]
    tags = dict.fromkeys(tag for column in columns for tag in column.rows)
    return Grid(tuple(tags), tuple(columns))


def _columns(boards: Sequence[Board], metrics: Sequence[str]) -> list[Column]:
    """Of one benchmark."""
    rows = [row for board in boards for row in board.rows] + [row for board in boards for row in board.alone]
    names = chosen_metrics(boards[0], metrics) if metrics else [boards[0].metric]
    found = []
    for name in names:
        having = {row.tag: row for row in rows if name in row.scores}
        score = next(iter(having.values())).scores[name]
        on_first = frozenset(row.tag for row in boards[0].rows)
        about = boards[0].benchmark, name, score["better"], score["unit"]
        found.append(Column(*about, having, on_first, alone=len(names) == 1, placed=name == boards[0].metric))
    return found
