"""`benchkit doctor PATH`: whatever reading would find, found at the speed of a disk, and the same content hashes."""

import itertools
import multiprocessing
import os
import select
import shutil
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from tiny_processes import heeding_ctrl_c

from benchkit.errors import BenchkitError, RunError
from benchkit.provenance.identity import identity_hash
from benchkit.store import crc, reading, seal, verify
from benchkit.store.bank import Bank
from benchkit.store.checking import check_files
from benchkit.store.columns import Ragged, row_sums
from benchkit.store.content import file_hash
from benchkit.store.crew import check_batches
from benchkit.store.files import link_or_copy
from benchkit.store.table import Table, write_table
from benchkit.store.verify import verify_tree

BYTES = np.dtype("u1")


def ragged(*shapes: tuple[int, ...], dtype: str = "f4") -> Ragged:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 99, shape).astype(dtype) for shape in shapes]
    return Ragged(np.dtype(dtype), len(shapes[0]), arrays)


def one_by_one(table: Table, column: str) -> None:
    for row in range(len(table.names)):
        table.item(column, row)


def all_at_once(table: Table, column: str) -> None:
    table.verify(column)


def said(path: Path, check) -> str:
    try:
        with Table(path) as table:
            for column in table.columns:
                check(table, column)
    except BenchkitError as error:
        return str(error)
    return ""


COLUMNS = {
    "sides": ragged((2, 3), (0, 3), (4, 1), (0, 0), (1, 1)),
    "octets": ragged((3,), (0,), (9,), (1,), (2,), dtype="u1"),
    "numbers": ragged((), (), (), (), (), dtype="i8"),
    "nothing": ragged((0,), (0,), (0,), (0,), (0,)),
    "wide": ragged((1, 2, 3), (2, 2, 2), (0, 5, 5), (3, 1, 1), (1, 1, 40), dtype="f2"),
    "rows": np.arange(15, dtype="i2").reshape(5, 3),
    "empty": np.zeros((5, 0), "f4"),
    "text": ["a", "ü", "", "日本", "e"],
}


@pytest.mark.parametrize("step", [8, 1 << 20])
@pytest.mark.parametrize("column", COLUMNS)
def test_what_reading_finds_is_found_in_runs_of_any_length(tmp_path, monkeypatch, column, step):
    path = tmp_path / "t.h5"
    write_table(path, "predictions", list("abcde"), {column: COLUMNS[column]})
    with Table(path) as table:
        all_at_once(table, column)
    monkeypatch.setattr(reading, "STEP", step)
    data, told = path.read_bytes(), set()
    values = [
        range(begin, begin + length) for begin, length in seal.verify(path)["checked"]
    ]  # the rest is under the seal
    path.chmod(0o644)
    handle = os.open(path, os.O_WRONLY)
    for position in itertools.chain(*values):
        os.pwrite(handle, bytes([data[position] ^ (1 << position % 8)]), position)
        found = said(path, all_at_once)
        assert found == said(path, one_by_one), position
        told.add(found)
        os.pwrite(handle, data[position : position + 1], position)
    os.close(handle)
    if column not in ("nothing", "empty"):
        assert sum(f"{column} of item '{name}' is damaged" in text for name in "abcde" for text in told) >= 4


@pytest.mark.parametrize("count", [1, 128, 129, 1000])
@pytest.mark.parametrize("width", [1, 2, 7, 8, 16, 17])
def test_sums_of_short_rows_are_zlibs(count, width):
    rows = np.random.default_rng(0).integers(0, 256, (count, width), np.uint8)
    assert row_sums(rows).tolist() == [zlib.crc32(row.tobytes()) for row in rows]
    assert row_sums(rows[:, ::2]).tolist() == [zlib.crc32(row.tobytes()) for row in rows[:, ::2]]


