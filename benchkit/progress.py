"""Progress with rate and time left, on anything that takes more than two seconds; a line a minute where nobody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_FIRST = 2.0  # seconds of silence
_TERMINAL, _LOG = 0.2, 30.0  # seconds between updates


class Progress:
    """Counts work done on standard error: one line that is rewritten in a terminal, a line now and then in a log."""

    def __init__(
        self, total: int, what: str, unit: str, silent: bool = False, each: Callable[[], None] | None = None
    ) -> None:
        """`silent`: says nothing; `each`: called whenever something was done."""
        self.total, self.what, self.unit = total, what, unit
        self.silent, self.each = silent, each
        self.done = 0
        self.started = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._next = self.started + _FIRST
        self._shown = False

    def advance(self, count: int = 1) -> None:
        """Count `count` more as done."""
        self.done += count
        if self.each is not None:
            self.each()
        now = time.monotonic()
        if now >= self._next and not self.silent:
            self._next = now + (_TERMINAL if self._terminal else _LOG)
            self._write(now)

    def _write(self, now: float) -> None:
        rate = self.done / max(now - self.started, 1e-9)
        left = (self.total - self.done) / rate if rate else float("inf")
        text = f"{self.what}: {self.done:,}/{self.total:,} {self.unit}, {rate:,.1f} {self.unit}/s, {_clock(left)} left"
        sys.stderr.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        sys.stderr.flush()
        self._shown = True

    def finish(self) -> float:
        """Clear the line; returns the rate in units per second."""
        if self._shown and self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        return self.done / max(time.monotonic() - self.started, 1e-9)


def track(items: Iterable[T], total: int, what: str, unit: str) -> Iterator[T]:
    """Yield `items`, counting them."""
    progress = Progress(total, what, unit)
    try:
        for item in items:
            yield item
            progress.advance()
    finally:
        progress.finish()


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
