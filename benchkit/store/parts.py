"""Parts of a folder, opened when they are needed, the longest unused ones closed again."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from benchkit.store.table import Table

OPEN = 64  # handles kept open at a time: macOS allows a process 256


class OpenParts:
    """Tables of kind `bank` in one folder, by file name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: OrderedDict[str, Table] = OrderedDict()

    def __getitem__(self, part: str) -> Table:
        """The part, open.

        Raises:
            RunError: it is missing or damaged.
        """
        if part in self._open:
            self._open.move_to_end(part)
            return self._open[part]
        table = Table(self.folder / part, "bank")
        self._open[part] = table
        if len(self._open) > OPEN:
            self._open.popitem(last=False)[1].close()
        return table

    def close(self) -> None:
        """Close every part."""
        for table in self._open.values():
            table.close()
        self._open.clear()
