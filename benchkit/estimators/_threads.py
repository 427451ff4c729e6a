"""Work on items in threads: the libraries release the interpreter while they compute."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from benchkit.progress import track

T = TypeVar("T")


def over_items(work: Callable[[int], T], count: int, workers: int, label: str, unit: str) -> list[T]:
    """`work(0)` to `work(count - 1)`, in order, with progress; the same for any number of workers if `work` depends on its
    index alone. What one of them raises ends it.

    Args:
        workers: threads; 0: as many as this process may use cores.
        label, unit: for the line of progress: what is done, to what.
    """
    threads = min(workers or _cores(), max(count, 1))
    if threads == 1:
        return list(track(map(work, range(count)), count, label, unit))
    pool = ThreadPoolExecutor(threads, thread_name_prefix="estimate")
    try:
        return list(track(pool.map(work, range(count)), count, label, unit))
    finally:
        pool.shutdown(cancel_futures=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
