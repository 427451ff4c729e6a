"""A submission: what a board needs of one scored tag, keys exactly as the benchmark's specification has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.conf.find import configs_dir
from benchkit.errors import UsageError, reason
from benchkit.eval import evaluate
from benchkit.registry import find
from benchkit.store.files import write_json

if TYPE_CHECKING:
    from benchkit.eval._evaluation import Evaluation

HEAD = "head.safetensors"
TRIPLE = ("benchmark_version", "taxonomy_version", "dataset_id")  # entries are comparable if, and only if, these agree


def make_entry(
    benchmark: str, tag: str, manifest: Mapping[str, Any], outputs: str | Path | None = None, again: bool = False
) -> dict[str, Any]:
    """The submission of a tag, evaluated if it is not yet.

    Args:
        benchmark, tag: name it.
        manifest: of the data (see `manifest.read_manifest`); the tag must have been scored on a whole split of it.
        outputs: where tags lie.
        again: compute the scores anew, also where they are there.

    Raises:
        UsageError: the benchmark has no board; the tag was limited, left items out, or is of other data than the manifest's.
    """
    done = evaluate(benchmark, tag, outputs=outputs, overwrite_eval=again)
    record = done.record
    component = find("eval", record["family"])
    family = component.build(component.settings(**record["conf"]["eval"]))
    scores = family.submission(done.summaries)
    split = _split(record, manifest)
    paint = scores.pop("paint_state_metrics")
    return {
        **{key: scores[key] for key in ("benchmark_version", "taxonomy_version")},
        "dataset_id": record["data"]["dataset_id"],
        "split": split,
        "checkpoint_sha256": checkpoint_of(record),
        "shared_metrics": scores["shared_metrics"],
        "paint_state_metrics": paint,
        "inference_size": record["conf"]["data"]["size"],
        "extra": _extra(done),
    }


def _split(record: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    where, data, said = f"{record['benchmark']}/{record['tag']}", record["data"], record["conf"]["data"]
    if said.get("limit"):
        raise UsageError(f"{where} was exported with --limit {said['limit']}: a limited run cannot be submitted.")
    if data["skipped"]:
        raise UsageError(
            f"{where} left out {len(data['skipped'])} items that could not be read: mend them, export again."
        )
    if manifest["dataset_ids"].get(data["split"]) != data["dataset_id"]:
        raise UsageError(
            f"{where} was scored on {data['dataset_id'][:16]}... (split {data['split']!r}), which the manifest does not have: "
            "the data were changed since one of them was made. `benchkit painting manifest DIR --verify` names the files."
        )
    return str(data["split"])


def checkpoint_of(record: Mapping[str, Any]) -> str:
    """sha256 of what was trained: the head's file where benchkit trained one, else the checkpoint's, else of the weights."""
    if trained_head(record):
        return str(record["files"][HEAD]["sha256"])
    named = record["inputs"]["checkpoint"] or {}
    return str(named.get("sha256") or record["backbone"]["weights"])


def trained_head(record: Mapping[str, Any]) -> bool:
    """Whether the tag's predictions are of a head that benchkit trained."""
    return HEAD in record["files"] and record["protocol"]["train_id"] is not None


def _extra(done: Evaluation) -> dict[str, Any]:
    """Floor, intervals and counts beside the scores, and what made them."""
    record, scores = done.record, done.record["scores"]
    log = record["head"]["log"]
    return {
        "tag": record["tag"],
        "benchmark": record["benchmark"],
        "model": record["backbone"]["name"],
        "backbone_weights": record["backbone"]["weights"],
        "head": record["protocol"]["head"],
        "benchkit": record["benchkit"],
        "predictions_content": record["files"]["predictions.h5"]["content"],
        "floor": {name: score["floor"] for name, score in scores.items() if score["floor"] is not None},
        "intervals": {name: score["interval"] for name, score in scores.items() if score["interval"]},
        "counts": {"n_items": done.summaries["n_items"], **_counts(done.summaries)},
        "head_log": {name: value for name, value in log.items() if name in ("train_loss", "converged")},
        "baselines": {},
    }


def _counts(summaries: Mapping[str, Any]) -> dict[str, Any]:
    names = ("classes_in_truth", "undecided_predictions", "n_undefined_painted_coverage_mae")
    return {name: summaries[name] for name in names if name in summaries}


def with_baseline(entry: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with the scores of a baseline in `extra`."""
    kept = ("checkpoint_sha256", "shared_metrics", "paint_state_metrics", "inference_size")
    name = f"{baseline['extra']['tag']}"
    told = {**{key: baseline[key] for key in kept}, "intervals": baseline["extra"]["intervals"]}
    extra = {**entry["extra"], "baselines": {**entry["extra"]["baselines"], name: told}}
    return {**entry, "extra": extra}


def beats_floor(entry: Mapping[str, Any]) -> bool:
    """Whether mIoU is above what `other` everywhere scores; a model that is not has learned nothing."""
    floor = entry["extra"].get("floor", {}).get("mIoU")
    score = entry["shared_metrics"]["mIoU"]
    return bool(score is not None and floor is not None and score > floor)


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
    from jsonschema import Draft202012Validator

    try:
        found: Any = json.loads(path.read_bytes().decode("utf-8-sig"), parse_constant=_refuse)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as JSON: {reason(error)}.") from error
    problems = sorted(Draft202012Validator(schema()).iter_errors(found), key=lambda e: list(map(str, e.absolute_path)))
    if problems:
        where = "/".join(map(str, problems[0].absolute_path)) or "the whole"
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise UsageError(f"{path} is no submission: {where}: {problems[0].message[:200]}{more}.")
    return dict(found)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def write_entry(path: Path, entry: Mapping[str, Any]) -> None:
    """Write a submission, once it meets the schema.

    Raises:
        UsageError: it does not.
    """
    write_json(path, dict(entry))
    read_entry(path)
