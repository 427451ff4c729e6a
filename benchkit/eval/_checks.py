"""What has to hold of a tag's files before they are scored."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchkit.conf.find import find_benchmark, nearest
from benchkit.errors import RunError, UsageError
from benchkit.eval.base import Benchmark
from benchkit.provenance.record import matches, read_record
from benchkit.store.content import table_hash
from benchkit.store.table import Table


def refuse_absent(folder: Path, benchmark: str, tag: str) -> Any:
    """Raises UsageError: nothing lies in `folder`; names the nearest tag and the export command."""
    if not folder.parent.is_dir():
        find_benchmark(benchmark)  # a name that does not exist has no export command
    near = nearest(tag, [p.name for p in folder.parent.glob("[!.]*")])
    raise UsageError(
        f"{folder} does not exist: nothing was exported for {benchmark} under the tag {tag!r}. {near}"
        f"Export first: {_export_command(benchmark, tag)}; where it was exported to another folder, say --outputs DIR."
    )


def _export_command(benchmark: str, tag: str) -> str:
    return f"python -m benchkit.export --conf NAME {shlex.join(['--benchmark', benchmark, '--tag', tag])}"


def read_exported(folder: Path, benchmark: str, tag: str) -> dict[str, Any]:
    """The record of a finished export.

    Raises:
        UsageError: the export has not finished.
        RunError: predictions or targets are missing or not those of the record.
    """
    record = read_record(folder)
    command = _export_command(benchmark, tag)
    if record is None:
        raise UsageError(f"{folder} holds no finished export: run it to its end with {command}")
    odd = matches(folder, record, ("predictions.h5", "targets.h5"))
    if odd:
        raise RunError(
            f"{folder / odd} is missing or not the file that record.json speaks of. Delete it if it is there, and "
            f"make it again: {command}"
        )
    return {**record, "tag": tag}  # a folder that was copied under another name goes by that name


def refuse_clash(folder: Path, summaries: Mapping[str, Any], log: Mapping[str, float]) -> None:
    """Raises UsageError when the head logs something under a score's name."""
    odd = sorted(summaries.keys() & log.keys())
    if odd:
        raise UsageError(
            f"{folder}: the head logs {odd[0]!r}, which is a score's name: one would hide the other. Rename it in the "
            "head's log (train_...) and export again."
        )


def check_files(folder: Path, record: Mapping[str, Any], predicted: Table, true: Table) -> None:
    """Raises RunError unless both tables are the record's own and hold the same items."""
    for table in (predicted, true):
        if table_hash(table) != record["files"][table.path.name]["content"]:
            raise RunError(
                f"{table.path} is not the file that record.json speaks of: its content differs. Delete it and "
                "export again; the bank is reused."
            )
    if set(predicted.names) != set(true.names):
        odd = sorted(set(predicted.names) ^ set(true.names))
        raise RunError(
            f"{folder}: predictions and targets hold different items ({odd[0]!r} is in one only). Export again."
        )


def check_fields(folder: Path, family: Benchmark, predicted: Table) -> None:
    """Raises UsageError when a field that the family scores was not predicted."""
    absent = [field for field in family.needs if field not in predicted]
    if absent:
        there = ", ".join(predicted.columns)
        raise UsageError(
            f"{folder / 'predictions.h5'} has no {absent[0]!r}, which this benchmark scores; it has {there}. The head "
            "does not fit the benchmark: export with another model.head.name."
        )
