"""Settings as lines of a help page."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchkit.conf.build import plain
from benchkit.conf.schema import help_of, hints, nested

REQUIRED = "(required)"


def describe_settings(settings: type, prefix: str) -> list[tuple[str, Any, str]]:
    """(dotted key, default as plain value or REQUIRED, help) of every setting, in order.

    The help may contain %: whoever hands it to argparse as `help=` doubles it.
    """
    lines: list[tuple[str, Any, str]] = []
    types = hints(settings)
    for field in dataclasses.fields(settings):
        if not field.init:
            continue
        key, inner = f"{prefix}.{field.name}" if prefix else field.name, nested(types[field.name])
        if inner:
            lines += describe_settings(inner, key)
        else:
            lines.append((key, _default(field), help_of(field)))
    return lines


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return plain(field.default_factory())
    return REQUIRED if field.default is dataclasses.MISSING else plain(field.default)
