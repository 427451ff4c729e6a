"""An export, or a sweep of several confs, as jobs: from the command's arguments to the outcome of every tag."""

from __future__ import annotations

import dataclasses
import os
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchkit.errors import UsageError
from benchkit.export.shares import Share
from benchkit.launch.clusters import LAUNCHERS
from benchkit.launch.tasks import FAILED, Task, finishing, tasks_of
from benchkit.launch.watching import watch
from benchkit.store.files import make_folder
from benchkit.store.outputs import Outputs

if TYPE_CHECKING:
    from benchkit.export.job import Outcome

_ORDER = ("waiting", "unchanged", "finished")  # the later tells more of a tag


def launch(
    given: Namespace, say: Callable[[str], None], changed: Callable[[Sequence[Task]], None]
) -> tuple[int, list[tuple[str, Outcome]]]:
    """Run all shares of all confs; then finish what they have not.

    Args:
        given: the command's arguments; names are checked, settings are apart.
        say: gets what went wrong, one paragraph each.
        changed: called when a job changes its state.

    Returns:
        the worst exit status, and conf and outcome of every tag that is finished.

    Raises:
        UsageError: flags that exclude each other; a launcher that is not there.
        KeyboardInterrupt: all jobs were cancelled.
    """
    if given.shard or given.finish:
        raise UsageError("--launcher starts every share itself: leave --shard and --finish out.")
    folder = _logs(given)
    settings = dict(word.partition("=")[::2] for word in given.slurm)
    cluster = LAUNCHERS[given.launcher](folder, given.jobs, settings)
    tasks = tasks_of(given)
    watch(tasks, cluster, changed)
    late = [finishing(given, conf) for conf in given.conf if _unfinished(tasks, conf)]
    if late:
        tasks += late
        watch(tasks, cluster, changed)
    for text in _failures(tasks):
        say(text)
    ends = [(conf, dataclasses.replace(end, share=Share())) for conf, end in _outcomes(tasks) if end.state != "waiting"]
    return max(task.status for task in tasks), ends


def _logs(given: Namespace) -> Path:
    """outputs/logs/<when>-<process>, made: submitit's files and all logs of this launch."""
    folder = Outputs(given.outputs).root / "logs" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    make_folder(folder)
    return folder.resolve()


def _unfinished(tasks: Sequence[Task], conf: str) -> bool:
    """Whether a tag of this conf waits for images though every share has ended: one has failed."""
    own = [task for task in tasks if task.conf == conf]
    return any(end.state == "waiting" for _, end in _outcomes(own))


def _outcomes(tasks: Sequence[Task]) -> list[tuple[str, Outcome]]:
    """Of each tag what the job said that came furthest, in the order of confs and benchmarks."""
    found: dict[tuple[str, str, str], tuple[str, Outcome]] = {}
    for task in tasks:
        for conf, end in task.ends:
            key = (conf, end.benchmark, end.tag)
            if key not in found or _ORDER.index(end.state) > _ORDER.index(found[key][1].state):
                found[key] = (conf, end)
    confs = list(dict.fromkeys(task.conf for task in tasks))
    return sorted(found.values(), key=lambda pair: confs.index(pair[0]))


def _failures(tasks: Sequence[Task]) -> list[str]:
    """What went wrong, once for all jobs that say the same."""
    said: dict[str, list[Task]] = {}
    for task in tasks:
        if task.state == FAILED:
            said.setdefault(task.last_words() or "it left no word", []).append(task)
    return [
        f"{', '.join(f'{task.conf} {task.share}' for task in failed)} failed with status {failed[0].status}: {text} "
        f"(log: {failed[0].log})"
        for text, failed in said.items()
    ]
