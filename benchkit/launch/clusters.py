"""Where jobs run: SLURM, or this machine. Both are submitit's executors; its files and the logs lie under outputs/logs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.errors import RunError, UsageError, reason
from benchkit.launch.work import Work

MINUTES = 240  # of a job on SLURM unless `--slurm time=` says otherwise; a job whose time is over goes on in a new one
REQUEUES = 20  # times that this may happen
_YEAR = 365 * 24 * 60
_NAMES = {"gpus": "gpus_per_node", "cpus": "cpus_per_task", "timeout": "time", "name": "job_name"}


def _submitit() -> Any:
    try:
        import submitit
    except ImportError:
        raise UsageError(
            "--launcher needs submitit: pip install 'submitit>=1.5,<2' (benchkit's extra slurm), or start the shares "
            "yourself with --shard I/N."
        ) from None
    return submitit


class Local:
    """Processes of this machine, at most `at_once` at a time, each with a device of its own where there are several.

    Attributes:
        patience: seconds that a result may take to appear after its job has ended.
        pause: seconds between two looks at the jobs.
    """

    patience = 0.0
    pause = 0.2

    def __init__(self, folder: Path, at_once: int, settings: Mapping[str, str]) -> None:
        if settings:
            raise UsageError("--slurm has settings for --launcher slurm; the local launcher has none.")
        self.at_once = at_once
        self._executor = _submitit().LocalExecutor(folder, max_num_timeout=REQUEUES)
        self._executor.update_parameters(timeout_min=_YEAR, stderr_to_stdout=True)

    def submit(self, argvs: Sequence[Sequence[str]], slots: Sequence[int]) -> list[Any]:
        """Start jobs; Ctrl-C in the terminal reaches the launcher only, which hands it on once."""
        with _ctrl_c_ignored():
            return [
                self._executor.submit(Work(), list(argv), self._environment(slot), True)
                for argv, slot in zip(argvs, slots, strict=True)
            ]

    def _environment(self, slot: int) -> dict[str, str | None]:
        """submitit hides all devices from a local job that asks for none by number: each takes its own by rank."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        return {"CUDA_VISIBLE_DEVICES": visible, "LOCAL_RANK": str(slot), "LOCAL_WORLD_SIZE": str(self.at_once)}

    def cancel(self, job: Any) -> None:
        """SIGTERM, which the job's controller hands on: the share writes what is complete."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(job.job_id), signal.SIGTERM)


@contextlib.contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Processes that are started inside ignore SIGINT for ever."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Slurm:
    """Jobs of a cluster, all in one array; SLURM says when each runs."""

    patience = 60.0
    pause = 2.0

    def __init__(self, folder: Path, at_once: int, settings: Mapping[str, str]) -> None:
        self.at_once = 1_000_000
        submitit = _submitit()
        try:
            self._executor = submitit.SlurmExecutor(folder, max_num_timeout=REQUEUES)
            self._executor.update_parameters(**_parameters(settings))
        except RuntimeError as error:
            raise UsageError(
                f"{reason(error)}: --launcher slurm needs SLURM's srun and sbatch; --launcher local uses this machine."
            ) from error
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"--slurm {' '.join(f'{k}={v}' for k, v in settings.items())}: {reason(error, 600)}."
            ) from error

    def submit(self, argvs: Sequence[Sequence[str]], slots: Sequence[int]) -> list[Any]:
        """Queue jobs as one array."""
        try:
            with self._executor.batch():
                return [self._executor.submit(Work(), list(argv), {}, False) for argv in argvs]
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            raise RunError(f"sbatch took no jobs: {reason(error, 600)}.") from error

    def cancel(self, job: Any) -> None:
        """scancel; SLURM ends the job after its KillWait, and what is not written of the open part is lost."""
        job.cancel(check=False)


def _parameters(settings: Mapping[str, str]) -> dict[str, Any]:
    """submitit's parameters of `--slurm key=value` (partition, time, gpus, mem, cpus, account, qos, array_parallelism ...)."""
    found: dict[str, Any] = {"time": MINUTES, "job_name": "benchkit", "stderr_to_stdout": True}
    for key, text in settings.items():
        name = _NAMES.get(key, key)
        found[name] = minutes(text) if name == "time" else int(text) if text.isdecimal() else text
    return found


def minutes(text: str) -> int:
    """Minutes of a time as sbatch takes it: minutes, hours:minutes:seconds, days-hours, days-hours:minutes ...

    Raises:
        ValueError: it is none.
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if not match:
        raise ValueError(f"time={text} is no time: give minutes, hours:minutes:seconds, or days-hours:minutes")
    days, *parts = match.groups()
    first, second, third = (int(part or 0) for part in parts)
    if days is not None:
        seconds = int(days) * 86400 + first * 3600 + second * 60 + third
    elif parts[2] is not None:
        seconds = first * 3600 + second * 60 + third
    else:
        seconds = first * 60 + second
    return max(1, -(-seconds // 60))


LAUNCHERS: dict[str, type[Local] | type[Slurm]] = {"local": Local, "slurm": Slurm}
