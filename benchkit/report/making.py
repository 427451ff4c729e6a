"""`benchkit report` as a function: gathers boards, scores and pictures, and writes the page."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.errors import BenchkitError, UsageError, printable, some
from benchkit.progress import Progress
from benchkit.report import figures, layout
from benchkit.report.chosen import MOST
from benchkit.report.costs import costs_of
from benchkit.report.damage import Damage
from benchkit.report.differences import compared
from benchkit.report.items import items_of
from benchkit.report.markup import Markup, element, joined
from benchkit.report.section import Section, flips_of, pictures_of, readable, sections_of
from benchkit.report.thumbs import Thumbs
from benchkit.report.whole import whole_pictures
from benchkit.store.files import replacing
from benchkit.store.outputs import Outputs

if TYPE_CHECKING:
    from benchkit.boards import Board

ROOM = 11_000_000  # characters of thumbnails and pictures of items together
LEAST = 3_000_000  # of them for pictures, however many thumbnails there are


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What a page shows, beyond what there is.

    Attributes:
        flips: the two tags whose flips are shown first.
        baseline: the tag that others are compared with; None: the best of each board.
        pictures: items of each benchmark that every experiment's picture is made of, at most.
        no_paths: paths of the machine are cut to their last parts.
    """

    flips: tuple[str, str] | None = None
    baseline: str | None = None
    pictures: int = MOST
    no_paths: bool = False


def write_report(
    path: Path,
    outputs: Outputs,
    benchmarks: Sequence[str] = (),
    tags: Sequence[str] = (),
    wishes: Wishes | None = None,
    on_error: Callable[[BenchkitError], None] | None = None,
) -> int:
    """Write the page; returns its size in bytes.

    Args:
        path: the file that is written or replaced.
        benchmarks, tags, on_error: as `boards.boards_of` takes them.

    Raises:
        UsageError: Bokeh is missing, nothing fits, or a tag of the wishes is not among those shown.
        RunError: a file is damaged, or the page cannot be written.
    """
    from benchkit.boards import boards_of

    figures.require_bokeh()
    boards = boards_of(outputs, benchmarks, tags, on_error)
    if not any(board.rows for board in boards):
        raise UsageError(_nothing(boards, outputs, tags))
    text = report_text(boards, wishes or Wishes(), on_error)
    with replacing(path, read_only=False) as unfinished:
        unfinished.write_bytes(text.encode("utf-8", "backslashreplace"))  # a name that is no UTF-8 has surrogates
    return path.stat().st_size


def report_text(
    boards: Sequence[Board], wishes: Wishes, on_error: Callable[[BenchkitError], None] | None = None
) -> str:
    """The page of some boards; what cannot be read of a tag is left out and said in it, if `on_error` takes the errors."""
    damage = Damage(on_error)
    boards = [readable(board, damage) for board in boards]
    sections = sections_of(boards)
    tags = list(dict.fromkeys(tag for section in sections for tag in section.tags))
    _check(wishes, tags)
    looks = figures.look_of(tags)
    costs = [found for board in boards if (found := costs_of(board))["costs"]]
    parts = [layout.boards_part(boards, looks), layout.overview_part(boards, looks), layout.cost_part(bool(costs))]
    blocks: dict[str, Any] = {"looks": looks, "costs": costs}
    blocks |= {"cost-figure": figures.scatter(list(looks.values()), size=11), **_items(sections, looks, wishes, damage)}
    parts.append(element("h2", "Benchmarks"))
    for number, section in enumerate(sections):
        parts.append(_part(number, section, len(sections) <= layout.OPENED, looks, wishes, damage))
    body = joined(layout.header(sections, tags), element("main", *parts))
    return layout.page(body, layout.data_part(blocks), layout.title(sections))


def _nothing(boards: Sequence[Board], outputs: Outputs, tags: Sequence[str]) -> str:
    fits = f" that fits {' or '.join(printable(tag, 80) for tag in tags)}" if tags else ""
    why = [f"{printable(tag, 80)}: {reason}" for board in boards for tag, reason in board.apart.items()]
    return (
        f"{outputs.root} has no scored tag of these{fits}: benchkit run makes one. {some(why, between='; ')}".rstrip()
    )


def _check(wishes: Wishes, tags: Sequence[str]) -> None:
    from benchkit.conf.find import nearest

    for flag, tag in [*(("--flips", each) for each in wishes.flips or ()), ("--baseline", wishes.baseline)]:
        if tag is not None and printable(tag) not in tags:
            near = printable(nearest(tag, tags))
            raise UsageError(f"{flag} {printable(tag, 80)}: no tag of this report is called so. {near}".rstrip())


def _part(number: int, section: Section, opened: bool, looks: Any, wishes: Wishes, damage: Damage) -> Markup:
    baseline = None if wishes.baseline is None else printable(wishes.baseline)
    found = [shown for board in section.boards if (shown := compared(board, baseline, looks))]
    colours = [looks[tag]["colour"] for tag in section.tags]
    drawn = list(whole_pictures(section.experiments, colours, damage))
    lacking = damage.told(section.benchmark)
    return layout.benchmark_part(number, section, opened, found, drawn, lacking, wishes.no_paths)


def _items(sections: Sequence[Section], looks: Any, wishes: Wishes, damage: Damage) -> dict[str, Any]:
    """What the page's script reads of every benchmark; what thumbnails leave of the room is for pictures."""
    thumbs = Thumbs()
    blocks: dict[str, Any] = {}
    plots: dict[tuple[str, ...], dict[str, Any]] = {}
    for number, section in enumerate(sections):
        own = tuple(section.tags)
        plots.setdefault(own, figures.scatter([looks[tag] for tag in own]))
        blocks[f"items-{number}"] = {
            **items_of(section.joined, section.order),
            "thumbs": thumbs.of(section.experiments, section.joined.names, damage),
            "flips": flips_of(section, wishes.flips),
            "figure": list(plots).index(own),
            "legend": section.experiments[0].family.legend(),
        }
    blocks |= {"figures": list(plots.values()), "thumbs": thumbs.addresses()}
    room = max(ROOM - sum(map(len, blocks["thumbs"])), LEAST)
    for number, section in enumerate(sections):
        pictures, taken = _pictures(section, wishes.pictures, room // (len(sections) - number), damage)
        room -= taken
        blocks[f"pictures-{number}"] = pictures
        blocks[f"items-{number}"]["told"] = _told(len(pictures), len(section.joined.names))
    return blocks


def _pictures(section: Section, most: int, room: int, damage: Damage) -> tuple[dict[str, Any], int]:
    progress = Progress(min(most, len(section.joined.names)), f"{section.benchmark}: pictures", "items")
    try:
        return pictures_of(section, most, room, progress.advance, damage)
    finally:
        progress.finish()


def _told(pictures: int, items: int) -> str:
    """What a reader is told beside an untouched plot."""
    said = "Point at an item to see it, click to pin it; drag to zoom."
    if pictures < items:
        said += (
            f" Pictures of every experiment are here for {pictures:,} of {items:,} items: the largest flips, the worst and "
            "the best. Others show their thumbnail and scores."
        )
    return said
