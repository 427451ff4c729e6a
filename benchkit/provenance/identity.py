"""Identities: of a data set, of a backbone, of a protocol. Equal identities mean comparable numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

_LINES = 1 << 14  # are text at a time
Line = tuple[str, str, str, str]  # item name, group, split, sha256 of image and target files joined


def dataset_id(lines: Iterable[Line]) -> str:
    """sha256 over the sorted (item name, group, split, content) of an evaluated or train split."""
    digest, ordered = hashlib.sha256(), sorted(lines)
    for start in range(0, len(ordered), _LINES):
        digest.update("".join(["\0".join(line) + "\n" for line in ordered[start : start + _LINES]]).encode())
    return digest.hexdigest()


def canonical(value: Any) -> Any:
    """Plain values in which 1 and 1.0 are one number and tuples are lists."""
    if isinstance(value, Mapping):
        return {str(key): canonical(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def identity_hash(value: Any) -> str:
    """sha256 of plain values in canonical JSON."""
    text = json.dumps(canonical(value), sort_keys=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def unequal_fields(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Keys in which two fingerprints differ, in name order, those of a section as section.key: why scores are not comparable."""
    found = []
    for key in sorted(first.keys() | second.keys()):
        one, other = first.get(key), second.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += [f"{key}.{below}" for below in unequal_fields(one, other)]
        elif canonical(one) != canonical(other):
            found.append(key)
    return found
