"""What a launcher shows: a table that follows the jobs in a terminal, a line at every change elsewhere, the table at the end."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from benchkit.commands._shared import say
from benchkit.commands._tables import render
from benchkit.errors import UsageError

if TYPE_CHECKING:
    from benchkit.export.job import Outcome
    from benchkit.launch.tasks import Task

Shown = Callable[[Sequence["Task"]], None]


def launched(given: argparse.Namespace) -> tuple[int, list[tuple[str, Outcome]]]:
    """Export by jobs; returns the worst status, and conf and outcome of every tag that did not fail.

    Raises:
        UsageError: as `launch`.
        KeyboardInterrupt: the jobs were cancelled.
    """
    from benchkit.launch.launching import launch
    from benchkit.launch.watching import rows

    given.jobs = 1 if given.jobs is None else given.jobs
    if given.jobs < 1:
        raise UsageError(f"--jobs {given.jobs}: each conf is done by one job at least.")
    odd = next((word for word in given.slurm if "=" not in word), None)
    if odd is not None:
        raise UsageError(f"--slurm {odd}: its settings are key=value, for example partition=gpu time=2:00:00 gpus=1.")
    seen: list[Task] = []
    try:
        with _following() as show:

            def changed(tasks: Sequence[Task]) -> None:
                seen[:] = tasks
                show(tasks)

            worst, outcomes = launch(given, say, changed)
    finally:
        if seen:
            print(render(*rows(seen), "table"), file=sys.stderr)
    return worst, outcomes


@contextlib.contextmanager
def _following() -> Iterator[Shown]:
    from benchkit.launch.watching import counts, rows

    if not sys.stderr.isatty():
        yield lambda tasks: say(f"jobs: {counts(tasks)}")
        return
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    with Live(console=Console(stderr=True), transient=True) as live:

        def show(tasks: Sequence[Task]) -> None:
            header, lines = rows(tasks)
            table = Table(*header[:-1], title=counts(tasks))
            for line in lines:
                table.add_row(*(Text(cell) for cell in line[:-1]))
            live.update(table)

        yield show
