"""A submission: what a board needs of one scored tag, keys exactly as the benchmark's specification has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchkit.conf.find import configs_dir
from benchkit.errors import UsageError, printable, reason
from benchkit.eval import evaluate
from benchkit.experiments.experiment import family_of
from benchkit.store.files import write_json
from benchkit.submissions.manifest import EVALUATED, read_json, walls_across

FAMILY = "painting_vision"  # the family that has a board
HEAD = "head.safetensors"
TRIPLE = ("benchmark_version", "taxonomy_version", "dataset_id")  # entries are comparable if, and only if, these agree
LARGEST = 1 << 20  # bytes of a submission: the usual one has a few thousand
CLOSE = 1e-9  # numbers are written with all their digits


def make_entry(
    benchmark: str, tag: str, manifest: Mapping[str, Any], outputs: str | Path | None = None
) -> dict[str, Any]:
    """The submission of a tag, evaluated if it is not yet.

    Args:
        benchmark, tag: name it.
        manifest: of the data (see `manifest.read_manifest`); the tag must have been scored on the whole split test of it.
        outputs: where tags lie.

    Raises:
        UsageError: the benchmark has no board, or the tag is none that may be submitted; says why.
    """
    done = evaluate(benchmark, tag, outputs=outputs)
    family = family_of(done.record)
    scores = family.submission(done.summaries)
    refuse(done.record, manifest)
    return entry_of(done.record, done.summaries, scores)


def entry_of(record: Mapping[str, Any], summaries: Mapping[str, Any], scores: Mapping[str, Any]) -> dict[str, Any]:
    """The submission of a scored record.

    Args:
        record, summaries: of the tag.
        scores: `Benchmark.submission` of the summaries.
    """
    return {
        **{key: scores[key] for key in ("benchmark_version", "taxonomy_version")},
        "dataset_id": record["data"]["dataset_id"],
        "split": record["data"]["split"],
        "checkpoint_sha256": checkpoint_of(record),
        "shared_metrics": scores["shared_metrics"],
        "paint_state_metrics": scores["paint_state_metrics"],
        "inference_size": record["backbone"]["identity"]["preprocess"]["size"],
        "extra": _extra(record, summaries),
    }


def refuse(record: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """See that a tag may be submitted.

    Raises:
        UsageError: it is limited, left items out, is of another split than test, another frame than the whole one, or other
            data than the manifest's; its head learned from the evaluated walls; a wall is in two splits.
    """
    where, data, said = f"{record['benchmark']}/{record['tag']}", record["data"], record["conf"]["data"]
    ids = manifest["dataset_ids"]
    if said.get("limit"):
        raise UsageError(f"{where} was exported with --limit {said['limit']}: a limited run cannot be submitted.")
    if data["skipped"]:
        raise UsageError(
            f"{where} left out {len(data['skipped'])} items that could not be read: mend them, export again."
        )
    if data["split"] != EVALUATED:
        raise UsageError(
            f"{where} was scored on split {data['split']!r}: the held-out split {EVALUATED!r} is submitted."
        )
    if said["resize"] != "pad":
        raise UsageError(
            f"{where} was exported with data.resize={said['resize']}: whole frames are scored, data.resize=pad."
        )
    if ids.get(EVALUATED) != data["dataset_id"]:
        raise UsageError(
            f"{where} was scored on {data['dataset_id'][:16]}..., which is not the manifest's split {EVALUATED!r}: the data "
            "were changed since one of them was made. `benchkit painting manifest DIR` names the files."
        )
    trained = data["train_id"]
    if trained is not None and (trained == data["dataset_id"] or trained not in ids.values()):
        raise UsageError(
            f"{where} learned from split {data['train_split']!r}, which is no other split of the manifest: a head learns from "
            "frames of other walls, all of them listed."
        )
    across = walls_across(manifest["frames"])
    if across:
        raise UsageError(f"{across[0]}: the manifest is of data that no score may be submitted of.")


def checkpoint_of(record: Mapping[str, Any]) -> str:
    """sha256 of what was trained: the head's file where benchkit trained one, else the checkpoint's, else of the weights."""
    if trained_head(record):
        return str(record["files"][HEAD]["sha256"])
    named = record["inputs"]["checkpoint"] or {}
    return str(named.get("sha256") or record["backbone"]["weights"])


def trained_head(record: Mapping[str, Any]) -> bool:
    """Whether the tag's predictions are of a head that benchkit trained."""
    return HEAD in record["files"] and record["protocol"]["train_id"] is not None


