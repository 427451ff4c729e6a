"""Damaged tags of a page: what cannot be read of one is left out, and said once for each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from benchkit.errors import BenchkitError, RunError, printable, reason

if TYPE_CHECKING:
    from benchkit.experiments.experiment import Experiment

LETTERS = 400  # of one cause
CAUSES = 3  # of one tag that are told


class Damage:
    """Takes errors of single tags, so that the page is made without what they have to do with.

    Args:
        on_error: is told each error, once for a tag and a cause; None: errors go on, and end the page.
    """

    def __init__(self, on_error: Callable[[BenchkitError], None] | None = None) -> None:
        self._on_error = on_error
        self._found: dict[tuple[str, str], list[str]] = {}

    @contextlib.contextmanager
    def of(self, *experiments: Experiment) -> Iterator[None]:
        """What is in it is left where a file of one of these tags cannot be read.

        Raises:
            BenchkitError: nobody takes errors.
        """
        try:
            yield
        except (BenchkitError, OSError, ValueError) as error:
            if self._on_error is None:
                raise
            self._take(experiments, error)

    def _take(self, experiments: Sequence[Experiment], error: Exception) -> None:
        known = error if isinstance(error, BenchkitError) else RunError(f"{experiments[0].folder}: {reason(error)}.")
        said = self._found.setdefault((experiments[0].benchmark, ", ".join(each.tag for each in experiments)), [])
        if (why := reason(known, LETTERS)) not in said and len(said) < CAUSES:
            said.append(why)
            if self._on_error is not None:
                self._on_error(known)

    def told(self, benchmark: str) -> Mapping[str, str]:
        """Tag, or tags -> why something of it is not in the page."""
        return {printable(tag): "; ".join(said) for (of, tag), said in self._found.items() if of == benchmark}
