"""Other processes that check files. Threads would not do: Python sums rows of a few kilobytes one at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from benchkit.errors import RunError
from benchkit.store.checking import Each, Outcome, check_files

POLL = 0.2  # seconds between looks at how far they are
_STOP = -1  # in place of the count of bytes
_counter: Any = None  # of a process of the crew: bytes that all of them have read


def most_processes() -> int:
    """How many are of use on this machine; more would wait for the disk."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def check_batches(batches: Sequence[Sequence[Path]], processes: int, each: Each) -> list[Outcome]:
    """As `check_files` of every batch, one behind the other.

    Raises:
        RunError: a process was killed.
    """
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    pool = ProcessPoolExecutor(min(processes, len(batches)), context, _begin, (counter,))
    try:
        waiting = [pool.submit(_check, batch) for batch in batches]
        told, left = 0, set(waiting)
        while left:
            done, left = wait(left, POLL, FIRST_EXCEPTION)
            for future in done:
                future.result()  # raises what one of them raised
            read = counter.value
            each(read - told)
            told = read
        return [outcome for future in waiting for outcome in future.result()]
    except BrokenProcessPool as error:
        raise RunError(
            "one of the processes that check files was killed, perhaps because memory ran out. Run it again."
        ) from error
    finally:
        counter.value = _STOP
        pool.shutdown(cancel_futures=True)


def _begin(counter: Any) -> None:
    global _counter
    _counter = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; who started this one tells it to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _check(files: Sequence[Path]) -> list[Outcome]:
    return check_files(files, _count)


def _count(read: int) -> None:
    with _counter.get_lock():
        if _counter.value == _STOP:
            raise KeyboardInterrupt
        _counter.value += read
