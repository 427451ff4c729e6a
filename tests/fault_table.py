"""The faults that tests inject, and the table of what came of them that ends a run of the tests.

A test says by `@pytest.mark.fault("Ctrl-C, once")` which of FAULTS it injects: once, or as often as the mark's `times`
says, or as often as the fixture `injected` was told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pytest

FAULTS = (
    "killed before a call that writes",
    "killed within a call that writes",
    "killed worker of several",
    "SIGTERM",
    "Ctrl-C, once",
    "Ctrl-C, twice",
    "disk full at a call that writes",
    "disk full, foreseen",
    "disk that does not write",
    "read error in the data set",
    "out of memory on the device",
    "NaN from the model",
    "clock set back",
    "two exports of one tag",
    "two exports of one bank",
    "two workers finish at once",
    "export while an eval reads",
    "export while an inspector reads",
    "lock of a killed process",
    "lock of another host",
    "unfinished file of a killed process",
    "unfinished file of another host",
    "file system without hard links",
    "file system without locks",
    "file cut off",
    "file with a flipped bit",
    "file of something else",
    "file of another version",
    "file copied by half",
)
PROPERTY, TIMES = "fault", "injected"  # of a test's report
EVERYTHING = ("", "not long", "fault", "fault and not long")  # marks by which a run selects all faults


class Row(NamedTuple):
    """One fault: how often it was injected, what came of it, and the seconds of its tests."""

    name: str
    times: int
    outcome: str
    seconds: float

    @property
    def wrong(self) -> bool:
        """Whether a result is wrong or missing."""
        return self.outcome != "ok" and not self.outcome.startswith("skipped")


def declare(items: Iterable[pytest.Item]) -> None:
    """Note in each test's reports which faults it injects, by name and number; a name that is not in FAULTS is an error."""
    for item in items:
        for mark in item.iter_markers("fault"):
            for name in mark.args:
                if name not in FAULTS:
                    raise pytest.UsageError(f"{item.nodeid}: {name!r} is none of the faults of tests/fault_table.py")
                item.user_properties.append((PROPERTY, [name, mark.kwargs.get("times", 1)]))


def rows(reports: Sequence[pytest.TestReport], whole: bool) -> list[Row]:
    """What came of each fault.

    Args:
        reports: of all phases of all tests.
        whole: whether all faults were to be injected, and those that were not are missing.
    """
    of_tests: dict[str, list[pytest.TestReport]] = {}
    for report in reports:
        of_tests.setdefault(report.nodeid, []).append(report)
    found: dict[str, list[Row]] = {}
    for phases in of_tests.values():
        for row in _of_test(phases):
            found.setdefault(row.name, []).append(row)
    if not found:
        return []
    return [_together(name, found.get(name, [])) for name in FAULTS if whole or name in found]


def _of_test(phases: Sequence[pytest.TestReport]) -> list[Row]:
    told = phases[-1].user_properties
    given = dict(_pairs(told, PROPERTY))
    counted: dict[str, int] = {}
    for name, times in _pairs(told, TIMES):
        counted[name] = counted.get(name, 0) + times
    seconds = sum(phase.duration for phase in phases) / max(len(given), 1)
    outcome = next((_why(phase) for phase in phases if phase.outcome != "passed"), "ok")
    return [
        Row(name, 0 if outcome.startswith("skipped") else counted.get(name, counted.get("", times)), outcome, seconds)
        for name, times in given.items()
    ]


def _pairs(told: Iterable[tuple[str, object]], key: str) -> list[tuple[str, int]]:
    return [tuple(value) for name, value in told if name == key]  # type: ignore[arg-type, misc]


def _why(phase: pytest.TestReport) -> str:
    if phase.outcome == "skipped":
        reason = phase.longrepr[2] if isinstance(phase.longrepr, tuple) else "expected to fail"
        return f"skipped: {reason.removeprefix('Skipped: ')}"
    return f"WRONG: {phase.nodeid.removeprefix('tests/')}"


def _together(name: str, found: Sequence[Row]) -> Row:
    """Of all tests of one fault; a skipped one tells only where no other was run."""
    if not found:
        return Row(name, 0, "MISSING", 0.0)
    run = [row for row in found if not row.outcome.startswith("skipped")]
    wrong = [row.outcome for row in run if row.wrong]
    outcome = wrong[0] if wrong else "ok" if run else found[0].outcome
    if not wrong and run and not sum(row.times for row in run):
        outcome = "WRONG: injected not once"
    return Row(name, sum(row.times for row in run), outcome, sum(row.seconds for row in found))


def table(found: Sequence[Row]) -> list[str]:
    """Lines of text."""
    wide = max(len(row.name) for row in found)
    head = f"{'fault':{wide}}  {'times':>7}  {'seconds':>7}  outcome"
    return [head, *(f"{row.name:{wide}}  {row.times:7,}  {row.seconds:7.1f}  {row.outcome}" for row in found)]


def selects_all(config: pytest.Config) -> bool:
    """Whether this run is one of all tests, or of all that inject faults: only then may none be missing."""
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    chosen = any(config.getoption(name, None) for name in ("keyword", "deselect", "lf", "last_failed", "collectonly"))
    return not named and not chosen and config.getoption("markexpr") in EVERYTHING
