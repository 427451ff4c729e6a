"""Writes each kind of file again and again, killed at every call that changes a file or with a disk that fails from there on.

LD_PRELOAD=killshim.so python kill_kinds.py killshim.so WORK I/N   -> JSON on standard output: of each Nth kind what was injected,
and what was wrong

Whatever happens, what has a final name is the file as it was or the new one, whole; and the same writer again makes the new one.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import kill_driver as driver
import numpy as np
from matplotlib.figure import Figure
from tiny_items import KEY, features, truth
from tiny_scores import two

from benchkit.commands.compare import main as compare
from benchkit.errors import BenchkitError
from benchkit.experiments.pictures import save, save_pdf
from benchkit.export.finish import _write_state
from benchkit.export.manifest import Facts, _save
from benchkit.export.workers import WORKING, _write
from benchkit.heads.ridge import Ridge, Settings
from benchkit.inspect.selection import write_names
from benchkit.provenance.record import sealed
from benchkit.store.bank import Bank
from benchkit.store.columns import Ragged
from benchkit.store.features import write_features
from benchkit.store.files import clear_dead, link_or_copy, write_json, write_text
from benchkit.store.predicted import Predicted
from benchkit.store.table import Table, write_table

NAMES = ["a/ä.png", "b.png", "c.png"]
ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO}
MANY = 20  # calls, as of HDF5
SIGN = "a worker's sign"  # nothing depends on it: where it cannot be written, nothing is said
Writer = Callable[[Path, int], None]


def table(name: str, columns: dict[str, Any], whole: dict[str, Any] | None = None) -> Writer:
    """A sealed table; the versions differ in one number."""

    def write(folder: Path, version: int) -> None:
        varying = {**columns, "number": np.arange(3.0) + version}
        write_table(folder / f"{name}.h5", name, NAMES, varying, whole, {"classes": ["p", "q"]})

    return write


def json_file(name: str) -> Writer:
    return lambda folder, version: write_json(folder / name, sealed({"schema": 1, "value": version, "text": "ä" * 99}))


def bank_of(folder: Path, version: int) -> Bank:
    return Bank(folder, {"model": version})


def bank(folder: Path, version: int) -> None:
    """A part, and in a new folder the identity."""
    with bank_of(folder / f"net{version}", version) as made:
        rows = {"features/cls@final": np.arange(6, dtype="f4").reshape(3, 2), "reason": ["", "", "not finite"]}
        made.add(
            ["i0", "i1", "i2"], {**rows, "thumb": Ragged(np.dtype("u1"), 1, [np.ones(n, "u1") for n in (2, 0, 3)])}, {}
        )


def features_of(limit: int) -> Writer:
    """features.h5 with rows, or with an index and a linked part."""

    def write(folder: Path, version: int) -> None:
        source = folder.parent / f"bank{version}"
        if not source.exists():
            bank(source, version)
        with bank_of(source / f"net{version}", version) as made:
            write_features(folder, made, NAMES[:2], ["i0", "i1"], ["cls@final"], limit)

    return write


def parts(folder: Path, version: int) -> None:
    """Predictions of a head that reads images."""
    made = Predicted(folder, {"head": "h"}, {"cpu": "a"}, dict.fromkeys(NAMES, "i"), 1 << 20, 60.0, str)
    for name in NAMES:
        made.add(name, {"map": Ragged(np.dtype("f4"), 2, [np.ones((3, 2), "f4")])})
    made.close()


def linked(folder: Path, version: int) -> None:
    source = folder.parent / f"truth{version}.h5"
    if not source.exists():
        write_table(source, "targets", NAMES, {"label": np.arange(3) + version})
    link_or_copy(source, folder / "targets.h5")


def copied(folder: Path, version: int) -> None:
    link = os.link
    driver.no_links()
    try:
        linked(folder, version)
    finally:
        os.link = link


def manifest(folder: Path, version: int) -> None:
    _save(folder / "manifest.h5", {name: Facts("00" * 32, 48, 64 + version, "", 12, 1, 2) for name in NAMES})


def head(folder: Path, version: int) -> None:
    made = Ridge(Settings(strength=1.0))
    made.fit(KEY, features(np.random.default_rng(version).normal(size=(20, 4))), truth(np.arange(20) % 2, 2), 0, 1)
    _write_state(made, folder / "head.safetensors")


def figure(version: int) -> Figure:
    made = Figure(figsize=(2, 2))
    made.subplots().plot([0, 1], [version, 2])
    return made


def names(folder: Path, version: int) -> None:
    """Never replaced: the next file has the next number."""
    if not any(path.name == f"b{version}-items.txt" for path in folder.glob("*")):
        write_names(NAMES * 9, f"b{version}", folder)


def scored(folder: Path) -> Path:
    """Outputs with two tags, made once."""
    outputs = folder.parent / "scored"
    if not outputs.exists():
        two(outputs, np.linspace(0, 1, 20), np.linspace(0.5, 1, 20))
    return outputs


def junit(folder: Path, version: int) -> None:
    pair = ("first", "second") if version else ("second", "first")
    flags = ["--outputs", str(scored(folder)), "--junit", str(folder / "junit.xml"), "--format", "csv"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = compare(["retrieval", *pair, *flags])
    if status:
        raise BenchkitError(said.getvalue())


KINDS: dict[str, Writer] = {
    "predictions.h5": table(
        "predictions", {"map": Ragged(np.dtype("u1"), 2, [np.ones((2, 3), "u1")] * 3)}, {"fit/top1": np.array(0.5)}
    ),
    "targets.h5": table("targets", {"label": np.arange(3), "group": ["x", "ü", "z"]}),
    "results.h5": table("results", {"top1": np.array([1.0, np.nan, 0.0])}),
    "thumbs.h5": table("thumbs", {"thumb": Ragged(np.dtype("u1"), 1, [np.ones(5, "u1")] * 3)}),
    "bank": bank,
    "parts": parts,
    "features.h5, rows": features_of(1 << 20),
    "features.h5, an index": features_of(0),
    "a link": linked,
    "a copy": copied,
    "manifest.h5": manifest,
    "head.safetensors": head,
    **{name: json_file(name) for name in ("record.json", "summaries.json", "plan.json", "submission.json")},
    "conf.yaml": lambda folder, version: write_text(folder / "conf.yaml", f"data: {{size: {version}}}\n"),
    SIGN: lambda folder, version: _write(folder / "w-0-of-2.worker", WORKING, float(version)),
    "a plot, PNG": lambda folder, version: save(figure(version), folder / "plot.png") and None,
    "a plot, PDF": lambda folder, version: save_pdf(figure(version), folder / "plot.pdf") and None,
    "a list of names": names,
    "junit.xml": junit,
}


def state(folder: Path) -> dict[str, bytes]:
    """Files with final names, by what they hold, without what no two processes have alike: names of parts, process numbers."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".tmp-" not in path.name:
            mine = path.name.startswith("part-")
            name = path.relative_to(folder).with_name("part" if mine else path.name).as_posix()
            found[name] = contents(path) if mine else re.sub(rb'"pid": \d+', b"", path.read_bytes())
    return found


