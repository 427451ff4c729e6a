"""Files under their final names are complete, whatever stops the writer."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchkit.errors import RunError
from benchkit.provenance.record import append_record
from benchkit.store import files
from benchkit.store.columns import Rows
from benchkit.store.files import (
    boot,
    clear_dead,
    host,
    link_or_copy,
    put_in_place,
    replacing,
    temporary,
    write_json,
    write_text,
)
from benchkit.store.table import write_table


def contents(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.iterdir()}


def python(program: str, *arguments: object, **keywords: object) -> subprocess.Popen:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **keywords)


def test_a_replaced_file_is_read_only_and_alone(tmp_path):
    for text in ("old", "new"):
        write_text(tmp_path / "below" / "f", text)
    assert contents(tmp_path / "below") == {"f": "new"}
    assert stat.S_IMODE((tmp_path / "below" / "f").stat().st_mode) == 0o444


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), RunError("x")])
def test_an_exception_in_the_block_leaves_the_old_file_alone(tmp_path, error):
    write_text(tmp_path / "f", "old")

    def stop(unfinished: Path) -> None:
        unfinished.write_text("half")
        raise error

    with pytest.raises(type(error)), replacing(tmp_path / "f") as unfinished:
        stop(unfinished)
    assert contents(tmp_path) == {"f": "old"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.fault("disk that does not write")
def test_a_failing_disk_leaves_the_old_file_alone(tmp_path, monkeypatch, number, step):
    write_text(tmp_path / "f", "old")

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(RunError) as caught:
        write_text(tmp_path / "f", "new")
    assert str(tmp_path / "f") in str(caught.value)
    assert ("no space is left" in str(caught.value)) == (number in (errno.ENOSPC, errno.EDQUOT))
    assert contents(tmp_path) == {"f": "old"}


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte; needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False).returncode
    ):
        pytest.skip("cannot mount a small file system here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.fault("disk full at a call that writes")
def test_a_full_disk_leaves_the_old_table_alone(small_disk, injected):
    import numpy as np

    from benchkit.store.table import Table, write_table

    write_table(small_disk / "t.h5", "bank", ["a"], {"x": np.ones((1, 1000))})
    refused = []
    for count in range(125_000, 131_000, 250):  # the disk is full at the data, at the structure, or at the seal
        try:
            write_table(small_disk / "u.h5", "bank", ["a"], {"x": np.ones((1, count))})
            (small_disk / "u.h5").unlink()
        except RunError as error:
            refused.append(str(error))
        assert [p.name for p in small_disk.iterdir()] == ["t.h5"]
    injected(len(refused))
    assert 0 < len(refused) < 24
    assert all(f"no space is left while writing {small_disk / 'u.h5'}" in message for message in refused)
    with Table(small_disk / "t.h5") as table:
        assert table.read("x").sum() == 1000


@pytest.mark.parametrize("size", [261_000, 261_500, 262_000, 300_000, 1 << 20])
@pytest.mark.fault("disk full at a call that writes")
def test_a_file_that_may_not_grow_is_an_error_that_names_it(tmp_path, size):
    program = (
        "import resource, signal, sys; from pathlib import Path; import numpy as np; "
        "from benchkit.errors import RunError; from benchkit.store.table import write_table\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "try: write_table(Path(sys.argv[1]), 'bank', ['a'], {'x': np.ones((1, int(sys.argv[2])), 'f4')})\n"
        "except RunError as error: print(error)"
    )
    with python(program, tmp_path / "t.h5", size) as process:
        assert process.stdout is not None
        assert f"cannot write {tmp_path / 't.h5'}: File too large" in process.stdout.read()
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "f").write_text("a file")
    with pytest.raises(RunError, match=r"cannot write .*f/g"):
        write_text(tmp_path / "f" / "g", "x")


def test_two_names_of_one_file(tmp_path):
    write_text(tmp_path / "a", "x")
    os.link(tmp_path / "a", tmp_path / "b")
    put_in_place(tmp_path / "a", tmp_path / "b")
    assert contents(tmp_path) == {"b": "x"}
    for _ in range(2):  # the second time the link has the same inode as what it replaces
        link_or_copy(tmp_path / "b", tmp_path / "c")
        assert contents(tmp_path) == {"b": "x", "c": "x"}
    assert os.path.samefile(tmp_path / "b", tmp_path / "c")
    write_text(tmp_path / "b", "new")  # replaced, never written through
    assert contents(tmp_path) == {"b": "new", "c": "x"}


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.fault("file system without hard links")
def test_without_hard_links_a_copy_is_made(tmp_path, monkeypatch):
    write_text(tmp_path / "a", "x")
    monkeypatch.setattr(files.os, "link", no_links)
    link_or_copy(tmp_path / "a", tmp_path / "b")
    assert contents(tmp_path) == {"a": "x", "b": "x"}
    assert not os.path.samefile(tmp_path / "a", tmp_path / "b")
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o444
    assert not [p for p in tmp_path.iterdir() if ".tmp-" in p.name]


@pytest.mark.fault("file system without hard links", "disk full at a call that writes")
def test_a_failing_copy_leaves_nothing(tmp_path, monkeypatch):
    write_text(tmp_path / "a", "x")

    def full(source: Path, target: Path) -> None:
        Path(target).write_text("hal")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "link", no_links)
    monkeypatch.setattr(files.shutil, "copyfile", full)
    with pytest.raises(RunError, match="no space is left"):
        link_or_copy(tmp_path / "a", tmp_path / "b")
    assert contents(tmp_path) == {"a": "x"}


def test_linking_what_is_missing_names_it(tmp_path):
    with pytest.raises(RunError, match="gone/part"):
        link_or_copy(tmp_path / "gone" / "part", tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault("unfinished file of a killed process", "unfinished file of another host")
def test_clear_dead_removes_only_what_the_dead_left(tmp_path):
    with python("pass") as gone:
        gone.wait()
    living = os.getppid()
    mine, dead, other = os.getpid(), gone.pid, host() + "2"
    keep = [
        temporary(tmp_path / "part.h5").name,
        f"part.h5.tmp-{host()}-{boot()}-{living}-0123abcd",
        f"part.h5.tmp-{other}-{boot()}-{dead}-0123abcd",
        f"part.h5.tmp-{host()}-{boot()}-{mine}-0123abcd.h5",
        "part.h5.tmp-what-ever",
        "part.h5",
    ]
    remove = [
        f"part.h5.tmp-{host()}-{boot()}-{dead}-0123abcd",
        f"part.h5.tmp-{host()}-0ldb00t-{mine}-0123abcd",
        f"a.tmp-{host()}-{boot()}-{living}-0123abcd.tmp-{host()}-{boot()}-{dead}-0123abcd",
    ]
    for name in keep + remove:
        (tmp_path / name).touch()
    assert clear_dead(tmp_path) == len(remove)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(keep)
    assert clear_dead(tmp_path / "nowhere") == 0


@pytest.mark.fault("unfinished file of a killed process")
def test_a_killed_writer_leaves_the_old_file_and_its_rest_is_cleared(tmp_path):
    write_text(tmp_path / "f", "old")
    program = (
        "import sys, time; from pathlib import Path; from benchkit.store.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as t: t.write_text('half'); print('in', flush=True); time.sleep(60)"
    )
    with python(program, tmp_path / "f") as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        assert clear_dead(tmp_path) == 0
        writer.send_signal(signal.SIGKILL)
    assert len(contents(tmp_path)) == 2
    assert clear_dead(tmp_path) == 1
    assert contents(tmp_path) == {"f": "old"}


def test_json_is_strict_and_whole(tmp_path):
    write_json(tmp_path / "a.json", {"b": 0.1, "a": None, "ä": "日"})
    assert (tmp_path / "a.json").read_text() == '{\n "b": 0.1,\n "a": null,\n "ä": "日"\n}\n'
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "a.json", {"b": float("nan")})
    assert len(contents(tmp_path)) == 1


@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.fault("Ctrl-C, once")),
                                   pytest.param(2, marks=pytest.mark.fault("Ctrl-C, twice"))])  # fmt: skip
def test_ctrl_c_while_a_table_is_written(tmp_path, times):
    """It waits until HDF5 is done, which takes an exception for a disk that fails; the second does not wait."""
    written = []

    def rows():
        for number in range(4):
            written.append(number)
            for _ in range(times if number == 1 else 0):
                os.kill(os.getpid(), signal.SIGINT)
            yield np.full((1, 2), number, "f4")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            write_table(tmp_path / "t.h5", "bank", list("abcd"), {"x": Rows(np.dtype("f4"), (2,), rows())})
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert written == ([0, 1, 2, 3] if times == 1 else [0, 1])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault("disk full at a call that writes")
def test_a_record_is_appended_whole_or_not_at_all(tmp_path):
    path = tmp_path / "all.jsonl"
    append_record(path, {"tag": "a"})
    with path.open("a") as torn:
        torn.write('{"tag": "half')
    append_record(path, {"tag": "b"})
    assert path.read_text() == '{"tag": "a"}\n{"tag": "half\n{"tag": "b"}\n'
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from benchkit.errors import RunError; from benchkit.provenance.record import append_record\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: append_record(Path(sys.argv[1]), {'tag': 'c' * 99})\n"
        "except RunError as error: print(error)"
    )
    before = path.read_bytes()
    with python(program, path) as process:
        assert process.stdout is not None
        assert f"cannot append to {path}: File too large" in process.stdout.read()
    assert path.read_bytes() == before
