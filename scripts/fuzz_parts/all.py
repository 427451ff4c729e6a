"""Feeds damaged and made-up files to every reader: each is refused with a message, or read; nothing else may happen.

With atheris (`pip install atheris`, CPython on Linux) edits are led by which lines of benchkit they reach; without it they are
drawn at random. Each reader runs in a process of its own, with bounded memory and a bound on the time of one file. What is found
is kept in build/fuzz/<reader>/, with the traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib.util
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from edits import drawn, edited
from readers import READERS, Reader

MEMORY = 3 << 30  # bytes of heap beyond what the reader's libraries take
LIBRARY = 6 << 30  # the same where a C library parses: HDF5 believes lengths of 32 bits, and keeps what it has freed
SECONDS = 20  # of one file
FOUND = Path("build/fuzz")


class Case:
    """A reader with its good file, in a folder that is used again and again."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self.reader, self.path = reader, reader.make(folder)
        self.good = self.path.read_bytes()
        self.whole = repr(reader.read(self.path))

    def holds(self, data: bytes, dressed: bool = True) -> None:
        """Reads a file.

        Raises:
            Exception: whatever the reader raises that is no BenchkitError.
            AssertionError: a closed format reads as something else.
        """
        from benchkit.errors import BenchkitError

        if dressed and self.reader.dress is not None:
            data = self.reader.dress(data)
        self.path.unlink(missing_ok=True)
        self.path.write_bytes(data)
        try:
            found = repr(self.reader.read(self.path))
        except BenchkitError as error:
            found, told = None, str(error)
        if found is None:
            assert "\n\n" not in told, "the message is no paragraph"
            assert len(told) < 4000, "the message is longer than a paragraph"
            return
        assert not self.reader.closed or found == self.whole, "a changed file reads as something else"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named readers, or all; returns 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"of {', '.join(READERS)}; default: all")
    parser.add_argument("--seconds", type=float, default=120, help="per reader (120)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--examples", type=int, help="so many files in place of a time")
    parser.add_argument("--list", action="store_true", help="name the readers")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if unknown := set(given.readers) - set(READERS):
        parser.error(f"there is no reader {sorted(unknown)[0]!r}; there are {', '.join(READERS)}")
    if given.list:
        print("\n".join(READERS))
        return 0
    if given.child:
        return _child(given.readers[0], given)
    guided = importlib.util.find_spec("atheris") is not None and given.examples is None
    print(
        "edits are " + ("led by coverage (atheris)" if guided else "random (pip install atheris for coverage-led ones)")
    )
    return max([_run(name, given, guided) for name in given.readers or READERS], default=0)


def _run(name: str, given: argparse.Namespace, guided: bool) -> int:
    """One reader in a process of its own."""
    kept = FOUND / name
    shutil.rmtree(kept, ignore_errors=True)
    (kept / "corpus").mkdir(parents=True)
    bound = ["--examples", str(given.examples)] if given.examples else ["--seconds", str(given.seconds)]
    command = [
        sys.executable,
        __file__,
        name,
        "--child",
        "atheris" if guided else "random",
        "--seed",
        str(given.seed),
        *bound,
    ]
    environment = {**os.environ, "BENCHKIT_TRUST": "0"}
    ended = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    (kept / "log.txt").write_text(ended.stdout)
    said = ended.stdout.strip().splitlines()[-1:] or [""]
    print(f"{name:15} {'ok' if ended.returncode == 0 else 'FOUND'}  {said[0][:160]}", flush=True)
    return int(ended.returncode != 0)


def _child(name: str, given: argparse.Namespace) -> int:
    faulthandler.enable()
    kept = FOUND / name
    with tempfile.TemporaryDirectory() as folder:
        case = Case(READERS[name], Path(folder))
        _bound_memory(LIBRARY if case.reader.library else MEMORY)
        if given.child == "atheris":
            return _guided(case, kept, given)
        return _random(case, kept, given)


def _bound_memory(bound: int) -> None:
    taken = (
        int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if Path("/proc").exists() else 0
    )
    resource.setrlimit(resource.RLIMIT_AS, (taken + bound, taken + bound))


def _random(case: Case, kept: Path, given: argparse.Namespace) -> int:
    rng, count, end = random.Random(given.seed), 0, time.monotonic() + given.seconds
    found: set[str] = set()
    pool = [case.good]
    signal.signal(signal.SIGALRM, _too_long)
    while count < given.examples if given.examples else time.monotonic() < end:
        data = edited(rng.choice(pool), drawn(rng))
        count += 1
        (kept / "last").write_bytes(data)  # what kills the process is still there
        signal.alarm(SECONDS)
        try:
            case.holds(data)
            if len(pool) < 64 and rng.random() < 0.02:
                pool.append(data)
        except Exception as error:
            where = "".join(traceback.format_exception(error)[-3:])
            if where not in found:
                found.add(where)
                (kept / f"found-{len(found)}").write_bytes(data)
                (kept / f"found-{len(found)}.txt").write_text("".join(traceback.format_exception(error)))
        finally:
            signal.alarm(0)
    (kept / "last").unlink(missing_ok=True)
    print(f"{count} files, {len(found)} findings")
    return int(bool(found))


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"one file took more than {SECONDS} s")


def _guided(case: Case, kept: Path, given: argparse.Namespace) -> int:
    """Never returns: libFuzzer ends the process, with 0 where it found nothing."""
    import atheris

    (kept / "corpus" / "good").write_bytes(case.good)
    _instrument(atheris)

    def one(data: bytes) -> None:
        case.holds(data)

    bounds = [f"-max_total_time={int(given.seconds)}", f"-timeout={SECONDS}", f"-max_len={4 * len(case.good) + 4096}"]
    places = [str(kept / "corpus"), f"-artifact_prefix={kept}/"]
    arguments = [sys.argv[0], *places, *bounds, "-rss_limit_mb=0", "-print_final_stats=1"]
    atheris.Setup(arguments, one)
    with contextlib.suppress(SystemExit):
        atheris.Fuzz()
    return 0


def _instrument(atheris: Any) -> None:
    """Functions of benchkit that are loaded by now: each line of theirs is told to the fuzzer."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("benchkit") or module is None:
            continue
        for key, thing in list(vars(module).items()):
            if getattr(thing, "__module__", None) != name:
                continue
            with contextlib.suppress(Exception):
                if isinstance(thing, type):
                    for method in list(vars(thing).values()):
                        if hasattr(method, "__code__"):
                            atheris.instrument_func(method)
                elif hasattr(thing, "__code__"):
                    vars(module)[key] = atheris.instrument_func(thing)


if __name__ == "__main__":
    sys.exit(main())
