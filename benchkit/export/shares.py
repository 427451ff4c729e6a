"""Which share of the work a process does, and beside how many others on its machine: from --shard, torchrun or SLURM.

Nothing is gathered and no process group is made: workers meet in the files only. Sources: torchrun's environment variables
(pytorch.org, Torchrun), the output environment variables of srun and sbatch (slurm.schedmd.com).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from benchkit.errors import UsageError

BY_HAND = "--shard"


@dataclasses.dataclass(frozen=True)
class Share:
    """The `index`-th of `count` shares, from 0, and who says so."""

    index: int = 0
    count: int = 1
    source: str = BY_HAND

    @property
    def leads(self) -> bool:
        """Whether it tells of its progress: of workers that were started together only the first does."""
        return self.index == 0 or self.source == BY_HAND

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def own_share(shard: str | None, environment: Mapping[str, str] = os.environ) -> Share:
    """This process's share: what --shard says, else torchrun, else srun and the SLURM array, else everything.

    Raises:
        UsageError: the flag or the environment cannot be read.
    """
    if shard is not None:
        return _given(shard)
    if "RANK" in environment and "WORLD_SIZE" in environment:
        return _checked(_number(environment, "RANK"), _number(environment, "WORLD_SIZE"), "torchrun")
    index, count = _step(environment)
    place, tasks = _array(environment)
    source = "srun" if count > 1 else "the SLURM array" if tasks > 1 else BY_HAND
    return _checked(place * count + index, tasks * count, source)


def _given(shard: str) -> Share:
    index, _, count = shard.partition("/")
    if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise UsageError(f"--shard {shard}: give I/N with I from 0 to N-1, for example 0/4, 1/4, 2/4, 3/4.")
    return Share(int(index), int(count))


def _step(environment: Mapping[str, str]) -> tuple[int, int]:
    """Task and tasks of a job step. A batch script or an interactive shell has such variables too, and no fellows."""
    if "SLURM_STEP_ID" not in environment or "SLURM_PTY_PORT" in environment:
        return 0, 1
    if "SLURM_PROCID" not in environment or "SLURM_NTASKS" not in environment:
        return 0, 1
    return _number(environment, "SLURM_PROCID"), _number(environment, "SLURM_NTASKS")


def _array(environment: Mapping[str, str]) -> tuple[int, int]:
    """Place and length of the job array. An array of some tasks that are missing (`--array=2`) does all that is missing."""
    if "SLURM_ARRAY_TASK_ID" not in environment or "SLURM_ARRAY_TASK_COUNT" not in environment:
        return 0, 1
    names = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX")
    task, count, first, last = (_number(environment, name) for name in names)
    step = (last - first) // (count - 1) if count > 1 else 1
    if count > 1 and (step < 1 or first + (count - 1) * step != last or (task - first) % step):
        raise UsageError(
            f"the {count} tasks of this SLURM array from {first} to {last} are not evenly spaced, so which share is this "
            "one's is not known: say it with --shard I/N, or use an array like 0-7."
        )
    return (task - first) // step, count


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not text.isdecimal():
        raise UsageError(f"the environment says {name}={text!r}, which is no number: say the share with --shard I/N.")
    return int(text)


def _checked(index: int, count: int, source: str) -> Share:
    if index >= count:
        raise UsageError(
            f"{source} says that this is worker {index} of {count}, from 0: say the share with --shard I/N."
        )
    return Share(index, count, source)


def local_rank(environment: Mapping[str, str] = os.environ) -> int:
    """Which of the workers on its machine this is, from 0: each takes a device of its own."""
    step = "SLURM_STEP_ID" in environment and "SLURM_PTY_PORT" not in environment
    for name in ("LOCAL_RANK", *(["SLURM_LOCALID"] if step else [])):
        if name in environment:
            return _number(environment, name)
    return 0


def cpus(environment: Mapping[str, str] = os.environ) -> int:
    """CPUs for this process: those it may run on, shared with its fellows; SLURM gives each task its own."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, mine // (_number(environment, "LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in environment else 1))
