"""Text becomes a value by the type of the setting it is for, never by what it looks like.

YAML and the command line hand over text (`Plain`). For a `str` setting `0123`, `1e3` and `no` stay what was typed; for
a `float` setting `1e-3` is a number, which YAML 1.1 denies. OmegaConf's structured configs are not used for this step:
version 2.4.0 reads `yes`, `off` and `1` as booleans, `True` as a string, and resolves `${oc.env:HOME}` in any string.
"""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union

_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INFINITE = re.compile(r"([+-]?)\.?inf")
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path"}


class Plain(str):
    """Text that nobody quoted: an argument's value or a plain YAML scalar."""

    __slots__ = ()


def read_as(hint: Any, value: Any) -> Any:
    """`value` as the type `hint`; native values must already be of the type (an int may stand for a float).

    Raises:
        ValueError: the value is of another type; says what is expected.
    """
    if hint is Any:
        return read_any(value)
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _union(args, value)
    if value is None:
        raise ValueError(f"{expected(hint)} is expected, not nothing")
    if origin is Literal:
        return _choice({str(choice): choice for choice in args}, value)
    if origin in _READERS:
        return _READERS[origin](args, value)
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return _choice({member.name: member for member in origin} | {m: m for m in origin}, value)
    if isinstance(origin, type) and isinstance(value, origin):
        return value
    raise ValueError(f"{expected(hint)} is expected, not {shown(value)}")


def read_any(value: Any) -> Any:
    """A value for a setting of any type: null, true, false, numbers and lists are recognised, the rest is text."""
    if isinstance(value, Mapping):
        return {str(key): read_any(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [read_any(each) for each in value]
    if not isinstance(value, Plain):
        return value
    if is_null(value):
        return None
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if _WHOLE.fullmatch(value) and not re.match(r"[+-]?0\d", value):
        return int(value)
    if _NUMBER.fullmatch(value) and not re.match(r"[+-]?0\d", value):
        return float(value)
    if value.startswith("[") or "," in value:
        return [read_any(each) for each in _elements(value)]
    return str(value)


def is_null(value: Any) -> bool:
    """Whether the value says "nothing": None, or null, none or ~ as unquoted text."""
    return value is None or (isinstance(value, Plain) and value.lower() in ("null", "none", "~"))


def expected(hint: Any) -> str:
    """The type in words, for messages."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if each is type(None) else expected(each) for each in args)
    if origin is Literal:
        return "one of " + ", ".join(map(str, args))
    if origin in (list, tuple, Sequence):
        inner = {expected(each) for each in args if each is not Ellipsis}
        return f"a list ({', '.join(sorted(inner))})"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return "one of " + ", ".join(member.name for member in hint)
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))


def shown(value: Any) -> str:
    """The value as the user wrote it, quoted where it was quoted."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(str(value)) if isinstance(value, str) else repr(value)


def _union(args: tuple[Any, ...], value: Any) -> Any:
    if type(None) in args and is_null(value):
        return None
    members = sorted((each for each in args if each is not type(None)), key=lambda each: each is str)  # text last
    for member in members:
        try:
            return read_as(member, value)
        except ValueError:
            if len(members) == 1:
                raise
    raise ValueError(f"{expected(Union[tuple(args)])} is expected, not {shown(value)}")  # noqa: UP007


def _choice(choices: Mapping[Any, Any], value: Any) -> Any:
    key = str(value) if isinstance(value, str) and not isinstance(value, enum.Enum) else value
    if isinstance(key, Hashable) and key in choices:
        return choices[key]
    if any(key == choice and type(key) is type(choice) for choice in choices.values()):
        return key
    names = ", ".join(str(name) for name in choices if isinstance(name, str) and not isinstance(name, enum.Enum))
    raise ValueError(f"one of {names} is expected, not {shown(value)}")


def _bool(_: Any, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Plain) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError(f"true or false is expected, not {shown(value)}")


def _int(_: Any, value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, Plain) and _WHOLE.fullmatch(value):
        return int(value)
    raise ValueError(f"a whole number is expected, not {shown(value)}")


def _float(_: Any, value: Any) -> float:
    if type(value) in (int, float) and value == value:
        return float(value)
    if isinstance(value, Plain) and _NUMBER.fullmatch(value):
        return float(value)
    if isinstance(value, Plain) and (infinite := _INFINITE.fullmatch(value.lower())):
        return float(infinite.group(1) + "inf")
    raise ValueError(f"a number is expected, not {shown(value)}")


def _str(_: Any, value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise ValueError(f"text is expected, not {shown(value)}")


def _path(_: Any, value: Any) -> Path:
    if isinstance(value, Path):
        return value
    return Path(_str(_, value))


def _elements(text: str) -> list[Plain]:
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    return [Plain(each.strip()) for each in inner.split(",")] if inner.strip() else []


def _sequence(value: Any) -> list[Any]:
    if isinstance(value, Plain):
        return list(_elements(value))
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return list(value)
    raise ValueError(f"a list is expected, not {shown(value)}")


def _list(args: tuple[Any, ...], value: Any) -> list[Any]:
    member = args[0] if args else Any
    return [read_as(member, each) for each in _sequence(value)]


def _tuple(args: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    values = _sequence(value)
    if not args or args[-1] is Ellipsis:
        return tuple(_list(args[:1], values))
    if len(args) != len(values):
        raise ValueError(f"{len(args)} values are expected, not {len(values)}")
    return tuple(read_as(member, each) for member, each in zip(args, values, strict=True))


def _dict(args: tuple[Any, ...], value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"keys with values are expected, not {shown(value)}")
    key_type, value_type = args or (Any, Any)
    return {read_as(key_type, Plain(key)): read_as(value_type, each) for key, each in value.items()}


_READERS: dict[Any, Any] = {
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
    Path: _path,
    list: _list,
    Sequence: _list,
    tuple: _tuple,
    dict: _dict,
    Mapping: _dict,
}
