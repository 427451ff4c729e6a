"""Parts of a folder, opened when they are needed, the longest unused ones closed again."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from benchkit.errors import RunError
from benchkit.store.table import Table

OPEN = 64  # handles kept open at a time: macOS allows a process 256


class OpenParts:
    """Tables of kind `bank` and of one backbone identity in one folder, by file name."""

    def __init__(self, folder: Path, identity_hash: str) -> None:
        self.folder, self.identity_hash = folder, identity_hash
        self._open: OrderedDict[str, Table] = OrderedDict()
        self._light: dict[str, Table] = {}

    def reading(self, part: str, column: str) -> Table:
        """The part, for reading rows of one column.

        Parts that were open once are not opened again: items in random order, of more parts than are kept open, would cost
        milliseconds each.

        Raises:
            RunError: as by `[]`.
        """
        light = self._light.get(part)
        if light is not None and light.reads(column):
            return light
        if len(self._open) >= OPEN and part not in self._open:
            name, table = self._open.popitem(last=False)
            table.detach()
            self._light[name] = table
        return self[part]

    def __getitem__(self, part: str) -> Table:
        """The part, open.

        Raises:
            RunError: it is missing, damaged, or of another identity.
        """
        if part in self._open:
            self._open.move_to_end(part)
            return self._open[part]
        table = Table(self.folder / part, "bank")
        if table.meta.get("identity_hash") != self.identity_hash:
            table.close()
            raise RunError(
                f"{table.path} belongs to another model or preprocessing than the files beside it. Move it away and "
                "export again."
            )
        self._open[part] = table
        if len(self._open) > OPEN:
            self._open.popitem(last=False)[1].close()
        return table

    def close(self) -> None:
        """Close every part."""
        for table in (*self._open.values(), *self._light.values()):
            table.close()
        self._open.clear()
        self._light.clear()
