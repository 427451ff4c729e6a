"""The page as a whole: its parts in order, as HTML and as data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import groupby
from string import Template
from typing import TYPE_CHECKING, Any

import benchkit
from benchkit.report import figures, numbers, tables
from benchkit.report.embed import data_uri, json_block
from benchkit.report.markup import Markup, element, joined, picture
from benchkit.report.records import path_cut, record_details, without_paths
from benchkit.report.section import items_counted

if TYPE_CHECKING:
    from benchkit.boards import Board
    from benchkit.report.section import Section
    from benchkit.report.whole import Whole

SCRIPTS = ("dom", "data", "tables", "plot", "scatter", "cards", "flips", "costs", "main")
LEVELS = {"high": "High level", "mid": "Mid level", "low": "Low level", "geometry": "Geometry"}
OPENED = 2  # benchmarks that are open at first, where there are no more


def page(body: Markup, data: Markup, title: str) -> str:
    """The whole file. Nothing in it is run but the two scripts that its policy names by their hash."""
    bokeh, script = figures.script(), _script()
    policy = (
        f"default-src 'none'; script-src {_hash(bokeh)} {_hash(script)}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = {"policy": policy, "title": joined(title), "style": _file("report.css"), "body": body}
    return Template(_file("report.html")).substitute(shown, data=data, bokeh=bokeh, script=script)


def _file(name: str) -> str:
    return (resources.files("benchkit.report") / "page" / name).read_text(encoding="utf-8")


def _script() -> str:
    """Our own scripts as one, in a scope of its own."""
    return "(() => {\n'use strict';\n" + "".join(_file(f"{name}.js") for name in SCRIPTS) + "})();"


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def header(sections: Sequence[Section], tags: Sequence[str]) -> Markup:
    """What the page is about, and where its parts are."""
    counts = [
        _count(len(sections), "benchmark"), _count(len(tags), "tag"), _count(items_counted(sections), "item"),
    ]  # fmt: skip
    dates = sorted(each.record["created"][:10] for section in sections for each in section.experiments)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    links = [element("a", section.benchmark, href=f"#b{number}") for number, section in enumerate(sections)]
    parts = [element("a", name, href=f"#{name}") for name in ("boards", "overview", "cost")]
    about = element(
        "p", f"{', '.join(counts)}. Experiments of {when}; benchkit {benchkit.__version__}.", class_="faint"
    )
    return element("header", element("h1", title(sections)), about, element("nav", *parts, *links))


def title(sections: Sequence[Section]) -> str:
    """Of the page: its benchmark where it has one."""
    return f"{sections[0].benchmark}: report" if len(sections) == 1 else "benchkit report"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def boards_part(boards: Sequence[Board], looks: tables.Looks) -> Markup:
    """All boards by level."""
    parts: list[Markup] = []
    for level, group in groupby(boards, key=lambda board: board.level):
        parts += [element("p", LEVELS.get(level, level), class_="level"), *(_board(each, looks) for each in group)]
    note = _caption(
        "Values with their 95 % interval (drawn as a line) beside the floor (dotted), the score of an answer that looks at no "
        "image. Rows share a place where none is significantly worse than the best of them: paired test, corrected for all "
        "pairs of a board."
    )
    return element("section", element("h2", "Boards"), note, *parts, id="boards")


def _board(board: Board, looks: tables.Looks) -> Markup:
    family = element("small", f" {board.family}") if board.family != board.benchmark else None
    parts: list[Markup | None] = [element("h3", board.benchmark, family, *map(tables.mark, tables.shared_marks(board)))]
    parts += [tables.protocol_line(board), tables.board_table(board, looks) if board.rows else None]
    if board.untested:
        parts.append(_caption(f"Places by the score alone: {board.untested}."))
    if any(row.images_per_s is not None for row in board.rows):
        parts.append(_caption(f"images/s: {tables.SPEED}."))
    devices = dict.fromkeys(row.device for row in board.rows if row.images_per_s is not None)
    if len(devices) > 1:
        parts.append(_caption(f"images/s are of different devices, and not to be compared: {'; '.join(devices)}."))
    parts.append(tables.told_of("Not ranked:", {tag: path_cut(why) for tag, why in board.apart.items()}))
    return element("div", *parts, class_="card")


def overview_part(boards: Sequence[Board], looks: tables.Looks) -> Markup:
    """All benchmarks by tag."""
    said = (
        "Headline scores, coloured from the floor (or the worst tag) to the best tag of each row. In italics: another "
    )
    said += "protocol than the row's other tags, not to be compared."
    card = element("div", _caption(said), tables.heat_map(boards, looks), class_="card")
    return element("section", element("h2", "All benchmarks by tag"), card, id="overview")


def cost_part(known: bool) -> Markup:
    """Room for the plot of score against cost; `known`: whether there is a board whose tags differ in one."""
    heading = element("h2", "Score against cost")
    if not known:
        same = _caption("No two tags of a board differ in parameters, images/s or the size of their features.")
        return element("section", heading, element("div", same, class_="card"), id="cost")
    choices = [_choice("board", "cost-board"), _choice("cost", "cost-kind")]
    choices.append(element("button", "whole plot", type="button", class_="whole", title="after a zoom"))
    said = "Ringed and joined: tags that no other beats in both score and cost (Pareto front)."
    parts = [element("div", *choices, class_="controls"), element("div", class_="plot")]
    parts += [element("p", class_="caption cost-told", aria_live="polite"), _caption(said)]
    parts.append(element("p", class_="caption cost-note"))
    return element("section", heading, element("div", *parts, class_="card", id="costs"), id="cost")


def _choice(name: str, class_: str) -> Markup:
    return element("label", f"{name} ", element("select", class_=class_))


def _caption(text: str) -> Markup:
    return element("p", text, class_="caption")


def benchmark_part(
    number: int,
    section: Section,
    opened: bool,
    differences: Sequence[Markup],
    drawn: Sequence[Whole],
    lacking: Mapping[str, str],
    no_paths: bool,
) -> Markup:
    """A benchmark's own part; its plot and flips are made by the page's script when it is opened.

    Args:
        number: of the section, from 0.
        section: the benchmark.
        opened: at first.
        differences, drawn: tables and plots of the whole set.
        lacking: tags -> why something of them could not be read.
        no_paths: cut paths in records.
    """
    board = section.boards[0]
    best = board.rows[0] if board.rows else None
    said = f"{_count(len(section.experiments), 'tag')}, {_count(len(section.joined.names), 'item')}"
    said += f"; best {board.metric} {numbers.score(best.value)} ({best.tag})" if best else ""
    parts = [tables.told_of("Not all of these could be read:", {tag: path_cut(why) for tag, why in lacking.items()})]
    parts.append(element("div", element("p", "The plot needs JavaScript.", class_="caption"), class_="interactive"))
    if differences:
        parts += [element("h3", "Differences"), *differences]
    if drawn:
        parts += [element("h3", "Curves and plots"), _gallery(drawn)]
    told = [without_paths(each.record) if no_paths else each.record for each in section.experiments]
    records = zip(section.tags, told, strict=True)
    parts += [element("h3", "Records and confs", class_="records-title"), *(record_details(*each) for each in records)]
    summary = element("summary", element("h3", section.benchmark), element("span", said, class_="caption"))
    inside = element("div", *parts, class_="inside")
    return element("details", summary, inside, class_="benchmark", id=f"b{number}", data_section=number, open=opened)


def _gallery(drawn: Sequence[Whole]) -> Markup:
    shown = []
    for each in drawn:
        said = f"{each.name}: {each.tag}" if each.tag else each.name
        shown.append(element("figure", element("figcaption", said), picture(data_uri(each.encoded), said)))
    return element("div", *shown, class_="gallery")


def data_part(blocks: Mapping[str, Any]) -> Markup:
    """Everything that the page's script reads, by name."""
    return joined(*(json_block(f"data-{name}", value) for name, value in blocks.items()))
