"""A comparison as JUnit XML, which servers of continuous integration show: a test for every gate and pair."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchkit.compare.tables import verdict

if TYPE_CHECKING:
    from benchkit.compare.comparison import Comparison, Pair
    from benchkit.compare.differences import Difference

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML 1.0 cannot hold


def junit(comparison: Comparison) -> str:
    """The text of the file. Without a gate there is a test per pair and metric, which passes and holds the numbers."""
    from xml.etree import ElementTree

    cases = _gates(comparison) or [
        (f"{_named(pair)}: {each.metric}", _numbers(each), "")
        for pair in comparison.pairs
        for each in pair.differences.values()
    ]
    failures = sum(bool(failure) for *_, failure in cases)
    counts = {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": "0"}
    whole = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(whole, "testsuite", {"name": _xml(f"compare {comparison.benchmark}"), **counts})
    for name, told, failure in cases:
        about = {"classname": _xml(f"benchkit.compare.{comparison.benchmark}"), "name": _xml(name)}
        case = ElementTree.SubElement(suite, "testcase", about)
        if failure:
            ElementTree.SubElement(case, "failure", {"message": _xml(failure), "type": "gate"}).text = _xml(told)
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(told)
    ElementTree.indent(whole)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(whole, encoding="unicode") + "\n"


def _gates(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Name, numbers and failure of every gate and pair."""
    return [
        (
            f"{_named(end.pair)}: {end.gate.text}",
            "\n".join(_numbers(end.pair.differences[metric]) for metric in end.gate.metrics),
            end.failure,
        )
        for end in comparison.endings
    ]


def _named(pair: Pair) -> str:
    return f"{pair.second} - {pair.first}"


def _numbers(each: Difference) -> str:
    unit = f" {each.unit}" if each.unit else ""
    shown = {"first": each.first, "second": each.second, "difference": each.value, "low": each.low, "high": each.high}
    shown |= {"p": each.p, "p (Holm)": each.adjusted}
    told = ", ".join(f"{name} {'n/a' if value is None else f'{value:.6g}'}" for name, value in shown.items())
    return f"{each.metric}{unit} ({each.better}): {told}; {verdict(each) or 'no verdict'}; {each.n_items} items"


def _xml(text: str) -> str:
    return _NO_XML.sub("", text)
