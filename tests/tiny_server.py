"""The inspector's server in a thread of the tests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 30.0  # seconds: cores may be shared


class Served:
    """The inspector's server in a thread of its own, on any free port.

    Attributes:
        address: without the token.
        token: of this server.
        windows: of the pages that are open, by name.
    """

    def __init__(self, make_viewer: Callable[..., Any]) -> None:
        from benchkit.inspect.web import application

        self.token = "a-token_of-this-test"
        app = application(make_viewer, self.token)
        self.windows = app.settings["windows"]
        self._app, self._listens = app, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._listens.wait(PATIENCE)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(PATIENCE)

    @property
    def url(self) -> str:
        """With the token."""
        return f"{self.address}/?token={self.token}"

    async def _run(self) -> None:
        from tornado.httpserver import HTTPServer
        from tornado.netutil import bind_sockets

        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        sockets = bind_sockets(0, "127.0.0.1")
        self.address = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        server = HTTPServer(self._app)
        server.add_sockets(sockets)
        self._listens.set()
        await self._stopped.wait()
        server.stop()
        await server.close_all_connections()

    def do(self, work: Callable[[], Any]) -> Any:
        """The value of `work()`, done in the server's thread, where alone figures may be touched."""

        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE)


def until(true: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """The first value of `true()` that is true; asked again and again."""
    end = time.monotonic() + seconds
    while not (value := true()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.02)
    return value
