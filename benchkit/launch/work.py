"""What submitit runs in a job: one share of an export, by its arguments."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchkit.export.job import Outcome

Ended = tuple[int, list[tuple[str, "Outcome"]]]  # exit status; conf and outcome of each tag that did not fail


class Work:
    """Called in the job; `checkpoint` is what submitit calls when the job is preempted or its time is over.

    The job is then queued again with the same arguments: rows are found by name, so it goes on where it was.
    """

    def __call__(self, argv: Sequence[str], environment: Mapping[str, str | None], stoppable: bool) -> Ended:
        """Export one share.

        Args:
            argv: of `python -m benchkit.export`.
            environment: variables of this job only; None removes one.
            stoppable: SIGTERM stops it. On SLURM it is submitit's, since there it comes before a preemption too.
        """
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if stoppable:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        from benchkit.commands.export import share_of

        return share_of(argv)

    def checkpoint(self, *arguments: Any) -> Any:
        """The job that takes the place of this one."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, *arguments)
