"""The scatter: a point per item and experiment."""

from __future__ import annotations

from benchkit.inspect.aligned import Aligned
from benchkit.inspect.view import View


class Scatter:
    """A figure with the scores of all items."""

    def __init__(self, aligned: Aligned) -> None:
        from matplotlib.figure import Figure

        self.aligned = aligned
        self.figure = Figure(figsize=(9, 6))
        self.axes = self.figure.add_axes((0.08, 0.1, 0.67, 0.8))

    def draw(self, view: View) -> None:
        """Draw anew."""
        self.axes.clear()
        for row, tag in enumerate(self.aligned.tags):
            x, y = (self.aligned.scores(c)[row] if c in self.aligned.columns else range(len(self.aligned.names)) for c in (view.x, view.y))
            self.axes.plot(x, y, ".", label=tag)
