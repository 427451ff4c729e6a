"""Experiments with scores given by hand, and a window without a screen: what the inspector's viewer is tested with."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.eval.base import Benchmark, Metric
from benchkit.inspect.viewer import Viewer
from benchkit.store.table import write_table

NAMES = ("a/0", "a/1", "b/0", "b/1")


class Family(Benchmark):
    """Two scores; a picture is a name."""

    def metrics(self) -> list[Metric]:
        return [Metric("hit", "higher", "", column="hit"), Metric("error", "lower", "", "px", column="error")]

    def kinds(self) -> dict[str, Any]:
        return {**super().kinds(), "other": lambda axes, item: axes.set_title(f"other {item.name} $x_1$")}

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        axes.set_title(f"value {prediction['value'][0]:.0f} of {target['meta']['what']}")


class Made:
    """What an `Experiment` has, of scores by column; `folder` holds predictions and targets where it is given."""

    benchmark = "made"

    def __init__(
        self,
        tag: str,
        scores: Mapping[str, Sequence[float]],
        names: Sequence[str] = NAMES,
        categories: Mapping[str, Sequence[str]] | None = None,
        root: Path | None = None,
    ) -> None:
        self.tag, self.names, self.family = tag, list(names), Family(None)
        self.item_scores = {column: np.array(values, np.float64) for column, values in scores.items()}
        self.categories = {name: list(labels) for name, labels in (categories or {}).items()}
        self.group = [""] * len(names)
        self.record: dict[str, Any] = {}
        if root is not None:
            self.folder = root / f"tag{len(list(root.iterdir()))}"  # a tag in a test may be no folder name
            self.folder.mkdir()
            rows = np.arange(len(names), dtype=np.float32)[:, None]
            write_table(self.folder / "predictions.h5", "predictions", list(names), {"value": rows})
            meta = {"what": "$truth_1"}
            write_table(self.folder / "targets.h5", "targets", list(names), {"views": list(names)}, meta=meta)

    def metric_of(self, column: str) -> Metric | None:
        return next((each for each in self.family.metrics() if each.column == column), None)


@functools.cache
def _canvas() -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    class Canvas(FigureCanvasAgg):
        """Drawn when it is asked for, as by an event loop: not at once."""

        def draw_idle(self, *_: Any, **__: Any) -> None:
            self.stale = True

        def draw_if_stale(self) -> None:
            if getattr(self, "stale", True):
                self.stale = False
                self.draw()

    return Canvas


class Screen:
    """A `Window` of canvases in memory.

    Attributes:
        figures: that are open, by key; said: what was said, and whether it was an error; changes: how often.
    """

    speaks = False

    def __init__(self) -> None:
        self.figures: dict[int, Any] = {}
        self.said: list[tuple[str, bool]] = []
        self.changes = 0

    def open(self, key: int, figure: Any, title: str) -> None:
        self.figures[key] = figure
        _canvas()(figure)

    def close(self, key: int) -> None:
        del self.figures[key]

    def changed(self) -> None:
        self.changes += 1

    def say(self, text: str, error: bool = False) -> None:
        self.said.append((text, error))

    @property
    def errors(self) -> list[str]:
        return [text for text, error in self.said if error]


class Hand:
    """A user of a viewer: what mouse and keyboard tell the canvases."""

    def __init__(self, experiments: Sequence[Any], state: Mapping[str, str] | None = None) -> None:
        self.screen = Screen()
        self.viewer = Viewer(experiments, self.screen, state)
        self.viewer.start()

    def draw(self) -> None:
        """What an event loop does when it is idle."""
        self.viewer.scatter.figure.canvas.draw_if_stale()

    def key(self, *keys: str, frame: int = 0) -> None:
        from matplotlib.backend_bases import KeyEvent

        for key in keys:
            KeyEvent("key_press_event", self.screen.figures[frame].canvas, key)._process()

    def mouse(self, name: str, x: float, y: float, **more: Any) -> None:
        from matplotlib.backend_bases import MouseEvent

        self.draw()
        MouseEvent(name, self.viewer.scatter.figure.canvas, x, y, **more)._process()

    def pixel(self, row: int, item: str) -> tuple[float, float]:
        """Where a point lies on the canvas."""
        self.draw()
        scatter = self.viewer.scatter
        place = scatter.points[row, self.viewer.joined.position[item]]
        x, y = scatter.axes.transData.transform(place)
        return float(x), float(y)

    def hover(self, row: int, item: str) -> None:
        x, y = self.pixel(row, item)
        self.mouse("motion_notify_event", x + 1, y - 1)

    def click(self, row: int, item: str) -> None:
        x, y = self.pixel(row, item)
        self.mouse("button_press_event", x + 1, y - 1, button=1)
        self.mouse("button_release_event", x + 1, y - 1, button=1)

    def click_legend(self, tag: str, before: float = 0) -> None:
        """On its text, or so many pixels before it."""
        self.draw()
        artists = dict(self.viewer.scatter.entries)[tag]
        box = artists[0].get_window_extent()
        x = box.x0 - before if before else (box.x0 + box.x1) / 2
        self.mouse("button_press_event", x, (box.y0 + box.y1) / 2, button=1)

    def texts(self, frame: int) -> str:
        """Everything that a frame says."""
        from matplotlib.text import Text

        return "\n".join(each.get_text() for each in self.screen.figures[frame].findobj(Text) if each.get_text())
