"""Settings are dataclass fields that explain themselves: default, a line of help, identity or not."""

from __future__ import annotations

import dataclasses
from typing import Any


def setting(default: Any, help: str, *, identity: bool = True, sweep: str = "") -> Any:
    """A dataclass field with its help text.

    Args:
        default: the value when nobody sets it; lists and dicts are copied per instance.
        help: one line for `--help`: meaning, unit, allowed values.
        identity: False for what cannot change a result (device, num_workers, root); such a field never stops a rerun.
        sweep: of a list of which each value makes a tag of its own: what a tag's name says after the value (`5shot`).
    """
    metadata = {"help": help, "identity": identity, "sweep": sweep}
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)
