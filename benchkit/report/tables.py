"""Tables of a page: boards, and all benchmarks by tag as a heat map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from benchkit.compare.numbers import amount
from benchkit.report import numbers
from benchkit.report.markup import Markup, element, joined

if TYPE_CHECKING:
    from benchkit.boards import Board, Row
    from benchkit.boards.grid import Column

Look = Mapping[str, str]
Looks = Mapping[str, Look]
ARROWS = {"higher": " \N{UPWARDS ARROW}", "lower": " \N{DOWNWARDS ARROW}"}  # which way is better
SPEED = "as exported: one machine, its load that day"  # what images/s are
WIDE = 130  # units of the little picture of an interval


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
    return element("th", tagged(tag, looks[tag]), scope="row")


def tagged(tag: str, look: Look) -> Markup:
    """A tag beside its marker."""
    return element("span", swatch(look), element("span", tag), class_="tag")


def swatch(look: Look) -> Markup:
    """The marker of a tag in plots, in its colour."""
    style = f"background:{look['colour']}"
    return element("i", class_=f"swatch {look['marker']}", style=style, aria_hidden="true")


def shortened(text: str, most: int = 34) -> str:
    """A long name without its middle: beginnings and ends tell names apart."""
    ends = most - 1
    return text if len(text) <= most else f"{text[: -(-ends // 2)]}\N{HORIZONTAL ELLIPSIS}{text[-(ends // 2) :]}"


def board_table(board: Board, looks: Looks) -> Markup:
    """A board with intervals, floors, costs and marks."""
    direction = {"higher": "higher is better", "lower": "lower is better"}.get(board.better, "")
    metric = f"{board.metric} ({board.unit})" if board.unit else board.metric
    ceilings = any(row.ceiling is not None for row in board.rows)
    header = [
        head("tag"), head("place", numeric=True), head(metric, numeric=True, told=direction),
        head("95 % interval", numeric=True), _drawn_head(), head("floor", numeric=True),
        *[head("ceiling", numeric=True)] * ceilings, head("parameters", numeric=True),
        head("images/s", numeric=True, told=f"forward, {SPEED}"),
        head("per item", numeric=True, told="bytes of features on disk"), head("head"), head("marks"),
    ]  # fmt: skip
    ends, shared = _span(board.rows), shared_marks(board)
    return table(
        header, [_board_row(row, looks, ceilings, ends, shared) for row in board.rows], class_="board sortable"
    )


def _drawn_head() -> Markup:
    said = "dot: score, line: 95 % interval, dotted: floor"
    return element("th", "drawn", scope="col", class_="drawn", title=said)


def shared_marks(board: Board) -> list[str]:
    """Marks of every one of several rows: they are said once, above the table."""
    first, *others = board.rows or (None,)
    return [each for each in first.marks if all(each in row.marks for row in others)] if first and others else []


def mark(text: str) -> Markup:
    """What a reader has to know beside a number."""
    return element("span", text, class_="mark")


def _board_row(
    row: Row, looks: Looks, ceilings: bool, ends: tuple[float, float], shared: Sequence[str]
) -> list[Markup]:
    return [
        named(row.tag, looks),
        cell(row.place, row.first or None),
        cell(numbers.score(row.value), row.value, class_="main"),
        cell(numbers.interval(row.low, row.high), row.low, class_="faint"),
        element("td", _interval(row, ends, looks[row.tag]["colour"]), class_="drawn"),
        cell(numbers.score(row.floor), row.floor),
        *[cell(numbers.score(row.ceiling), row.ceiling)] * ceilings,
        cell(amount(row.params), row.params),
        cell(amount(row.images_per_s), row.images_per_s),
        cell(amount(row.bytes_per_item, "B"), row.bytes_per_item),
        cell(row.head, numeric=False),
        element("td", *map(mark, (each for each in row.marks if each not in shared)), class_="marks"),
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
        element("line", x1=at(low), x2=at(high), y1=8, y2=8, stroke=colour, stroke_width=2, stroke_linecap="round")
    ]
    parts += [element("circle", cx=at(row.value), cy=8, r="3.2", fill=colour)]
    if row.floor is not None:
        parts += [element("line", x1=at(row.floor), x2=at(row.floor), y1=1, y2=15, class_="floor")]
    return element("svg", *parts, viewBox=f"0 0 {WIDE} 16", width=WIDE, height=16, aria_hidden="true")


def heat_map(boards: Sequence[Board], looks: Looks) -> Markup:
    """Headline of every tag on every benchmark, coloured from the floor (or the worst) to the best of its row."""
    from benchkit.boards.grid import grid_of

    grid = grid_of(boards)
    header = [element("th", "benchmark", scope="col")]
    for tag in grid.tags:
        name = element("span", swatch(looks[tag]), shortened(tag))
        header.append(element("th", name, scope="col", class_="upright", title=tag))
    return table(header, [_heat_row(column, grid.tags) for column in grid.columns], class_="heat")


def _heat_row(column: Column, tags: Sequence[str]) -> list[Markup]:
    arrow = ARROWS.get(column.better, "")
    name = element("th", column.benchmark, element("small", column.metric + arrow), scope="row")
    shares, best = column.positions(), column.best()
    cells = [name]
    for tag in tags:
        style = f"--share:{100 * shares[tag]:.0f}%" if tag in shares else None
        marks = {"best": tag in best, "other": tag in column.rows and tag not in column.first}
        classes = " ".join(["number", *(mark for mark, holds in marks.items() if holds)])
        text = numbers.score(column.value(tag)) if tag in column.rows else ""
        told = "another protocol: not to be compared" if marks["other"] else None
        cells.append(element("td", text, class_=classes, style=style, title=told))
    return cells


def told_of(said: str, tags: Mapping[str, str]) -> Markup | None:
    """Tags and why something is so of each, under a line; nothing without any."""
    if not tags:
        return None
    lines = [element("li", element("b", tag), f": {why}") for tag, why in tags.items()]
    return element("div", element("p", said), element("ul", *lines), class_="apart")


def protocol_line(board: Board) -> Markup | None:
    """In what a board differs from the benchmark's others."""
    from benchkit.boards.grouping import told

    if not board.protocol:
        return None
    said = ", ".join(f"{field} {told(value)}" for field, value in board.protocol.items())
    return joined(element("p", f"Board {board.number}: {said}", class_="faint"))
