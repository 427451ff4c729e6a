"""Work that is done a little later, in a thread of its own: parts are written while the next batches are forwarded."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

DEPTH = 2  # things that wait at most: bounds memory


class Behind(Generic[T]):
    """Calls a function with each thing given, in their order, one at a time; a context that ends when all is done.

    Args:
        work: what it raises is raised where the next thing is given, or at the end; from then on nothing more is done.
    """

    def __init__(self, work: Callable[[T], None]) -> None:
        self._work = work
        self._queue: queue.Queue[tuple[T] | None] = queue.Queue(DEPTH)
        self._error: BaseException | None = None
        self._raised = False
        self._thread = threading.Thread(target=self._run, name="behind", daemon=True)

    def give(self, thing: T) -> None:
        """Have it done; waits while too many wait."""
        self._queue.put((thing,))
        self._raise()

    def _run(self) -> None:
        while (given := self._queue.get()) is not None:
            if self._error is None:
                try:
                    self._work(*given)
                except BaseException as error:  # raised again in the thread that gives
                    self._error = error

    def _raise(self) -> None:
        if self._error is not None and not self._raised:
            self._raised = True
            raise self._error

    def __enter__(self) -> Behind[T]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end()
        except KeyboardInterrupt:  # what was given is done all the same
            self._end()
            raise
        self._raise()

    def _end(self) -> None:
        self._queue.put(None)
        self._thread.join()
