"""What a reader has to know beside a tag's scores, in a few words each; `commands._tables.notes` says it at length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]


def marks(record: Record) -> list[str]:
    """Marks of a scored tag: of its headline, its head and its data."""
    data, log = record["data"], record["head"]["log"]
    seen, count = seen_data(record), len(data["skipped"])
    said = {
        "does not beat its floor": not beats_floor(next(iter(record["scores"].values()))),
        f"seen data ({', '.join(seen)})": bool(seen),
        "trained on the evaluated items": data["trained_on_evaluated"],
        "photos in train and test": data["duplicates"]["across_splits"],
        f"{count} {'item' if count == 1 else 'items'} skipped": bool(count),
        "head collapsed": log.get("collapsed"),
        "head not converged": log.get("converged", 1) == 0,
        "generated images": data["generated"],
    }
    return [text for text, holds in said.items() if holds]


def seen_data(record: Record) -> list[str]:
    """Data sets that the model was trained on and that the benchmark overlaps with."""
    return sorted(set(record["about"].get("pretrained_on", [])) & set(record["data"]["overlaps"]))


def beats_floor(score: Mapping[str, Any]) -> bool:
    """Whether a score is better than its floor; so where it has none."""
    value, floor = score["value"], score["floor"]
    if value is None or floor is None or score["better"] == "neither":
        return True
    return bool(value > floor if score["better"] == "higher" else value < floor)
