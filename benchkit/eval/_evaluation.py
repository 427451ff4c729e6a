"""The one loop of eval: join by name, score, resample, write."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchkit.conf.build import evaluate_settings, plain
from benchkit.conf.diff import counts_of, describe, differences
from benchkit.errors import RunError, UsageError
from benchkit.eval.base import Benchmark, Columns
from benchkit.metrics.intervals import bootstrap
from benchkit.provenance.identity import identity_hash
from benchkit.provenance.record import NAME, describe_file, matches, read_record
from benchkit.registry import Component, find
from benchkit.store.content import file_hash, table_hash
from benchkit.store.files import clear_dead, write_json, write_text
from benchkit.store.items import ArrayItems, TableItems
from benchkit.store.lock import exclusive
from benchkit.store.outputs import Outputs
from benchkit.store.table import Table, write_table

RESAMPLES = 1000
SEED = 0  # of the bootstrap: equal columns give equal intervals


@dataclasses.dataclass
class Evaluation:
    """Scores of one tag.

    Attributes:
        folder: where the files lie.
        summaries: metric -> number or None, with floors and counts.
        record: record.json.
        fresh: computed now (True) or found as computed before.
    """

    folder: Path
    summaries: dict[str, float | None]
    record: dict[str, Any]
    fresh: bool

    @property
    def items(self) -> dict[str, Any]:
        """Per-item results: `names`, `group`, `category/...` and one array per metric."""
        with Table(self.folder / "results.h5", "results") as table:
            return {"names": table.names, **{column: table.read(column) for column in table.columns}}


def evaluate_folder(
    outputs: Outputs,
    benchmark: str,
    tag: str,
    conf: str | Path | None,
    arguments: Sequence[str],
    overwrite_eval: bool,
    records: str | Path | None,
) -> Evaluation:
    """See `benchkit.eval.evaluate`."""
    folder = outputs.tag(benchmark, tag)
    with exclusive(outputs.lock(benchmark, tag)) if folder.is_dir() else _refuse(folder, benchmark, tag):
        clear_dead(folder)
        record = read_exported(folder, benchmark, tag)
        component = find("eval", record["family"])
        settings = evaluate_settings(component, record["conf"]["eval"], conf, benchmark, arguments)
        if not _to_score(folder, record, component, settings, overwrite_eval):
            return Evaluation(folder, _summaries(folder), record, fresh=False)
        record, summaries = _score(folder, record, component.build(settings), plain(settings))
    if records:
        append_record(Path(records), record)
    return Evaluation(folder, summaries, record, fresh=True)


def _refuse(folder: Path, benchmark: str, tag: str) -> Any:
    raise UsageError(
        f"{folder} does not exist: nothing was exported for {benchmark} under the tag {tag!r}. Export first: "
        f"python -m benchkit.export --conf NAME --benchmark {benchmark} --tag {tag}"
    )


def read_exported(folder: Path, benchmark: str, tag: str) -> dict[str, Any]:
    """The record of a finished export.

    Raises:
        UsageError: the export has not finished.
        RunError: predictions or targets are missing or not those of the record.
    """
    record = read_record(folder)
    command = f"python -m benchkit.export --conf NAME --benchmark {benchmark} --tag {tag}"
    if record is None:
        raise UsageError(f"{folder} holds no finished export: run it to its end with {command}")
    odd = matches(folder, record, ("predictions.h5", "targets.h5"))
    if odd:
        raise RunError(
            f"{folder / odd} is missing or not the file that record.json speaks of. Make it again: {command}"
        )
    return record


def _to_score(folder: Path, record: dict[str, Any], component: Component, settings: Any, overwrite_eval: bool) -> bool:
    scored = record["scores"] is not None and matches(folder, record) is None
    if not scored or overwrite_eval:
        return True
    identity = counts_of({"eval": component.settings})
    found = differences({"eval": record["conf"]["eval"]}, {"eval": plain(settings)}, identity)
    if found:
        raise UsageError(f"{folder}: {describe(found, '--overwrite_eval')}")
    return False


def _summaries(folder: Path) -> dict[str, float | None]:
    return json.loads((folder / "summaries.json").read_text(encoding="utf-8"))


def _score(
    folder: Path, record: dict[str, Any], family: Benchmark, settings: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, float | None]]:
    started = time.monotonic()
    with Table(folder / "predictions.h5", "predictions") as predicted, Table(folder / "targets.h5", "targets") as true:
        _check_files(folder, record, predicted, true)
        _check_fields(folder, family, predicted)
        targets = TableItems(true)
        predictions = TableItems(predicted, targets.names)
        columns = family.score(predictions, targets)
        floor = family.summarize(_floor(family, predicted, targets))
        labels = {c: true.read(c) for c in true.columns if c == "group" or c.startswith("category/")}
        log = {
            name.removeprefix("fit/"): float(predicted.read_whole(name)) for name in predicted.whole if "fit/" in name
        }
    values = _finite(folder, family.summarize(columns))
    groups = np.array(labels["group"]) if any(labels["group"]) else None
    intervals = bootstrap(columns, family.summarize, n_resamples=RESAMPLES, seed=SEED, groups=groups)
    summaries = _flat(family, values, floor, columns, log)
    scores = _scores(family, values, floor, intervals, columns)
    write_table(folder / "results.h5", "results", targets.names, {**labels, **columns})
    write_json(folder / "summaries.json", summaries)
    record = _with_scores(folder, record, scores, settings, time.monotonic() - started)
    write_text(folder / "conf.yaml", yaml.safe_dump(record["conf"], sort_keys=False, allow_unicode=True))
    write_json(folder / NAME, record)
    return record, summaries


def _check_files(folder: Path, record: Mapping[str, Any], predicted: Table, true: Table) -> None:
    for table in (predicted, true):
        if table_hash(table) != record["files"][table.path.name]["content"]:
            raise RunError(
                f"{table.path} is not the file that record.json speaks of: its content differs. Export again."
            )
    if set(predicted.names) != set(true.names):
        odd = sorted(set(predicted.names) ^ set(true.names))
        raise RunError(
            f"{folder}: predictions and targets hold different items ({odd[0]!r} is in one only). Export again."
        )


def _check_fields(folder: Path, family: Benchmark, predicted: Table) -> None:
    absent = [field for field in family.needs if field not in predicted]
    if absent:
        there = ", ".join(predicted.columns)
        raise UsageError(
            f"{folder / 'predictions.h5'} has no {absent[0]!r}, which this benchmark scores; it has {there}. The head "
            "does not fit the benchmark: export with another model.head.name."
        )


def _floor(family: Benchmark, predicted: Table, targets: TableItems) -> Columns:
    if family.floor_head is None:
        return family.chance(targets)
    fields = {name.removeprefix("floor/"): predicted.read_whole(name) for name in predicted.whole if "floor/" in name}
    count = len(targets.names)
    constant = {name: np.broadcast_to(value, (count, *value.shape)) for name, value in fields.items()}
    return family.score(ArrayItems(targets.names, constant, {"scores_are": "logits"}), targets)


def _finite(folder: Path, values: Mapping[str, float | None]) -> dict[str, float | None]:
    for name, value in values.items():
        if value is not None and not np.isfinite(value):
            raise RunError(
                f"{folder}: {name} is {value}; a score is a finite number or undefined. The predictions are odd."
            )
    return {name: None if value is None else float(value) for name, value in values.items()}


def _undefined(columns: Columns, column: str) -> int:
    return int(np.isnan(columns[column]).sum()) if column in columns else 0


def _flat(
    family: Benchmark,
    values: Mapping[str, float | None],
    floor: Mapping[str, float | None],
    columns: Columns,
    log: Mapping[str, float],
) -> dict[str, float | None]:
    count = len(next(iter(columns.values())))
    flat: dict[str, float | None] = {**values, **{f"floor_{k}": v for k, v in floor.items()}, "n_items": count}
    for metric in family.metrics():
        if metric.column:
            flat[f"n_undefined_{metric.name}"] = _undefined(columns, metric.column)
    return {**flat, **log}


def _scores(
    family: Benchmark,
    values: Mapping[str, float | None],
    floor: Mapping[str, float | None],
    intervals: Mapping[str, Any],
    columns: Columns,
) -> dict[str, Any]:
    return {
        metric.name: {
            "value": values[metric.name],
            "interval": list(intervals[metric.name]) if intervals.get(metric.name) else None,
            "floor": floor.get(metric.name),
            "better": metric.better,
            "unit": metric.unit,
            "undefined": _undefined(columns, metric.column),
        }
        for metric in family.metrics()
    }


def _with_scores(
    folder: Path, record: Mapping[str, Any], scores: dict[str, Any], settings: dict[str, Any], seconds: float
) -> dict[str, Any]:
    files = dict(record["files"])
    files["results.h5"] = describe_file(folder / "results.h5", file_hash(folder / "results.h5"))
    files["summaries.json"] = describe_file(folder / "summaries.json")
    identity = counts_of({"eval": find("eval", record["family"]).settings})
    view = {k: v for k, v in settings.items() if identity(f"eval.{k}")}
    protocol = {**record["protocol"], "eval": view}
    return {
        **record,
        "conf": {**record["conf"], "eval": settings},
        "protocol": protocol,
        "fingerprint": identity_hash(protocol),
        "files": files,
        "scores": scores,
        "intervals": {"method": "percentile bootstrap over items or groups", "resamples": RESAMPLES, "seed": SEED},
        "timings": {**record["timings"], "eval": seconds},
    }


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Append one line to a .jsonl file; several processes may do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.write(json.dumps(record, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n")
        handle.flush()
