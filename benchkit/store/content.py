"""Content hashes: equal numbers give equal hashes, however they were computed, split into parts, or named on disk."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchkit.store import columns as layout
from benchkit.store.crc import of_end
from benchkit.store.features import TagFeatures
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
    if layout.is_text(table.dtype(column)):
        # text is stored at the length of the longest, which depends on the other items: not a property of one item
        return column, table.names, "text", ["()"] * len(table.names), _text_sums(table, column)
    return column, table.names, table.dtype(column).str, _shape_texts(table, column), table.sums(column)


def _shape_texts(table: Table, column: str) -> list[str]:
    shapes = table.shapes(column)
    texts = {shape: str(shape) for shape in set(shapes)}
    return [texts[shape] for shape in shapes]


def _text_sums(table: Table, column: str) -> np.ndarray:
    return np.array([zlib.crc32(text.encode()) for text in table.read(column)], dtype=np.uint32)


def features_hash(features: TagFeatures) -> str:
    """sha256 over the feature values and images of every view: the same whether they lie in features.h5 or in parts."""
    table = features.table
    inline = [c for c in table.columns if c.startswith("features/")]
    entries = [_column_entry(table, c) for c in ("image", *inline)]
    entries += [_indexed_entry(features, key) for key in features.meta["keys"] if f"index/{key}" in table]
    return entries_hash(entries)


def _indexed_entry(features: TagFeatures, key: str) -> Entry:
    names, column = features.table.names, f"features/{key}"
    sums, shapes, dtype = np.zeros(len(names), np.uint32), ["()"] * len(names), ""
    for part, positions, rows in features.places(key, range(len(names))):
        dtype, of_part = part.dtype(column).str, _shape_texts(part, column)
        for position, row in zip(positions, rows, strict=True):
            shapes[position] = of_part[row]
        ragged = part.shape(column) is None
        sums[positions] = _value_sums(part, column, rows) if ragged else part.sums(column)[rows]
    return column, names, dtype, shapes, sums


def _value_sums(part: Table, column: str, rows: Sequence[int]) -> np.ndarray:
    """Checksums as rows of a fixed shape would have them: whether a part needed CSR depends on its other images.

    The values are not read again: they were summed behind their shape.
    """
    known, room, item = part.shapes(column), part.path.stat().st_size, part.dtype(column).itemsize
    shapes = [known[row] for row in rows]
    lengths = [item * math.prod(shape) for shape in shapes]
    for row, shape, length in zip(rows, shapes, lengths, strict=True):
        if length > room or min(shape, default=0) < 0:
            part.item(column, row)  # says that its shape is damaged
    begin = [zlib.crc32(np.array(shape, np.int64).data) for shape in shapes]
    return of_end(part.sums(column)[list(rows)], np.array(begin, np.uint32), np.array(lengths, np.int64))


def entries_hash(entries: Iterable[Entry]) -> str:
    """sha256 over entries in the order (dataset path, item name)."""
    digest = hashlib.sha256()
    orders: dict[
        int, tuple[list[int], list[str]]
    ] = {}  # by list of names, which most entries share: their order, and they in it
    for path, names, dtype, shapes, sums in sorted(entries, key=lambda e: e[0]):
        if id(names) not in orders:
            order = sorted(range(len(names)), key=names.__getitem__)
            orders[id(names)] = order, [names[i] for i in order]
        order, ordered = orders[id(names)]
        before, between, values = f"{path}\0", f"\0{dtype}\0", sums[order].tolist()
        rows = zip(ordered, [shapes[i] for i in order], values, strict=True)
        digest.update("".join([f"{before}{name}{between}{shape}\0{value}\n" for name, shape, value in rows]).encode())
    return digest.hexdigest()
