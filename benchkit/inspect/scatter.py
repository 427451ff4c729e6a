"""The scatter: a point per item and experiment, their means, and a legend that hides and shows."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.errors import printable
from benchkit.inspect.axis import JITTER, Axis, axis_of, category_means, lanes
from benchkit.inspect.view import ORDERS, View
from benchkit.viz.neighbours import shortened
from benchkit.viz.pairs import wrapped

if TYPE_CHECKING:
    from benchkit.experiments.joined import Joined

SIZE = (11.0, 6.5)  # inches
NAMED, LETTERS = 40, 18  # labels along an axis, and letters of one
LETTER, LINE = 0.07, 0.12  # inches of a letter of a label, and of a label's height
HELP = 13  # letters of the help in an inch
TAG = 60  # letters of a tag in the legend
BETWEEN = 5  # pixels about a line of the legend that belong to it
HIDDEN = "0.75"  # grey of hidden experiments in the legend
MARKS: dict[str, dict[str, Any]] = {  # how items are marked: those that a search found, selected ones, those in frames
    "found": {"marker": "o", "markersize": 9, "label": "holds what was searched for"},
    "selected": {"marker": "s", "markersize": 7.5, "label": "selected"},
    "open": {"marker": "D", "markersize": 9, "label": "in a frame"},
}
OUTLINE = (("white", 2.8), ("black", 1.0))  # colours and widths: no experiment's, and to be seen on every one's


class Scatter:
    """A figure of all items.

    Attributes:
        x, y: the axes as they are drawn.
        points: float64 (E, N, 2) in data coordinates, NaN where nothing is drawn: undefined, or hidden.
        means: of the scores on y (else on x) of each experiment, NaN where there are none; None without scores.
        entries: of the legend: tag, and what is drawn for it.
        overlay: the help, visible or not.
        zoomed: whether a part is shown that the user chose; it stays so while the axes are the same.
        colours: of each experiment, as #rrggbb.
    """

    def __init__(self, joined: Joined) -> None:
        from matplotlib import colormaps
        from matplotlib.colors import to_hex
        from matplotlib.figure import Figure

        self.joined = joined
        self.figure = Figure(figsize=SIZE)
        self.axes = self.figure.add_axes((0.08, 0.12, 0.66, 0.78))
        self.status = self.figure.text(0.01, 0.012, "", fontsize=8, va="bottom", parse_math=False)
        self.overlay = self.figure.text(0.5, 0.5, "", fontsize=8, family="monospace", visible=False, parse_math=False)
        self.overlay.set(ha="center", va="center", multialignment="left", zorder=10)
        self.overlay.set_bbox({"boxstyle": "round", "facecolor": "white", "edgecolor": "0.4"})
        wheel = colormaps["tab10" if len(joined.tags) <= 10 else "tab20"].colors  # type: ignore[attr-defined]
        self.colours = [to_hex(wheel[row % len(wheel)]) for row in range(len(joined.tags))]
        self.entries: list[tuple[str, list[Any]]] = []
        self._help: list[tuple[str, str]] = []
        self._said, self._what, self._whole, self.zoomed = "", "", self._limits(), False

    def draw(self, view: View, order: Sequence[int], marked: dict[str, Iterable[str]]) -> None:
        """Draw anew.

        Args:
            view: what is shown.
            order: rows of the items' names.
            marked: names of items by a key of `MARKS`.
        """
        self.x, self.y = (axis_of(self.joined, name, view, order) for name in (view.x, view.y))
        shown = np.array([tag not in view.hidden for tag in self.joined.tags])
        defined = ~(np.isnan(self.x.values) | np.isnan(self.y.values)) & shown[:, None]
        self.points = np.where(defined[..., None], np.stack([self.x.values, self.y.values], axis=2), np.nan)
        part, what = self._limits(), f"{view.x} {view.y} {view.diff_only} {view.order}"
        self.zoomed = what == self._what and part != self._whole
        self.axes.clear()
        self._plot(shown)
        self.means = self._means(shown)
        marks = [mark for kind, names in marked.items() if (mark := self._mark(kind, names)) is not None]
        _label(self.axes, "x", self.x)
        _label(self.axes, "y", self.y)
        self._legend(shown, marks)
        undefined = int((self.joined.has & shown[:, None] & ~defined).sum())
        self._said = self._title(view, int(shown.sum()), undefined)
        self.fit()
        self._what, self._whole = what, self._limits()
        if self.zoomed:
            self.axes.set(xlim=part[0], ylim=part[1])

    def _limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Of both axes."""
        return self.axes.get_xlim(), self.axes.get_ylim()

    def _plot(self, shown: np.ndarray) -> None:
        """One line of markers each: `scatter` takes six times as long."""
        self.lines = []
        for row in range(len(shown)):
            style: dict[str, Any] = {
                "marker": "o",
                "markersize": 3.5,
                "markeredgewidth": 0,
                "linestyle": "",
                "alpha": 0.7,
            }
            (line,) = self.axes.plot(*self.points[row].T, color=self.colours[row], zorder=2, **style)
            line.set_visible(bool(shown[row]))
            self.lines.append(line)

    def _means(self, shown: np.ndarray) -> np.ndarray | None:
        """Lines at the means of what is drawn, or one per label of a category; returns the means."""
        found = None
        for along, across, which in ((self.y, self.x, 1), (self.x, self.y, 0)):
            if not along.scored:
                continue
            values = self.points[..., which]
            means = np.array([each[~np.isnan(each)].mean() if (~np.isnan(each)).any() else np.nan for each in values])
            found = means if found is None else found
            by_label = category_means(across, values) if across.ticks else None
            for row in np.flatnonzero(shown & ~np.isnan(means)):
                self._mean_line(int(row), which, float(means[row]), None if by_label is None else by_label[row])
        return found

    def _mean_line(self, row: int, which: int, mean: float, by_label: np.ndarray | None) -> None:
        colour = self.colours[row]
        if by_label is None:
            (self.axes.axhline if which else self.axes.axvline)(mean, color=colour, linewidth=1, linestyle="--")
            return
        across = self._lane(row, len(by_label))
        along = np.repeat(by_label, 3)
        line = (across, along) if which else (along, across)
        for edge, width in (("black", 2.2), (colour, 1.1)):  # to be seen over points of the same colour, and hide none
            self.axes.plot(*line, color=edge, linewidth=width, solid_capstyle="butt", zorder=3)

    def _lane(self, row: int, labels: int) -> np.ndarray:
        """Ends of a line across an experiment's own points at each label, and NaN between: (3 labels,)."""
        ends = lanes(len(self.joined.tags))[row] + np.array([-1, 1, np.nan]) * JITTER / len(self.joined.tags)
        return (np.arange(labels)[:, None] + ends).ravel()

    def _mark(self, kind: str, names: Iterable[str]) -> Any:
        """Rings about the points of items; returns a line for the legend, None where there are none."""
        places = [self.joined.position[name] for name in names if name in self.joined.position]
        if not places:
            return None
        chosen, style = (
            self.points[:, places].reshape(-1, 2),
            {**MARKS[kind], "linestyle": "", "markerfacecolor": "none"},
        )
        for colour, width in OUTLINE:
            (drawn,) = self.axes.plot(*chosen.T, **style, markeredgecolor=colour, markeredgewidth=width, zorder=4)
        return drawn

    def fit(self) -> None:
        """Margins for labels and legend, and their lines, as the size of the figure has it."""
        wide, tall = (float(side) for side in self.figure.get_size_inches())
        left = (1.75 if self.y.ticks else 0.9) / wide
        width = max(1 - self._legend_width() / wide - left, 0.2)
        said = wrapped(printable(self._said), width * wide)
        below = (0.7 + _ticks(self.axes, "x", self.x, width * wide)) / tall
        height = max(1 - (0.25 + 0.17 * (said.count("\n") + 1)) / tall - below, 0.2)
        _ticks(self.axes, "y", self.y, height * tall)
        self._fit_help()
        self.axes.set_position((left, below, width, height))
        self.axes.set_title(said, fontsize=9, parse_math=False)
        for row, (_, (text, _)) in enumerate(self.entries):
            text.set_text(self._entry(row, self.lines[row].get_visible()))

    def _legend_width(self) -> float:
        """Inches."""
        return min(2.85, 0.3 * float(self.figure.get_size_inches()[0]))

    def _legend(self, shown: np.ndarray, marks: Sequence[Any]) -> None:
        labels = [self._entry(row, visible) for row, visible in enumerate(shown.tolist())]
        explained = [str(mark.get_label()) for mark in marks]
        legend = self.axes.legend(
            [*self.lines, *marks],
            [*labels, *explained],
            loc="upper left",
            bbox_to_anchor=(1.01, 1),
            fontsize=7,
            frameon=False,
        )
        legend.set_title("click: hide or show")
        legend.get_title().set_fontsize(7)
        self.entries = []
        handles: list[Any] = legend.legend_handles
        for tag, text, handle, visible in zip(self.joined.tags, legend.get_texts(), handles, shown, strict=False):
            text.set_parse_math(False)
            handle.set_markersize(7)
            text.set_color("black" if visible else HIDDEN)
            handle.set_visible(True)
            handle.set_alpha(1 if visible else 0.25)
            self.entries.append((tag, [text, handle]))

    def _entry(self, row: int, visible: bool) -> str:
        """The tag, and the mean of what is drawn of it."""
        known = visible and self.means is not None
        mean = f": mean {number(float(self.means[row]))}" if known and self.means is not None else ""
        return wrapped(shortened(printable(self.joined.tags[row]), TAG) + mean, self._legend_width() - 0.45, 17)

    def _title(self, view: View, shown: int, undefined: int) -> str:
        count, items = len(self.joined.tags), len(self.joined.names)
        experiments = f"{shown} of {count} experiments" if shown < count else _counted(count, "experiment")
        said = [f"{self.joined.experiments[0].benchmark}: {experiments}, {_counted(items, 'item')}"]
        said += [f"{_counted(undefined, 'point')} undefined and not drawn"] if undefined else []
        apart = int((~self.joined.has.all(axis=0)).sum())
        said += [f"{_counted(apart, 'item')} not in all experiments"] if apart else []
        said += [f"order {ORDERS[view.order]}"] if view.order != "name" else []
        said += [f"{len(view.selected)} selected"] if view.selected else []
        return "; ".join(said)

    def help(self, lines: Sequence[tuple[str, str]], on: bool) -> None:
        """Show what keys do over everything, or take it away."""
        self._help = list(lines)
        self.overlay.set_visible(on)
        self._fit_help()

    def _fit_help(self) -> None:
        """Its lines, as wide as the figure has room for."""
        indent = max((len(key) for key, _ in self._help), default=0) + 2
        letters = max(int(float(self.figure.get_size_inches()[0]) * HELP) - indent, 10)
        parts = [(key, textwrap.wrap(text, letters)) for key, text in self._help]
        lines = [f"{'' if k else key:{indent}}{line}" for key, said in parts for k, line in enumerate(said)]
        self.overlay.set_text("\n".join(lines))

    def entry_at(self, event: Any) -> str | None:
        """The tag whose entry of the legend lies under a mouse event."""
        legend = self.axes.get_legend()
        left = legend.get_window_extent().x0 if legend is not None else 0
        return next((tag for tag, (text, _) in self.entries if _within(text, left, event)), None)

    def say(self, text: str, error: bool = False) -> None:
        """A line below the scatter."""
        self.status.set_text(wrapped(printable(text, 600), float(self.figure.get_size_inches()[0]) * 0.97))
        self.status.set_color("tab:red" if error else "0.3")


