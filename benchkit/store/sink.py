"""What HDF5 writes into: a file whose disk never seems to fail.

HDF5 2.0 crashes where it closes a file that it could not write, and h5py shows a traceback for each object of it. So the first
error is kept here, what would be written afterwards goes nowhere, and the error is raised when HDF5 is done.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import h5py


class Sink:
    """A new file, open for writing, with the methods that h5py asks for.

    Attributes:
        error: the first that writing met.
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._at = 0
        self.error: OSError | None = None

    def close(self) -> None:
        """Give the handle back; some file systems tell only now what they could not write."""
        os.close(self._handle)

    def check(self) -> None:
        """Raise the error, if there was one."""
        if self.error is not None:
            raise self.error

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a byte."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        self._at = offset + (os.fstat(self._handle).st_size if base is None else base)
        return self._at

    def tell(self) -> int:
        """Where it is."""
        return self._at

    def read(self, size: int) -> bytes:
        """Bytes that were written; zeros for those that were lost."""
        found = b"" if self.error else os.pread(self._handle, size, self._at)
        self._at += size
        return found.ljust(size, b"\0")

    def readinto(self, into: bytearray) -> int:
        """Fill a buffer with bytes that were written."""
        into[:] = self.read(len(into))
        return len(into)

    def write(self, data: Any) -> int:
        """Write all of it, or none where the disk has failed."""
        rest = memoryview(data).cast("B")
        size, end = len(rest), self._at + len(rest)
        with self._kept():
            while len(rest) and not self.error:
                rest = rest[os.pwrite(self._handle, rest, end - len(rest)) :]
        self._at = end
        return size

    def truncate(self, size: int | None = None) -> int:
        """Set the length."""
        length = self._at if size is None else size
        with self._kept():
            if not self.error:
                os.ftruncate(self._handle, length)
        return length

    def flush(self) -> None:
        """Nothing is held back here."""

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.error = error


@contextlib.contextmanager
def created(path: Path) -> Iterator[tuple[h5py.File, Sink]]:
    """A new HDF5 file and what it writes into, to ask now and then whether it goes on.

    Raises:
        OSError: the disk failed.
    """
    with _uninterrupted():
        sink = Sink(path)
        try:
            with h5py.File(sink, "w") as file:
                yield file, sink
            sink.check()
        finally:
            sink.close()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Signals wait: an exception in the middle of HDF5's writing is to HDF5 a disk that fails. A second one does not wait."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before: dict[int, Any] = {number: handler for number, handler in found.items() if callable(handler)}

    def wait(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))
        if len(came) > 1:
            before[number](number, frame)

    for number in before:
        signal.signal(number, wait)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if len(came) == 1:
            before[came[0][0]](*came[0])
