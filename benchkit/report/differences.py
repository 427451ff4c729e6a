"""Paired differences of a board's tags to one of them, as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchkit.report import numbers, tables
from benchkit.report.markup import Markup, element

if TYPE_CHECKING:
    from benchkit.boards import Board, Row
    from benchkit.compare.differences import Difference


def baseline_of(board: Board, tag: str | None) -> Row | None:
    """The row that others are compared with: the one asked for, where it is on the board, else the best."""
    valued = [row for row in board.rows if row.value is not None]
    return next((row for row in valued if row.tag == tag), valued[0] if valued else None)


def differences_of(board: Board, baseline: Row, told: Callable[[], None]) -> dict[str, Difference]:
    """Difference of each other tag's headline to the baseline's, with Holm's correction for all of them; `told` after each."""
    from benchkit.compare.differences import adjusted, difference

    found = {}
    for row in board.rows:
        if row.tag != baseline.tag:
            found[row.tag] = difference(baseline.experiment, row.experiment, board.metric)
            told()
    return dict(zip(found, adjusted(list(found.values())), strict=True))


def differences_table(board: Board, baseline: Row, found: dict[str, Difference], looks: tables.Looks) -> Markup:
    """What `differences_of` found."""
    header = [
        tables.head("tag"), tables.head(f"{board.metric} difference", numeric=True),
        tables.head("95 % interval", numeric=True), tables.head("p", numeric=True, told="paired permutation, two-sided"),
        tables.head("p (Holm)", numeric=True, told="corrected for all rows of this table"),
        tables.head("items", numeric=True), tables.head("verdict"),
    ]  # fmt: skip
    rows = [_row(tag, each, looks) for tag, each in found.items()]
    caption = element("p", "Score minus that of ", tables.swatch(looks[baseline.tag]["colour"]), element("b", baseline.tag),
                      f" ({numbers.score(baseline.value)}), over the items that both have.", class_="caption")  # fmt: skip
    return element("div", caption, tables.table(header, rows, class_="sortable"))


def _row(tag: str, found: Difference, looks: tables.Looks) -> list[Markup]:
    adjusted = found.p if found.adjusted is None else found.adjusted
    left_out = f" ({found.n_undefined} left out)" if found.n_undefined else ""
    return [
        tables.named(tag, looks),
        tables.cell(numbers.signed(found.value), found.value, class_="main"),
        tables.cell(numbers.interval(found.low, found.high, numbers.signed), found.low, class_="faint"),
        tables.cell(numbers.probability(found.p), found.p),
        tables.cell(numbers.probability(adjusted), adjusted),
        tables.cell(f"{found.n_items:,}{left_out}", found.n_items),
        tables.cell(_verdict(found), numeric=False),
    ]


def _verdict(found: Difference) -> str:
    if not found.significant:
        return "no significant difference"
    return {"second": "better", "first": "worse"}.get(found.winner, "different")
