"""What of a submission can be recomputed here, and what then disagrees. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.conf.find import benchmark_names, find_benchmark
from benchkit.datasets.painting import Painting, Settings
from benchkit.errors import BenchkitError, printable
from benchkit.eval._evaluation import compute
from benchkit.experiments.experiment import family_of
from benchkit.images import Unreadable
from benchkit.metrics.painting import TAXONOMY_VERSION
from benchkit.progress import track
from benchkit.provenance.record import file_sha256, read_record
from benchkit.registry import find
from benchkit.store.items import TableItems
from benchkit.store.outputs import Outputs
from benchkit.store.table import Table
from benchkit.submissions.entry import (
    CLOSE,
    FAMILY,
    HEAD,
    contradictions,
    entry_of,
    refuse,
    trained_head,
)
from benchkit.submissions.manifest import differences

ELSEWHERE = ("baselines", "benchkit", "head_log")  # of `extra`: other tags, and what no score depends on


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
        data: the folder of the frames, whose files are compared with the manifest and with the tag's truth.
        checkpoint: the file that the submission cites; default: the one that the tag was made with, where it still lies.
        outputs: where the tag lies that it was made of, if it does.

    Returns:
        (what disagrees, what could not be checked and why), a line each.
    """
    wrong, left = [*_versions(entry), *contradictions(entry)], []
    if manifest is None:
        left.append("the data: no --dataset-manifest was given")
    else:
        wrong += _against_manifest(entry, manifest)
        if data is None:
            left.append("the frames: no --data was given")
        else:
            wrong += differences(data, manifest)
    folder, record = _tag(entry, outputs)
    if record is None:
        left.append(f"the scores: {printable(folder, 200)} holds no finished tag")
    else:
        try:
            wrong += _recomputed(entry, folder, record, manifest)
            wrong += _other_truth(folder, data) if data else []
        except BenchkitError as error:
            wrong.append(str(error))
    left += [f"the baseline {printable(name)}: it is another tag" for name in entry["extra"].get("baselines", {})]
    file = checkpoint or _cited(record, folder)
    if file is None:
        left.append("the checkpoint: no --checkpoint was given, and no file is named by the tag")
    else:
        wrong += _other_file(file, entry["checkpoint_sha256"])
    return wrong, left


def _versions(entry: Mapping[str, Any]) -> Iterator[str]:
    own = find("eval", FAMILY).build.benchmark_version
    for key, known in (("benchmark_version", own), ("taxonomy_version", TAXONOMY_VERSION)):
        if entry[key] != known:
            yield f"{key} is {printable(entry[key])}, and this benchkit computes {known}"


def _against_manifest(entry: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[str]:
    known = manifest["dataset_ids"].get(entry["split"])
    if known is None:
        named = ", ".join(manifest["dataset_ids"])
        yield f"split {printable(repr(entry['split']))} is not in the manifest, which has {printable(named, 200)}"
    elif known != entry["dataset_id"]:
        yield f"dataset_id is {entry['dataset_id']}, and the manifest's split {printable(repr(entry['split']))} is {known}"


def _tag(entry: Mapping[str, Any], outputs: str | Path | None) -> tuple[Path, dict[str, Any] | None]:
    """The folder of the tag that a submission says it was made of, and its record; names are never paths.

    Raises:
        RunError, UsageError: the record is damaged, or the names are none that a tag could have.
    """
    where = Outputs(outputs)
    benchmark, tag = entry["extra"].get("benchmark"), entry["extra"].get("tag")
    if benchmark not in benchmark_names() or find_benchmark(benchmark).family != FAMILY or not tag:
        return where.root / "results" / FAMILY, None
    folder = where.tag(benchmark, tag)
    record = read_record(folder)
    return folder, record if record and record.get("scores") else None


def _cited(record: Mapping[str, Any] | None, folder: Path) -> Path | None:
    """The file whose hash a tag's submission cites, where it is known: the trained head, else the checkpoint."""
    if record is None:
        return None
    if trained_head(record):
        return folder / HEAD
    path = (record["inputs"]["checkpoint"] or {}).get("path")
    return Path(path) if path else None


def _other_file(file: Path, said: str) -> Iterator[str]:
    if not file.is_file():
        yield f"the checkpoint {file} is not there"
    elif (found := file_sha256(file)) != said:
        yield f"checkpoint_sha256 is {said}, and {file} has {found}"


def _recomputed(
    entry: Mapping[str, Any], folder: Path, record: Mapping[str, Any], manifest: Mapping[str, Any] | None
) -> Iterator[str]:
    """Scores from the tag's own predictions and truth."""
    if manifest is not None:
        refuse(record, manifest)
    family = family_of(record)
    found = compute(folder, record, family)
    scored = {**record, "scores": found.scores, "breakdown": found.breakdown, "tag": folder.name}
    anew = entry_of(scored, found.summaries, family.submission(found.summaries))
    for key in sorted(anew.keys() - {"extra", "benchmark_version", "taxonomy_version"}):
        yield from _unequal(key, entry[key], anew[key])
    for key in (key for key in anew["extra"] if key not in ELSEWHERE):
        yield from _unequal(f"extra/{key}", entry["extra"].get(key), anew["extra"][key])


def _other_truth(folder: Path, data: Path) -> Iterator[str]:
    """Masks of the folder that are not those the tag was scored against."""
    frames = Painting(Settings(root=str(data)))
    with Table(folder / "targets.h5", "targets") as table:
        truth = TableItems(table)
        for row, name in enumerate(track(truth.names, len(truth.names), "comparing masks", "frames")):
            try:
                same = name in frames.frames and np.array_equal(frames.target(name)["mask"], truth.item("mask", row))
            except (OSError, Unreadable):
                same = False
            if not same:
                yield f"the tag was scored against another mask of {name} than that of {data}"


def _unequal(where: str, said: Any, found: Any) -> Iterator[str]:
    if isinstance(found, Mapping) and isinstance(said, Mapping):
        for key in sorted({*found, *said}):
            yield from _unequal(f"{where}/{printable(key)}", said.get(key), found.get(key))
    elif isinstance(found, list) and isinstance(said, list) and len(found) == len(said):
        for number, pair in enumerate(zip(said, found, strict=True)):
            yield from _unequal(f"{where}/{number}", *pair)
    elif _number(found) and _number(said):
        if abs(found - said) > CLOSE:
            yield f"{where} is {printable(said)}, and recomputed it is {found}"
    elif said != found or isinstance(said, bool) != isinstance(found, bool):
        yield f"{where} is {printable(said)}, and recomputed it is {found}"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
