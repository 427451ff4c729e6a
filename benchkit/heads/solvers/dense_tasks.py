"""The tasks of dense heads by name."""

from __future__ import annotations

from typing import Any

from benchkit.errors import UsageError
from benchkit.heads.solvers.dense_classes import Binary, Semantic
from benchkit.heads.solvers.dense_numbers import Depth, Maps, Normals
from benchkit.heads.solvers.dense_outputs import Task
from benchkit.store.items import Items

TASKS: dict[str, Any] = {"semantic": Semantic, "binary": Binary, "depth": Depth, "normals": Normals, "maps": Maps}


def make_task(task: str, truth: Items, loss: str) -> Task:
    """The task of that name.

    Args:
        task: semantic, binary, depth, normals or maps.
        truth: of the train items.
        loss: of normals: uncertainty or angular.

    Raises:
        UsageError: there is no such task, or the truth lacks its field.
    """
    if task not in TASKS:
        raise UsageError(f"there is no dense task {task!r}: there are {', '.join(TASKS)}.")
    if TASKS[task].field not in truth or not truth.names:
        raise UsageError(f"a dense head learns {TASKS[task].field}, and the truth of the train items holds none.")
    made: Task = TASKS[task].of(truth, loss)
    return made
