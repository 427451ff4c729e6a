"""The inspector in a browser: a server on 127.0.0.1 whose address, printed with its token, opens a viewer."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchkit.errors import UsageError, reason

if TYPE_CHECKING:
    from benchkit.inspect.web import MakeViewer

ADDRESS = "127.0.0.1"  # no other machine can ask
PORT = 8988  # matplotlib's own for its web server
LONGEST_ADDRESS = 1 << 20  # bytes of a request's head: the page's address holds its state


def serve(make_viewer: MakeViewer, *, port: int | None = None, ready: Callable[[str], None] | None = None) -> int:
    """Show viewers to browsers until Ctrl-C or SIGTERM, in this thread alone: matplotlib takes no other.

    Args:
        make_viewer: from a window, and the state in the page's address.
        port: this one and no other; None for 8988, or else any free one.
        ready: called with the address when the server listens.

    Returns:
        The exit status, 0: being stopped is how a server ends.

    Raises:
        UsageError: tornado is missing, or the port is taken.
    """
    try:
        import tornado  # noqa: F401
    except ImportError as missing:
        raise UsageError("the inspector in a browser needs tornado: pip install 'benchkit[inspect]'.") from missing
    return asyncio.run(_serving(make_viewer, _listening(port), ready))


def _listening(port: int | None) -> list[socket.socket]:
    """Sockets on the port; on any free one where none was asked for and 8988 is taken. Raises UsageError."""
    from tornado.netutil import bind_sockets

    if port is not None and not 0 <= port <= 65535:
        raise UsageError(f"--port {port} is no port: those are 1 to 65535.")
    try:
        return bind_sockets(PORT if port is None else port, ADDRESS, socket.AF_INET)
    except OSError as error:
        if port is None:
            return bind_sockets(0, ADDRESS, socket.AF_INET)
        raise UsageError(
            f"port {port} of {ADDRESS} cannot be had ({reason(error)}): name another one with --port, or none, "
            "for any that is free."
        ) from error


async def _serving(make_viewer: MakeViewer, sockets: list[socket.socket], ready: Callable[[str], None] | None) -> int:
    from tornado.httpserver import HTTPServer

    from benchkit.inspect.web import application

    token = secrets.token_urlsafe(24)
    app = application(make_viewer, token)
    server = HTTPServer(app, max_header_size=LONGEST_ADDRESS, max_body_size=0)
    server.add_sockets(sockets)
    address = f"http://{ADDRESS}:{sockets[0].getsockname()[1]}/?token={token}"
    stopped = asyncio.Event()
    with _signals(lambda: stopped.set()):
        (ready or _tell)(address)
        await stopped.wait()
    server.stop()
    for window in list(app.settings["windows"].values()):
        window.end()
    print("ended.", flush=True)
    return 0


def _tell(address: str) -> None:
    port = address.split(":")[2].split("/")[0]
    print(f"Open {address}  (from another machine, after: ssh -L {port}:{ADDRESS}:{port} {socket.gethostname()})")
    print("Ctrl-C ends it.", flush=True)


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the server when what it draws is drawn; a second one stops it where it is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def first(number: int, frame: Any) -> None:
        signal.signal(number, signal.default_int_handler)
        loop.call_soon_threadsafe(stop)

    try:
        for each in before:
            signal.signal(each, first)
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