def test_sums_of_what_stands_behind_a_beginning_are_zlibs():
    rng = np.random.default_rng(0)
    lengths = [0, 1, 2, 3, 255, 256, 65_537, *rng.integers(0, 3000, 200).tolist()]
    begins = [rng.bytes(int(n)) for n in rng.integers(0, 40, len(lengths))]
    ends = [rng.bytes(n) for n in lengths]
    whole = np.array([zlib.crc32(a + b) for a, b in zip(begins, ends, strict=True)], np.uint32)
    begin = np.array([zlib.crc32(a) for a in begins], np.uint32)
    assert crc.of_end(whole, begin, np.array(lengths)).tolist() == [zlib.crc32(b) for b in ends]


def foreign(path: Path, change) -> Path:
    """A sealed table whose checksums fit, changed with HDF5's own means."""
    write_table(path, "predictions", list("abc"), {"x": np.arange(3)})
    told = seal.verify(path)
    path.chmod(0o644)
    with path.open("r+b") as handle:
        handle.truncate(told["size"])
    with h5py.File(path, "r+") as file:
        change(file)
    seal.append(path, "predictions", 1, [])
    return path


def texts(*shape: int) -> np.ndarray:
    return np.full(shape, b"\xff", "S1")


def column(file: h5py.File, values: np.ndarray) -> None:
    del file["x"], file["crc/x"]
    file["x"], file["crc/x"] = values, row_sums(values)


def grouped(file: h5py.File, values: np.ndarray) -> None:
    del file["x"]
    file["x/values"], file["x/offsets"], file["x/shapes"] = values, np.arange(4), np.ones((3, 1), int)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda file: column(file, texts(3)), "no file as benchkit writes it"),  # that is no UTF-8
        (lambda file: column(file, texts(3, 2)), "does not have a row"),
        (lambda file: grouped(file, texts(3)), "does not have a row"),
    ],
)
def test_text_that_nobody_wrote_is_refused(tmp_path, change, told):
    path = foreign(tmp_path / "predictions.h5", change)
    assert told in verify_tree(path)["files"]["predictions.h5"]["problem"]


def test_a_whole_file_under_another_name_is_told(tmp_path):
    with Bank(tmp_path / f"net-{identity_hash({'net': 1})[:8]}", {"net": 1}) as bank:
        part = bank.add(["0" * 64], {"features/cls@final": np.ones((1, 2)), "reason": [""]}, {})
    write_table(tmp_path / "t.h5", "targets", ["a"], {"label": np.arange(1)})
    content = file_hash(tmp_path / "t.h5")
    right = {tmp_path / "targets" / f"{content[:8]}.h5": tmp_path / "t.h5", part.with_name("part-0.h5"): part}
    wrong = {
        tmp_path / "targets" / "01234567.h5": (tmp_path / "t.h5", "is not the content that it is named after"),
        tmp_path / f"net-{identity_hash({'net': 2})[:8]}" / part.name: (part, "belongs to another model"),
        bank.folder / "part-1.h5": (tmp_path / "t.h5", "holds targets, where bank belong"),
        tmp_path / "tag" / "predictions.h5": (tmp_path / "t.h5", "holds targets, where predictions belong"),
        tmp_path / "manifests" / "0.h5": (tmp_path / "t.h5", "holds targets, where manifest belong"),
    }
    for copy, source in [*right.items(), *((copy, source) for copy, (source, _) in wrong.items())]:
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, copy)
    told = {tmp_path / name: facts["problem"] for name, facts in verify_tree(tmp_path)["files"].items()}
    assert all(told[copy] == "" for copy in right)
    assert all(problem in told[copy] for copy, (_, problem) in wrong.items())


