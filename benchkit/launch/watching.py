"""Submit jobs, wait for them, and tell what is done, running and failed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from benchkit.launch.tasks import DONE, FAILED, INTERRUPTED, RUNNING, STOPPED, WAITING, Task

_KILLED = 3  # status of a job that left no result
_STOPPING = 60.0  # seconds that cancelled jobs get


class Cluster(Protocol):
    """What `clusters` has."""

    at_once: int
    patience: float
    pause: float

    def submit(self, argvs: Sequence[Sequence[str]], slots: Sequence[int]) -> list[Any]:
        """Start jobs."""

    def cancel(self, job: Any) -> None:
        """Stop one."""


def watch(tasks: Sequence[Task], cluster: Cluster, changed: Callable[[Sequence[Task]], None]) -> None:
    """Run all tasks to their end.

    Args:
        tasks: changed in place.
        cluster: where they run.
        changed: called when the state of any has changed.

    Raises:
        KeyboardInterrupt: all jobs were cancelled, and most have ended.
    """
    try:
        while not all(task.ended for task in tasks):
            before = [task.state for task in tasks]
            _submit(tasks, cluster)
            _look(tasks, cluster)
            if [task.state for task in tasks] != before:
                changed(tasks)
            else:
                time.sleep(cluster.pause)
    except KeyboardInterrupt:
        _stop(tasks, cluster)
        changed(tasks)
        raise


def _submit(tasks: Sequence[Task], cluster: Cluster) -> None:
    running = [task for task in tasks if task.state == RUNNING]
    waiting = [task for task in tasks if task.state == WAITING][: cluster.at_once - len(running)]
    if not waiting:
        return
    taken = {task.slot for task in running}
    slots = [slot for slot in range(len(tasks)) if slot not in taken][: len(waiting)]
    jobs = cluster.submit([task.argv for task in waiting], slots)
    for task, job, slot in zip(waiting, jobs, slots, strict=True):
        task.begin(job, slot)


def _look(tasks: Sequence[Task], cluster: Cluster) -> None:
    for task in tasks:
        if task.state == RUNNING and task.job.done():
            _take(task, cluster)
        else:
            task.gone = None  # it may have been queued again


def _take(task: Task, cluster: Cluster) -> None:
    """What the job of a task gave; on a shared file system its result may appear some seconds after its end."""
    if not task.job.paths.result_pickle.exists():
        task.gone = task.gone or time.monotonic()
        if time.monotonic() - task.gone >= cluster.patience:
            task.end(_KILLED)
        return
    if task.job.exception() is not None:
        task.end(_KILLED)
        return
    status, ends = task.job.result()
    task.end(status, ends)


def _stop(tasks: Sequence[Task], cluster: Cluster) -> None:
    running = [task for task in tasks if task.state == RUNNING]
    for task in running:
        cluster.cancel(task.job)
    until = time.monotonic() + _STOPPING
    while time.monotonic() < until and not all(task.ended for task in running):
        _look(running, cluster)
        time.sleep(0.1)
    for task in tasks:
        if not task.ended:
            task.end(INTERRUPTED)


def counts(tasks: Sequence[Task]) -> str:
    """How many are in which state."""
    found = Counter(task.state for task in tasks)
    return ", ".join(f"{found[state]} {state}" for state in (DONE, RUNNING, WAITING, FAILED, STOPPED) if found[state])


def rows(tasks: Sequence[Task]) -> tuple[list[str], list[list[str]]]:
    """A table: one job a row."""
    header = ["conf", "share", "state", "images", "seconds", "log"]
    return header, [
        [
            task.conf,
            task.share,
            task.state,
            str(max((end.forwards for _, end in task.ends), default=0)) if task.ended else "",
            f"{task.seconds:.0f}" if task.ended else "",
            "" if task.log is None else str(task.log),
        ]
        for task in tasks
    ]
