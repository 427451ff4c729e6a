"""Experiments of one benchmark side by side: ranked only where their protocols agree, the others with the fields that differ."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchkit.experiments.experiment import ranked_by
from benchkit.provenance.identity import identity_hash, unequal_fields

Record = Mapping[str, Any]


@dataclasses.dataclass
class Ranking:
    """A ranking.

    Attributes:
        metric, better: the headline.
        ranked: scored records, best first.
        apart: tag of a record that is not ranked -> why.
    """

    metric: str
    better: str
    ranked: list[Record]
    apart: dict[str, str]


def rank_records(records: Sequence[Record]) -> Ranking:
    """Rank scored records of one benchmark by its headline, within the protocol that most of them follow.

    A family may say which fields of the protocol have to agree (`Benchmark.comparable`); else all do. Ties are in the order
    of tags; a score without a value is last.
    """
    scored = sorted((r for r in records if r.get("scores")), key=lambda record: str(record["tag"]))
    apart = {
        str(r["tag"]): "it is not scored: python -m benchkit.eval makes its scores"
        for r in records
        if not r.get("scores")
    }
    if not scored:
        return Ranking("", "", [], apart)
    views = [ranked_by(record) for record in scored]
    keys = [identity_hash(view) for view in views]
    counts = Counter(keys)
    chosen = max(counts, key=lambda key: (counts[key], -keys.index(key)))
    first = views[keys.index(chosen)]
    metric, score = next(iter(scored[keys.index(chosen)]["scores"].items()))
    ranked = []
    for record, view, key in zip(scored, views, keys, strict=True):
        if key == chosen:
            ranked.append(record)
        else:
            apart[str(record["tag"])] = f"another protocol: {', '.join(unequal_fields(first, view))}"
    return Ranking(metric, score["better"], sorted(ranked, key=lambda r: _place(r, metric, score["better"])), apart)


def _place(record: Record, metric: str, better: str) -> float:
    value = record["scores"][metric]["value"]
    if value is None:
        return float("inf")
    return -float(value) if better == "higher" else float(value)
