"""The window of a viewer in a browser: one page, whose control socket opens and closes figures in it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchkit.errors import BenchkitError
from benchkit.inspect.web_figures import manager

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchkit.inspect.viewer import Viewer


class WebWindow:
    """A `Window` over a control socket.

    Attributes:
        name: of this window, in the addresses of its figures; it cannot be guessed.
        managers: of the figures that are open, by key.
        viewer: None before there is one.
    """

    speaks = True

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self.name = secrets.token_urlsafe(12)
        self.managers: dict[int, Any] = {}
        self.viewer: Viewer | None = None
        self._send, self._telling = send, False

    def open(self, key: int, figure: Figure, title: str) -> None:
        """Show a figure; the page opens a socket of its own for it."""
        self._end(key)
        self.managers[key] = manager(figure, key, title, self.shown)
        width, height = (float(side) for side in figure.get_size_inches() * figure.dpi)
        self._send({"open": key, "title": title, "size": [width, height]})

    def close(self, key: int) -> None:
        """Take a figure out of the page."""
        if self._end(key):
            self._send({"close": key})

    def changed(self) -> None:
        """Tell the page what there is to choose and what is chosen, once for all that happens at a time."""
        if not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_soon(self._tell)

    def say(self, text: str, error: bool = False) -> None:
        """A line of text for the user."""
        self._send({"say": str(text), "error": error})

    @contextmanager
    def shown(self) -> Iterator[None]:
        """An exception is told to the user and ends nothing."""
        try:
            yield
        except Exception as error:
            kind = "" if isinstance(error, BenchkitError) else f"{type(error).__name__}: "
            self.say(f"{kind}{error}", error=True)

    def end(self) -> None:
        """The page is gone: so are its figures and its viewer."""
        for key in list(self.managers):
            self._end(key)
        self.viewer = None

    def _tell(self) -> None:
        self._telling = False
        if self.viewer is not None:
            with self.shown():
                self._send({"state": self.viewer.state(), "choices": self.viewer.choices()})

    def _end(self, key: int) -> bool:
        ended = self.managers.pop(key, None)
        if ended is not None:
            ended.end()
        return ended is not None
