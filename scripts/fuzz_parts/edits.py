"""What is done to a file: a few edits, each at a place that is a share of its length, so that a smaller file still has them."""

from __future__ import annotations

import random
from collections.abc import Sequence

Edit = tuple[str, float, bytes, int]  # kind, place (0 to 1), bytes, count

WORDS = (
    b"\x00", b"\xff" * 4, b"\xff" * 8, b"\x7f" + b"\xff" * 3, (2**31 - 1).to_bytes(4, "little"),
    (2**63 - 1).to_bytes(8, "little"), b"1e999", b"NaN", b"-1", b"9" * 40, b"../", b"/etc/passwd", b"\r\n", b"\n", b",", b'"',
    b"[" * 2000, b'{"a":' * 200, b"&a *a", b"\xed\xa0\x80", b"\xe9", b"null", b"{}", b"[]", b"os.system", b"${oc.env:HOME}",
    b"!!python/object:os.system", b"0",
)  # fmt: skip
KINDS = ("flip", "put", "insert", "delete", "repeat", "cut", "swap")


def drawn(rng: random.Random) -> list[Edit]:
    """One to four edits."""
    return [
        (rng.choice(KINDS), rng.random(), rng.choice(WORDS) if rng.random() < 0.6 else rng.randbytes(rng.randint(1, 8)),
         rng.choice((1, 1, 2, 4, 8, 16, 64, 512)))
        for _ in range(rng.choice((1, 1, 2, 4)))
    ]  # fmt: skip


def edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """The file after the edits."""
    for kind, share, word, count in edits:
        data = _edited(data, kind, int(share * len(data)), word, count)
    return data


def _edited(data: bytes, kind: str, at: int, word: bytes, count: int) -> bytes:
    head, tail = data[:at], data[at:]
    if kind == "flip":
        return head + bytes([tail[0] ^ (1 << count % 8)]) + tail[1:] if tail else data
    changed = {
        "put": word + tail[len(word) :],
        "insert": word + tail,
        "delete": tail[count:],
        "repeat": tail[:count] * 2 + tail[count:],
        "cut": b"",
        "swap": tail[count : 2 * count] + tail[:count] + tail[2 * count :],
    }
    return head + changed[kind]
