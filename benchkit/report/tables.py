"""Tables of a page: boards, and all benchmarks by tag as a heat map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from benchkit.report import numbers
from benchkit.report.markup import Markup, element, joined

if TYPE_CHECKING:
    from benchkit.boards import Board, Row

Looks = Mapping[str, Mapping[str, str]]
WIDE = 120  # units of the little picture of an interval


def scrolled(table: Markup) -> Markup:
    """A table in a box of its own: on a narrow screen it scrolls, and the page does not."""
    return element("div", table, class_="scroll", tabindex=0)


def table(header: Sequence[Markup], rows: Iterable[Sequence[Markup]], **attributes: str) -> Markup:
    """A table of cells."""
    body = [element("tr", *row) for row in rows]
    return scrolled(element("table", element("thead", element("tr", *header)), element("tbody", *body), **attributes))


def head(text: str, *, numeric: bool = False, told: str | None = None) -> Markup:
    """A column's name, which sorts the table by it."""
    button = element("button", text, type="button", title=told)
    return element("th", button, scope="col", class_="number" if numeric else None)


def cell(text: str, value: float | None = None, *, numeric: bool = True, class_: str = "") -> Markup:
    """A cell; `value` is what its column is sorted by, its text otherwise."""
    said = f"{'number ' if numeric else ''}{class_}".strip()
    return element("td", text, class_=said or None, data_value=None if value is None else repr(float(value)))


def named(tag: str, looks: Looks) -> Markup:
    """The first cell of a row: a tag with its colour."""
    return element("th", swatch(looks[tag]["colour"]), tag, scope="row")


def swatch(colour: str) -> Markup:
    """A dot of a tag's colour."""
    return element("i", class_="swatch", style=f"background:{colour}", aria_hidden="true")


def board_table(board: Board, looks: Looks) -> Markup:
    """A board with intervals, floors, costs and marks."""
    direction = {"higher": "higher is better", "lower": "lower is better"}.get(board.better, "")
    metric = f"{board.metric} ({board.unit})" if board.unit else board.metric
    ceilings = any(row.ceiling is not None for row in board.rows)
    header = [
        head("tag"), head("place", numeric=True), head(metric, numeric=True, told=direction),
        head("95 % interval", numeric=True), element("th", "", class_="drawn"), head("floor", numeric=True),
        *[head("ceiling", numeric=True)] * ceilings, head("parameters", numeric=True), head("images/s", numeric=True),
        head("per item", numeric=True, told="bytes of features on disk"), head("head"), head("marks"),
    ]  # fmt: skip
    ends = _span(board.rows)
    return table(header, [_board_row(row, looks, ceilings, ends) for row in board.rows], class_="board sortable")


def _board_row(row: Row, looks: Looks, ceilings: bool, ends: tuple[float, float]) -> list[Markup]:
    marks = [element("span", mark, class_="mark") for mark in row.marks]
    return [
        named(row.tag, looks),
        cell(row.place, row.first or None),
        cell(numbers.score(row.value), row.value, class_="main"),
        cell(numbers.interval(row.low, row.high), row.low, class_="faint"),
        element("td", _interval(row, ends, looks[row.tag]["colour"]), class_="drawn"),
        cell(numbers.score(row.floor), row.floor),
        *[cell(numbers.score(row.ceiling), row.ceiling)] * ceilings,
        cell(numbers.amount(row.params), row.params),
        cell(numbers.amount(row.images_per_s), row.images_per_s),
        cell(numbers.amount(row.bytes_per_item, "B"), row.bytes_per_item),
        cell(row.head, numeric=False),
        element("td", *marks, class_="marks"),
    ]


def _span(rows: Sequence[Row]) -> tuple[float, float]:
    """From the lowest to the highest of all numbers that a board's intervals show."""
    known = [x for row in rows for x in (row.value, row.low, row.high, row.floor) if x is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    return low, high if high > low else low + 1


def _interval(row: Row, ends: tuple[float, float], colour: str) -> Markup | None:
    """A line from low to high with a dot at the value and a stroke at the floor, on the board's common scale."""
    if row.value is None:
        return None

    def at(value: float) -> str:
        return f"{4 + (WIDE - 8) * (value - ends[0]) / (ends[1] - ends[0]):.1f}"

    low, high = (row.value if end is None else end for end in (row.low, row.high))
    parts = [
        element("line", x1=at(low), x2=at(high), y1=8, y2=8, stroke=colour, stroke_width=3, stroke_linecap="round")
    ]
    parts += [element("circle", cx=at(row.value), cy=8, r=4, fill=colour)]
    if row.floor is not None:
        parts += [element("line", x1=at(row.floor), x2=at(row.floor), y1=1, y2=15, class_="floor")]
    return element("svg", *parts, viewBox=f"0 0 {WIDE} 16", width=WIDE, height=16, aria_hidden="true")


def heat_map(boards: Sequence[Board], tags: Sequence[str], looks: Looks) -> Markup:
    """Headline of every tag on every board, coloured from the floor (or the worst) to the best of its row."""
    header = [element("th", "benchmark", scope="col")]
    header += [
        element("th", element("span", swatch(looks[tag]["colour"]), tag), scope="col", class_="upright") for tag in tags
    ]
    rows = [_heat_row(board, tags) for board in boards if board.rows]
    return table(header, rows, class_="heat")


def _heat_row(board: Board, tags: Sequence[str]) -> list[Markup]:
    by_tag = {row.tag: row for row in board.rows}
    number = f" (board {board.number})" if board.protocol else ""
    arrow = {"higher": " \N{UPWARDS ARROW}", "lower": " \N{DOWNWARDS ARROW}"}.get(board.better, "")
    name = element("th", f"{board.benchmark}{number}", element("small", board.metric + arrow), scope="row")
    shares = _shares(board)
    cells = []
    for tag in tags:
        row = by_tag.get(tag)
        if row is None:
            cells.append(element("td", class_="number none"))
            continue
        share = shares.get(tag)
        style = None if share is None else f"--share:{100 * share:.0f}%"
        best = "number best" if share == 1 else "number"
        cells.append(element("td", numbers.score(row.value)[:6], class_=best, style=style))
    return [name, *cells]


def _shares(board: Board) -> dict[str, float]:
    """Where each tag's value lies between the floor, or the worst, and the best: 0 to 1."""
    sign = -1 if board.better == "lower" else 1
    values = {row.tag: sign * row.value for row in board.rows if row.value is not None}
    floors = [sign * row.floor for row in board.rows if row.floor is not None]
    if not values or board.better == "neither":
        return {}
    best = max(values.values())
    worst = min([*floors, *values.values()]) if len(values) > 1 or floors else best
    return {tag: 1.0 if best == worst else max(0.0, (value - worst) / (best - worst)) for tag, value in values.items()}


def apart_list(apart: Mapping[str, str]) -> Markup | None:
    """Tags on no board, and why."""
    if not apart:
        return None
    lines = [element("li", element("b", tag), f": {why}") for tag, why in apart.items()]
    return element("div", element("p", "Not ranked:"), element("ul", *lines), class_="apart")


def protocol_line(board: Board) -> Markup | None:
    """In what a board differs from the benchmark's others."""
    if not board.protocol:
        return None
    said = ", ".join(f"{field} {value}" for field, value in board.protocol.items())
    return joined(element("p", f"Board {board.number}: {said}", class_="faint"))
