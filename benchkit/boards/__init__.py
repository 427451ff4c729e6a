"""Boards: scored tags side by side, one board for each protocol that some of them share. Plain data; nothing is printed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchkit.boards.board import Board, Row
from benchkit.boards.collecting import collected
from benchkit.boards.grouping import grouped
from benchkit.boards.places import placed
from benchkit.boards.selection import chosen_benchmarks
from benchkit.errors import BenchkitError
from benchkit.store.outputs import Outputs

__all__ = ["Board", "Row", "boards_of"]


def boards_of(
    outputs: Outputs,
    benchmarks: Sequence[str] = (),
    tags: Sequence[str] = (),
    on_error: Callable[[BenchkitError], None] | None = None,
    tied: bool = True,
) -> list[Board]:
    """Boards of scored tags by level, family and instance, those with most tags first.

    Args:
        outputs: where the tags lie.
        benchmarks: names of instances, families or levels (high, mid, low, geometry); none: everything that is there.
        tags: only these; a tag with * stands for all that fit. None: all.
        tied: test which rows share a place; else they are numbered.
        on_error: takes the error of a tag that cannot be read, which then stands in `Board.apart`; without it, it is raised.

    Raises:
        UsageError: a name is none of a benchmark, or nothing that is scored fits.
        RunError: a tag is damaged, and `on_error` is not given.
    """
    found: list[Board] = []
    for instance in chosen_benchmarks(outputs, benchmarks):
        experiments, apart = collected(outputs, instance.name, tags, on_error)
        found += grouped(instance, experiments, apart)
    return placed(found, tied)
