"""Options of several estimators from one mapping: each goes to every one that knows it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from benchkit import registry
from benchkit.conf.schema import hints
from benchkit.conf.values import Plain, read_as
from benchkit.errors import UsageError
from benchkit.estimators.base import Estimator


def read_options(names: Sequence[str], given: Mapping[str, str]) -> dict[str, Any]:
    """The settings of the estimators called `names`, with every option of `given` that they know.

    Raises:
        UsageError: there is no estimator of a name, none of them knows an option, or a value is wrong for one that does.
    """
    types = {name: registry.find("estimators", name).settings for name in names}
    known = {name: hints(settings) for name, settings in types.items()}
    for key in given:
        if not any(key in each for each in known.values()):
            raise UsageError(_unknown(key, known))
    return {name: _settings(name, types[name], known[name], given) for name in names}


def build_all(names: Sequence[str], given: Mapping[str, str]) -> dict[str, Estimator]:
    """The estimators by the names they are asked for by, with these options.

    Raises:
        UsageError: as `read_options`; or a library is not installed.
    """
    return {
        name: registry.made(registry.find("estimators", name), each)
        for name, each in read_options(names, given).items()
    }


def _settings(name: str, settings: type, known: Mapping[str, Any], given: Mapping[str, str]) -> Any:
    values = {}
    for key in (key for key in given if key in known):
        text = given[key]
        try:
            values[key] = read_as(known[key], Plain(text) if isinstance(text, str) else text)
        except ValueError as error:
            raise UsageError(f"eval.options.{key} (of the estimator {name}): {error}.") from None
    try:
        return settings(**values)
    except ValueError as error:
        raise UsageError(f"eval.options (of the estimator {name}): {error}.") from None


def _unknown(key: str, known: Mapping[str, Mapping[str, Any]]) -> str:
    there = sorted({each for options in known.values() for each in options})
    near = difflib.get_close_matches(key, there, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    others = [name for name in registry.names("estimators") if key in hints(registry.find("estimators", name).settings)]
    owner = f"it is an option of {' and '.join(others)}; " if others else ""
    return (
        f"eval.options.{key} is no option of {' or '.join(known)}: {hint}{owner}"
        f"there {'are ' + ', '.join(there) if there else 'is none'}."
    )
