"""Scored tags whose scores of items are written down, so that a test knows what comes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.experiments.experiment import Experiment, family_of
from benchkit.provenance.record import describe_file, sealed
from benchkit.store.content import file_hash
from benchkit.store.files import write_json
from benchkit.store.table import write_table


def about_the_rest() -> dict[str, Any]:
    """What a record says that a comparison does not look at."""
    return {
        "schema": 1,
        "benchkit": "0",
        "level": "high",
        "created": "",
        "conf": {
            "data": {"name": "scenes"},
            "model": {"backbone": {"name": "pixels"}, "head": {"name": "embed"}},
            "eval": {},
        },
        "about": {},
        "data": {
            "dataset_id": "d",
            "generated": True,
            "split": "test",
            "n_items": 1,
            "skipped": {},
            "overlaps": [],
            "trained_on_evaluated": False,
            "untrained_classes": [],
            "duplicates": {"across_splits": 0, "two_labels": 0},
        },
        "backbone": {"name": "pixels", "weights": "", "identity": {"preprocess": {}}, "identity_hash": ""},
        "head": {"name": "embed", "log": {}},
        "inputs": {},
        "timings": {},
    }


def scored(
    root: Path,
    tag: str,
    columns: dict[str, Any],
    family: str = "retrieval",
    names: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    labels: Sequence[int] | None = None,
    **protocol: Any,
) -> Experiment:
    """A scored tag whose columns are given; those of retrieval that are not are AP's."""
    folder = root / "results" / family / tag
    columns = {name: np.asarray(values) for name, values in columns.items()}
    count = len(next(iter(columns.values())))
    names = [f"i{k:03}" for k in range(count)] if names is None else list(names)
    if family == "retrieval":
        columns |= {f"recall@{k}": columns["AP"] for k in (1, 5, 10) if f"recall@{k}" not in columns}
    write_table(folder / "results.h5", "results", names, {"group": list(group or [""] * count), **columns})
    targets = {"label": np.asarray(labels if labels is not None else np.zeros(count, int))}
    write_table(folder / "targets.h5", "targets", names, targets, meta={"classes": ["a", "b"]})
    record = {**about_the_rest(), "benchmark": family, "family": family, "tag": tag}
    made = family_of(record)
    values = made.summarize(columns)
    known = {name: value for name, value in values.items() if value is not None and np.isfinite(value)}
    shape = {"interval": None, "floor": None, "ceiling": None, "undefined": 0}
    record["scores"] = {
        m.name: {**shape, "value": known.get(m.name), "better": m.better, "unit": m.unit} for m in made.metrics()
    }
    record["protocol"] = {"benchmark": family, "dataset_id": "d", "skipped": [], "head": {"name": "embed"}, **protocol}
    paths = folder / "results.h5", folder / "targets.h5"
    record["files"] = {path.name: describe_file(path, file_hash(path)) for path in paths}
    write_json(folder / "record.json", sealed(record))
    return Experiment(folder)


def two(root: Path, first: Sequence[float], second: Sequence[float], **more: Any) -> tuple[Experiment, Experiment]:
    return scored(root, "first", {"AP": first}, **more), scored(root, "second", {"AP": second}, **more)
