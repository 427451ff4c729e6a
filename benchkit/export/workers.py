"""Signs of life: each of several workers keeps a small file beside the bank that it fills, so that others can tell who is
missing. Nothing depends on these files but what is told: rows are found by name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchkit.errors import RunError
from benchkit.export.batches import Pictures
from benchkit.export.shares import Share
from benchkit.store.files import boot, host, process_state, write_json

SILENT = 600.0  # seconds without a sign of life after which a worker is called missing
_BEAT = 10.0  # seconds between signs of life
_LARGEST = 10_000  # bytes of such a file
WORKING, DONE, STOPPED = "working", "done", "stopped"


@dataclasses.dataclass(frozen=True)
class Sign:
    """What a worker's file says.

    Attributes:
        state: working, done or stopped.
        process: alive or dead, as seen from here; elsewhere on another machine.
        age: seconds since it was last seen, by the file system's clock.
    """

    index: int
    count: int
    state: str
    host: str
    pid: int
    process: str
    age: float

    @property
    def missing(self) -> bool:
        """Whether nobody works on its share any more, as far as one can tell."""
        return self.state != WORKING or self.process == "dead" or self.age > SILENT


def work_id(pictures: Pictures) -> str:
    """A name for this work: shares of equal lists of images are shares of the same."""
    return hashlib.sha256(pictures.digests.tobytes().hex().encode()).hexdigest()[:12]


@contextlib.contextmanager
def working(bank: Path, work: str, share: Share) -> Iterator[Callable[[], None]]:
    """Say that this process does a share, and at the end how it left; yields what is to be called now and then.

    Args:
        bank: the bank's folder.
        work: of `work_id`.
        share: one of several; a process that does everything leaves no file.
    """
    if share.count == 1:
        yield lambda: None
        return
    path = _folder(bank) / f"{work}-{share.index}-of-{share.count}.worker"
    state, started = STOPPED, time.time()
    _write(path, WORKING, started)
    try:
        yield _beat(path)
        state = DONE
    finally:
        _write(path, state, started)


def _folder(bank: Path) -> Path:
    return bank / ".workers"


def _write(path: Path, state: str, started: float) -> None:
    told = {"state": state, "host": socket.gethostname(), "machine": host(), "boot": boot(), "pid": os.getpid()}
    with contextlib.suppress(RunError):  # what matters will fail by itself
        write_json(path, {**told, "started": started})


def _beat(path: Path) -> Callable[[], None]:
    last = time.monotonic()

    def beat() -> None:
        nonlocal last
        if time.monotonic() - last > _BEAT:
            last = time.monotonic()
            with contextlib.suppress(OSError):
                os.utime(path)

    return beat


def signs(bank: Path, work: str) -> list[Sign]:
    """What the workers of this work left, by share; a file that cannot be read says nothing."""
    folder = _folder(bank)
    found = [_sign(path, _now(folder)) for path in sorted(folder.glob(f"{work}-*-of-*.worker"))]
    return [sign for sign in found if sign is not None]


def forget(bank: Path, work: str) -> None:
    """Remove them: the work is done."""
    for path in _folder(bank).glob(f"{work}-*.worker"):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other work's are there
        _folder(bank).rmdir()


def _now(folder: Path) -> float:
    """Time by the clock that stamps files there: another machine's clock may be set otherwise."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def _sign(path: Path, now: float) -> Sign | None:
    try:
        _, index, _, count = path.stem.split("-")
        if path.stat().st_size > _LARGEST:
            return None
        told, seen = json.loads(path.read_text(encoding="utf-8")), path.stat().st_mtime
        pid = int(told["pid"])
        process = process_state(str(told["machine"]), str(told["boot"]), pid)
        return Sign(int(index), int(count), str(told["state"]), str(told["host"]), pid, process, max(0.0, now - seen))
    except (OSError, ValueError, KeyError, TypeError):
        return None
