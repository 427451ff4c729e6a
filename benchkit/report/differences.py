"""Paired differences of a board's tags to one of them, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchkit.compare.numbers import probability
from benchkit.report import numbers, tables
from benchkit.report.markup import Markup, element

if TYPE_CHECKING:
    from benchkit.boards import Board, Row
    from benchkit.compare.differences import Difference


def compared(board: Board, tag: str | None, looks: tables.Looks) -> Markup | None:
    """Each other tag's headline minus the one's of `tag`, where it is on the board, else of the best; None for one tag."""
    from benchkit.boards.baseline import with_differences

    baseline = _baseline(board, tag)
    if baseline is None or len(board.rows) < 2:
        return None
    (told,) = with_differences([board], baseline.tag)
    found = {row.tag: row.differences[board.metric] for row in told.rows if row.differences}
    return _table(board, baseline, found, looks)


def _baseline(board: Board, tag: str | None) -> Row | None:
    valued = [row for row in board.rows if row.value is not None]
    return next((row for row in valued if row.tag == tag), valued[0] if valued else None)


def _table(board: Board, baseline: Row, found: dict[str, Difference], looks: tables.Looks) -> Markup:
    header = [
        tables.head("tag"), tables.head(f"{board.metric} difference", numeric=True),
        tables.head("95 % interval", numeric=True), tables.head("p", numeric=True, told="paired permutation, two-sided"),
        tables.head("p (Holm)", numeric=True, told="corrected for all rows of this table"),
        tables.head("items", numeric=True), tables.head("verdict"),
    ]  # fmt: skip
    rows = [_row(tag, each, looks) for tag, each in found.items()]
    score = f" ({numbers.score(baseline.value)}), over the items that both have."
    said = ["Score minus that of ", tables.swatch(looks[baseline.tag]), element("b", baseline.tag), score]
    shown = tables.table(header, rows, class_="sortable")
    return element("div", tables.protocol_line(board), element("p", *said, class_="caption"), shown)


def _row(tag: str, found: Difference, looks: tables.Looks) -> list[Markup]:
    adjusted = found.p if found.adjusted is None else found.adjusted
    left_out = f" ({found.n_undefined} left out)" if found.n_undefined else ""
    return [
        tables.named(tag, looks),
        tables.cell(numbers.signed(found.value), found.value, class_="main"),
        tables.cell(numbers.interval(found.low, found.high, numbers.signed), found.low, class_="faint"),
        tables.cell(probability(found.p), found.p),
        tables.cell(probability(adjusted), adjusted),
        tables.cell(f"{found.n_items:,}{left_out}", found.n_items),
        tables.cell(_verdict(found), numeric=False),
    ]


def _verdict(found: Difference) -> str:
    if found.p is None:
        return "not tested"
    if not found.significant:
        return "no significant difference"
    return {"second": "better", "first": "worse"}.get(found.winner, "different")
