"""What a record must look like: its seal says that nobody changed it by accident, not that benchkit wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST = 1000  # characters of a name
NUMBERS = 1e300  # no number of a record is beyond


class Each:
    """An object with any keys, each value of one shape."""

    def __init__(self, shape: Any, plain: bool = False) -> None:
        self.shape, self.plain = shape, plain


class Optional:
    """A key that may be absent, or null."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


class Texts(list):
    """A list of names."""


class Name(str):
    """Text that is printed and compared: not too long."""


_NUMBER = (int, float)
_OPTIONAL = (int, float, type(None))
_SCORE = {"value": _OPTIONAL, "interval": (list, type(None)), "floor": _OPTIONAL, "better": Name,
          "undefined": int, "ceiling": Optional(_NUMBER), "unit": Optional(Name)}  # fmt: skip
RECORD: Mapping[str, Any] = {
    "benchkit": Name, "benchmark": Name, "family": Name, "level": Name, "tag": Name, "created": Name,
    "conf": {"data": {"name": Name}, "model": {"backbone": {"name": Name}, "head": {"name": Name}}, "eval": dict},
    "about": {"pretrained_on": Optional(Texts)},
    "protocol": dict,
    "data": {
        "dataset_id": Name, "generated": bool, "split": Name, "n_items": int, "skipped": (dict, list), "overlaps": Texts,
        "trained_on_evaluated": bool, "untrained_classes": Texts, "truth": Optional(dict),
        "duplicates": {"across_splits": int, "two_labels": int},
    },
    "backbone": {"name": Name, "weights": Name, "identity": {"preprocess": dict}, "identity_hash": Name},
    "head": {"name": Name, "log": Each(_NUMBER)},
    "flagged": Optional({"items": Optional(dict), "scores_without": Optional(Each((int, float, type(None))))}),
    "inputs": dict,
    "timings": Each(_NUMBER),
    "files": Each({"sha256": Name, "bytes": int}, plain=True),
}  # fmt: skip
SCORES = Each(_SCORE)


def is_below(name: str) -> bool:
    """Whether a name is a path that stays below a folder, as it stands there."""
    parts = name.split("/")
    return not any(part in ("", ".", "..") for part in parts) and not any(sign in name for sign in "\\\0:")


def check(record: Any) -> None:
    """See that a record has what every record has, in the types that it has there.

    Raises:
        ValueError: it has not; says where.
    """
    _check(record, RECORD, "")
    if record.get("scores") is not None:
        _check(record["scores"], SCORES, "scores")
        if not record["scores"]:
            raise ValueError("its scores are none")
        for name, score in record["scores"].items():
            ends = score["interval"]
            if ends is not None and not (len(ends) == 2 and all(_is(end, _NUMBER) for end in ends)):
                raise ValueError(f"scores.{name[:40]}.interval is no pair of numbers")


def _check(value: Any, shape: Any, where: str) -> None:
    if isinstance(shape, Each | Mapping):
        if not isinstance(value, Mapping):
            raise ValueError(f"{where or 'it'} is no object")
        _check_keys(value, shape, where)
    elif not _is(value, shape):
        raise ValueError(f"{where} is {type(value).__name__}, which it cannot be, or too long")


def _check_keys(value: Mapping[str, Any], shape: Each | Mapping[str, Any], where: str) -> None:
    if isinstance(shape, Each):
        for key, each in value.items():
            if len(key) > LONGEST or (shape.plain and not is_below(key)):
                raise ValueError(f"{where} names {key[:40]!r}, which is no file below its folder")
            _check(each, shape.shape, f"{where}.{key[:40]}")
        return
    for key, inner in shape.items():
        if isinstance(inner, Optional):
            if value.get(key) is None:
                continue
            inner = inner.shape
        if key not in value:
            raise ValueError(f"{where or 'it'} has no {key}")
        _check(value[key], inner, f"{where}.{key}".lstrip("."))


def _is(value: Any, kinds: Any) -> bool:
    if kinds is Texts:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if kinds is Name:
        return isinstance(value, str) and len(value) <= LONGEST
    if isinstance(value, bool):
        return kinds is bool
    if not isinstance(value, kinds):
        return False
    return not isinstance(value, int | float) or abs(value) < NUMBERS  # false for NaN too
