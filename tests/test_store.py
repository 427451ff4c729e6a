"""The table format: what goes in comes out, equal content gives equal bytes, and every wrong file is named."""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from benchkit.errors import BenchkitError, RunError, UsageError
from benchkit.store import seal
from benchkit.store.columns import Ragged, Rows, row_sums
from benchkit.store.content import file_hash
from benchkit.store.table import Table, write_table

NAMES = ["a/ä.png", "b/日本.jpg", "c d.png"]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.h5"


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (0,), (2, 0, 3)])
def test_rows_of_every_type_come_back_in_bits(path, dtype, shape):
    rows = np.random.default_rng(0).integers(0, 2, size=(3, *shape)).astype(dtype)
    write_table(path, "predictions", NAMES, {"x": rows})
    with Table(path, "predictions") as table:
        back = table.read("x")
        assert back.dtype == rows.dtype
        assert back.shape == rows.shape
        assert back.tobytes() == rows.tobytes()
        assert table.shape("x") == shape
        assert table.dtype("x") == rows.dtype
        assert [np.asarray(table.item("x", i)).tobytes() for i in range(3)] == [r.tobytes() for r in rows]
        assert np.array_equal(table.block("x", 1, 3), rows[1:3])
        assert table.sums("x").tolist() == [zlib.crc32(r.tobytes()) for r in rows]


def test_special_floats_come_back_in_bits(path):
    values = np.array([np.nan, -0.0, np.inf, 5e-324, -np.inf])
    write_table(path, "results", list("abcde"), {"x": values})
    with Table(path) as table:
        assert table.read("x").tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", ["f2", "f4", "u1", "i8", "?"])
def test_ragged_columns_come_back_in_bits(path, dtype):
    arrays = [np.ones((2, 3), dtype), np.zeros((0, 5), dtype), np.ones((1, 1), dtype)]
    write_table(path, "predictions", NAMES, {"x": Ragged(np.dtype(dtype), 2, arrays)})
    with Table(path) as table:
        assert table.shape("x") is None
        assert table.dtype("x") == np.dtype(dtype)
        assert table.shapes("x") == [(2, 3), (0, 5), (1, 1)]
        for back, given in zip(table.read("x"), arrays, strict=True):
            assert back.shape == given.shape
            assert back.dtype == given.dtype
            assert np.array_equal(back, given)
        assert [a.shape for a in table.items("x", [2, 0])] == [(1, 1), (2, 3)]


def test_text_names_whole_arrays_and_meta_come_back(path):
    labels = ["", "Straße", "日本"]
    whole = {"floor/logits": np.arange(3.0), "fit/loss": np.array(0.5), "empty": np.zeros((0, 2), "f4")}
    write_table(path, "predictions", NAMES, {"label": labels}, whole, {"classes": ["ä", "b"], "scale": 0.1})
    with Table(path) as table:
        assert table.names == NAMES
        assert table.read("label") == labels
        assert table.item("label", 1) == "Straße"
        assert list(table.blocks("label", 2)) == [["", "Straße"], ["日本"]]
        assert table.whole == ["empty", "fit/loss", "floor/logits"]
        assert table.read_whole("floor/logits").tolist() == [0, 1, 2]
        assert table.read_whole("fit/loss") == 0.5
        assert table.read_whole("empty").shape == (0, 2)
        assert table.meta == {"classes": ["ä", "b"], "scale": 0.1}
        assert table.columns == ["label"]


def test_a_table_without_items(path):
    columns = {"x": np.zeros((0, 4), "f4"), "t": [], "r": Ragged(np.dtype("u1"), 2, [])}
    write_table(path, "predictions", [], columns)
    with Table(path) as table:
        assert table.names == []
        assert table.read("x").shape == (0, 4)
        assert table.read("x").dtype == np.float32
        assert table.read("t") == []
        assert table.read("r") == []
        assert list(table.blocks("x")) == []
    assert file_hash(path) == file_hash(path)


@pytest.mark.parametrize("size", [1, 2, 7, 10, 1000])
def test_block_size_changes_no_byte(tmp_path, size):
    rows = np.random.default_rng(1).normal(size=(10, 5)).astype(np.float32)
    names = [f"{i}" for i in range(10)]
    write_table(tmp_path / "once.h5", "bank", names, {"x": rows, "t": names})
    blocks = (rows[i : i + size] for i in range(0, 10, size))
    write_table(tmp_path / "blocks.h5", "bank", names, {"x": Rows(rows.dtype, (5,), blocks), "t": names})
    assert sha256(tmp_path / "once.h5") == sha256(tmp_path / "blocks.h5")


def test_equal_content_is_equal_bytes_at_another_time_in_another_process(tmp_path):
    program = (
        "import sys, numpy as np; from pathlib import Path; from benchkit.store.table import write_table; "
        "from benchkit.store.columns import Ragged; r = Ragged(np.dtype('u1'), 1, [np.ones(3, 'u1'), np.ones(1, 'u1')]);"
        "write_table(Path(sys.argv[1]), 'bank', ['a', 'b'], {'x': np.ones((2, 3)), 'r': r, 't': ['p', 'q']}, "
        "{'w': np.ones(2)}, {'k': 1})"
    )
    for name in ("one.h5", "two.h5"):
        subprocess.run([sys.executable, "-c", program, str(tmp_path / name)], check=True)
        time.sleep(1.1)  # HDF5 stamps times in whole seconds where it stamps them
    assert sha256(tmp_path / "one.h5") == sha256(tmp_path / "two.h5")


