"""One process at a time, and never a lock that outlives its holder."""

import errno
import fcntl
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchkit.errors import RunError
from benchkit.store.lock import exclusive


def python(program: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


HOLD = """
import sys, time
from pathlib import Path
from benchkit.store.lock import exclusive
with exclusive(Path(sys.argv[1]), lambda: print("waiting", flush=True)):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.mark.fault("lock of a killed process")
def test_a_lock_excludes_and_dies_with_its_holder(tmp_path):
    lock = tmp_path / "below" / "tag.lock"
    with python(HOLD, lock, 60) as holder:
        assert line(holder) == "held\n"
        with python(HOLD, lock, 0) as waiter:
            assert line(waiter) == "waiting\n"
            with ThreadPoolExecutor(1) as pool:
                answer = pool.submit(line, waiter)
                time.sleep(0.3)
                assert not answer.done()
                holder.send_signal(signal.SIGKILL)
                assert answer.result(10) == "held\n"
    assert lock.exists()


def test_a_counter_under_a_lock_loses_nothing(tmp_path):
    program = (
        "import sys; from pathlib import Path; from benchkit.store.lock import exclusive; n = Path(sys.argv[1])\n"
        "for _ in range(20):\n"
        " with exclusive(n.with_suffix('.lock')): n.write_text(str(int(n.read_text()) + 1))"
    )
    count = tmp_path / "count"
    count.write_text("0")
    workers = [python(program, count) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert count.read_text() == "60"


@pytest.mark.fault("file system without locks")
def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(RunError, match=r"cannot lock .*l: No locks available"), exclusive(tmp_path / "l"):
        pass


def test_a_lock_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "f").write_text("a file")
    with pytest.raises(RunError, match=r"cannot write .*f/g"), exclusive(tmp_path / "f" / "g"):
        pass
