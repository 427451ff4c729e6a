"""What h5py says of a disk that fails, once: the error tells it, and then each object of the file that is dropped once more."""

from __future__ import annotations

import sys
from functools import cache
from types import TracebackType
from typing import Any

_AGAIN = "Can't decrement id ref count"  # what each object says that HDF5 could not write to the end


@cache
def say_once() -> None:
    """From now on the tracebacks of objects that are dropped unwritten are not shown; called by whoever writes HDF5.

    Cython shows such an error twice: as one that nobody caught, and as one that nobody can catch.
    """
    uncaught, ignored = sys.excepthook, sys.unraisablehook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if _AGAIN not in str(error):
            uncaught(kind, error, trace)

    def show_ignored(given: Any) -> None:
        if _AGAIN not in str(given.exc_value):
            ignored(given)

    sys.excepthook, sys.unraisablehook = show, show_ignored
