"""The viewer: a scatter, item frames, and everything that a key or a toolbar does to them. It knows no window system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchkit.errors import UsageError
from benchkit.inspect.aligned import Aligned
from benchkit.inspect.scatter import Scatter
from benchkit.inspect.view import ORDERS, axes_of, read_view
from benchkit.inspect.window import SCATTER, Window

if TYPE_CHECKING:
    from benchkit.experiments.experiment import Experiment


class Viewer:
    """Experiments of one benchmark in a window.

    Args:
        experiments: at least one.
        window: where figures are shown.
        state: as `state()` told it.
    """

    def __init__(self, experiments: Sequence[Experiment], window: Window, state: Mapping[str, str] | None = None) -> None:
        self.aligned, self.window = Aligned(experiments), window
        self.view, self._odd = read_view(self.aligned, [], state or {})
        self.scatter = Scatter(self.aligned)
        self.frames: dict[int, Any] = {}

    def start(self) -> None:
        """Open the scatter."""
        self.scatter.draw(self.view)
        self.window.open(SCATTER, self.scatter.figure, self.aligned.experiments[0].benchmark)
        for line in self._odd:
            self.window.say(line)

    def state(self) -> dict[str, str]:
        """What is being looked at, as text: it can be given to another viewer."""
        return self.view.told()

    def choices(self) -> dict[str, Any]:
        """What a toolbar offers, as plain JSON."""
        shown = [{"tag": tag, "visible": tag not in self.view.hidden} for tag in self.aligned.tags]
        return {
            "benchmark": self.aligned.experiments[0].benchmark,
            "axes": axes_of(self.aligned),
            "x": self.view.x,
            "y": self.view.y,
            "diff_only": self.view.diff_only,
            "text": self.view.text,
            "order": self.view.order,
            "orders": dict(ORDERS),
            "kind": self.view.kind,
            "kinds": [],
            "experiments": shown,
            "search": self.view.search,
            "selected": list(self.view.selected),
            "frames": {str(key): "" for key in self.frames},
        }

    def act(self, action: str, **values: str) -> None:
        """Do by name what a key or a toolbar does.

        Args:
            action: x, y (`to`: an axis, or `step`: "1" or "-1").
            values: of the action.
        """
        actions: dict[str, Callable[..., None]] = {"x": self._x, "y": self._y}
        try:
            if action not in actions:
                raise UsageError(f"there is no action {action!r}.")
            actions[action](**values)
            self.window.changed()
        except Exception as error:
            self.window.say(str(error), error=True)

    def _x(self, to: str = "", step: str = "1") -> None:
        self.view.x = to or _after(axes_of(self.aligned), self.view.x, int(step))
        self.scatter.draw(self.view)
        self.scatter.figure.canvas.draw_idle()

    def _y(self, to: str = "", step: str = "1") -> None:
        self.view.y = to or _after(axes_of(self.aligned), self.view.y, int(step))
        self.scatter.draw(self.view)
        self.scatter.figure.canvas.draw_idle()


def _after(known: Sequence[str], name: str, step: int) -> str:
    return known[(known.index(name) + step) % len(known)]
