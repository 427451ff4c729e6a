"""What killed processes left: temporary files, and the unfinished work of an experiment that was finished after all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from benchkit.errors import BenchkitError
from benchkit.provenance import strict
from benchkit.provenance.identity import canonical
from benchkit.provenance.record import matches, read_record
from benchkit.store.files import changing, owner
from benchkit.store.lock import exclusive
from benchkit.store.outputs import lock_of
from benchkit.store.repair import Step
from benchkit.store.twins import is_plain


def unfinished(root: Path) -> Iterator[tuple[Path, str]]:
    """Temporary files below a folder, and whose they are: of a process that is alive, dead, or elsewhere."""
    for path in sorted(root.rglob("*.tmp-*")):
        state = owner(path) if path.is_file() and is_plain(path, root) else ""
        if state:
            yield path, state


def clear(root: Path, waiting: Callable[[], None]) -> list[Step]:
    """Remove what dead processes of this host left below a folder."""
    steps = []
    for path, state in unfinished(root):
        if state == "dead":
            with changing(path):
                path.unlink(missing_ok=True)
            steps.append(Step(path, True, "removed: a process that was killed had not finished it"))
        elif state == "elsewhere":
            old = "`benchkit cache prune --older 30d` removes it when nobody has written to it for so long."
            steps.append(Step(path, False, f"a process of another host is at it, or was killed there: {old}"))
    for parts in sorted(root.rglob(".parts")):
        if parts.is_dir() and is_plain(parts, root) and _removed(parts, waiting):
            steps.append(Step(parts, True, "removed: the export that it belonged to has finished"))
    return steps


def _removed(parts: Path, waiting: Callable[[], None]) -> bool:
    lock = lock_of(parts.parent.resolve())
    if lock.is_symlink() or lock.parent.is_symlink():
        return False
    with exclusive(lock, waiting), changing(parts):
        if not _is_over(parts):
            return False
        shutil.rmtree(parts)
        return True


def _is_over(parts: Path) -> bool:
    """Whether a whole experiment was made of these settings after everything in here was written: what is being made again, by
    an export with --overwrite, is younger than the record."""
    try:
        record = read_record(parts.parent)
        plan = strict.read(parts / "plan.json")
        if record is None or _made_of(plan) != _made_of(record) or matches(parts.parent, record):
            return False
        created = datetime.fromisoformat(record["created"]).timestamp()
        return all(path.lstat().st_mtime < created for path in parts.rglob("*"))
    except (BenchkitError, OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return False


def _made_of(facts: Any) -> Any:
    return canonical([{k: v for k, v in facts["conf"].items() if k != "eval"}, facts["inputs"]])