def contents(path: Path) -> bytes:
    """What a table holds, all of it checked."""
    with Table(path) as opened:
        return repr([opened.names, *(opened.read(column) for column in opened.columns)]).encode()


def killed(write: Writer, folder: Path, shim: Any, call: int, torn: int) -> list[str]:
    """Write in a process that is killed at a call; returns what is wrong."""

    def doomed() -> None:
        shim.arm(call, torn, 0)
        write(folder, 1)

    status = driver.forked(doomed)
    return [] if status == -signal.SIGKILL else [f"not killed but ended with {status}"]


def failed(
    write: Writer, folder: Path, shim: Any, call: int, torn: int, number: int, new: dict[str, bytes]
) -> list[str]:
    """Write on a disk that fails from a call on; returns what is wrong."""
    word = "no space is left" if number == errno.ENOSPC else os.strerror(number)
    shim.arm(call, torn, number)
    try:
        write(folder, 1)
    except BenchkitError as error:
        shim.arm(-1, 0, 0)
        return [] if word in str(error) else [f"said: {error}"]
    finally:
        shim.arm(-1, 0, 0)
    written = new.items() <= state(folder).items()  # what failed was no more than tidying up
    return [] if written or write is KINDS[SIGN] else ["it was not written, and nothing was said"]


def inject(
    work: Path, write: Writer, old: bool, fault: Callable[[Path], list[str]], new: dict[str, bytes]
) -> list[str]:
    """One fault while a kind is written over nothing or over its old file; returns what is wrong."""
    folder = work / "files"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if old:
        write(folder, 0)
    before = state(folder)
    wrong = fault(folder)
    after = state(folder)
    wrong += [f"{n} is neither old nor new" for n, b in after.items() if b not in (before.get(n), new.get(n))]
    wrong += [f"{n} is gone" for n in before if n not in after]
    write(folder, 1)
    for below in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        for path in below.glob("*.tmp-*"):  # this process lives, but what it left is nobody's
            path.unlink()
        clear_dead(below)
    if not new.items() <= state(folder).items():
        wrong.append("written again it is not the new one")
    return wrong


def one_kind(work: Path, name: str, shim: Any) -> dict[str, Any]:
    """Every fault of a kind: killed at each call, the disk failing from each, or each fifth of many, on."""
    write = KINDS[name]
    found: dict[str, Any] = {"whole": 0, "torn": 0, "full": 0, "broken": 0, "wrong": {}}
    for old in (False, True):
        folder = work / f"good{old:d}"
        folder.mkdir(parents=True)
        write(folder, 0) if old else write(work / "first", 1)  # what is made once is made here
        shim.arm(-1, 0, 0)
        write(folder, 1)
        kinds, new = shim.kinds().decode(), state(folder)
        shim.arm(-1, 0, 0)
        if len(kinds) > MANY and not old and name != "predictions.h5":
            continue  # the other tables are written by the same code
        for call, torn in ((call, torn) for call, kind in enumerate(kinds) for torn in range(1 + (kind in "wps"))):
            given = {"shim": shim, "call": call, "torn": torn}
            injections = {("whole", "torn")[torn]: partial(killed, write, **given)}
            for fault, number in ERRORS.items():
                if (len(kinds) <= MANY or call % 5 == 0) and (number == errno.EIO or kinds[call] in driver.SPACE):
                    injections[fault] = partial(failed, write, **given, number=number, new=new)
            for fault, injection in injections.items():
                found[fault] += 1
                if wrong := inject(work, write, old, injection, new):
                    found["wrong"][f"{call} {kinds[call]}{' torn' * torn} {fault}{' over old' * old}"] = wrong
    return found


if __name__ == "__main__":
    os.fsync = lambda handle: None
    shim = ctypes.CDLL(sys.argv[1])
    shim.kinds.restype = ctypes.c_char_p
    work, started = Path(sys.argv[2]), time.monotonic()
    index, count = map(int, sys.argv[3].split("/"))
    said = {name: one_kind(work / str(n), name, shim) for n, name in enumerate(KINDS) if n % count == index}
    print(json.dumps({"kinds": said, "seconds": time.monotonic() - started}))
