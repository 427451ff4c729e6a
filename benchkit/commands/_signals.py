"""Ctrl-C and SIGTERM. Once: what is complete is written, and the command ends with status 130. Twice: it ends at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130  # of both signals: 143 for SIGTERM would tell nothing more, and schedulers know why they sent it
_ONE = 1.0  # seconds in which signals are one: torchrun hands on what the terminal has sent to all already
_OWN = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


@contextlib.contextmanager
def stoppable(writes: bool = True) -> Iterator[None]:
    """Inside, the first signal raises KeyboardInterrupt and the second ends the process.

    `writes`: what is complete by then is written, and that is said.
    A signal that is ignored, or that somebody else handles (submitit, a test), stays as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number, own in _OWN.items() if signal.getsignal(number) is own]
    heed = _heeding("what is complete is being written; " if writes else "")
    before = [signal.signal(number, heed) for number in taken]
    try:
        yield
    finally:
        for number, handler in zip(taken, before, strict=True):
            signal.signal(number, handler)


def _heeding(meanwhile: str) -> Callable[[int, FrameType | None], None]:
    first: float | None = None

    def heed(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if first is None:
            first = time.monotonic()
            _tell(f"stopping: {meanwhile}once more, and it ends at once.")
            raise KeyboardInterrupt
        if time.monotonic() - first > _ONE:
            leave()

    return heed


def leave() -> NoReturn:
    """End now: nothing is written any more. What lies around unfinished is cleared by the next run."""
    os._exit(INTERRUPTED)


def _tell(text: str) -> None:
    """Past Python's buffers, which the interrupted code may be using."""
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())
