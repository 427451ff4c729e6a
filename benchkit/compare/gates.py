"""Conditions on differences that make a command fail, such as `miou < -0.005 and significant`: a small language, read here."""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence

from benchkit.compare.differences import Difference, metric_named
from benchkit.errors import UsageError, printable
from benchkit.eval.base import Benchmark, Metric

RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
DIGITS = 12  # of a difference that are compared
_WORD = re.compile(r"\s*(<=|>=|<|>|[^\s<>=]+)")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?%?")


@dataclasses.dataclass(frozen=True)
class Limit:
    """One comparison of a metric's difference with a number in the metric's own unit."""

    metric: str
    relation: str
    number: float

    def holds(self, value: float) -> bool:
        """Whether a difference is that far off; one that is the number but for rounding (.97 - .98 and -.01) is the number."""
        return RELATIONS[self.relation](float(f"{value:.{DIGITS}g}"), self.number)


@dataclasses.dataclass(frozen=True)
class Clause:
    """Limits that hold together; with `significant`, of differences that all are."""

    limits: tuple[Limit, ...]
    significant: bool


@dataclasses.dataclass(frozen=True)
class Gate:
    """A condition under which a command fails: any of its clauses.

    Attributes:
        text: as it was given.
    """

    text: str
    clauses: tuple[Clause, ...]

    @property
    def metrics(self) -> list[str]:
        """Those that it looks at."""
        return list(dict.fromkeys(limit.metric for clause in self.clauses for limit in clause.limits))

    def failure(self, differences: Mapping[str, Difference]) -> str:
        """Why it fails, "" where it does not. What it needs and is undefined makes it fail: nothing shows that all is well.

        Args:
            differences: of one pair, by metric; all of `metrics`.
        """
        undefined = [m for m in self.metrics if differences[m].value is None]
        untested = {
            m.metric for c in self.clauses if c.significant for m in c.limits if differences[m.metric].p is None
        }
        if undefined:
            return f"the difference in {', '.join(undefined)} is undefined"
        if untested:
            return f"p of {', '.join(sorted(untested))} is undefined"
        for clause in self.clauses:
            found = [differences[limit.metric] for limit in clause.limits]
            far = all(limit.holds(each.value or 0.0) for limit, each in zip(clause.limits, found, strict=True))
            if far and (not clause.significant or all(each.significant for each in found)):
                return ", ".join(_said(each) for each in found)
        return ""


def _said(difference: Difference) -> str:
    p = difference.p if difference.adjusted is None else difference.adjusted
    unit = f" {difference.unit}" if difference.unit else ""
    return f"{difference.metric} differs by {difference.value:+.6g}{unit}" + ("" if p is None else f" (p {p:.4g})")


def read_gate(text: str, family: Benchmark) -> Gate:
    """A gate from its text: `METRIC < NUMBER` (also <=, >, >=), joined by `and` and `or`, with the word `significant`.

    `and` binds closer than `or`. The difference is the second experiment's score minus the first's, in the metric's own
    unit; 1% is .01. `significant` holds for all metrics between two `or`.

    Raises:
        UsageError: it cannot be read, or names a metric that does not exist.
    """
    words = _words(text)
    places = [-1, *(k for k, word in enumerate(words) if word.lower() == "or"), len(words)]
    parts = [words[start + 1 : stop] for start, stop in itertools.pairwise(places)]
    return Gate(text, tuple(_clause(text, part, family) for part in parts))


def _words(text: str) -> list[str]:
    words, place = [], 0
    while text[place:].strip():
        match = _WORD.match(text, place)
        if match is None:
            raise _unreadable(text, f"{text[place:].strip()[0]!r} is no part of it")
        words.append(match[1])
        place = match.end()
    return words


def _clause(text: str, words: Sequence[str], family: Benchmark) -> Clause:
    parts: list[list[str]] = [[]]
    for word in words:
        if word.lower() == "and":
            parts.append([])
        else:
            parts[-1].append(word)
    significant = [part for part in parts if [word.lower() for word in part] == ["significant"]]
    limits = tuple(_limit(text, part, family, bool(significant)) for part in parts if part not in significant)
    if not limits:
        raise _unreadable(text, "`significant` stands beside a limit" if significant else "a part of it is empty")
    return Clause(limits, bool(significant))


def _limit(text: str, words: Sequence[str], family: Benchmark, significant: bool) -> Limit:
    if len(words) != 3 or words[1] not in RELATIONS or not _NUMBER.fullmatch(words[2]):
        raise _unreadable(text, f"{' '.join(words)!r} is no limit" if words else "a part of it is empty")
    metric = metric_named(family, words[0])
    if significant and metric.better == "neither":
        raise _unreadable(text, f"{metric.name} only informs, so its differences are not tested")
    return Limit(metric.name, words[1], _number(text, words[2], metric))


def _number(text: str, word: str, metric: Metric) -> float:
    number = float(word.removesuffix("%"))
    if not math.isfinite(number):
        raise _unreadable(text, f"{word} is too large for a number")
    if word.endswith("%") and metric.unit:
        raise _unreadable(text, f"{metric.name} is no share but in {metric.unit}, so % says nothing")
    return number / 100 if word.endswith("%") else number


def _unreadable(text: str, why: str) -> UsageError:
    return UsageError(
        f"--fail-if {printable(repr(text), 200)}: {printable(why, 200)}. A gate is METRIC < NUMBER (or <=, >, >=), several "
        "joined by `and` or `or`, `significant` where chance has to be ruled out: 'miou < -0.005 and significant'."
    )
