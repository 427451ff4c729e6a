"""Threads are pinned before anything loads BLAS; real data are found, or their tests skipped, in one place; the faults that
tests inject are told in a table."""

import os
from collections.abc import Callable
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "2")

os.environ.setdefault(
    "BENCHKIT_TRUST", "1"
)  # tests write confs outside the working directory; test_hostile.py takes it away

import fault_table  # noqa: E402  after the threads are pinned
import pytest  # noqa: E402

SHARED = Path(os.environ.get("BENCHKIT_SHARED", Path(__file__).parents[2] / "shared")).resolve()


@pytest.fixture
def shared() -> Path:
    """The folder of real images and weights."""
    return SHARED


@pytest.fixture
def injected(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Tells how often the test has injected its fault, or the one named, of several."""

    def tell(times: int, name: str = "") -> None:
        request.node.user_properties.append((fault_table.TIMES, [name, int(times)]))

    return tell


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(*names, times=1): injects these faults of tests/fault_table.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    fault_table.declare(items)
    if not os.environ.get("BENCHKIT_HUB"):
        offline = pytest.mark.skip(reason="needs a public hub; set BENCHKIT_HUB=1 where it can be reached")
        for item in items:
            if item.get_closest_marker("hub"):
                item.add_marker(offline)
    if not (SHARED / "data").is_dir():
        absent = pytest.mark.skip(reason=f"no real data at {SHARED}; set BENCHKIT_SHARED")
        for item in items:
            if item.get_closest_marker("data"):
                item.add_marker(absent)


def _faults(session: pytest.Session) -> list[fault_table.Row]:
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    reports = (
        [r for each in terminal.stats.values() for r in each if isinstance(r, pytest.TestReport)] if terminal else []
    )
    return fault_table.rows(reports, fault_table.selects_all(session.config))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A fault that no test has injected makes a run of all of them fail."""
    if exitstatus == pytest.ExitCode.OK and any(row.wrong for row in _faults(session)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    session = terminalreporter._session
    if session is not None and (found := _faults(session)):
        terminalreporter.section("faults")
        for line in fault_table.table(found):
            terminalreporter.write_line(line)
