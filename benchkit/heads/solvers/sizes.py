"""Sizes of memory as text. Needs no torch: settings are checked by it."""

from __future__ import annotations

import re

_UNITS = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def read_bytes(text: int | str) -> int:
    """Bytes of a size such as 300MB, 4GB, 512MiB or a plain number.

    Raises:
        ValueError: it is no size.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmg]?i?b?)\s*", str(text), re.IGNORECASE)
    unit = found[2].lower() if found else "?"
    unit = unit if unit in _UNITS else unit + "b"
    if not found or unit not in _UNITS:
        raise ValueError(f"max_memory is a number of bytes such as 300MB, 4GB or 512MiB, not {text!r}")
    return int(float(found[1]) * _UNITS[unit])
