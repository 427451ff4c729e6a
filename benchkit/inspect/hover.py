"""What follows the mouse: the nearest point, lines to the same item of the other experiments, and its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.errors import printable
from benchkit.inspect.scatter import number
from benchkit.viz.pairs import wrapped

if TYPE_CHECKING:
    from benchkit.inspect.scatter import Scatter

REACH = 25.0  # pixels from the mouse to a point that it means


class Hover:
    """Draws over a scatter that is on a canvas, without drawing the scatter again.

    Attributes:
        at: experiment and item (rows) that the mouse means; None for nothing.
        lines, ring, text: what is drawn; they are hidden while `at` is None.
    """

    def __init__(self, scatter: Scatter) -> None:
        self.scatter = scatter
        self.at: tuple[int, int] | None = None
        self._background: Any = None
        self.prepare()

    def prepare(self) -> None:
        """The scatter was drawn anew: what hovers over it was cleared with it."""
        axes = self.scatter.axes
        (self.lines,) = axes.plot(
            [], [], color="black", linewidth=0.7, animated=True, zorder=5, scalex=False, scaley=False
        )
        self.ring = axes.plot(
            [], [], "o", markerfacecolor="none", color="black", animated=True, scalex=False, scaley=False
        )[0]
        if not hasattr(self, "text"):
            frame = {"boxstyle": "round", "facecolor": "white", "edgecolor": "0.5", "alpha": 0.9}
            self.text = self.scatter.figure.text(0, 0, "", fontsize=8, bbox=frame, animated=True, parse_math=False)
        self.forget()

    def drawn(self) -> None:
        """The canvas was drawn: keep its pixels, and where the points lie on it."""
        canvas: Any = self.scatter.figure.canvas
        if canvas.is_saving():  # at another size
            return
        self._background = canvas.copy_from_bbox(self.scatter.figure.bbox)
        rows, items = np.nonzero(~np.isnan(self.scatter.points[..., 0]))
        pixels = self.scatter.axes.transData.transform(self.scatter.points[rows, items]).reshape(-1, 2)
        low, high = self.scatter.axes.bbox.get_points()
        seen = ((pixels >= low - 1) & (pixels <= high + 1)).all(axis=1)
        self._where, self._pixels = np.stack([rows, items], axis=1)[seen], pixels[seen]

    def forget(self) -> None:
        """The canvas has another size, and will be drawn again."""
        self.at, self._background = None, None

    def nearest(self, x: float, y: float) -> tuple[int, int] | None:
        """Experiment and item (rows) of the nearest point within `REACH` of a pixel of the canvas."""
        if self._background is None or not len(self._pixels):
            return None
        away = np.square(self._pixels - (x, y)).sum(axis=1)
        best = int(away.argmin())
        return (int(self._where[best, 0]), int(self._where[best, 1])) if away[best] <= REACH**2 else None

    def move(self, x: float, y: float) -> None:
        """The mouse is at a pixel of the canvas."""
        self._show(self.nearest(x, y))

    def leave(self) -> None:
        """The mouse is elsewhere."""
        self._show(None)

    def _show(self, at: tuple[int, int] | None) -> None:
        if self._background is None or at == self.at:
            return
        self.at = at
        canvas: Any = self.scatter.figure.canvas
        canvas.restore_region(self._background)
        if at is not None:
            self._set(*at)
            for each in (self.lines, self.ring):
                self.scatter.axes.draw_artist(each)
            self.scatter.figure.draw_artist(self.text)
        canvas.blit(self.scatter.figure.bbox)

    def _set(self, row: int, item: int) -> None:
        """Lines from the point to the same item of each other experiment."""
        own, all_of = self.scatter.points[row, item], self.scatter.points[:, item]
        others = np.delete(all_of, row, axis=0)
        others = others[~np.isnan(others[:, 0])]
        path = np.stack([np.broadcast_to(own, others.shape), others, np.full(others.shape, np.nan)], axis=1)
        self.lines.set_data(*path.reshape(-1, 2).T)
        self.ring.set_data(*np.concatenate([own[None], others]).T)
        figure = self.scatter.figure
        x, y = figure.transFigure.inverted().transform(self.scatter.axes.transData.transform(own))
        self.text.set_text(self._said(row, item))
        right, top = x > 0.5, y > 0.6
        self.text.set(x=x + (-0.015 if right else 0.015), y=y + (-0.02 if top else 0.02))
        self.text.set(ha="right" if right else "left", va="top" if top else "bottom")

    def _said(self, row: int, item: int) -> str:
        """The item's name, the experiment, and the scores at the point."""
        scatter = self.scatter
        axes = [each for each in (scatter.x, scatter.y) if each.scored]
        scores = ", ".join(f"{each.label.split(',')[0]} {number(float(each.values[row, item]))}" for each in axes)
        lines = [printable(scatter.joined.names[item]), f"{printable(scatter.joined.tags[row])}: {scores}"]
        return "\n".join(wrapped(line, 4) for line in lines)
