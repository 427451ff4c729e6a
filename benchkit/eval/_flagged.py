"""Scores without the items that were found to be copies: computed from results.h5, kept in the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.conf.build import evaluate_settings
from benchkit.errors import RunError
from benchkit.eval.base import Benchmark, Columns
from benchkit.provenance.record import NAME, read_record, sealed, unaltered
from benchkit.registry import find
from benchkit.store.files import write_json
from benchkit.store.lock import exclusive
from benchkit.store.outputs import lock_of
from benchkit.store.table import Table

RESULTS = "results.h5"


def write_flagged(folder: Path, made_from: Mapping[str, Any], flagged: Mapping[str, Any]) -> dict[str, Any]:
    """Write `flagged` (groups, items, thresholds, left_out) into the record, with the scores without its items.

    Args:
        folder: the tag's.
        made_from: the record at the time when the files were compared.
        flagged: items and why.

    Raises:
        RunError: the tag was made again meanwhile; a file is damaged or the record cannot be written.
    """
    with exclusive(lock_of(folder.resolve())):
        record = read_record(folder)
        if record is None or record["files"]["features.h5"] != made_from["files"]["features.h5"]:
            raise RunError(f"{folder} was exported again while its views were compared. Run the same command again.")
        scored = record["scores"] is not None and unaltered(folder / RESULTS, record)
        without = _from_results(folder, record, flagged["items"]) if scored else None
        record = sealed({**record, "flagged": {**flagged, "scores_without": without}})
        write_json(folder / NAME, record)
    return record


def with_scores_without(
    record: Mapping[str, Any], family: Benchmark, names: Sequence[str], columns: Columns
) -> dict[str, Any]:
    """The record with the scores without its flagged items computed again; as it is where nothing was looked for."""
    if "flagged" not in record:
        return dict(record)
    without = scores_without(family, names, columns, record["flagged"]["items"])
    return {**record, "flagged": {**record["flagged"], "scores_without": without}}


def scores_without(
    family: Benchmark, names: Sequence[str], columns: Columns, items: Mapping[str, str]
) -> dict[str, float | None]:
    """Every metric over the rows whose names are not in `items`; None where it is undefined, or nothing is left.

    The rows were scored with all items there: a query's ranking still holds the copies.
    """
    keep = np.array([name not in items for name in names], bool)
    left = {column: np.asarray(values)[keep] for column, values in columns.items()}
    values = family.summarize(left) if keep.any() else {}
    found = {metric.name: values.get(metric.name) for metric in family.metrics()}
    return {name: float(v) if v is not None and np.isfinite(v) else None for name, v in found.items()}


def _from_results(folder: Path, record: Mapping[str, Any], items: Mapping[str, str]) -> dict[str, float | None]:
    component = find("eval", record["family"])
    settings = evaluate_settings(component, record["conf"]["eval"], None, record["benchmark"], ())
    with Table(folder / RESULTS, "results") as results:
        scored = [c for c in results.columns if c != "group" and not c.startswith("category/")]
        columns = {column: results.read(column) for column in scored}
        return scores_without(component.build(settings), results.names, columns, items)
