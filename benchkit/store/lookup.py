"""Rows of many parts found by name: a few arrays sorted by what the names stand for, and no object for each of millions."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence

import numpy as np

DIGEST = 32  # bytes of a sha256


def digests(names: Sequence[str]) -> np.ndarray:
    """uint8 (N, 32): the bytes of every name that is a sha256 in hexadecimal, the sha256 of any other."""
    joined = "".join(names)
    if set(map(len, names)) <= {2 * DIGEST} and (found := _from_hex(joined)) is not None:
        return np.frombuffer(found, np.uint8).reshape(len(names), DIGEST)
    each = [(_from_hex(n) if len(n) == 2 * DIGEST else None) or hashlib.sha256(n.encode()).digest() for n in names]
    return np.frombuffer(b"".join(each), np.uint8).reshape(len(names), DIGEST)


def _from_hex(text: str) -> bytes | None:
    """The bytes; None of what is no lower-case hexadecimal, of which each text stands for other bytes."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        return None
    return found if found.hex() == text else None


def hexadecimal(found: np.ndarray) -> list[str]:
    """Digests uint8 (N, 32) as text."""
    joined = found.tobytes().hex()
    return [joined[at : at + 2 * DIGEST] for at in range(0, len(joined), 2 * DIGEST)]


def keys(found: np.ndarray) -> np.ndarray:
    """uint64 (N,): the first bytes of digests, in the digests' order; equal of unequal digests once in 10^19 pairs."""
    return np.ascontiguousarray(found[:, :8]).view(">u8").reshape(-1).astype(np.uint64)


class Lookup:
    """Rows by digest, sorted; those of one digest in the order of their parts' numbers.

    Args:
        digests: uint8 (N, 32).
        parts: int32 (N,), number of the part.
        rows: int32 (N,), row in it.
    """

    def __init__(self, digests: np.ndarray, parts: np.ndarray, rows: np.ndarray) -> None:
        order = _order(digests, parts)
        self.digests, self.parts, self.rows = digests[order], parts[order], rows[order]
        self._keys = keys(self.digests)

    def renumbered(self, moved: np.ndarray) -> Lookup:
        """The same rows where a part has another number, in the same order: int32 by number."""
        twin = copy.copy(self)
        twin.parts = moved[self.parts]
        return twin

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """Where the first row of each digest is, int64 (M,); -1 of those without any."""
        if not len(self):
            return np.full(len(wanted), -1, np.int64)
        sought = keys(wanted)
        found = np.searchsorted(self._keys, sought)
        while True:  # beyond other digests of the same key
            at = np.minimum(found, len(self) - 1)
            alike = (found < len(self)) & (self._keys[at] == sought)
            same = alike & (self.digests[at] == wanted).all(axis=1)
            if (same == alike).all():
                return np.where(same, found, -1)
            found = found + (alike & ~same)

    def repeats(self) -> np.ndarray:
        """Where rows of one digest begin and end, int64 (M, 2), of every digest that several rows have."""
        equal = np.zeros(len(self) + 1, bool)  # row and row before
        alike = (self._keys[1:] == self._keys[:-1]).nonzero()[0] + 1
        equal[alike[(self.digests[alike] == self.digests[alike - 1]).all(axis=1)]] = True
        starts = (~equal[:-1] & equal[1:]).nonzero()[0]
        stops = (equal[:-1] & ~equal[1:]).nonzero()[0] + 1
        return np.stack([starts, stops], axis=1)


def merged(lookups: Sequence[Lookup]) -> Lookup:
    """The rows of all."""
    if len(lookups) == 1:
        return lookups[0]
    each = [np.concatenate([getattr(lookup, name) for lookup in lookups]) for name in ("digests", "parts", "rows")]
    return Lookup(*each)


def _order(digests: np.ndarray, parts: np.ndarray) -> np.ndarray:
    by_part = np.argsort(parts, kind="stable") if (np.diff(parts) < 0).any() else np.arange(len(parts))
    first = keys(digests[by_part])
    order = np.argsort(first, kind="stable")
    sorted_keys, ordered = first[order], by_part[order]
    alike = (sorted_keys[1:] == sorted_keys[:-1]).nonzero()[0]
    if (digests[ordered[alike]] == digests[ordered[alike + 1]]).all():
        return ordered
    words = np.ascontiguousarray(digests[by_part]).view(">u8")
    return by_part[np.lexsort(words.T[::-1])]
