"""crc32 of the end of some bytes, from the crc32 of all of them and that of their beginning: no byte is read again.

crc32 is linear: appending n bytes multiplies what was there by x^(8n) in the field of its polynomial (as zlib's
crc32_combine does), whatever the bytes are.
"""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np

TABLE = np.array([zlib.crc32(bytes([255 - octet])) for octet in range(256)], np.uint32) ^ np.uint32(0xFF000000)
"""What an octet at the lowest place becomes when a byte is appended, uint32 (256,)."""


def of_end(whole: np.ndarray, begin: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """crc32 of the last bytes of texts, uint32 (N,).

    Args:
        whole: crc32 of each text.
        begin: crc32 of what stands before its last bytes.
        lengths: how many bytes the last ones are.
    """
    moved, left, power = np.array(begin, np.uint32), np.array(lengths, np.int64), 0
    while left.any():
        odd = np.flatnonzero(left & 1)
        moved[odd] = _times(_table(power), moved[odd])
        left, power = left >> 1, power + 1
    return moved ^ np.asarray(whole, np.uint32)


def _times(table: np.ndarray, sums: np.ndarray) -> np.ndarray:
    products = [table[place][sums >> (8 * place) & 0xFF] for place in range(4)]
    return products[0] ^ products[1] ^ products[2] ^ products[3]


@cache
def _table(power: int) -> np.ndarray:
    """Products of each octet at each of the four places with 2**power bytes, uint32 (4, 256)."""
    octets = np.stack([np.arange(256, dtype=np.uint32) << np.uint32(8 * place) for place in range(4)])
    if power == 0:
        return TABLE[octets & 0xFF] ^ (octets >> 8)
    half = _table(power - 1)
    return _times(half, _times(half, octets))
