"""Text and JSON that a stranger may have written: finite numbers, each key once, no deeper than anything here is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchkit.errors import UsageError

DEPTH = 64  # levels of lists and objects
LARGEST = 64 << 20  # bytes of a record, or of summaries: parsed, JSON takes some twenty times its length


def read(path: Path, largest: int = LARGEST) -> Any:
    """What a JSON file says.

    Raises:
        OSError: it cannot be read.
        ValueError: it is larger than `largest` bytes, or as by `parse`.
    """
    size = path.stat().st_size
    if size > largest:
        raise ValueError(f"it has {size:,} bytes, more than {largest:,}")
    return parse(path.read_bytes().decode("utf-8-sig"))


def read_lines(path: Path) -> list[tuple[int, str]]:
    """(line number, text) of every line that holds something; line ends of any system, no byte order mark.

    Raises:
        UsageError: the file cannot be read, or is not UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8.") from error
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def parse(text: str | bytes) -> Any:
    """What JSON text says.

    Raises:
        ValueError: it is none; a number is not finite or has thousands of digits; an object names a key twice; or lists and
            objects lie deeper than DEPTH in each other.
    """
    try:
        value = json.loads(text, parse_constant=_refused, parse_float=_finite, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [value]
    for _ in range(DEPTH):
        level = [each for above in level for each in (above.values() if isinstance(above, dict) else above)
                 if isinstance(each, dict | list)] if isinstance(value, dict | list) else []  # fmt: skip
        if not level:
            return value
    raise ValueError("it is nested too deeply")


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large a number")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object names a key twice")
    return found
