"""Content hashes: equal numbers give equal hashes, however they were computed, split into parts, or named on disk."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from pathlib import Path

import h5py
import numpy as np

from benchkit.store import columns as layout
from benchkit.store.table import Table

Entry = tuple[str, list[str], str, list[str], np.ndarray]  # dataset path, item names, dtype, shapes, row checksums


def table_hash(table: Table) -> str:
    """sha256 over the entries of one table, sorted by dataset path and item name."""
    return entries_hash(table_entries(table))


def file_hash(path: Path, kind: str | None = None) -> str:
    """Content hash of a sealed table file; reads checksums, not values."""
    with Table(path, kind) as table:
        return table_hash(table)


def table_entries(table: Table) -> list[Entry]:
    """What a table adds to a content hash: every column, every whole array and the meta text."""
    found = [_column_entry(table, column) for column in table.columns]
    for path in [*(f"whole/{w}" for w in table.whole), "meta"]:
        node = table.node(path)
        found.append((path, [""], node.dtype.str, [str(node.shape[1:])], table.sums(path)))
    return found


def _column_entry(table: Table, column: str) -> Entry:
    node = table.node(column)
    if isinstance(node, h5py.Dataset):
        # text is stored at the length of the longest, which depends on the other items: not a property of one item
        dtype, shape = ("text", "()") if layout.is_text(node.dtype) else (node.dtype.str, str(node.shape[1:]))
        sums = _text_sums(table, column) if dtype == "text" else table.sums(column)
        return column, table.names, dtype, [shape] * len(table.names), sums
    shapes = [str(tuple(int(n) for n in shape)) for shape in node["shapes"][:]]
    return column, table.names, node["values"].dtype.str, shapes, table.sums(column)


def _text_sums(table: Table, column: str) -> np.ndarray:
    return np.array([zlib.crc32(text.encode()) for text in table.read(column)], dtype=np.uint32)


def entries_hash(entries: Iterable[Entry], prefix: str = "") -> str:
    """sha256 over entries in the order (dataset path, item name)."""
    digest = hashlib.sha256()
    for path, names, dtype, shapes, sums in sorted(entries, key=lambda e: e[0]):
        order = sorted(range(len(names)), key=names.__getitem__)
        lines = (f"{prefix}{path}\0{names[i]}\0{dtype}\0{shapes[i]}\0{sums[i]}\n" for i in order)
        digest.update("".join(lines).encode())
    return digest.hexdigest()
