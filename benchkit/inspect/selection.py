"""Selecting items with the mouse, and writing their names down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.store.files import replacing

if TYPE_CHECKING:
    from benchkit.inspect.scatter import Scatter

MODES = ("lasso", "range")


class Selector:
    """One gesture of the mouse over a scatter: a lasso or a rectangle.

    Args:
        scatter: on a canvas.
        done: called with the names of the items within that have a point there.
    """

    def __init__(self, scatter: Scatter, done: Callable[[list[str]], None]) -> None:
        self.scatter, self.done = scatter, done
        self.mode = ""
        self._widget: Any = None

    def begin(self, mode: str) -> None:
        """Wait for a gesture.

        Raises:
            UsageError: there is no such mode.
        """
        from matplotlib.widgets import LassoSelector, RectangleSelector

        if mode not in MODES:
            raise UsageError(f"items are selected by {' or '.join(MODES)}, not by {mode!r}.")
        self.end()
        axes, self.mode = self.scatter.axes, mode
        if mode == "lasso":
            self._widget = LassoSelector(axes, self._lasso, useblit=True)
        else:
            self._widget = RectangleSelector(axes, self._range, useblit=True)

    def end(self) -> None:
        """Wait no longer."""
        if self._widget is not None:
            self._widget.set_visible(False)
            self._widget.disconnect_events()
        self._widget, self.mode = None, ""

    def _lasso(self, corners: Sequence[tuple[float, float]]) -> None:
        from matplotlib.path import Path as Outline

        outline = Outline(corners)
        self._ended(lambda points: outline.contains_points(points))

    def _range(self, pressed: Any, released: Any) -> None:
        ends = np.sort([[pressed.xdata, pressed.ydata], [released.xdata, released.ydata]], axis=0)
        self._ended(lambda points: ((points >= ends[0]) & (points <= ends[1])).all(axis=1))

    def _ended(self, within: Callable[[np.ndarray], np.ndarray]) -> None:
        points = self.scatter.points
        rows, items = np.nonzero(~np.isnan(points[..., 0]))
        chosen = np.unique(items[within(points[rows, items])]) if len(items) else items
        self.end()
        self.done([self.scatter.joined.names[place] for place in chosen.tolist()])


def write_names(names: Sequence[str], benchmark: str, folder: Path) -> Path:
    """Write names, one a line, to a new text file in a folder, whole or not at all; returns the file.

    Raises:
        UsageError: there are none.
        RunError: it cannot be written.
    """
    if not names:
        raise UsageError("no items are selected: s, then draw a line about them; shift+s, then a rectangle.")
    tries = (folder / f"{benchmark}-items{'' if k == 1 else f'-{k}'}.txt" for k in range(1, 10_000))
    path = next(each for each in tries if not each.exists())
    with replacing(path, read_only=False) as unfinished:
        unfinished.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return path
