"""Who may ask the inspector's server: a browser on this machine (or behind `ssh -L`) that was given the token, and no other page.

The server listens on 127.0.0.1 alone. A name that another machine's page makes point there (DNS rebinding) is refused by the
header Host, a page of another origin by the header Origin, and whoever else uses this machine by the token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

from tornado.httputil import HTTPServerRequest
from tornado.log import app_log
from tornado.web import HTTPError, RequestHandler

from benchkit.errors import printable

HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)  # any port: ssh -L may give another
# mpl.js lays out its elements by style attributes and shows its pictures from blobs; not all browsers count web sockets
# among what comes from 'self'.
POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' blob: data:; connect-src 'self' ws://{host}; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
NO_TOKEN = (
    "This page needs the token that `python -m benchkit.inspect` printed: open the whole address that it printed."
)


def cookie_of(token: str) -> str:
    """The name of the cookie that holds a token: cookies are shared by all ports, so each server has a name of its own."""
    return f"benchkit-{hashlib.sha256(token.encode()).hexdigest()[:12]}"


def refusal(request: HTTPServerRequest, token: str, *, socket: bool) -> str | None:
    """Why a request is refused, or None. Pages of browsers always send an Origin with a web socket, so there it is needed."""
    host = request.headers.get("Host", "")
    if not HOST.fullmatch(host):
        return "This server answers as 127.0.0.1 or localhost only."
    origin = request.headers.get("Origin", None if socket else f"http://{host}")
    if origin is None or origin.lower() != f"http://{host}".lower():
        return "This server answers its own page only."
    return None if hmac.compare_digest(_given(request, token), token.encode()) else NO_TOKEN


def _given(request: HTTPServerRequest, token: str) -> bytes:
    """The token of the address, or else that of the cookie."""
    if "token" in request.query_arguments:
        return request.query_arguments["token"][-1]
    cookie = request.cookies.get(cookie_of(token))
    return cookie.value.encode() if cookie else b""


class Guarded(RequestHandler):
    """Answers only who may ask; every answer carries the headers that keep other pages out."""

    is_socket = False

    @property
    def token(self) -> str:
        """The server's token."""
        return self.application.settings["token"]

    def set_default_headers(self) -> None:
        """Also those of errors."""
        for name, value in HEADERS.items():
            self.set_header(name, value)
        host = self.request.headers.get("Host", "")
        self.set_header("Content-Security-Policy", POLICY.format(host=host if HOST.fullmatch(host) else "127.0.0.1"))

    def prepare(self) -> None:
        """Raises HTTPError 403."""
        if refused := refusal(self.request, self.token, socket=self.is_socket):
            raise HTTPError(403, refused.replace("%", "%%"))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """A sentence as plain text."""
        error = kwargs.get("exc_info", (None, None))[1]
        said = error.log_message if isinstance(error, HTTPError) and error.log_message else self._reason
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{said}\n")

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Refusals are no news; what goes wrong in a viewer is said in its page. The query holds the token: it is left out."""
        if not isinstance(value, HTTPError):
            where = f"{self.request.method} {printable(self.request.path, 200)}"
            app_log.error("Uncaught exception %s", where, exc_info=(typ, value, tb))


class Nothing(Guarded):
    """Every path that is none."""

    def prepare(self) -> None:
        """Raises HTTPError 403 or 404."""
        super().prepare()
        raise HTTPError(404, "There is no such page.")
