"""The elements of a MATLAB 5 file, looked over before SciPy reads them: its C code believes what tags say.

Layout (MathWorks, MAT-File Format): 128 bytes of header, then elements: type and size, 4 bytes each, and the data, filled up to
8 bytes (not where it is compressed); up to 4 bytes of data may stand in the tag itself, behind 2 bytes each of type and size. An
element miMATRIX is made of elements.
"""

from __future__ import annotations

import zlib
from typing import Literal

MOST_INFLATED, INFLATED = 64 << 20, 100  # bytes that a file may inflate to, and so many times its own
DEEPEST = 64  # cells and structures within each other
_MATRIX, _COMPRESSED = 14, 15
_TYPES = {*range(1, 8), 9, *range(12, 19)}  # miINT8 to miUTF32
_HEADER = 128


def refuse_unsound(data: bytes) -> None:
    """See that all elements have a type that there is and lie within what they are part of; other versions are left alone.

    Raises:
        ValueError: one has not; or the file inflates to far more than it is; or elements lie too deep in each other.
    """
    if len(data) < _HEADER or 0 in data[:4]:  # MATLAB 4
        return
    order: Literal["little", "big"] = "little" if data[126:128] == b"IM" else "big"
    left, place = MOST_INFLATED + INFLATED * len(data), _HEADER
    while place + 8 <= len(data):
        kind, size = (int.from_bytes(data[place + k : place + k + 4], order) for k in (0, 4))
        if kind == _COMPRESSED:
            inner = _inflated(data[place + 8 : place + 8 + size], left)
            left -= len(inner)
            _walk(memoryview(inner), order, DEEPEST)
        elif kind == _MATRIX:
            _walk(memoryview(data)[place : place + 8 + size], order, DEEPEST)
        place += 8 + size


def _inflated(packed: bytes, most: int) -> bytearray:
    inflating = zlib.decompressobj()
    found = bytearray()
    while packed and not inflating.eof:
        found += inflating.decompress(packed, 1 << 20)
        packed = inflating.unconsumed_tail
        if len(found) > most:
            raise ValueError(f"it inflates to more than {most:,} bytes")
    return found


def _walk(data: memoryview, order: Literal["little", "big"], deepest: int) -> None:
    """Every element of some bytes, and those within it."""
    if not deepest:
        raise ValueError(f"its cells lie more than {DEEPEST} deep in each other")
    place = 0
    while place < len(data):
        kind, size = (int.from_bytes(data[place + k : place + k + 4], order) for k in (0, 4))
        begin, small = place + 8, kind >> 16
        if small:  # the data are in the tag
            kind, size, begin = kind & 0xFFFF, small, place + 4
        if kind not in _TYPES or kind == _COMPRESSED or (small and size > 4):
            raise ValueError(f"an element is of type {kind} and {size} bytes, which there is not")
        if begin + size > len(data):
            raise ValueError(f"an element of {size:,} bytes ends behind what it is part of")
        if kind == _MATRIX:
            _walk(data[begin : begin + size], order, deepest - 1)
        place = place + 8 if small else begin + -(-size // 8) * 8
