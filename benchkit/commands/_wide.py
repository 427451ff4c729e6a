"""One table of all benchmarks, as papers have it: tags down, benchmarks or metrics across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchkit.boards.grid import Column, grid_of
from benchkit.commands._boards import print_remarks
from benchkit.commands._columns import MOST, difference, shown, titled
from benchkit.commands._tables import digits, render
from benchkit.errors import printable

if TYPE_CHECKING:
    from benchkit.boards import Board

BOLD = ("markdown", "latex")  # formats in which cells stand out
OTHER = " †"  # marks a column whose scores follow different protocols, and in it those off the first board


def print_wide(
    boards: Sequence[Board], metrics: Sequence[str], style: str, percent: bool, baseline: str | None
) -> None:
    """Print the table; see `print_boards`.

    In Markdown and LaTeX the best of a column whose scores may be compared is bold, of a headline all that share the first
    place.
    """
    grid = grid_of(boards, metrics)
    several = len({column.benchmark for column in grid.columns}) > 1
    of = "difference of " if baseline and style == "csv" else ""  # a program does not read the remarks
    header = ["tag", *(of + _title(column, percent, several) for column in grid.columns)]
    rows = [
        [printable(tag, MOST), *(_cell(column, tag, style, percent, baseline) for column in grid.columns)]
        for tag in grid.tags
    ]
    best = [column.best() for column in grid.columns]
    bold = {(row, 1 + place) for row, tag in enumerate(grid.tags) for place, tags in enumerate(best) if tag in tags}
    print(
        render(header, rows, style, numeric=header[1:], bold=bold, rules=True), end="\n\n" if style != "csv" else "\n"
    )
    print_remarks(_remarks(boards, grid.columns, several, baseline, style), style)


def _title(column: Column, percent: bool, several: bool) -> str:
    name = titled(column.metric, {"unit": column.unit, "better": column.better}, percent)
    mark = OTHER if column.mixed else ""
    return (f"{column.benchmark} {name}" if several else name) + mark


def _cell(column: Column, tag: str, style: str, percent: bool, baseline: str | None) -> str:
    row = column.rows.get(tag)
    if row is None:
        return ""
    found = row.differences.get(column.metric)
    if style == "csv" and baseline:  # the baseline's own row is empty: a column holds numbers of one kind
        return digits(None if found is None else found.value)
    if style == "csv":
        return digits(column.value(tag))
    mark = "" if tag in column.first else OTHER
    if baseline is None or tag == baseline:
        return shown(column.value(tag), row.scores[column.metric], percent) + mark
    return ("n/a" if found is None else difference(row, column.metric, percent)) + mark


def _remarks(
    boards: Sequence[Board], columns: Sequence[Column], several: bool, baseline: str | None, style: str
) -> list[str]:
    said = [] if several else [f"benchmark {columns[0].benchmark}"]
    if any(column.mixed for column in columns):
        said.append(
            "†: a column whose scores follow different protocols, and in it those that are not of the first board: not to be "
            "compared. Without --wide there is a board for each protocol."
        )
    if baseline:
        own = (
            "whose row is empty" if style == "csv" else "whose row holds its scores; *: p < .05 after Holm's correction"
        )
        said.append(f"differences to {printable(baseline, MOST)}, {own}")
    if style in BOLD and any(column.best() for column in columns):
        said.append("bold: the best of a column; of a benchmark's first metric all that are not significantly worse")
    generated = [board.benchmark for board in boards if any("generated images" in row.marks for row in board.rows)]
    return said + ([f"generated images: {', '.join(dict.fromkeys(generated))}"] if generated else [])
