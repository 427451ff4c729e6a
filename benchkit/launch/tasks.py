"""The jobs of an export or a sweep: one per conf and share."""

from __future__ import annotations

import dataclasses
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.errors import printable

if TYPE_CHECKING:
    from benchkit.export.job import Outcome

WAITING, RUNNING, DONE, FAILED, STOPPED = "waiting", "running", "done", "failed", "stopped"
INTERRUPTED = 130
_LOG_END = 20_000  # bytes of a log that are searched for its last words


@dataclasses.dataclass
class Task:
    """One job.

    Attributes:
        conf, share: what of it; share is I/N, or `finish`.
        argv: of `python -m benchkit.export`.
        state: waiting, running, done, failed or stopped.
        status: exit status, when it has ended.
        ends: conf and outcome of each tag that did not fail.
    """

    conf: str
    share: str
    argv: list[str]
    state: str = WAITING
    status: int = 0
    ends: list[tuple[str, Outcome]] = dataclasses.field(default_factory=list)
    job: Any = None
    slot: int = 0
    began: float = 0.0
    seconds: float = 0.0
    gone: float | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more is to come."""
        return self.state in (DONE, FAILED, STOPPED)

    def begin(self, job: Any, slot: int) -> None:
        """It was submitted."""
        self.job, self.slot, self.state, self.began = job, slot, RUNNING, time.monotonic()

    def end(self, status: int, ends: Sequence[tuple[str, Outcome]] = ()) -> None:
        """It has ended."""
        self.status, self.ends, self.seconds = status, list(ends), time.monotonic() - self.began
        self.state = DONE if status == 0 else STOPPED if status == INTERRUPTED else FAILED

    @property
    def log(self) -> Path | None:
        """Where its output goes."""
        return None if self.job is None else Path(self.job.paths.stdout)

    def last_words(self) -> str:
        """The last line that the share itself wrote: of a failure, what was wrong."""
        try:
            with self.log.open("rb") as file:  # type: ignore[union-attr]
                file.seek(max(0, file.seek(0, 2) - _LOG_END))
                lines = file.read().decode(errors="replace").splitlines()
        except (OSError, AttributeError):
            return ""
        own = [line for line in lines if line.strip() and not line.startswith("submitit ")]
        return printable(own[-1]) if own else ""


def tasks_of(given: Namespace) -> list[Task]:
    """All shares of all confs; the first shares of all confs come first, so that each conf's mistakes show early."""
    shares = [f"{index}/{given.jobs}" for index in range(given.jobs)]
    return [Task(conf, share, [*_argv(given, conf), "--shard", share]) for share in shares for conf in given.conf]


def finishing(given: Namespace, conf: str) -> Task:
    """The job that finishes a conf's tags, or says what is missing."""
    return Task(conf, "finish", [*_argv(given, conf), "--finish"])


def _argv(given: Namespace, conf: str) -> list[str]:
    """The flags of one conf, without those of the launcher."""
    values = {"--tag": given.tag, "--checkpoint": given.checkpoint, "--limit": given.limit, "--outputs": given.outputs}
    switches = {name: getattr(given, name, False) for name in ("random", "overwrite", "yes", "traceback", "trust")}
    return ["--conf", conf, "--benchmark", *given.benchmark, *_flags(values, switches), *given.settings]


def _flags(values: dict[str, Any], switches: dict[str, bool]) -> Iterator[str]:
    for flag, value in values.items():
        if value is not None:
            yield from (flag, str(value))
    yield from (f"--{name}" for name, on in switches.items() if on)
