"""What of a submission can be recomputed here, and what then disagrees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchkit.errors import BenchkitError
from benchkit.metrics.painting import TAXONOMY_VERSION
from benchkit.provenance.record import file_sha256, read_record
from benchkit.registry import find
from benchkit.store.outputs import Outputs
from benchkit.submissions.entry import HEAD, make_entry, trained_head
from benchkit.submissions.manifest import differences

CLOSE = 1e-9  # numbers are written with all their digits
COMPARED = ("dataset_id", "split", "checkpoint_sha256", "shared_metrics", "paint_state_metrics", "inference_size")


def verify(
    entry: Mapping[str, Any],
    manifest: Mapping[str, Any] | None = None,
    data: Path | None = None,
    checkpoint: Path | None = None,
    outputs: str | Path | None = None,
) -> tuple[list[str], list[str]]:
    """Recompute what can be.

    Args:
        entry: a submission that meets the schema.
        manifest: of the data.
        data: the folder of the frames, whose files are compared with the manifest.
        checkpoint: the file that the submission cites; default: the one that the tag was made with, where it still lies.
        outputs: where the tag lies that it was made of, if it does.

    Returns:
        (what disagrees, what could not be checked and why), a line each.
    """
    wrong, left = [*_versions(entry), *_by_itself(entry)], []
    if manifest is None:
        left.append("the data: no --dataset-manifest was given")
    else:
        wrong += _against_manifest(entry, manifest)
        if data is None:
            left.append("the frames: no --data was given")
        else:
            wrong += differences(data, manifest)
    more, missing = _against_tag(entry, manifest, checkpoint, outputs)
    return [*wrong, *more], [*left, *missing]


def _versions(entry: Mapping[str, Any]) -> Iterator[str]:
    own = find("eval", "painting_vision").build.benchmark_version
    for key, known in (("benchmark_version", own), ("taxonomy_version", TAXONOMY_VERSION)):
        if entry[key] != known:
            yield f"{key} is {entry[key]}, and this benchkit computes {known}"


def _by_itself(entry: Mapping[str, Any]) -> Iterator[str]:
    """mIoU is the mean of the classes in the truth, those whose IoU is not null."""
    present = [value for value in entry["shared_metrics"]["iou"].values() if value is not None]
    mean = sum(present) / len(present) if present else None
    said = entry["shared_metrics"]["mIoU"]
    if (mean is None) != (said is None) or (mean is not None and abs(mean - said) > CLOSE):
        yield f"shared_metrics/mIoU is {said}, and the mean of its own iou is {mean}"


def _against_manifest(entry: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[str]:
    known = manifest["dataset_ids"].get(entry["split"])
    if known is None:
        yield f"split {entry['split']!r} is not in the manifest, which has {', '.join(manifest['dataset_ids'])}"
    elif known != entry["dataset_id"]:
        yield f"dataset_id is {entry['dataset_id']}, and the manifest's split {entry['split']!r} is {known}"


def _against_tag(
    entry: Mapping[str, Any], manifest: Mapping[str, Any] | None, checkpoint: Path | None, outputs: str | Path | None
) -> tuple[list[str], list[str]]:
    benchmark, tag = (str(entry["extra"].get(key, "")) for key in ("benchmark", "tag"))
    wrong, left = [], []
    folder, record = Outputs(outputs).tag(benchmark or "none", tag or "none"), None
    try:
        record = read_record(folder)
    except BenchkitError as error:
        wrong.append(str(error))
    if record is None:
        left.append(f"the scores: there is no tag {tag!r} of {benchmark!r} below {Outputs(outputs).root}")
    else:
        wrong += _recomputed(entry, record, manifest, benchmark, tag, outputs)
    file = checkpoint or _cited(record, folder)
    if file is None:
        left.append("the checkpoint: no --checkpoint was given, and no file is named by the tag")
    elif not file.is_file():
        wrong.append(f"the checkpoint {file} is not there")
    elif file_sha256(file) != entry["checkpoint_sha256"]:
        wrong.append(f"checkpoint_sha256 is {entry['checkpoint_sha256']}, and {file} has {file_sha256(file)}")
    return wrong, left


def _cited(record: Mapping[str, Any] | None, folder: Path) -> Path | None:
    """The file whose hash a tag's submission cites, where it is known: the trained head, else the checkpoint."""
    if record is None:
        return None
    if trained_head(record):
        return folder / HEAD
    path = (record["inputs"]["checkpoint"] or {}).get("path")
    return Path(path) if path else None


def _recomputed(
    entry: Mapping[str, Any],
    record: Mapping[str, Any],
    manifest: Mapping[str, Any] | None,
    benchmark: str,
    tag: str,
    outputs: str | Path | None,
) -> Iterator[str]:
    """Scores from the tag's own files."""
    known = manifest or {"dataset_ids": {record["data"]["split"]: record["data"]["dataset_id"]}}
    try:
        anew = make_entry(benchmark, tag, known, outputs, again=True)
    except BenchkitError as error:
        yield str(error)
        return
    for key in COMPARED:
        yield from _unequal(key, entry[key], anew[key])
    yield from _unequal("extra/floor", entry["extra"].get("floor"), anew["extra"]["floor"])


def _unequal(where: str, said: Any, found: Any) -> Iterator[str]:
    if isinstance(found, Mapping) and isinstance(said, Mapping):
        for key in sorted({*found, *said}):
            yield from _unequal(f"{where}/{key}", said.get(key), found.get(key))
    elif isinstance(found, float | int) and isinstance(said, float | int):
        if abs(found - said) > CLOSE:
            yield f"{where} is {said}, and recomputed it is {found}"
    elif said != found:
        yield f"{where} is {said}, and recomputed it is {found}"
