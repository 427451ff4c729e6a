"""What changed between two confs, field by field, as far as it can change a result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchkit.conf.build import Conf
from benchkit.conf.schema import hints, nested
from benchkit.provenance.identity import canonical

ABSENT = "(not there)"


@dataclasses.dataclass(frozen=True)
class Difference:
    """One field by its dotted key; a side without the field has ABSENT."""

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.key} was {self.old}, now {self.new}"


def counts(conf: Conf) -> Callable[[str], bool]:
    """Whether the field of a dotted key is part of the identity: not below a field with `identity=False`."""
    parts = {"data": conf.data, "model.backbone": conf.backbone, "model.head": conf.head}
    types = {place: type(part.settings) for place, part in parts.items()}
    return counts_of({**types, "model": type(conf.model), "eval": type(conf.eval)})


def counts_of(sections: Mapping[str, type]) -> Callable[[str], bool]:
    """`counts` from the settings classes by dotted place, for one section alone."""
    ignored = {key for place, settings in sections.items() for key in _ignored(settings, place)}
    return lambda key: not any(key == each or key.startswith(each + ".") for each in ignored)


def identity_view(conf: Conf) -> dict[str, Any]:
    """The plain conf without fields that cannot change a result; whole floats are ints, so that 1 equals 1.0."""
    return canonical(_view(conf.plain(), "", counts(conf)))


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], identity: Callable[[str], bool] = lambda key: True
) -> list[Difference]:
    """The fields in which two plain confs differ, in the order of `new`, then what only `old` has.

    Args:
        old: sections as `Conf.plain()` gives them, or one section.
        new: the same.
        identity: whether a dotted key counts (`counts`).
    """
    before, after = dict(_flat(old, "")), dict(_flat(new, ""))
    found = []
    for key in dict.fromkeys([*after, *before]):
        values = before.get(key, ABSENT), after.get(key, ABSENT)
        if identity(key) and not same(*values):
            found.append(Difference(key, *values))
    return found


def same(left: Any, right: Any) -> bool:
    """Equality of plain values: 1 equals 1.0 and a tuple a list, but no number equals true or false."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same(*pair) for pair in zip(left, right, strict=True))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def describe(found: Sequence[Difference], flag: str) -> str:
    """One paragraph: what differs from the conf that the files were made from, and the flag that replaces them."""
    changed = "; ".join(map(str, found))
    if flag.lstrip("-") == "overwrite_eval":
        return (
            f"the scores of this tag were made with other settings: {changed}. Give --overwrite_eval to replace them."
        )
    return (
        f"the files of this tag were made from another conf: {changed}. Give --{flag.lstrip('-')} (from Python "
        f"{flag.lstrip('-')}=True) to replace them, or another --tag to keep both."
    )


def _ignored(settings: type, place: str) -> Iterator[str]:
    types = hints(settings)
    for field in dataclasses.fields(settings):
        inner = nested(types.get(field.name))
        if not field.metadata.get("identity", True):
            yield f"{place}.{field.name}"
        elif inner:
            yield from _ignored(inner, f"{place}.{field.name}")


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _view(value: Any, place: str, counted: Callable[[str], bool]) -> Any:
    if isinstance(value, Mapping):
        below = {key: f"{place}.{key}" if place else key for key in value}
        return {key: _view(each, below[key], counted) for key, each in value.items() if counted(below[key])}
    return value
