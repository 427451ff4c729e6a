"""One process at a time: an advisory lock that the kernel releases when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from benchkit.errors import RunError
from benchkit.store.files import changing


@contextlib.contextmanager
def exclusive(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file `path` (created, never removed: removing it would let two holders in).

    Args:
        path: the lock file.
        waiting: called once when another process holds the lock and this one has to wait.

    Raises:
        RunError: the file cannot be made, or its file system has no locks.
    """
    with _opened(path) as handle:
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


def _opened(path: Path) -> IO[str]:
    with changing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a")


def _taken(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise RunError(
            f"cannot lock {handle.name}: {error.strerror or error}. Use --outputs on a file system with locks."
        ) from error
    return True
