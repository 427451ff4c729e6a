"""An item frame: the prediction of every listed experiment on one item, as the benchmark draws it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.errors import UsageError, printable, reason
from benchkit.inspect.scatter import number
from benchkit.inspect.view import View
from benchkit.viz.neighbours import shortened
from benchkit.viz.pairs import wrapped

if TYPE_CHECKING:
    from benchkit.experiments.draw import Images
    from benchkit.experiments.joined import Joined

SMALL, LARGE, MANY = (8.5, 5.5), (13.0, 8.5), 6  # inches of a frame; so many experiments fill a large one
LINE, SIDE = 0.15, 0.1  # inches: a line of text, and what is left free beside a picture
ABOVE, BELOW = 0.34, 0.36  # inches about a picture for what the family writes there
WIDE = 1.4  # width over height of a picture that has no shape of its own
TEXT = 0.42  # of a cell's width, for scores as text
NARROW = 2.5  # inches of a cell with text, at least: families write about their pictures too
CAPTION = 13.0  # letters of a caption in an inch
TAG, OTHER = 60, 20  # letters of a tag in it, and of the one that it is compared with
POINTS = (4.0, 8.0)  # size of their letters


class ItemFrame:
    """A figure of one item.

    Attributes:
        item: its name.
        figure: of matplotlib.
    """

    def __init__(self, joined: Joined, images: Images, experiments: int) -> None:
        from matplotlib.figure import Figure

        self.joined, self.images, self.item = joined, images, ""
        self.figure = Figure(figsize=LARGE if experiments > MANY else SMALL)

    def draw(self, item: str, view: View) -> list[str]:
        """Draw an item anew; returns a line for each experiment whose picture failed.

        Raises:
            UsageError: there is no such item.
        """
        if item not in self.joined.position:
            raise UsageError(f"no experiment has an item {item!r}.")
        self.item = item
        for each in [*self.figure.axes, *self.figure.texts]:  # `clear` would first make each of them anew
            each.remove()
        rows = [row for row, tag in enumerate(self.joined.tags) if tag not in view.hidden]
        room = _room(self.figure, len(rows), view.text)
        cells = [self.figure.add_axes((0, 0, *room), label=str(row)) for row in rows]
        failed = [said for axes, row in zip(cells, rows, strict=True) if (said := self._picture(axes, row, view.kind))]
        captions = [self._caption(row, view) for row in rows]
        self._rows = rows
        family = self.joined.experiments[0].family
        legend = family.legend() if view.kind in ("", next(iter(family.kinds()))) else ""
        texts = [self._scores(row) for row in rows] if view.text else []
        self._captions = _arrange(self.figure, cells, captions, texts, self._title(view, len(rows)), legend)
        return failed

    def caption(self, view: View) -> None:
        """Put the score that the scatter shows now beside each tag."""
        for (text, width), row in zip(self._captions, self._rows, strict=True):
            text.set_text(wrapped(self._caption(row, view), width, CAPTION))

    def _picture(self, axes: Any, row: int, kind: str) -> str:
        """Draw on the axes; returns what failed, which stands in them too."""
        from benchkit.experiments.draw import draw_item

        axes.set_axis_off()
        if not self.joined.has[row, self.joined.position[self.item]]:
            _write(axes, "not among its items")
            return ""
        try:
            axes.set_axis_on()
            draw_item(axes, self.joined.experiments[row], self.item, kind, self.images)
            return ""
        except Exception as error:  # of one experiment: the others are shown
            axes.clear()
            axes.set_axis_off()
            _write(axes, f"cannot be drawn: {printable(reason(error))}", "tab:red")
            return f"{printable(self.joined.tags[row])}: {printable(self.item)} cannot be drawn: {reason(error)}"

    def _caption(self, row: int, view: View) -> str:
        """The tag and the score that the scatter shows, or else that by which the family orders items."""
        first = self.joined.experiments[0]
        wanted = (view.y, view.x, first.family.order(first.item_scores)[0], *self.joined.columns)
        column = next((each for each in wanted if each in self.joined.columns), None)
        tag = shortened(printable(self.joined.tags[row]), TAG)
        if column is None:
            return tag
        scores = self.joined.scores(column)[:, self.joined.position[self.item]]
        other = shortened(printable(self.joined.tags[0]), OTHER)
        against = f" ({_difference(scores[row], scores[0])} against {other})"
        return f"{tag}: {printable(column)} {number(scores[row])}{against if view.diff_only and row else ''}"

    def _scores(self, row: int) -> str:
        """All scores of the item, one a line."""
        place = self.joined.position[self.item]
        known = self.joined.experiments[row].item_scores
        labels = [f"{name}: {printable(each[place])}" for name, each in self.joined.categories.items()]
        return "\n".join([*(f"{printable(c)} {number(self.joined.scores(c)[row, place])}" for c in known), *labels])

    def _title(self, view: View, shown: int) -> str:
        hidden = len(self.joined.tags) - shown
        left = f" ({hidden} hidden)" if hidden else ""
        kind = f": {view.kind}" if view.kind else ""
        return f"{printable(self.item)}{kind}{left}"


def _difference(one: float, other: float) -> str:
    """With its sign; n/a where undefined, as of two errors without end."""
    with np.errstate(invalid="ignore"):
        found = one - other
    return number(found) if np.isnan(found) else f"{found:+.4g}"


def _write(axes: Any, text: str, color: str = "0.4") -> None:
    axes.text(
        0.5, 0.5, wrapped(text, 2.2), transform=axes.transAxes, ha="center", va="center", fontsize=7, color=color,
        parse_math=False,
    )  # fmt: skip


def _arrange(
    figure: Any, cells: Sequence[Any], captions: Sequence[str], texts: Sequence[str], title: str, legend: str
) -> list[tuple[Any, float]]:
    """Place pictures that are drawn in a grid, captions above them, texts beside them.

    Returns:
        Each caption as it is drawn, and its width in inches.
    """
    wide, tall = figure.get_size_inches()
    title, legend = wrapped(title, wide), wrapped(legend, wide, 18)
    head, foot = (LINE * (1.5 + text.count("\n")) if text else 0.05 for text in (title, legend))
    figure.text(0.5, 1 - 0.05 / tall, title, ha="center", va="top", fontsize=9, parse_math=False)
    figure.text(0.5, 0.04 / tall, legend, ha="center", va="bottom", fontsize=7, color="0.3", parse_math=False)
    inner = (wide, tall - head - foot)
    across = columns(len(cells), _shape(cells), inner, bool(texts))
    down = -(-len(cells) // max(across, 1))
    drawn = []
    for place, axes in enumerate(cells):
        row, column = divmod(place, across)
        box = (column * wide / across, foot + (down - 1 - row) * inner[1] / down, wide / across, inner[1] / down)
        drawn.append((_fill(figure, axes, box, captions[place], texts[place] if texts else ""), box[2] - SIDE))
    _plain(figure)
    return drawn


def _room(figure: Any, count: int, texts: bool) -> tuple[float, float]:
    """About how much of a figure's width and height each picture will have: some kinds arrange themselves in it."""
    wide, tall = figure.get_size_inches()
    across = columns(count, WIDE, (wide, tall), texts)
    down = max(-(-count // across), 1)
    width = (1 - TEXT if texts else 1) / across - 2 * SIDE / wide
    return max(width, 0.05), max(1 / down - (ABOVE + BELOW + 3 * LINE) / tall, 0.05)


def columns(count: int, shape: float, inner: tuple[float, float], texts: bool) -> int:
    """How many pictures stand side by side, so that they are largest.

    Args:
        count: of pictures.
        shape: width over height of one.
        inner: inches of width and height for all of them.
        texts: whether text stands beside each.
    """
    best, largest = 1, -np.inf
    most = min(count, max(1, int(inner[0] / NARROW))) if texts else count
    for across in range(1, most + 1):
        wide = inner[0] / across * (1 - TEXT if texts else 1) - 2 * SIDE
        tall = inner[1] / -(-count // across) - ABOVE - BELOW - LINE
        if min(wide / shape, tall) > largest + 1e-9:
            best, largest = across, min(wide / shape, tall)
    return best


def _shape(cells: Sequence[Any]) -> float:
    """Width over height of the widest picture that has a shape."""
    shapes = []
    for axes in cells:
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        if axes.get_aspect() != "auto" and high != low:
            shapes.append(abs(right - left) / abs(high - low))
    return max(shapes, default=WIDE)


def _fill(figure: Any, axes: Any, box: tuple[float, float, float, float], caption: str, text: str) -> Any:
    """Place a picture, its caption and its text in a box of left, bottom, width, height in inches; returns the caption."""
    wide, tall = figure.get_size_inches()
    left, bottom, width, height = box
    share = 1 - TEXT if text else 1
    said = wrapped(caption, width - SIDE, CAPTION)
    above = ABOVE + LINE * (said.count("\n") + 1)
    size = (max(width * share - 2 * SIDE, 0.2), max(height - above - BELOW, 0.2))
    axes.set_position(((left + SIDE) / wide, (bottom + BELOW) / tall, size[0] / wide, size[1] / tall))
    middle, top = (left + width / 2) / wide, (bottom + height - 0.03) / tall
    drawn = figure.text(middle, top, said, ha="center", va="top", fontsize=8, weight="bold", parse_math=False)
    if text:
        letters = float(np.clip(72 * (height - above) / (text.count("\n") + 1) / 1.25, *POINTS))
        fits = max(int(72 * (height - above) / (1.25 * letters)), 1)
        lines = text.split("\n")
        cut = [*lines[: fits - 1], f"... and {len(lines) - fits + 1} more"] if len(lines) > fits else lines
        at = ((left + width * share) / wide, (bottom + height - above) / tall)
        figure.text(*at, "\n".join(cut), va="top", fontsize=letters, linespacing=1.2, parse_math=False)
    return drawn


def _plain(figure: Any) -> None:
    """Nothing that a family wrote is read as a formula: names and labels may hold dollars."""
    for axes in figure.axes:
        legend = axes.get_legend()
        labels = [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for text in [*labels, *(legend.get_texts() if legend else [])]:
            text.set_parse_math(False)
