"""Figures in a page: matplotlib's webagg core, with blitting, and with one picture at a time on its way to the page."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PATIENCE = 3.0  # seconds after which a picture that the page did not acknowledge counts as drawn
LARGEST = 4096  # CSS pixels of a side
Shown = Callable[[], AbstractContextManager[None]]


def manager(figure: Figure, key: int, title: str, shown: Shown) -> Any:
    """Give a figure a canvas and a manager (`FigureManagerWebAgg`); `shown` tells the user of exceptions."""
    canvas_class, manager_class = _classes()
    made = manager_class(canvas_class(figure), key)
    made.shown, made._newest = shown, {}
    made.set_window_title(title)
    made.canvas.mpl_disconnect(made.key_press_handler_id)  # matplotlib's own keys: the viewer has others
    return made


@functools.cache
def _classes() -> tuple[Any, Any]:
    """The canvas and the manager; made here, so that importing this module does not import matplotlib."""
    from matplotlib.backends import backend_webagg_core as core

    class Canvas(core.FigureCanvasWebAggCore):
        """The core's canvas draws when the page asks for it; this one draws by itself, once, when the loop is free."""

        manager: Any
        supports_blit = True  # the core says False, but does what it takes

        def draw_idle(self) -> None:
            if self.manager:  # there is none while a figure is being saved
                self.manager.want_drawing()

        def handle_draw(self, event: Any) -> None:
            self.draw_idle()

        def handle_resize(self, event: Any) -> None:
            width, height = (min(max(int(event[side]), 16), LARGEST) for side in ("width", "height"))
            if (width, height) != self.get_width_height():
                super().handle_resize({"width": width, "height": height})

        def handle_set_device_pixel_ratio(self, event: Any) -> None:
            ratio = float(event["device_pixel_ratio"])
            if not math.isfinite(ratio):  # it would pass the bounds, and no drawing would succeed any more
                raise ValueError(f"{ratio} is no ratio of pixels")
            ratio = min(max(ratio, 0.5), 4.0)
            super().handle_set_device_pixel_ratio({"device_pixel_ratio": ratio})

    class Manager(Flow, core.FigureManagerWebAgg):
        """Sends to the page when it has drawn what it has got."""

    return Canvas, Manager


class Flow:
    """The part of a manager that sends no second picture, and follows neither mouse nor size, before the page drew the first.

    mpl.js shows all pictures through one image element: of two that come at once, the first may never be drawn, and what
    only it held (pictures are differences) is missing. On a slow line mouse moves would pile up. So the page acknowledges
    a picture when it is drawn; meanwhile only the newest move and size are kept, and drawings and blits are joined.
    """

    canvas: Any
    web_sockets: set[Any]
    shown: Shown
    _on_its_way: asyncio.TimerHandle | None = None
    _due = _drawing_due = _sending_due = False
    _newest: dict[str, dict[str, Any]]

    def end(self) -> None:
        """The figure is closed: nothing of it is shown any more."""
        sockets, self.web_sockets = self.web_sockets, set()
        for socket in sockets:
            socket.close()
        if self._on_its_way:
            self._on_its_way.cancel()

    def want_drawing(self) -> None:
        """Draw soon."""
        self._drawing_due = True
        self._soon()

    def follow(self, event: dict[str, Any]) -> None:
        """The mouse moved, or the page has another size: soon."""
        self._newest[event["type"]] = event
        self._soon()

    def handle_json(self, content: dict[str, Any]) -> None:
        """Any other event, at once, after the moves before it."""
        with self.shown():
            self._follow()
            self.canvas.handle_event(content)

    def refresh_all(self) -> None:
        """Send what is new, now or when the page is ready."""
        self._sending_due = self._on_its_way is not None
        if not self._sending_due:
            super().refresh_all()  # type: ignore[misc]

    def sent(self) -> None:
        """A picture is on its way."""
        self._on_its_way = self._on_its_way or asyncio.get_running_loop().call_later(PATIENCE, self.drawn)

    def drawn(self) -> None:
        """The page has drawn it."""
        if self._on_its_way:
            self._on_its_way.cancel()
            self._on_its_way = None
        self._soon()

    def _soon(self) -> None:
        if not self._due and not self._on_its_way:
            self._due = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        self._due = False
        if not self.web_sockets:  # nobody looks: the first to come asks for a drawing
            return
        with self.shown():
            self._follow()
            if self._drawing_due:
                self._drawing_due = False
                self.canvas.draw()
            elif self._sending_due:
                self.refresh_all()

    def _follow(self) -> None:
        while self._newest:
            self.canvas.handle_event(self._newest.pop(next(iter(self._newest))))
