"""One tag as a row: its scores, what it costs, and what a reader has to know beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit.boards.board import Row
from benchkit.experiments.experiment import Experiment
from benchkit.experiments.marks import marks

FEATURES = "features"  # features.h5, and the parts in features/
PREDICTIONS = "predictions.h5"


def make_row(experiment: Experiment, metric: str) -> Row:
    """The row of a scored tag by its headline `metric`."""
    record = experiment.record
    score = record["scores"][metric]
    low, high = score["interval"] or (None, None)
    platforms = record["features"]["platforms"]
    devices = sorted({str(each["device"]) for each in platforms})
    return Row(
        tag=experiment.tag,
        model=record["backbone"]["name"],
        head=record["head"]["name"],
        value=score["value"],
        low=low,
        high=high,
        floor=score["floor"],
        ceiling=score.get("ceiling"),
        scores=record["scores"],
        params=record["backbone"]["parameters"],
        images_per_s=record["timings"].get("images_per_second"),
        device=" and ".join(devices),
        bytes_per_item=_feature_bytes(record),
        prediction_bytes=_bytes(record, PREDICTIONS, record["data"]["n_items"]),
        marks=tuple(marks(record)),
        experiment=experiment,
    )


def _feature_bytes(record: Mapping[str, Any]) -> int | None:
    """Those of train items are on disk too, unless they are the evaluated ones."""
    data = record["data"]
    return _bytes(record, FEATURES, data["n_items"] + (0 if data["trained_on_evaluated"] else data["n_train"]))


def _bytes(record: Mapping[str, Any], begins: str, items: int) -> int | None:
    found = [facts["bytes"] for name, facts in record["files"].items() if name.startswith(begins)]
    return round(sum(found) / items) if found and items else None
