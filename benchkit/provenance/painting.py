"""The identity that Painting Vision 1.0 gives a split, whoever holds the frames."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

PREFIX = "pv1:"
Line = tuple[str, str, str, str, str]  # file, sha256 of the image, sha256 of the mask, split, wall_id


def painting_id(lines: Iterable[Line]) -> str:
    """`pv1:` and the sha256 over the sorted lines of a split: five fields with a tab between them, a line end behind."""
    text = "".join("\t".join(line) + "\n" for line in sorted(lines))
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()