# Several processes


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A bank of three parts, one of which also has a name in a tag; a file that is damaged, and one that is none."""
    root = tmp_path / "tree"
    with Bank(root / "features" / "net", {"net": 1}) as bank:
        for number in range(3):
            names = [f"{number}{image:063x}" for image in range(40)]
            rows = np.random.default_rng(number).normal(size=(40, 16)).astype("f4")
            bank.add(names, {"features/cls@final": rows, "reason": [""] * 40}, {"cpu": "any"})
        parts = sorted(bank.folder.glob("part-*.h5"))
    for number, part in enumerate(parts[:2]):
        link_or_copy(part, root / "results" / "retrieval" / f"t{number}" / "features" / part.name)
    flip(parts[0], len(parts[0].read_bytes()) // 2)
    (root / "results" / "retrieval" / "t1" / "summaries.json").write_text("{")
    (root / "results" / "retrieval" / "t1" / "head.safetensors").write_bytes(bytes(5000))
    return root


def flip(path: Path, position: int) -> None:
    """In place: through whichever name the file is read, it is damaged."""
    path.chmod(0o644)
    with path.open("r+b") as handle:
        handle.seek(position)
        octet = handle.read(1)[0]
        handle.seek(position)
        handle.write(bytes([octet ^ 16]))


def test_several_processes_find_the_same(tree, monkeypatch):
    alone = verify_tree(tree)
    assert alone["damaged"] == 3  # the damaged part by both its names
    assert all(str(tree / name) in facts["problem"] for name, facts in alone["files"].items() if facts["problem"])
    monkeypatch.setattr(verify, "MANY", 0)
    monkeypatch.setattr(verify, "BATCH", 1)
    assert verify_tree(tree, processes=2) == alone


def test_every_byte_is_counted_once(tree):
    files = [path for path in sorted(tree.rglob("*")) if path.is_file()]
    told: list[int] = []
    for path in files:
        check_files([path], told.append)
        assert sum(told) == path.stat().st_size
        told.clear()
    check_batches([[path] for path in files], 2, told.append)
    assert sum(told) == sum(path.stat().st_size for path in files)


def pipe(folder: Path) -> Path:
    """A file that nobody finishes reading."""
    os.mkfifo(folder / "head.safetensors")
    return folder / "head.safetensors"


def test_a_process_that_is_killed_is_told(tmp_path):
    def kill(read: int) -> None:
        for child in multiprocessing.active_children():
            child.kill()

    with pytest.raises(RunError, match="was killed"):
        check_batches([[pipe(tmp_path)]], 1, kill)


def test_an_interruption_leaves_no_process(tree):
    def interrupt(read: int) -> None:
        raise KeyboardInterrupt

    batches = [[path] for path in sorted(tree.rglob("*")) if path.is_file()]
    with pytest.raises(KeyboardInterrupt):
        check_batches(batches, 2, interrupt)
    assert multiprocessing.active_children() == []


ALONE = """
import sys
from pathlib import Path
from benchkit.store.content import file_hash
from benchkit.store.crew import check_batches
if __name__ == "__main__":
    check_batches([[Path(sys.argv[1])]], 1, lambda read: None)
"""


def test_no_process_outlives_the_command(tmp_path):
    script = tmp_path / "alone.py"
    script.write_text(ALONE)
    fifo = pipe(tmp_path)
    parent = subprocess.Popen([sys.executable, str(script), str(fifo)], stderr=subprocess.DEVNULL)
    writer = os.open(fifo, os.O_WRONLY)  # waits until the file is being read
    parent.kill()
    parent.wait()
    poll = select.poll()
    poll.register(writer, 0)
    assert poll.poll(60_000)[0][1] & select.POLLERR  # nobody reads it any more
    os.close(writer)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_stopped_says_so(tmp_path, number):
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        for name in range(verify.SEVERAL):
            (folder / f"{name}.json").write_text("{}")
    command = [sys.executable, "-c", STOPPED, str(number.value), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, preexec_fn=heeding_ctrl_c, timeout=120)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr.splitlines()[-1] == "interrupted: the same command starts anew."


STOPPED = """
import os, sys
from benchkit.commands import doctor
from benchkit.store import crew

def told_of_the_first(read):
    os.kill(os.getpid(), int(sys.argv[1]))

own = crew.check_batches
crew.most_processes = lambda: 2
import benchkit.store.verify as verify
verify.check_batches = lambda batches, processes, each: own(batches, processes, told_of_the_first)
if __name__ == "__main__":
    sys.exit(doctor.main([sys.argv[2]]))
"""
