"""Tables that come with data sets: text with a header and cells between commas, whatever program saved it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from benchkit.errors import UsageError


def read_table(path: Path, required: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """(line number, cell by column) of every row; line ends of any system, no byte order mark, no blank lines.

    Cells are stripped of white space; quoted ones may hold commas. Semicolons and tabs between cells are read too, as the
    header has them. A row's number is that of its last line.

    Raises:
        UsageError: the file cannot be read or is not UTF-8; a column is missing or named twice; a row is too short or long.
    """
    rows = [(number, row) for number, row in _rows(path) if any(row)]
    if not rows:
        raise UsageError(f"{path} is empty: a line that names the columns is due ({', '.join(required)}).")
    (first, header), *rest = rows
    missing = [name for name in required if name not in header]
    twice = [name for name in header if header.count(name) > 1]
    if missing or twice:
        what = f"has no column {missing[0]!r}" if missing else f"has the column {twice[0]!r} twice"
        raise UsageError(f"{path}:{first}: the header {what}; it has {', '.join(header)}.")
    odd = next(((number, len(row)) for number, row in rest if len(row) != len(header)), None)
    if odd:
        raise UsageError(f"{path}:{odd[0]}: {odd[1]} cells where the header names {len(header)} columns.")
    return [(number, dict(zip(header, row, strict=True))) for number, row in rest]


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
        delimiter = max(",;\t", key=text.lstrip().partition("\n")[0].count)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        return [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8.") from error
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: {error}.") from error
