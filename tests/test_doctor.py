"""`benchkit doctor PATH`: whatever reading would find, found at the speed of a disk, and the same content hashes."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from benchkit.errors import BenchkitError
from benchkit.store import reading, seal
from benchkit.store.columns import Ragged
from benchkit.store.table import Table, write_table

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


@pytest.mark.parametrize("step", [1, 16, 1 << 20])
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
