"""The chosen components' dataclasses are the schema: raw values are read into them, unknown keys are explained."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from benchkit import registry
from benchkit.conf.merge import COMPONENTS, Merged
from benchkit.conf.model import ModelSettings
from benchkit.conf.values import is_null, read_as
from benchkit.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the conf: its dotted place, its dataclass, and the component it belongs to, if any."""

    place: str
    settings: type
    kind: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.place} ({self.name})" if self.name else self.place


def hints(settings: type) -> dict[str, Any]:
    """Types of the settings by field name, in order."""
    if not dataclasses.is_dataclass(settings):
        raise UsageError(f"the Settings of {settings.__module__}.{settings.__qualname__} must be a dataclass.")
    types = typing.get_type_hints(settings)
    return {field.name: types[field.name] for field in dataclasses.fields(settings) if field.init}


def nested(hint: Any) -> type | None:
    """The dataclass that a field holds, or None for a plain value."""
    for each in (hint, *typing.get_args(hint)):
        if isinstance(each, type) and dataclasses.is_dataclass(each):
            return each
    return None


def leaves(settings: type, place: str) -> Iterator[tuple[str, str]]:
    """(section, key) of every setting in a dataclass and the dataclasses in it."""
    for key, hint in hints(settings).items():
        inner = nested(hint)
        if inner:
            yield from leaves(inner, f"{place}.{key}")
        else:
            yield place, key


def fill(section: Section, merged: Merged, schema: list[Section]) -> Any:
    """An instance of the section's dataclass from the merged tree.

    Raises:
        UsageError: an unknown key, a value of another type, or a setting without default that nobody gave.
    """
    component = section.place in COMPONENTS
    if component and "name" in hints(section.settings):
        raise UsageError(f"the Settings of {section.name} have a field `name`, which a conf needs for the component.")
    raw = {key: value for key, value in merged.at(section.place).items() if key != "name" or not component}
    raw = {key: value for key, value in raw.items() if f"{section.place}.{key}" not in COMPONENTS}
    return _fill(section.settings, raw, section.place, section, merged, schema)


def _fill(
    settings: type, raw: Mapping[str, Any], place: str, section: Section, merged: Merged, schema: list[Section]
) -> Any:
    types, values = hints(settings), {}
    for key, value in raw.items():
        where = f"{place}.{key} ({merged.source(f'{place}.{key}')})"
        if key not in types:
            raise UsageError(f"{where}: there is no such key; {_hint(key, place, list(types), section, schema)}.")
        inner = nested(types[key])
        if inner and isinstance(value, Mapping):
            values[key] = _fill(inner, value, f"{place}.{key}", section, merged, schema)
        elif inner and value is None:
            continue  # a section with nothing below it
        elif inner and is_null(value) and type(None) in typing.get_args(types[key]):
            values[key] = None
        elif inner:
            raise UsageError(f"{where}: this is a section with the keys {', '.join(hints(inner))}.")
        else:
            values[key] = _read(types[key], value, where)
    _refuse_missing(settings, values, place, section)
    places = sorted({merged.source(f"{place}.{key}") for key in values})
    return _make(settings, values, f"{place} ({', '.join(places)})" if places else place)


def _read(hint: Any, value: Any, where: str) -> Any:
    try:
        return read_as(hint, value)
    except ValueError as error:
        raise UsageError(f"{where}: {error}.") from None


def _refuse_missing(settings: type, values: Mapping[str, Any], place: str, section: Section) -> None:
    for field in dataclasses.fields(settings):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.init and required and field.name not in values:
            owner = f" by {section.name}" if section.name else ""
            raise UsageError(f"{place}.{field.name} is needed{owner} and nobody sets it: {help_of(field)}.")


def help_of(field: dataclasses.Field[Any]) -> str:
    """The help line of a setting."""
    return str(field.metadata.get("help", "no help is written for it"))


def _make(settings: type, values: dict[str, Any], where: str) -> Any:
    try:
        return settings(**values)
    except (ValueError, UsageError) as error:  # a check of the dataclass's own
        raise UsageError(f"{where}: {str(error).removesuffix('.')}.") from None


def _hint(key: str, place: str, here: list[str], section: Section, schema: list[Section]) -> str:
    chosen = [pair for each in schema for pair in leaves(each.settings, each.place)]
    there = sorted({where for where, name in chosen if name == key})
    if there:
        return f"{key} belongs under {' or '.join(there)}"
    siblings = _siblings(section.kind, key) if place == section.place else []
    if siblings:
        kind = section.kind if len(siblings) > 1 else section.kind.removesuffix("s")
        return f"{key!r} is a setting of the {kind} {', '.join(siblings)}, not of {section.name}"
    here = ["name", *here] if place in COMPONENTS else here
    near = difflib.get_close_matches(key, here, n=1)
    if near:
        return f"did you mean {place}.{near[0]}"
    elsewhere = homes(key)
    if elsewhere:
        return f"{key} belongs under {elsewhere}"
    near = difflib.get_close_matches(key, [name for _, name in chosen], n=1, cutoff=0.75)
    if near:
        return "did you mean " + next(f"{where}.{name}" for where, name in chosen if name == near[0])
    return f"{section} has {', '.join(here) or 'no settings'}"


def homes(key: str) -> str:
    """The sections that know `key`, with the components it is a setting of, in words; empty when there are none."""
    found = sorted({place for place, name in leaves(ModelSettings, "model") if name == key})
    for place, kind in COMPONENTS.items():
        owners = _siblings(kind, key)
        if owners:
            found.append(f"{place} ({', '.join(owners)})")
    return " or ".join(found)


def _siblings(kind: str, key: str) -> list[str]:
    return [name for name in registry.names(kind) if key in _settings_of(kind, name)] if kind in registry.KINDS else []


def _settings_of(kind: str, name: str) -> list[str]:
    try:
        return list(hints(registry.find(kind, name).settings))
    except (ImportError, UsageError):  # a sibling that cannot be imported here has nothing to say
        return []
