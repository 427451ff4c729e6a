"""Scored tags in any number: one real export of a colour histogram, and copies of it whose predictions were changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.eval import evaluate
from benchkit.experiments.experiment import Experiment
from benchkit.export import export
from benchkit.provenance.record import describe_file, read_record, sealed
from benchkit.store.content import file_hash
from benchkit.store.files import write_json
from benchkit.store.outputs import Outputs
from benchkit.store.table import Table, write_table

Columns = dict[str, Any]


def exported(outputs: Path, benchmark: str = "classification", tag: str = "first", *arguments: str) -> Experiment:
    """A tag of `color_histogram` on small generated scenes, exported and scored."""
    given = [*arguments, "data.n_train=48", "data.n_test=24", "data.side=32"]
    (end,) = export("color_histogram", benchmark, tag=tag, arguments=given, outputs=outputs, say=lambda text: None)
    if isinstance(end, Exception):
        raise end
    evaluate(benchmark, tag, outputs=outputs)
    return Experiment(Outputs(outputs).tag(benchmark, tag))


def another(
    first: Experiment, tag: str, change: Callable[[Columns], Mapping[str, Any]] = dict, **about: Any
) -> Experiment:
    """The same experiment under another tag, with other predictions, scored anew.

    Args:
        first: what is copied.
        tag: of the copy; any folder name, also one that `check_tag` refuses.
        change: from the columns of predictions.h5 (arrays, or lists where shapes vary) to those of the copy.
        about: keys of record.json that are replaced.
    """
    folder = first.folder.parent / "being-made"
    shutil.copytree(first.folder, folder)
    with Table(folder / "predictions.h5", "predictions") as table:
        names, meta = table.names, table.meta
        columns = {column: table.read(column) for column in table.columns}
        whole = {name: table.read_whole(name) for name in table.whole}
    path = folder / "predictions.h5"
    write_table(path, "predictions", names, dict(change(columns)), whole, meta)
    record = read_record(folder)
    assert record is not None
    files = {**record["files"], path.name: describe_file(path, file_hash(path))}
    for name in ("results.h5", "summaries.json"):
        files.pop(name)
        (folder / name).unlink()
    write_json(folder / "record.json", sealed({**record, **about, "tag": tag, "files": files, "scores": None}))
    evaluate(first.benchmark, folder.name, outputs=first.folder.parents[2])
    return Experiment(folder.rename(folder.with_name(tag)))  # renamed last: eval refuses a hostile name


def noisy(amount: float, seed: int = 0, column: str = "scores") -> Callable[[Columns], Mapping[str, Any]]:
    """Adds Gaussian noise to one column of fixed shape."""

    def change(columns: Columns) -> Columns:
        values = np.asarray(columns[column])
        noise = np.random.default_rng(seed).normal(0, amount * values.std(), values.shape)
        return {**columns, column: (values + noise).astype(values.dtype)}

    return change