def test_rows_wider_than_a_reading_step(path):
    rows = np.random.default_rng(2).integers(0, 255, size=(3, (1 << 20) + 17), dtype=np.uint8)
    write_table(path, "bank", NAMES, {"x": rows})
    with Table(path) as table:
        assert np.array_equal(table.read("x"), rows)
        assert len(list(table.blocks("x"))) == 3


def test_row_sums_are_zlibs():
    rows = np.arange(12, dtype=np.int16).reshape(3, 4)
    assert row_sums(rows[:, ::2]).tolist() == [zlib.crc32(r.tobytes()) for r in np.ascontiguousarray(rows[:, ::2])]
    assert row_sums(np.zeros((2, 0))).tolist() == [0, 0]


def test_any_hdf5_reader_opens_the_file(path):
    write_table(path, "predictions", NAMES, {"x": np.arange(3)})
    with h5py.File(path) as file:
        assert file["x"][:].tolist() == [0, 1, 2]
        assert file["names"].asstr()[1] == NAMES[1]


def test_names_must_be_unique_and_columns_complete(path):
    with pytest.raises(ValueError, match="not unique"):
        write_table(path, "bank", ["a", "a"], {})
    with pytest.raises(ValueError, match="2 rows, not 3"):
        write_table(path, "bank", NAMES, {"x": np.zeros(2)})
    with pytest.raises(ValueError, match="3 arrays of 1 dim"):
        write_table(path, "bank", NAMES, {"x": Ragged(np.dtype("u1"), 1, [np.zeros(1, "u1")])})
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["a\0b", os.fsdecode(b"\xff.png")])
def test_a_name_that_cannot_be_kept_is_refused(path, name):
    with pytest.raises(UsageError, match="cannot be stored"):
        write_table(path, "bank", [name], {})


def test_an_unknown_column_lists_those_there_are(path):
    write_table(path, "predictions", NAMES, {"logits": np.arange(3)})
    with Table(path) as table, pytest.raises(RunError, match=r"t\.h5 has no 'scores'; it has logits"):
        table.read("scores")


def test_a_closed_table_reads_nothing(path):
    write_table(path, "predictions", NAMES, {"x": np.arange(3)})
    with Table(path) as table:
        table.read("x")
    with pytest.raises(ValueError, match="is closed"):
        table.read("x")


def small(path: Path) -> bytes:
    arrays = [np.ones((2, 3), "u1"), np.ones((0, 3), "u1"), np.ones((4, 1), "u1")]
    columns = {"scores": np.arange(12, dtype="f4").reshape(3, 4), "map": Ragged(np.dtype("u1"), 2, arrays)}
    write_table(path, "predictions", NAMES, columns, {"floor/scores": np.arange(4.0)}, {"k": 1})
    return path.read_bytes()


def refusal(path: Path, kind: str | None = "predictions") -> BenchkitError:
    with pytest.raises(BenchkitError) as caught:
        Table(path, kind)
    assert str(path) in str(caught.value)
    return caught.value


def test_truncated_at_any_length_names_the_file(path):
    data = small(path)
    path.unlink()
    for length in sorted({0, 1, 8, 19, 20, 21, *range(0, len(data), 997), *range(len(data) - 25, len(data))}):
        path.write_bytes(data[:length])
        refusal(path)
    path.write_bytes(data + b"\0")
    refusal(path)
    for odd in (data[:900] + data[901:], data[:900] + b"\0" + data[900:]):  # the seal is whole, what it seals is not
        path.write_bytes(odd)
        assert f"it has {len(odd)} bytes, not the {len(data)} written" in str(refusal(path))


def test_other_files_under_the_name(path, tmp_path):
    path.write_text("item,score\n" * 100)
    assert "no benchkit file" in str(refusal(path))
    path.write_bytes(b"\0" * 5000)
    refusal(path)
    path.unlink()
    assert "missing" in str(refusal(path))
    with h5py.File(path, "w") as file:
        file["x"] = 1
    refusal(path)
    path.unlink()
    path.mkdir()
    assert "cannot be read" in str(refusal(path))
    other = tmp_path / "other.h5"
    small(other)
    assert "holds predictions, where targets belong" in str(refusal(other, "targets"))


def test_a_newer_format_version_is_told_before_anything_else(path):
    small(path)
    text = json.dumps({"version": 2, "kind": ["unheard of"], "size": path.stat().st_size}).encode()
    path.chmod(0o644)
    with path.open("ab") as handle:
        handle.write(text + seal.MAGIC + len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(4, "little"))
    error = refusal(path)
    assert isinstance(error, UsageError)
    assert "format version 2" in str(error)
    assert "Update" in str(error)


def test_a_file_that_another_process_writes_is_named(path):
    small(path)
    holder = (
        "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); "
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", holder, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert "another process" in str(refusal(path))
        process.kill()
    with Table(path) as first, Table(path) as second, path.open() as third:  # readers do not exclude one another
        fcntl.flock(third, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert first.names == second.names


def test_a_file_cut_while_it_is_open_is_named(path):
    rows = np.ones((3, 10_000))
    write_table(path, "bank", NAMES, {"x": rows})
    with Table(path) as table:
        path.chmod(0o644)
        os.truncate(path, 20_000)
        with pytest.raises(RunError, match=r"t\.h5"):
            table.read("x")


def test_a_column_that_two_threads_open_at_once_counts_once(tmp_path):
    path = tmp_path / "t.h5"
    write_table(path, "t", ["a", "b"], {"x": np.zeros((2, 5000))})
    with Table(path, "t") as table:
        for _ in range(20):  # what threads do that come at the same moment
            table._opened("x", 2)
        assert table.read("x").shape == (2, 5000)
