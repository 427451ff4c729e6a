"""Lists that come with data sets: text of a line per entry, whatever editor saved it."""

from __future__ import annotations

from pathlib import Path

from benchkit.errors import UsageError
from benchkit.provenance.strict import read_lines


def read_pairs(path: Path) -> dict[str, str]:
    """First word -> the rest of its line; where a line has a tab, what stands before it -> what stands behind.

    Raises:
        UsageError: as `read_lines`; a line of one word; a first word twice.
    """
    pairs: dict[str, str] = {}
    seen: dict[str, int] = {}
    for number, line in read_lines(path):
        key, _, value = line.partition("\t") if "\t" in line else line.partition(" ")
        if not value.strip():
            raise UsageError(f"{path}:{number}: two columns are expected, not {line!r}.")
        refuse_twice(path, number, key, seen)
        pairs[key.strip()] = value.strip()
    return pairs


def refuse_twice(path: Path, number: int, name: str, seen: dict[str, int]) -> None:
    """Note the line of a name in `seen`.

    Raises:
        UsageError: it has been named before; says both lines.
    """
    first = seen.setdefault(name, number)
    if first != number:
        raise UsageError(f"{path}:{number}: {name!r} is listed a second time, first in line {first}. Drop one.")
