"""A file under its final name is complete: written under a temporary name, synced, then renamed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import socket
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from benchkit.errors import RunError

READ_ONLY = 0o444
_TEMPORARY = re.compile(r"\.tmp-(?P<host>[^-]*)-(?P<boot>[^-]*)-(?P<pid>\d+)-[0-9a-f]+$")


@cache
def host() -> str:
    """This machine's name with characters that are safe in a file name (no dash: it separates the fields).

    Process numbers mean nothing outside their namespace, and containers may share a machine's name: so it is added.
    """
    name = re.sub(r"[^A-Za-z0-9_.]", "_", socket.gethostname())[:64] or "host"
    namespace = Path("/proc/self/ns/pid")
    return f"{name}.{namespace.stat().st_ino:x}" if namespace.exists() else name


@cache
def boot() -> str:
    """An identifier of this boot, since process numbers start again after one."""
    source = Path("/proc/sys/kernel/random/boot_id")
    return source.read_text().replace("-", "")[:8] if source.exists() else "0"


def temporary(path: Path) -> Path:
    """A temporary name beside `path` that tells which process of which host and boot owns it."""
    return path.with_name(f"{path.name}.tmp-{host()}-{boot()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")


@contextlib.contextmanager
def replacing(path: Path, *, read_only: bool = True) -> Iterator[Path]:
    """Yield a temporary path; when the block ends well it is synced and takes the name `path` in one step.

    Raises:
        RunError: the disk is full or the file cannot be written; `path` is as it was before.
    """
    unfinished = temporary(path)
    try:
        with changing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield unfinished
            sync(unfinished)
            if read_only:
                unfinished.chmod(READ_ONLY)
            put_in_place(unfinished, path)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def changing(path: Path) -> Iterator[None]:
    """Inside, whatever the file system refuses is said of `path`.

    Raises:
        RunError: the disk is full or broken, or something may not be changed.
    """
    try:
        yield
    except OSError as error:
        raise RunError(_why(path, error)) from error


def _why(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space is left while writing {path}: nothing finished is lost; free some space and run it again."
    source = error.filename if isinstance(error.filename, str) else ""
    about = f" ({source})" if source and Path(source).parent != path.parent else ""
    return f"cannot write {path}: {error.strerror or error}{about}. Check the folder's permissions and run it again."


def make_folder(path: Path) -> None:
    """Make a folder and those above it.

    Raises:
        RunError: it cannot be made.
    """
    with changing(path):
        path.mkdir(parents=True, exist_ok=True)


def sync(path: Path) -> None:
    """Force the bytes of a file to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def put_in_place(source: Path, target: Path) -> None:
    """Rename over `target`; if both names are one inode, rename would do nothing, so the source name is removed."""
    if target.exists() and os.path.samefile(source, target):
        source.unlink()
        return
    os.replace(source, target)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file atomically (UTF-8, read-only)."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON (no NaN) atomically; keys keep their order, which is the order of tables."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def link_or_copy(source: Path, target: Path) -> None:
    """Give `source` a second name; copy where the file system has no hard links. Atomic; replaces `target`.

    Raises:
        RunError: `source` is missing, or `target` cannot be written.
    """
    with replacing(target) as unfinished:
        try:
            os.link(source, unfinished)
        except OSError:
            shutil.copyfile(source, unfinished)


def clear_dead(folder: Path) -> int:
    """Remove temporary files that dead processes of this host left directly in `folder`; returns how many."""
    removed = 0
    for path in folder.glob("*.tmp-*") if folder.is_dir() else ():
        if owner(path) == "dead":
            with contextlib.suppress(OSError):  # it harms nobody
                path.unlink(missing_ok=True)
                removed += 1
    return removed


def owner(path: Path) -> str:
    """Whose a temporary file is: of a process that lives or is dead, here, or of another host; "" for other files."""
    match = _TEMPORARY.search(path.name)
    return process_state(match["host"], match["boot"], int(match["pid"])) if match else ""


def process_state(machine: str, booted: str, pid: int) -> str:
    """Whether a process is alive or dead; `elsewhere` when it is not one of this machine.

    Args:
        machine, booted: of `host` and `boot`, called by that process.
        pid: its number.
    """
    if machine != host():
        return "elsewhere"
    return "alive" if booted == boot() and _alive(pid) else "dead"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
