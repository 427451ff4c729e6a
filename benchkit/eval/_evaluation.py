"""The one loop of eval: join by name, score, resample, write."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchkit.conf.build import evaluate_settings, plain
from benchkit.conf.diff import counts_of, describe, differences
from benchkit.errors import RunError, UsageError, reason
from benchkit.eval._checks import check_fields, check_files, read_exported, refuse_absent, refuse_clash
from benchkit.eval._flagged import with_scores_without
from benchkit.eval.base import Benchmark, Columns
from benchkit.metrics.intervals import bootstrap, drawn_together
from benchkit.provenance import strict
from benchkit.provenance.identity import identity_hash
from benchkit.provenance.record import NAME, append_record, describe_file, sealed, unaltered
from benchkit.registry import Component, find
from benchkit.store.content import file_hash
from benchkit.store.files import clear_dead, write_json, write_text
from benchkit.store.items import TableItems
from benchkit.store.lock import exclusive
from benchkit.store.outputs import Outputs
from benchkit.store.table import Table, write_table

SCORES = ("results.h5", "summaries.json")  # what eval makes, beside its part of the record and of conf.yaml
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
    with exclusive(outputs.lock(benchmark, tag)) if folder.is_dir() else refuse_absent(folder, benchmark, tag):
        clear_dead(folder)
        record = read_exported(folder, benchmark, tag)
        component = find("eval", record["family"])
        settings = evaluate_settings(component, record["conf"]["eval"], conf, benchmark, arguments)
        fresh = _to_score(folder, record, component, settings, overwrite_eval)
        if fresh:
            record = _score(folder, record, component.build(settings), plain(settings))
        summaries = _summaries(folder / "summaries.json")
    if records:
        append_record(Path(records), record)
    return Evaluation(folder, summaries, record, fresh)


def _summaries(path: Path) -> dict[str, float | None]:
    try:
        return dict(strict.read(path))
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{path} cannot be read ({reason(error)}): make it again with --overwrite_eval.") from error


def _to_score(folder: Path, record: dict[str, Any], component: Component, settings: Any, overwrite_eval: bool) -> bool:
    scored = record["scores"] is not None and all(unaltered(folder / name, record) for name in SCORES)
    if not scored or overwrite_eval:
        return True
    identity = counts_of({"eval": component.settings})
    made = {"eval": record["conf"]["eval"], "version": record["protocol"]["version"]}
    found = differences(made, {"eval": plain(settings), "version": component.build.version}, identity)
    if found:
        raise UsageError(f"{folder}: {describe(found, '--overwrite_eval')}")
    return False


@dataclasses.dataclass
class Computed:
    """What a tag's predictions.h5 and targets.h5 say, before anything is written.

    Attributes:
        names: of the items; labels: their group and categories; columns: per item.
        scores, breakdown: as the record holds them.
        summaries: metric -> number or None, with floors, ceilings and counts; log: what the head said of its training.
    """

    names: Sequence[str]
    labels: dict[str, Any]
    columns: Columns
    scores: dict[str, Any]
    breakdown: dict[str, Any]
    summaries: dict[str, float | None]
    log: dict[str, float]


def compute(folder: Path, record: Mapping[str, Any], family: Benchmark) -> Computed:
    """Score a tag; nothing below its folder is written.

    Raises:
        RunError: a file is damaged, not the record's own, or a score is not finite.
        UsageError: the predictions are none that the family scores.
    """
    with Table(folder / "predictions.h5", "predictions") as predicted, Table(folder / "targets.h5", "targets") as true:
        check_files(folder, record, predicted, true)
        check_fields(folder, family, predicted)
        targets = TableItems(true)
        predictions = TableItems(predicted, targets.names)
        columns = family.score(predictions, targets)
        whole = family.whole(predictions, targets)
        floor = {**_floor(family, predicted, predictions, targets), **family.whole_chance(targets)}
        ceiling = _ceiling(family, predictions, targets)
        meta = dict(targets.meta)
        labels = {c: true.read(c) for c in true.columns if c == "group" or c.startswith("category/")}
        log = {name: float(value) for name, value in _whole(predicted, "fit/").items()}
    values = _finite(folder, {**family.summarize(columns), **whole})
    parts = _finite(folder, family.breakdown(columns, meta))
    intervals = _intervals(family, columns, meta, drawn_together(targets.names, labels["group"]))
    summaries = {**_flat(family, values, floor, ceiling, columns), **parts}
    refuse_clash(folder, summaries, log)
    breakdown = {name: {"value": value, "interval": _pair(intervals[name])} for name, value in parts.items()}
    scores = _scores(family, values, floor, ceiling, intervals, columns)
    return Computed(targets.names, labels, columns, scores, breakdown, summaries, log)


def _intervals(
    family: Benchmark, columns: Columns, meta: Mapping[str, Any], groups: np.ndarray | None
) -> dict[str, Any]:
    def summarize(some: Columns) -> dict[str, float | None]:
        return {**family.summarize(some), **family.breakdown(some, meta)}

    drawn = {name: column for name, column in columns.items() if not name.startswith("pictures/")}
    return dict(bootstrap(drawn, summarize, n_resamples=RESAMPLES, seed=SEED, groups=groups))


def _score(folder: Path, record: dict[str, Any], family: Benchmark, settings: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    found = compute(folder, record, family)
    write_table(folder / "results.h5", "results", found.names, {**found.labels, **found.columns})
    write_json(folder / "summaries.json", {**found.summaries, **_finite(folder, found.log)})
    record = {**with_scores_without(record, family, found.names, found.columns), "breakdown": found.breakdown}
    record = _with_scores(folder, record, family, found.scores, settings, time.monotonic() - started)
    write_text(folder / "conf.yaml", yaml.safe_dump(record["conf"], sort_keys=False, allow_unicode=True))
    record = sealed(record)
    write_json(folder / NAME, record)
    return record


def _whole(predicted: Table, prefix: str) -> dict[str, np.ndarray]:
    """Arrays that belong to no item, below `floor/` or `fit/`."""
    names = [name for name in predicted.whole if name.startswith(prefix)]
    return {name.removeprefix(prefix): predicted.read_whole(name) for name in names}


def _floor(
    family: Benchmark, predicted: Table, predictions: TableItems, targets: TableItems
) -> dict[str, float | None]:
    fields = {} if family.floor_head is None else _whole(predicted, "floor/")
    if not fields:  # nothing was learned from train, so there is no constant from it either
        chance = family.chance(targets, predictions)
        return {} if chance is None else family.summarize(chance)
    return family.summarize(family.score(family.constant(fields, targets), targets))


def _ceiling(family: Benchmark, predictions: TableItems, targets: TableItems) -> dict[str, float | None]:
    best = family.ceiling(predictions, targets)
    return {} if best is None else family.summarize(family.score(best, targets))


def _finite(folder: Path, values: Mapping[str, float | None]) -> dict[str, float | None]:
    for name, value in values.items():
        if value is not None and not np.isfinite(value):
            raise RunError(
                f"{folder}: {name} is {value}; a score is a finite number or undefined. The predictions are odd."
            )
    return {name: None if value is None else float(value) for name, value in values.items()}


def _undefined(columns: Columns, column: str) -> int:
    """Items without a value; all of them where the column could not be made."""
    if not column:
        return 0
    return int(np.isnan(columns[column]).sum()) if column in columns else len(next(iter(columns.values())))


def _flat(
    family: Benchmark,
    values: Mapping[str, float | None],
    floor: Mapping[str, float | None],
    ceiling: Mapping[str, float | None],
    columns: Columns,
) -> dict[str, float | None]:
    ordered = {m.name: values[m.name] for m in family.metrics()} | dict(values)
    floors = {f"floor_{name}": floor[name] for name in ordered if name in floor}
    floors |= {f"ceiling_{name}": ceiling[name] for name in ordered if name in ceiling}
    counts = {f"n_undefined_{m.name}": _undefined(columns, m.column) for m in family.metrics() if m.column}
    return {**ordered, **floors, "n_items": len(next(iter(columns.values()))), **counts}


def _scores(
    family: Benchmark,
    values: Mapping[str, float | None],
    floor: Mapping[str, float | None],
    ceiling: Mapping[str, float | None],
    intervals: Mapping[str, Any],
    columns: Columns,
) -> dict[str, Any]:
    return {
        metric.name: {
            "value": values[metric.name],
            "interval": _pair(intervals.get(metric.name)),
            "floor": floor.get(metric.name),
            "ceiling": ceiling.get(metric.name),
            "better": metric.better,
            "unit": metric.unit,
            "undefined": _undefined(columns, metric.column),
        }
        for metric in family.metrics()
    }


def _pair(interval: Any) -> list[float] | None:
    return list(interval) if interval else None


def _with_scores(
    folder: Path,
    record: Mapping[str, Any],
    family: Benchmark,
    scores: dict[str, Any],
    settings: dict[str, Any],
    seconds: float,
) -> dict[str, Any]:
    results, summaries = (folder / name for name in SCORES)
    files = {**record["files"], results.name: describe_file(results, file_hash(results))}
    files[summaries.name] = describe_file(summaries)
    identity = counts_of({"eval": find("eval", record["family"]).settings})
    view = {k: v for k, v in settings.items() if identity(f"eval.{k}")}
    protocol = {**record["protocol"], "version": family.version, "eval": view}
    return {
        **record,
        "family_version": family.version,
        "conf": {**record["conf"], "eval": settings},
        "protocol": protocol,
        "fingerprint": identity_hash(protocol),
        "files": files,
        "scores": scores,
        "intervals": {"method": "percentile bootstrap over items or groups", "resamples": RESAMPLES, "seed": SEED},
        "timings": {**record["timings"], "eval": seconds},
    }