def _extra(record: Mapping[str, Any], summaries: Mapping[str, Any]) -> dict[str, Any]:
    """Floor, intervals and counts beside the scores, and what made them."""
    scores, log = record["scores"], record["head"]["log"]
    counted = ("n_items", "classes_in_truth", "undecided_predictions", "n_undefined_painted_coverage_mae")
    return {
        "tag": record["tag"],
        "benchmark": record["benchmark"],
        "model": record["backbone"]["name"],
        "backbone_weights": record["backbone"]["weights"],
        "head": record["protocol"]["head"],
        "benchkit": record["benchkit"],
        "predictions_content": record["files"]["predictions.h5"]["content"],
        "floor": {name: score["floor"] for name, score in scores.items() if score["better"] != "neither"},
        "intervals": {name: score["interval"] for name, score in scores.items() if score["better"] != "neither"},
        "counts": {name: summaries[name] for name in counted if name in summaries},
        "head_log": {name: value for name, value in log.items() if name in ("train_loss", "converged")},
        "baselines": {},
    }


def with_baseline(entry: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with the scores of a baseline in `extra`."""
    kept = ("checkpoint_sha256", "shared_metrics", "paint_state_metrics", "inference_size")
    told = {**{key: baseline[key] for key in kept}, "intervals": baseline["extra"]["intervals"]}
    baselines = {**entry["extra"]["baselines"], str(baseline["extra"]["tag"]): told}
    return {**entry, "extra": {**entry["extra"], "baselines": baselines}}


def beats_floor(entry: Mapping[str, Any]) -> bool:
    """Whether mIoU is above what `other` everywhere scores; a model that is not has learned nothing."""
    floor, score = entry["extra"]["floor"]["mIoU"], entry["shared_metrics"]["mIoU"]
    return bool(score is not None and floor is not None and score > floor)


def contradictions(entry: Mapping[str, Any]) -> Iterator[str]:
    """What a submission says against itself: mIoU is the mean of the classes in the truth, those whose IoU is not null."""
    present = [value for value in entry["shared_metrics"]["iou"].values() if value is not None]
    mean = sum(present) / len(present) if present else None
    said = entry["shared_metrics"]["mIoU"]
    if (mean is None) != (said is None) or (mean is not None and abs(mean - said) > CLOSE):
        yield f"shared_metrics/mIoU is {said}, and the mean of its own iou is {mean}"


@lru_cache(maxsize=4)
def schema() -> dict[str, Any]:
    """The JSON schema of submissions."""
    path = configs_dir() / "schemas" / "painting_vision.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def read_entry(path: Path) -> dict[str, Any]:
    """A submission that meets the schema.

    Raises:
        UsageError: it does not; names the place.
    """
    found = read_json(path, "make it with benchkit submit", LARGEST)
    _check(found, str(path))
    return dict(found)


def _check(entry: Any, where: str) -> None:
    from jsonschema import Draft202012Validator

    problems = sorted(Draft202012Validator(schema()).iter_errors(entry), key=lambda e: list(map(str, e.absolute_path)))
    if problems:
        place = "/".join(map(str, problems[0].absolute_path)) or "the whole"
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        said = printable(problems[0].message, 200)
        raise UsageError(f"{where} is no submission: {printable(place, 100)}: {said}{more}.")
    if type(entry["inference_size"]) is not int:
        raise UsageError(f"{where} is no submission: inference_size is {entry['inference_size']}, no whole number.")


def write_entry(path: Path, entry: Mapping[str, Any]) -> None:
    """Write a submission that meets the schema; only an older submission is replaced.

    Raises:
        UsageError: it does not meet the schema; the file is there and is no submission, or its folder is not there.
    """
    _check(dict(entry), str(path))
    if path.exists():
        try:
            read_entry(path)
        except UsageError as error:
            raise UsageError(
                f"{path} is there and is no submission, so it is not replaced: name another file."
            ) from error
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder: make it, or name another file.")
    try:
        write_json(path, dict(entry))
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({reason(error)}).") from error
