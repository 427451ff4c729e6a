"""A comparison as plain values for JSON: no NaN, None where a number is undefined or infinite."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchkit.compare.comparison import Comparison, Pair
    from benchkit.compare.differences import Difference
    from benchkit.compare.items import Flips, Wins


def plain(comparison: Comparison) -> dict[str, Any]:
    """Everything that a comparison says.

    `difference` is the second's score minus the first's; `better_side` has the better score, whether or not chance alone
    could say so, and `verdict` is that side where a difference is shown, else None.
    """
    return _finite(
        {
            "benchmark": comparison.benchmark,
            "tags": comparison.tags,
            "n_items": comparison.n_items,
            "n_groups": comparison.n_groups,
            "alone": comparison.alone,
            "across": comparison.across,
            "pairs": [_pair(pair) for pair in comparison.pairs],
            "wins": _wins(comparison.wins),
            "ranking": {"metric": comparison.headline, "groups": comparison.groups} if comparison.groups else None,
            "gates": [
                {"gate": e.gate.text, "first": e.pair.first, "second": e.pair.second, "failure": e.failure or None}
                for e in comparison.endings
            ],
            "n_tests": comparison.n_tests,
            "chance": dataclasses.asdict(comparison.chance),
        }
    )


def _pair(pair: Pair) -> dict[str, Any]:
    differences = [_difference(each) for each in pair.differences.values()]
    return {"first": pair.first, "second": pair.second, "differences": differences, "items": _flips(pair.flips)}


def _difference(each: Difference) -> dict[str, Any]:
    found = {
        "metric": each.metric,
        "better": each.better,
        "unit": each.unit,
        "first": each.first,
        "second": each.second,
    }
    found |= {"difference": each.value, "low": each.low, "high": each.high, "p": each.p, "p_holm": each.adjusted}
    found |= {"better_side": each.winner or None, "significant": each.significant}
    found |= {"verdict": each.winner if each.significant and each.winner else None, "lopsided": each.lopsided}
    found |= {"n_items": each.n_items, "n_units": each.n_units, "n_undefined": each.n_undefined}
    return {**found, "mcnemar": None if each.mcnemar is None else dataclasses.asdict(each.mcnemar)}


def _flips(flips: Flips | None) -> dict[str, Any] | None:
    return None if flips is None else dataclasses.asdict(flips)


def _wins(wins: Wins | None) -> dict[str, Any] | None:
    if wins is None:
        return None
    arrays = {"shares": wins.shares, "ties": wins.ties, "counts": wins.counts}
    return {"column": wins.column, "better": wins.better, **{name: each.tolist() for name, each in arrays.items()}}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
