"""Empty plots that the page's script fills, made by Bokeh, and the JavaScript of Bokeh itself."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchkit.errors import UsageError

# Hues that hold on white and on black, apart for most colour-blind eyes; another marker tells those apart that repeat.
COLOURS = (
    "#3b82d6", "#e8762d", "#2ca58d", "#d1495b", "#9467bd", "#b8860b", "#17a2b8", "#c2569b", "#6b8e23", "#8c6d5a",
)  # fmt: skip
MARKERS = (
    "circle",
    "square",
    "triangle",
    "diamond",
    "inverted_triangle",
    "hex",
)  # the page's style has each as a swatch
HEIGHT = 420  # pixels
_IDENTIFIER = re.compile(r'"(p\d+)"')


def require_bokeh() -> None:
    """Raises UsageError where Bokeh is not installed."""
    try:
        import bokeh  # noqa: F401
    except ImportError as missing:
        raise UsageError("benchkit report needs the Python package bokeh: pip install 'benchkit[report]'.") from missing


def script() -> str:
    """BokehJS without widgets and tables, as its wheel brings it."""
    import bokeh

    path = Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.min.js"
    return path.read_text(encoding="utf-8").replace(
        "\r\n", "\n"
    )  # a browser hashes what it reads: line ends of one kind


def look_of(tags: Sequence[str]) -> dict[str, dict[str, str]]:
    """Colour and marker of each tag."""
    return {
        tag: {"colour": COLOURS[place % len(COLOURS)], "marker": MARKERS[place // len(COLOURS) % len(MARKERS)]}
        for place, tag in enumerate(tags)
    }


def scatter(looks: Sequence[dict[str, str]], size: float = 7) -> dict[str, Any]:
    """A plot with one empty source of points and one of mean lines for each look, as JSON that `Bokeh.embed` takes.

    Its models go by name: `points-0`, `lines-0` (sources; with `-shown` their renderers), `same` (the points of one item),
    `names` (texts), and `x-axis`, `y-axis`, `x-grid`, `y-grid`.
    """
    from bokeh.embed import json_item
    from bokeh.models import ColumnDataSource, Range1d
    from bokeh.plotting import figure

    plot = figure(
        name="plot", height=HEIGHT, sizing_mode="stretch_width", tools="box_zoom", active_drag="box_zoom",
        toolbar_location=None, x_range=Range1d(start=0, end=1), y_range=Range1d(start=0, end=1), min_border_right=12,
    )  # fmt: skip
    plot.xaxis.name, plot.yaxis.name, plot.xgrid.name, plot.ygrid.name = "x-axis", "y-axis", "x-grid", "y-grid"
    for axis in plot.axis:
        axis.axis_label_text_font_style = "normal"
    for place, look in enumerate(looks):
        lines = ColumnDataSource({"x": [], "y": []}, name=f"lines-{place}")
        plot.line(
            "x",
            "y",
            source=lines,
            line_color=look["colour"],
            line_width=2,
            line_dash=[6, 3],
            name=f"lines-{place}-shown",
        )
    for place, look in enumerate(looks):
        points = ColumnDataSource({"x": [], "y": []}, name=f"points-{place}")
        plot.scatter(
            "x", "y", source=points, size=size, marker=look["marker"], fill_color=look["colour"],
            line_color=look["colour"], fill_alpha=0.45, line_alpha=0.8, name=f"points-{place}-shown",
        )  # fmt: skip
    same = ColumnDataSource({"x": [], "y": []}, name="same")
    plot.line("x", "y", source=same, line_width=1, line_color="#888888", name="same-line")
    plot.scatter(
        "x", "y", source=same, size=size + 7, fill_alpha=0, line_color="#888888", line_width=2, name="same-rings"
    )
    names = ColumnDataSource({name: [] for name in ("x", "y", "text", "align", "right", "down")}, name="names")
    text = plot.text(
        "x", "y", "text", source=names, text_align="align", x_offset="right", y_offset="down", text_font_size="11px",
        text_baseline="middle", name="names-shown",
    )  # fmt: skip
    text.glyph.background_fill_alpha = 0.75
    return _renumbered(json_item(plot))


def _renumbered(item: Any) -> dict[str, Any]:
    """The same plot with models numbered from 0: Bokeh counts on through a process, and equal pages have equal bytes."""
    numbers: dict[str, str] = {}
    text = _IDENTIFIER.sub(lambda found: f'"p{numbers.setdefault(found[1], str(len(numbers)))}"', json.dumps(item))
    return dict(json.loads(text))
