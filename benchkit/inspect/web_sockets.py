"""The two kinds of web socket of a page: one that controls its viewer, and one for each of its figures."""

from __future__ import annotations

import json
from typing import Any

from tornado.websocket import WebSocketClosedError, WebSocketHandler

from benchkit.errors import UsageError
from benchkit.inspect.web_guard import Guarded
from benchkit.inspect.web_window import WebWindow

MOUSE = {"button_press", "button_release", "dblclick", "scroll", "figure_enter", "figure_leave"}
EVENTS = {"key_press", "key_release", "refresh", "draw", "send_image_mode", "set_device_pixel_ratio", "toolbar_button"}
NEWEST = {"motion_notify", "resize"}  # of these, only the last one matters


class Socket(Guarded, WebSocketHandler):
    """A web socket that says nothing when it is closed, and ends nothing when it is told nonsense."""

    is_socket = True

    def check_origin(self, origin: str) -> bool:
        """`prepare` has looked at it."""
        return True

    @property
    def windows(self) -> dict[str, WebWindow]:
        """All windows of the server, by name."""
        return self.application.settings["windows"]

    def send_json(self, content: dict[str, Any]) -> None:
        """As JSON without NaN, which browsers do not read."""
        self._write(json.dumps(content, allow_nan=False))

    def _write(self, message: str | bytes) -> None:
        try:
            self.write_message(message, binary=isinstance(message, bytes)).add_done_callback(_forget)
        except WebSocketClosedError:
            return

    def on_message(self, message: str | bytes) -> None:
        """A JSON object; anything else is left unread."""
        try:
            content = json.loads(message)
        except (ValueError, RecursionError):
            return
        if isinstance(content, dict):
            self.told(content)

    def told(self, content: dict[str, Any]) -> None:
        """What the page said."""
        raise NotImplementedError


def _forget(sending: Any) -> None:
    sending.cancelled() or sending.exception()  # a page that goes while it is sent something is no error


class Control(Socket):
    """The life of a viewer: it begins and ends with this socket, whose address carries its state."""

    window: WebWindow | None = None

    def open(self, *args: str, **kwargs: str) -> None:
        """Make a viewer."""
        self.set_nodelay(True)
        self.window = window = WebWindow(self.send_json)
        self.windows[window.name] = window
        self.send_json({"window": window.name})
        asked = self.request.query_arguments.items()
        state = {name: values[-1].decode(errors="replace").strip() for name, values in asked if name != "token"}
        with window.shown():
            window.viewer = self.application.settings["make_viewer"](window, state)
            window.viewer.start()
            window.changed()

    def told(self, content: dict[str, Any]) -> None:
        """`{"act": name, "values": {name: text}}`."""
        if self.window is None or self.window.viewer is None:
            return
        action, values = content.get("act"), content.get("values", {})
        with self.window.shown():
            if not isinstance(action, str) or not isinstance(values, dict):
                raise UsageError("the page asked for something that was not understood.")
            self.window.viewer.act(action, **{name: str(value) for name, value in values.items()})

    def on_close(self) -> None:
        """The page is gone."""
        if self.window is not None:
            self.windows.pop(self.window.name, None)
            self.window.end()


class FigureSocket(Socket):
    """Events of a figure, and its pictures."""

    manager: Any = None

    def open(self, *args: str, **kwargs: str) -> None:
        """Closed at once where there is no such figure any more."""
        name, key = args
        window = self.windows.get(name)
        self.manager = window and window.managers.get(int(key))
        if self.manager is None:
            self.close()
            return
        self.set_nodelay(True)
        self.manager.add_web_socket(self)

    def told(self, content: dict[str, Any]) -> None:
        """An event of matplotlib's page."""
        kind = str(content.get("type"))
        if self.manager is None:
            return
        if kind == "ack":
            self.manager.drawn()
        elif kind in NEWEST:
            self.manager.follow(content)
        elif kind in MOUSE | EVENTS:
            self.manager.handle_json(content)

    def send_binary(self, blob: bytes) -> None:
        """A picture."""
        self.manager.sent()
        self._write(blob)

    def on_close(self) -> None:
        """Its figure may stay, with another socket."""
        if self.manager is not None:
            self.manager.web_sockets.discard(self)
            self.manager = None
