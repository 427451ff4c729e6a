"""Mend the folder of one experiment, as far as other files hold what is damaged: nothing is scored or exported here.

Nothing that may be the only copy of a number is deleted, no file is written in place, and no link is followed.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchkit.errors import BenchkitError, RunError
from benchkit.provenance.record import NAME as RECORD
from benchkit.provenance.record import read_record
from benchkit.store.checking import folder_hash
from benchkit.store.files import write_text
from benchkit.store.lock import exclusive
from benchkit.store.outputs import lock_of
from benchkit.store.thumbs import thumbs_again
from benchkit.store.twins import damage, is_plain, keep_whole, put_copy, whole_copy

Record = Mapping[str, Any]
_PROGRAMS = (["benchkit"], ["python", "-m", "benchkit"], ["python", "-m", "benchkit.export"])
_FIRST = ("features", "targets.h5", "features.h5", "thumbs.h5", "conf.yaml")  # what others are made of comes first


@dataclasses.dataclass(frozen=True)
class Step:
    """What was done to a file, or was not.

    Attributes:
        file: its path.
        done: whether it is mended, or out of the way.
        text: what was done; else what is wrong, and the command that makes it again.
    """

    file: Path
    done: bool
    text: str


@dataclasses.dataclass
class Mended:
    """What became of one experiment.

    Attributes:
        record: its own; None where that is damaged.
        steps: what was done, or cannot be.
        left: damaged files by name and what is wrong with them: only eval, or an export, makes them again.
    """

    record: Record | None
    steps: list[Step]
    left: dict[str, str]


def mend_tag(folder: Path, names: Iterable[str], waiting: Callable[[], None]) -> Mended:
    """Mend what other files hold, under the experiment's lock.

    Args:
        folder: of the experiment.
        names: of its damaged files; those that are missing are found here.
        waiting: called where another process holds the lock.

    Raises:
        RunError: the lock cannot be had.
    """
    lock = lock_of(folder.resolve())
    if lock.is_symlink() or lock.parent.is_symlink():
        raise RunError(f"{lock} is a link, so nothing was mended in {folder}. Remove it and run it again.")
    with exclusive(lock, waiting):
        try:
            record = read_record(folder)
            lost = "it is missing."
        except BenchkitError as error:
            record, lost = None, str(error)
        if record is None:
            others = [folder / name for name in names if name != RECORD]
            steps = [Step(file, False, "the export that makes record.json again makes it too.") for file in others]
            return Mended(None, [Step(folder / RECORD, False, f"{lost} {_lost(folder)}"), *steps], {})
        absent = {name for name in record["files"] if not (folder / name).is_file()}
        found = Mended(record, [], {})
        for name in sorted({*names, *absent} - {RECORD}, key=_order):
            _mend(folder, name, found)
        return found


def _order(name: str) -> tuple[int, str]:
    top = name.split("/")[0]
    return (_FIRST.index(top) if top in _FIRST else len(_FIRST)), name


def _mend(folder: Path, name: str, found: Mended) -> None:
    file, record = folder / name, found.record
    assert record is not None
    if not is_plain(file, folder):
        found.steps.append(Step(file, False, "it is a link, or lies behind one: mend what it points to."))
        return
    try:
        problem = damage(file, record) or ("" if file.is_file() else f"{file} is missing.")
        if problem:
            done = _from_others(folder, name, record)
            if done:
                found.steps.append(Step(file, True, done))
            else:
                found.left[name] = problem
    except BenchkitError as error:
        found.steps.append(Step(file, False, str(error)))


def _from_others(folder: Path, name: str, record: Record) -> str:
    """Make a file of what others hold; returns what was done, "" where none does."""
    outputs = folder.resolve().parents[min(2, len(folder.resolve().parents) - 1)]
    if name == "conf.yaml":
        return _write_conf(folder, record)
    content = record["files"].get(name, {}).get("content")
    if not content:
        return ""
    if name.startswith("features/part-"):
        banks = _banks(outputs, record)
        return _copied([bank / name.removeprefix("features/") for bank in banks], content, folder / name)
    if name == "targets.h5":
        return _copied([outputs / "targets" / f"{content[:8]}.h5"], content, folder / name)
    return thumbs_again(folder, _banks(outputs, record), content) if name == "thumbs.h5" else ""


def _copied(candidates: Sequence[Path], content: str, file: Path) -> str:
    copy = whole_copy(candidates, content)
    return put_copy(copy, file) if copy else ""


def _banks(outputs: Path, record: Record) -> list[Path]:
    wanted = record["backbone"]["identity_hash"][:8]
    folders = sorted((outputs / "features").glob("*-*")) if wanted else []
    return [each for each in folders if folder_hash(each) == wanted and not each.is_symlink()]


def _write_conf(folder: Path, record: Record) -> str:
    kept = keep_whole(folder / "conf.yaml") if (folder / "conf.yaml").exists() else ""
    write_text(folder / "conf.yaml", yaml.safe_dump(record["conf"], sort_keys=False, allow_unicode=True))
    return f"written again from the settings in record.json{kept}"


def _lost(folder: Path) -> str:
    words = ["--benchmark", folder.parent.name, "--tag", folder.name, "--overwrite"]
    return (
        "No other file holds the protocol, the intervals of the scores and where the numbers came from. Export again "
        f"(the bank is reused; conf.yaml shows the settings): python -m benchkit.export --conf NAME {shlex.join(words)}"
    )


def export_command(record: Record) -> str:
    """The command that makes an experiment again: the one it was made with, where that is plainly one of benchkit's own."""
    try:
        words = shlex.split(str(record.get("command") or ""))
    except ValueError:
        words = []
    known = any(words[: len(program)] == program for program in _PROGRAMS)
    if not known or shlex.join(words) != record["command"] or "--trust" in words:
        named = ["--benchmark", record["benchmark"], "--tag", record["tag"]]
        words = shlex.split("python -m benchkit.export --conf NAME") + named
    return shlex.join([*words, *([] if "--overwrite" in words else ["--overwrite"])])
