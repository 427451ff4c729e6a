"""Mouse and keys of the viewer's figures, as matplotlib tells them: what they mean to the viewer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchkit.inspect.desk import NAMING
from benchkit.inspect.keys import named
from benchkit.inspect.window import SCATTER

if TYPE_CHECKING:
    from benchkit.inspect.viewer import Viewer

LEFT = 1  # mouse button


class Events:
    """Listens to the canvases of one viewer's figures.

    Attributes:
        typed: what was typed of a search so far; None while none is typed.
    """

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.typed: str | None = None

    def listen(self, key: int, figure: Any) -> None:
        """To the figure under a key, whose canvas is set; matplotlib's own keys are switched off there."""
        canvas, manager = figure.canvas, figure.canvas.manager
        if getattr(manager, "key_press_handler_id", None) is not None:
            canvas.mpl_disconnect(manager.key_press_handler_id)
        self._connect(canvas, "key_press_event", lambda event: self.key(key, event))
        if key != SCATTER:
            self._connect(canvas, "button_press_event", lambda event: setattr(self.viewer.desk, "latest", key))
            self._connect(canvas, "close_event", lambda event: self.viewer.closed(key))
            self._connect(canvas, "resize_event", lambda event: self.viewer.desk.resized(key))
            return
        hover = self.viewer.hover
        self._connect(canvas, "draw_event", lambda event: hover.drawn())
        self._connect(canvas, "resize_event", lambda event: self.resized())
        self._connect(canvas, "motion_notify_event", self.move)
        self._connect(canvas, "figure_leave_event", lambda event: hover.leave())
        self._connect(canvas, "button_press_event", self.press)

    def _connect(self, canvas: Any, name: str, answer: Callable[[Any], object]) -> None:
        canvas.mpl_connect(name, lambda event: self.viewer.guarded(lambda: answer(event)))

    def resized(self) -> None:
        """The scatter has another size."""
        self.viewer.hover.forget()
        self.viewer.scatter.fit()

    def move(self, event: Any) -> None:
        """The mouse moves over the scatter."""
        if self._busy(event):
            return
        if event.inaxes is self.viewer.scatter.axes:
            self.viewer.hover.move(event.x, event.y)
        else:
            self.viewer.hover.leave()

    def press(self, event: Any) -> None:
        """The mouse is pressed on the scatter."""
        if self._busy(event) or event.button != LEFT:
            return
        tag = self.viewer.scatter.entry_at(event)
        if tag is not None:
            self.viewer.act("toggle", tag=tag)
        elif event.inaxes is self.viewer.scatter.axes:
            at = self.viewer.hover.nearest(event.x, event.y)
            if at is not None:
                self.viewer.act("show_item", item=self.viewer.joined.names[at[1]])

    def _busy(self, event: Any) -> bool:
        """Whether the mouse belongs to a selection, or to the toolbar's panning and zooming."""
        return bool(self.viewer.selector.mode) or bool(event.canvas.widgetlock.locked())

    def key(self, figure: int, event: Any) -> None:
        """A key is pressed on a figure."""
        if self.typed is not None:
            self._type(event.key or "")
            return
        found = named(event.key or "")
        if found is None:
            return
        if found.action == "type":
            self._asked("")
        elif found.action == "escape":
            self.viewer.escape()
        else:
            about = {"frame": str(figure)} if figure != SCATTER and found.action in NAMING else {}
            self.viewer.act(found.action, **found.values, **about)

    def _type(self, key: str) -> None:
        """One more letter of a search."""
        typed = self.typed or ""
        if key in ("enter", "escape"):
            self.typed = None
            self.viewer.tell("")
            if key == "enter":
                self.viewer.act("search", text=typed)
        elif key == "backspace":
            self._asked(typed[:-1])
        else:
            letter = key.removeprefix("shift+")
            self._asked(typed + (" " if key == "space" else letter if len(letter) == 1 else ""))

    def _asked(self, typed: str) -> None:
        self.typed = typed
        self.viewer.scatter.say(f"search: {typed}_   (enter: search, escape: leave)")
        self.viewer.scatter.figure.canvas.draw_idle()
