"""The scored tags of one benchmark, and of the others what keeps them from being read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchkit.boards.selection import level_of
from benchkit.errors import BenchkitError, reason
from benchkit.experiments.experiment import Experiment
from benchkit.provenance.record import read_record
from benchkit.store.outputs import Outputs, fitting


def collected(
    outputs: Outputs, benchmark: str, tags: Sequence[str], on_error: Callable[[BenchkitError], None] | None
) -> tuple[list[Experiment], dict[str, str]]:
    """Scored tags in name order, and the others: tag -> why it cannot be ranked. Arguments as `boards_of`'s.

    Raises:
        RunError: a tag is damaged, and `on_error` is not given.
    """
    found: list[Experiment] = []
    apart: dict[str, str] = {}
    there = {folder.name: folder for folder in outputs.folders(benchmark)}
    chosen = {name for tag in tags for name in fitting(there, tag)} if tags else set(there)
    for name, folder in there.items():
        if name not in chosen:
            continue
        try:
            if scored := _scored(folder, benchmark, apart):
                found.append(scored)
        except BenchkitError as error:
            if on_error is None:
                raise
            on_error(error)
            apart[folder.name] = reason(error)
    return found, apart


def _scored(folder: Path, benchmark: str, apart: dict[str, str]) -> Experiment | None:
    record = read_record(folder)
    if record is None:
        apart[folder.name] = "it is not finished: the same export finishes it"
    elif record["scores"] is None:
        apart[folder.name] = "it is not scored: python -m benchkit.eval makes its scores"
    else:
        level_of(folder, record)
        return Experiment(folder, benchmark)
    return None
