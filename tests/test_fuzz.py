"""Whatever is done to a file, its reader gives the same content, refuses it with a message, or, without checksums, reads it.

`scripts/fuzz` does the same for minutes, in processes of their own; here some dozen files are made of each kind, and a
smallest one is shown where a reader fails.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchkit import trust

FOLDER = Path(__file__).parents[1] / "scripts" / "fuzz_parts"
sys.path.insert(0, str(FOLDER))

from all import Case, main  # noqa: E402
from edits import KINDS, WORDS, edited  # noqa: E402
from readers import READERS  # noqa: E402

EDITS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(WORDS) | st.binary(min_size=1, max_size=8),
        st.sampled_from((1, 2, 4, 8, 64, 512)),
    ),
    min_size=1,
    max_size=4,
)
QUICK = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)
ALONE = [name for name, reader in READERS.items() if reader.library]  # a C library may crash: not in this process
HERE = [name for name in READERS if name not in ALONE]


@pytest.fixture(autouse=True)
def _nothing_is_trusted(monkeypatch):
    monkeypatch.delenv("BENCHKIT_TRUST", raising=False)
    trust.begin(False)


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> dict[str, Case]:
    """Every reader with its good file."""
    return {name: Case(READERS[name], tmp_path_factory.mktemp(name)) for name in HERE}


@pytest.mark.parametrize("name", HERE)
def test_a_changed_file_is_refused_or_read(cases, name):
    @QUICK
    @given(EDITS)
    def check(edits):
        cases[name].holds(edited(cases[name].good, edits))

    check()


@pytest.mark.parametrize("name", HERE)
def test_a_file_that_ends_early_is_refused_or_read(cases, name):
    good = cases[name].good
    for share in range(12):
        cases[name].holds(good[: len(good) * share // 12])


@pytest.mark.parametrize("name", HERE)
def test_so_is_a_file_of_another_kind(cases, name):
    for other in cases.values():
        cases[name].holds(other.good, dressed=False)


def alone(names: list[str], folder: Path, *bound: str) -> subprocess.CompletedProcess:
    """Runs readers in processes of their own, with bounded memory."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parents[1])}
    command = [sys.executable, str(FOLDER / "all.py"), *names, "--seed", "1", *bound]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_readers_that_a_library_parses_for(tmp_path):
    quick = [name for name in ALONE if name != "pt"]
    ended = alone(quick, tmp_path, "--examples", "40")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count(" ok ") == len(quick)


@pytest.mark.slow
@pytest.mark.long
def test_every_reader_for_longer(tmp_path):
    ended = alone([], tmp_path, "--examples", "150")
    assert ended.returncode == 0, ended.stdout + ended.stderr


class TestTheScriptItself:
    def test_names_its_readers(self, capsys):
        assert main(["--list"]) == 0
        assert capsys.readouterr().out.split() == list(READERS)

    def test_refuses_one_that_is_none(self, capsys):
        with pytest.raises(SystemExit):
            main(["no-such"])
        assert "there is no reader 'no-such'" in capsys.readouterr().err

    def test_an_edit_at_a_share_of_the_length(self):
        assert edited(b"abcd", [("flip", 0.5, b"", 1)]) == b"aba" + b"d"
        assert edited(b"abcd", [("put", 0.25, b"XY", 1)]) == b"aXYd"
        assert edited(b"abcd", [("insert", 0, b"XY", 1)]) == b"XYabcd"
        assert edited(b"abcd", [("delete", 0.25, b"", 2)]) == b"ad"
        assert edited(b"abcd", [("repeat", 0.25, b"", 2)]) == b"abcbcd"
        assert edited(b"abcd", [("cut", 0.75, b"", 2)]) == b"abc"
        assert edited(b"abcdef", [("swap", 0, b"", 2)]) == b"cdabef"

    def test_finds_what_a_reader_does_not_catch(self, tmp_path):
        from readers import Reader, put

        fragile = Reader(lambda folder: put(folder, "x.json", "[1]"), lambda path: json.loads(path.read_bytes()))
        with pytest.raises(ValueError, match="Expecting"):
            Case(fragile, tmp_path).holds(b"[")

    def test_finds_a_closed_file_that_reads_as_another(self, tmp_path):
        from readers import Reader, put

        open_ended = Reader(lambda folder: put(folder, "x", "a"), lambda path: path.read_bytes(), closed=True)
        case = Case(open_ended, tmp_path)
        case.holds(b"a")
        with pytest.raises(AssertionError, match="something else"):
            case.holds(b"b")