def number(value: float) -> str:
    """Four digits that count, n/a where undefined."""
    return "n/a" if np.isnan(value) else f"{value:.4g}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _within(text: Any, left: float, event: Any) -> bool:
    """Whether a mouse event is on a line of the legend: on its text, or before it on what shows its colour."""
    box = text.get_window_extent()
    return bool(left <= event.x <= box.x1 + 3 and box.y0 - BETWEEN <= event.y <= box.y1 + BETWEEN)


def _label(axes: Any, which: str, axis: Axis) -> None:
    """Its name, and the room of a category."""
    axes.set(**{f"{which}label": ""})
    if axis.ticks:
        getattr(axes, f"set_{which}lim")(-0.6, len(axis.ticks) - 0.4)


def _ticks(axes: Any, which: str, axis: Axis, inches: float) -> float:
    """Write the name of an axis, and of a category those labels that have room.

    Args:
        axes: of matplotlib; the part that they show stays.
        which: x or y.
        axis: what it shows.
        inches: its length.

    Returns:
        How many inches labels that stand upright take below the x axis; 0 where they lie.
    """
    step = max(-(-len(axis.ticks) // NAMED), int(np.ceil(len(axis.ticks) * LINE / inches)))
    said = f"{axis.label} ({len(axis.ticks)} labels)" if step > 1 else axis.label
    getattr(axes, f"set_{which}label")(wrapped(printable(said), inches, 14), fontsize=9, parse_math=False)
    if not axis.ticks:
        return 0
    labels = [printable(label, LETTERS) or "(none)" for label in axis.ticks[::step]]
    longest = max(map(len, labels))
    upright = which == "x" and (longest + 1) * LETTER > inches / (len(axis.ticks) + 0.2) * step
    style: dict[str, Any] = {"rotation": 90 if upright else 0} if which == "x" else {}
    part = getattr(axes, f"get_{which}lim")()
    getattr(axes, f"set_{which}ticks")(range(0, len(axis.ticks), step), labels, fontsize=7, parse_math=False, **style)
    getattr(axes, f"set_{which}lim")(part, auto=None)  # ticks would widen it
    return 0.85 * LETTER * longest if upright else 0
