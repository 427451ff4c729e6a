"""One process at a time: an advisory lock that the kernel releases when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def exclusive(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file `path` (created, never removed: removing it would let two holders in).

    Args:
        path: the lock file.
        waiting: called once when another process holds the lock and this one has to wait.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        told = False
        while not _taken(handle):
            if waiting and not told:
                waiting()
                told = True
            time.sleep(0.05)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


def _taken(handle: object) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[arg-type]
    except BlockingIOError:
        return False
    return True
