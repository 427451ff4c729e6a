"""One experiment: what lies in the folder of a scored tag, read when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.conf.build import recorded_settings
from benchkit.errors import RunError, UsageError, printable
from benchkit.eval._checks import refuse_absent
from benchkit.provenance.identity import unequal_fields
from benchkit.provenance.record import read_record, unaltered
from benchkit.registry import find
from benchkit.store.outputs import Outputs, fitting

if TYPE_CHECKING:
    from benchkit.eval.base import Benchmark, Columns, Metric

SCORES = "results.h5"
WITHOUT_ITEMS = ("stats/", "pictures/", "category/")  # columns that are no score of an item


def family_of(record: Mapping[str, Any]) -> Benchmark:
    """The family of a tag with the settings that it was scored with."""
    component = find("eval", record["family"])
    family: Benchmark = component.build(recorded_settings(component, record))
    return family


def ranked_by(record: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields of a record's protocol that have to agree where scores are compared (`Benchmark.comparable`)."""
    wanted = find("eval", record["family"]).build.comparable
    protocol = record["protocol"]
    return dict(protocol) if wanted is None else {key: protocol[key] for key in wanted}


class Experiment:
    """A scored tag.

    Its results.h5 is read whole once, to see that it is the one whose scores the record holds: they may have been exchanged.

    Args:
        folder: of the tag; it may lie anywhere.
        benchmark: name of the instance that it has to be of; None: whichever.

    Attributes:
        record: record.json.
        family: its benchmark's, with the settings it was scored with.

    Raises:
        UsageError: it is not scored.
        RunError: a file is missing or damaged, or it belongs to another tag or benchmark.
    """

    def __init__(self, folder: Path, benchmark: str | None = None) -> None:
        self.folder = folder
        record = read_record(folder)
        if record is None or record["scores"] is None:
            raise UsageError(
                f"{folder} is not scored: python -m benchkit.eval {folder.parent.name} --tag {folder.name} makes its scores."
            )
        if benchmark is not None and record["benchmark"] != benchmark:
            raise RunError(
                f"{folder}/record.json is of {printable(record['benchmark'])}, not of {benchmark}: the folder or its record "
                "was copied from there. Delete it and export again; the bank is reused."
            )
        if not unaltered(folder / SCORES, record):
            raise RunError(
                f"{folder / SCORES} is not the file that {folder}/record.json speaks of: one of them is "
                "damaged or another tag's. Run eval again."
            )
        self.record: dict[str, Any] = record
        self.family = family_of(record)

    @property
    def tag(self) -> str:
        """Name of the experiment: a folder copied under another name goes by that one."""
        return self.folder.name

    @property
    def benchmark(self) -> str:
        """Name of the instance."""
        return str(self.record["benchmark"])

    @property
    def names(self) -> list[str]:
        """Items in the order of all columns."""
        return self._read[0]

    @property
    def columns(self) -> Columns:
        """Everything that `Benchmark.summarize` reads: scores of items and statistics, items on the first axis."""
        return self._read[1]

    @property
    def group(self) -> list[str]:
        """What a bootstrap draws, by item; "" for an item that stands alone."""
        return self._read[2].get("group") or [""] * len(self.names)

    @property
    def categories(self) -> dict[str, list[str]]:
        """Labels by item, by name of the category."""
        found = {name.removeprefix("category/"): labels for name, labels in self._read[2].items() if name != "group"}
        return {name: [str(label) for label in labels] for name, labels in found.items()}

    @cached_property
    def item_scores(self) -> dict[str, np.ndarray]:
        """One number of each item, float64 (N,), NaN where it has none, by name of the column; the headline's first."""
        found = {
            name: column.astype(np.float64)
            for name, column in self.columns.items()
            if column.ndim == 1 and column.dtype.kind in "fiub" and not name.startswith(WITHOUT_ITEMS)
        }
        declared = [each.column for each in self.family.metrics() if each.column in found]
        return {name: found[name] for name in dict.fromkeys([*declared, *found])}

    def metric_of(self, column: str) -> Metric | None:
        """The metric that is the mean of a column, if there is one: its direction and unit."""
        return next((each for each in self.family.metrics() if each.column == column), None)

    @cached_property
    def _read(self) -> tuple[list[str], Columns, dict[str, Any]]:
        from benchkit.store.table import Table

        with Table(self.folder / SCORES, "results") as table:
            labels = {c: table.read(c) for c in table.columns if c == "group" or c.startswith("category/")}
            return list(table.names), {c: table.read(c) for c in table.columns if c not in labels}, labels


def open_experiments(outputs: Outputs, benchmark: str, tags: Sequence[str]) -> list[Experiment]:
    """Scored tags of one benchmark in the order asked for; a tag with * stands for all scored ones that fit.

    Raises:
        UsageError: a tag does not exist or is not scored, or nothing fits.
    """
    there = {folder.name: folder for folder in outputs.folders(benchmark)}
    found: dict[Path, Experiment] = {}
    for tag in tags:
        if tag not in there and "*" not in tag:
            refuse_absent(outputs.tag(benchmark, tag), benchmark, tag)
        chosen = [there[each] for each in fitting(there, tag) if tag in there or _is_scored(there[each])]
        if not chosen:
            raise UsageError(f"no scored tag of {benchmark} fits {tag!r}; `benchkit list --tags` shows what there is.")
        found.update({folder: Experiment(folder, benchmark) for folder in chosen if folder not in found})
    return list(found.values())


def unequal(first: Experiment, other: Experiment) -> list[str]:
    """Fields of the protocol in which two experiments differ, and why they cannot be compared; none where they can."""
    return unequal_fields(ranked_by(first.record), ranked_by(other.record))


def _is_scored(folder: Path) -> bool:
    record = read_record(folder)
    return record is not None and record["scores"] is not None
