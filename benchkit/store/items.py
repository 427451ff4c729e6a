"""Named items and their fields, from a table or from memory: what heads learn from and scores read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from benchkit.errors import RunError
from benchkit.store.table import Table


class Items(Protocol):
    """Fields of named items, always in the order of `names`."""

    @property
    def names(self) -> Sequence[str]:
        """Item names."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """What holds for all items: class names, units."""
        ...

    def __contains__(self, field: str) -> bool:
        """Whether the field exists."""
        ...

    def read(self, field: str) -> Any:
        """All rows: array (N, ...), or a list of arrays where shapes vary, or a list of str."""
        ...

    def item(self, field: str, row: int) -> Any:
        """One row."""
        ...


class ArrayItems:
    """Items in memory."""

    def __init__(self, names: Sequence[str], fields: Mapping[str, Any], meta: Mapping[str, Any] | None = None) -> None:
        self.names = list(names)
        self.fields = dict(fields)
        self.meta = dict(meta or {})

    def __contains__(self, field: str) -> bool:
        return field in self.fields

    def read(self, field: str) -> Any:
        """All rows of a field."""
        return self.fields[field]

    def item(self, field: str, row: int) -> Any:
        """One row of a field."""
        return self.fields[field][row]


class TableItems:
    """The rows `names` of an open table, found by name, never by position.

    Raises:
        RunError: the table lacks one of the names.
    """

    def __init__(self, table: Table, names: Sequence[str] | None = None, prefix: str = "") -> None:
        self.table = table
        self.prefix = prefix
        self.names = list(table.names if names is None else names)
        self._rows = [self._position(name) for name in self.names]
        self._whole = self._rows == list(range(len(table.names)))

    def _position(self, name: str) -> int:
        try:
            return self.table.position[name]
        except KeyError:
            raise RunError(f"{self.table.path} has no item {name!r}. Export again to make it.") from None

    @property
    def meta(self) -> Mapping[str, Any]:
        """The table's facts."""
        return self.table.meta

    def __contains__(self, field: str) -> bool:
        return self.prefix + field in self.table

    def read(self, field: str) -> Any:
        """All rows of a field in the order of `names`."""
        column = self.prefix + field
        everything = self.table.read(column)
        if self._whole:
            return everything
        if isinstance(everything, np.ndarray):
            return everything[self._rows]
        return [everything[row] for row in self._rows]

    def item(self, field: str, row: int) -> Any:
        """One row of a field."""
        return self.table.item(self.prefix + field, self._rows[row])
