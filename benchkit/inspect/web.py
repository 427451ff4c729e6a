"""The inspector as a web application: its page, matplotlib's script and icons, pictures to keep, and the sockets."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tornado.web import Application, HTTPError, StaticFileHandler

from benchkit.inspect.web_guard import Guarded, Nothing, cookie_of
from benchkit.inspect.web_sockets import Control, FigureSocket

if TYPE_CHECKING:
    from benchkit.inspect.viewer import Viewer
    from benchkit.inspect.window import Window

MakeViewer = Callable[["Window", Mapping[str, str]], "Viewer"]
PAGE = Path(__file__).parent / "page"
FORMATS = {"png": "image/png", "pdf": "application/pdf", "svg": "image/svg+xml"}
LONGEST_MESSAGE = 1 << 16  # bytes that a page may say at once
PING = 60  # seconds: a page behind a broken line is noticed


def application(make_viewer: MakeViewer, token: str) -> Application:
    """A server's application: every page that is loaded makes a viewer.

    Args:
        make_viewer: from a window, and the state in the page's address.
        token: who has it may ask.
    """
    import matplotlib

    figure = r"([\w-]+)/(\d{1,9})"
    routes: list[Any] = [
        (r"/", Page),
        (r"/mpl\.js", MatplotlibScript),
        (r"/page/(.+)", Files, {"path": str(PAGE)}),
        (r"/_images/(.+)", Files, {"path": str(Path(matplotlib.get_data_path(), "images"))}),
        (r"/control", Control),
        (rf"/figure/{figure}", FigureSocket),
        (rf"/picture/{figure}\.({'|'.join(FORMATS)})", Picture),
    ]
    return Application(
        routes,
        default_handler_class=Nothing,
        log_function=lambda handler: None,  # addresses hold the token
        websocket_ping_interval=PING,
        websocket_max_message_size=LONGEST_MESSAGE,
        token=token,
        make_viewer=make_viewer,
        windows={},
    )


class Page(Guarded):
    """The page; it leaves the token in a cookie for its scripts, icons and sockets."""

    def get(self) -> None:
        """GET /?token=...&x=..."""
        self.set_cookie(cookie_of(self.token), self.token, httponly=True, samesite="Strict")
        self.finish((PAGE / "index.html").read_bytes())


class MatplotlibScript(Guarded):
    """matplotlib's own part of the page."""

    def get(self) -> None:
        """GET /mpl.js"""
        from matplotlib.backends.backend_webagg_core import FigureManagerWebAgg

        self.set_header("Content-Type", "text/javascript; charset=utf-8")
        self.finish(FigureManagerWebAgg.get_javascript())


class Files(Guarded, StaticFileHandler):
    """Files of a folder."""

    def validate_absolute_path(self, root: str, absolute_path: str) -> str | None:
        """As the base class does it. Raises HTTPError 403 or 404, also for a name that no file can have."""
        try:
            return super().validate_absolute_path(root, absolute_path)
        except (OSError, ValueError):
            raise HTTPError(404, "There is no such page.") from None


class Picture(Guarded):
    """A figure as a file to keep."""

    def get(self, name: str, key: str, form: str) -> None:
        """GET /picture/WINDOW/KEY.png"""
        window = self.application.settings["windows"].get(name)
        manager = window and window.managers.get(int(key))
        if manager is None:
            raise HTTPError(404, "That figure is closed.")
        data = io.BytesIO()
        with window.shown():
            manager.canvas.figure.savefig(data, format=form)
        manager.canvas.draw_idle()  # saving has drawn at another resolution
        self.set_header("Content-Type", FORMATS[form])
        self.set_header("Content-Disposition", f'attachment; filename="benchkit-{key}.{form}"')
        self.finish(data.getvalue())
