"""Parts of a bank that are damaged: their whole rows are written anew, and they themselves are kept under another name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.errors import RunError
from benchkit.store import columns as layout
from benchkit.store.checking import folder_hash
from benchkit.store.columns import Column, Ragged, Rows
from benchkit.store.files import changing
from benchkit.store.table import Table, write_table

DAMAGED = ".damaged"  # ends the names of files that were moved aside


def move_aside(file: Path) -> Path:
    """Give a damaged file a name under which nobody reads it; returns the name.

    Raises:
        RunError: it cannot be renamed.
    """
    number, target = 1, file.with_name(file.name + DAMAGED)
    while target.exists() or target.is_symlink():
        number += 1
        target = file.with_name(f"{file.name}{DAMAGED}-{number}")
    with changing(file):
        os.rename(file, target)
    return target


def salvage(part: Path) -> tuple[int, int]:
    """Write the rows of a damaged part that are whole in every column as another part beside it.

    The name of the new part follows from that of the old: done twice, it is one part.

    Returns:
        How many rows were kept, and how many there were; (0, 0) where the part does not tell what it holds.

    Raises:
        RunError: the new part cannot be written.
    """
    try:
        table = Table(part, "bank")
    except RunError:
        return 0, 0
    with table:
        rows, meta = _whole_rows(table)
        if rows:
            columns = {column: _chosen(table, column, rows) for column in table.columns}
            write_table(_successor(part), "bank", [table.names[row] for row in rows], columns, meta=meta)
        return len(rows), len(table.names)


def _whole_rows(table: Table) -> tuple[list[int], dict[str, Any]]:
    try:
        meta = table.meta
    except RunError:
        return [], {}
    if not str(meta.get("identity_hash")).startswith(folder_hash(table.path.parent)):
        return [], {}  # of another bank: a row of it has no place here
    good = np.ones(len(table.names), bool)
    for column in table.columns:
        good &= _whole(table, column)
    return np.flatnonzero(good).tolist(), meta


def _successor(part: Path) -> Path:
    return part.with_name(f"part-{hashlib.sha256(part.name.encode()).hexdigest()[:32]}.h5")


def _whole(table: Table, column: str) -> np.ndarray:
    """Which rows of a column are undamaged, bool (N,)."""
    try:
        table.verify(column)
        return np.ones(len(table.names), bool)
    except RunError:
        return np.array([_is_whole(table, column, row) for row in range(len(table.names))], bool)


def _is_whole(table: Table, column: str, row: int) -> bool:
    try:
        table.item(column, row)
        return True
    except RunError:
        return False


def _chosen(table: Table, column: str, rows: Sequence[int]) -> Column:
    """Some rows of a column, read when they are written."""
    dtype, shape = table.dtype(column), table.shape(column)
    if layout.is_text(dtype):
        return [str(table.item(column, row)) for row in rows]
    if shape is not None:
        return Rows(dtype, shape, (np.asarray(table.item(column, row))[None] for row in rows))
    shapes = table.shapes(column)
    return Ragged(dtype, len(shapes[0]), _each(table, column, rows), [shapes[row] for row in rows])


def _each(table: Table, column: str, rows: Sequence[int]) -> Callable[[], Iterator[np.ndarray]]:
    return lambda: (table.item(column, row) for row in rows)
