"""The inspector's server: who may ask it, a viewer for each page, pictures one at a time, and how it begins and ends."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tiny_server import PATIENCE, Served, until

from benchkit.errors import UsageError

pytest.importorskip("tornado")
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse
from tornado.websocket import WebSocketClientConnection, websocket_connect


class Drawing:
    """A viewer of one empty figure, which says what it is told."""

    def __init__(self, window: Any, state: Any) -> None:
        from matplotlib.figure import Figure

        if "odd" in state:
            raise ValueError("that state is odd")
        self.window, self.told, self.figure = window, dict(state), Figure(figsize=(2, 1))
        self.moves: list[tuple[float, float]] = []
        self.amount = 1.0

    def start(self) -> None:
        self.window.open(0, self.figure, "<b>title</b>")
        self.figure.canvas.mpl_connect("motion_notify_event", self.moved)
        self.figure.canvas.mpl_connect("key_press_event", lambda event: self.window.say(f"key {event.key}"))

    def moved(self, event: Any) -> None:
        self.moves.append((event.x, event.y))
        self.figure.canvas.blit(self.figure.bbox)

    def state(self) -> dict[str, str]:
        return self.told

    def choices(self) -> dict[str, Any]:
        return {"amount": self.amount}

    def act(self, action: str, **values: str) -> None:
        if action == "fail":
            raise RuntimeError("it failed")
        self.told |= values
        if action == "close":
            self.window.close(0)
        self.window.changed()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(Drawing) as found:
        yield found


def ask(served: Served, path: str, **headers: str) -> HTTPResponse:
    """The answer to a GET; a header `Host` or `Origin` replaces what a browser would send."""

    async def fetch() -> HTTPResponse:
        request = HTTPRequest(served.address + path, headers=headers, follow_redirects=False)
        return await AsyncHTTPClient(force_instance=True).fetch(request, raise_error=False)

    return asyncio.run(fetch())


async def connect(served: Served, path: str, **headers: str) -> WebSocketClientConnection:
    """A web socket; without headers that of the server's own page."""
    address = served.address.replace("http:", "ws:") + path
    return await websocket_connect(HTTPRequest(address, headers=headers or {"Origin": served.address}))


async def control(served: Served, query: str = "") -> WebSocketClientConnection:
    return await connect(served, f"/control?token={served.token}{query}")


async def heard(found: WebSocketClientConnection, key: str) -> dict[str, Any]:
    """The next message that has `key`."""
    while True:
        message = await asyncio.wait_for(found.read_message(), PATIENCE)
        assert message is not None, "closed"
        if isinstance(message, str) and key in (content := json.loads(message)):
            return content


async def picture(found: WebSocketClientConnection, seconds: float = PATIENCE) -> bytes:
    """The next picture."""
    while not isinstance(message := await asyncio.wait_for(found.read_message(), seconds), bytes):
        assert message is not None, "closed"
    return message


def tell(found: WebSocketClientConnection, **content: Any) -> None:
    found.write_message(json.dumps(content))


PATHS = ["/", "/mpl.js", "/page/page.js", "/_images/home.png", "/picture/w/0.png", "/control", "/figure/w/0", "/none"]


class TestWhoMayAsk:
    @pytest.mark.parametrize("path", PATHS)
    def test_nothing_is_answered_without_the_token(self, served: Served, path: str):
        assert ask(served, path).code == 403
        assert ask(served, f"{path}?token=wrong").code == 403
        assert ask(served, f"{path}?token={served.token[:-1]}").code == 403
        assert ask(served, f"{path}?token=%ff%00").code == 403

    def test_a_refusal_says_where_the_token_is(self, served: Served):
        assert b"`python -m benchkit.inspect` printed" in ask(served, "/").body

    @pytest.mark.parametrize("path", PATHS[:4])
    def test_the_page_leaves_a_cookie_that_no_script_reads_and_no_other_site_sends(self, served: Served, path: str):
        (cookie,) = ask(served, f"/?token={served.token}").headers.get_list("Set-Cookie")
        assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
        answer = ask(served, path, Cookie=cookie.split(";")[0])
        assert answer.code == 200
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'; ")
        host = served.address.removeprefix("http://")
        assert f"connect-src 'self' ws://{host};" in answer.headers["Content-Security-Policy"]
        assert ask(served, f"{path}?token=wrong", Cookie=cookie.split(";")[0]).code == 403
        assert ask(served, path, Cookie=cookie.split(";")[0].replace(served.token, "wrong")).code == 403

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9", "LOCALHOST:65535", "[::1]:8988"])
    def test_behind_a_tunnel_the_host_has_another_port(self, served: Served, host: str):
        assert ask(served, f"/?token={served.token}", Host=host).code == 200
        assert ask(served, f"/?token={served.token}", Host=host, Origin=f"http://{host}").code == 200

    @pytest.mark.parametrize(
        "host", ["example.com", "127.0.0.1.example.com", "localhost@example.com", "localhost:9, example.com", "127.1:9"]
    )
    @pytest.mark.parametrize("path", ["/", "/control", "/_images/home.png", "/none"])
    def test_other_names_of_this_machine_are_refused(self, served: Served, host: str, path: str):
        answer = ask(served, f"{path}?token={served.token}", Host=host)
        assert answer.code in (400, 403)  # tornado itself refuses what is no name
        assert answer.code == 400 or b"127.0.0.1" in answer.body

    @pytest.mark.parametrize("origin", ["http://example.com", "null", "http://127.0.0.1:1", "https://127.0.0.1", ""])
    @pytest.mark.parametrize("path", ["/", "/mpl.js", "/control", "/figure/w/0"])
    def test_pages_of_another_origin_are_refused(self, served: Served, origin: str, path: str):
        assert ask(served, f"{path}?token={served.token}", Origin=origin).code == 403

    def test_web_sockets_are_refused_alike(self, served: Served):
        async def attempt(path: str, **headers: str) -> int:
            with pytest.raises(HTTPClientError) as refused:
                await connect(served, path, **headers)
            return refused.value.code

        async def run() -> None:
            for path in ("/control", "/figure/w/0"):
                known = f"{path}?token={served.token}"
                assert await attempt(known, Origin="http://example.com") == 403
                assert await attempt(known, Host="localhost:9", Origin=served.address) == 403
                assert await attempt(known, Accept="*") == 403  # no Origin at all
                assert await attempt(f"{path}?token=wrong") == 403
                assert await attempt(path) == 403

        asyncio.run(run())
        assert served.windows == {}

    @pytest.mark.parametrize(
        "path", ["/page/../server.py", "/page/%2e%2e/web.py", "/_images/..%2f..%2f__init__.py", "/page/"]
    )
    def test_only_files_of_its_two_folders_are_shown(self, served: Served, path: str):
        assert ask(served, f"{path}?token={served.token}").code in (403, 404)

    @pytest.mark.parametrize("path", ["/page/%00", "/_images/home.png%00.js", "/page/" + "a" * 5000])
    def test_a_name_that_no_file_can_have_is_none(self, served: Served, path: str, caplog: pytest.LogCaptureFixture):
        assert ask(served, f"{path}?token={served.token}").code == 404
        assert caplog.text == ""

    def test_no_log_holds_the_token(self, served: Served, caplog: pytest.LogCaptureFixture, monkeypatch):
        monkeypatch.setattr("benchkit.inspect.web.PAGE", None)
        assert ask(served, f"/?token={served.token}").code == 500
        assert "Uncaught exception GET /\n" in caplog.text
        assert served.token not in caplog.text


class TestAViewerForEachPage:
    def test_it_is_made_from_the_address(self, served: Served):
        async def run() -> None:
            page = await control(served, "&x=d1&y=%3Cb%3E&x=rmse")
            assert (await heard(page, "open")) == {"open": 0, "title": "<b>title</b>", "size": [200, 100]}
            assert (await heard(page, "state")) == {"state": {"x": "rmse", "y": "<b>"}, "choices": {"amount": 1}}
            page.close()

        asyncio.run(run())

    def test_text_that_is_no_text_ends_nothing(self, served: Served):
        async def run() -> None:
            page = await control(served, "&x=%ff1")
            assert (await heard(page, "state"))["state"] == {"x": "\ufffd1"}
            page.close()

        asyncio.run(run())

    def test_two_pages_do_not_disturb_each_other(self, served: Served):
        async def run() -> None:
            one, two = await control(served, "&x=1"), await control(served, "&x=2")
            for page in (one, two):
                await heard(page, "state")
            tell(one, act="x", values={"x": "3"})
            assert (await heard(one, "state"))["state"] == {"x": "3"}
            one.close()
            await asyncio.sleep(0.05)
            tell(two, act="y", values={"y": "4"})
            assert (await heard(two, "state"))["state"] == {"x": "2", "y": "4"}
            two.close()

        asyncio.run(run())

    def test_it_goes_with_its_page(self, served: Served):
        async def run() -> weakref.ref:
            page = await control(served)
            window = served.windows[(await heard(page, "window"))["window"]]
            await heard(page, "state")
            figure = await connect(served, f"/figure/{window.name}/0?token={served.token}")
            tell(figure, type="refresh")
            await picture(figure)
            left = weakref.ref(window.viewer.figure)
            page.close()
            while await asyncio.wait_for(figure.read_message(), PATIENCE) is not None:
                pass
            return left

        left = asyncio.run(run())
        assert served.windows == {}
        until(lambda: served.do(gc.collect) * 0 or left() is None)

    @pytest.mark.parametrize(
        "nonsense",
        ["", "{", "[]", '"act"', "[" * 30_000, b"\xff\xfe", '{"act": "x", "values": 3}', '{"act": ["x"]}', "NaN"],
    )
    def test_nonsense_ends_nothing(self, served: Served, nonsense: str | bytes):
        async def run() -> None:
            page = await control(served)
            name = (await heard(page, "window"))["window"]
            figure = await connect(served, f"/figure/{name}/0?token={served.token}")
            for each in (page, figure):
                await each.write_message(nonsense, binary=isinstance(nonsense, bytes))
            tell(page, act="x", values={"x": "3"})
            while (await heard(page, "state"))["state"] != {"x": "3"}:
                pass
            tell(figure, type="refresh")
            assert (await picture(figure)).startswith(b"\x89PNG")
            page.close()

        asyncio.run(run())

    def test_a_message_that_is_too_long_closes_its_own_socket(self, served: Served):
        async def run() -> None:
            one, two = await control(served), await control(served)
            await one.write_message("x" * 100_000)
            while await asyncio.wait_for(one.read_message(), PATIENCE) is not None:
                pass
            tell(two, act="x", values={"x": "3"})
            while (await heard(two, "state"))["state"] != {"x": "3"}:
                pass
            two.close()

        asyncio.run(run())

    def test_what_goes_wrong_in_it_is_said(self, served: Served):
        async def run() -> None:
            odd = await control(served, "&odd=1")
            assert (await heard(odd, "say")) == {"say": "ValueError: that state is odd", "error": True}
            page = await control(served)
            window = served.windows[(await heard(page, "window"))["window"]]
            await heard(page, "state")
            tell(page, act="fail")
            assert (await heard(page, "say")) == {"say": "RuntimeError: it failed", "error": True}
            window.viewer.amount = float("nan")
            tell(page, act="x")
            assert (await heard(page, "say"))["error"]
            window.viewer.amount = 2.0
            tell(page, act="x")
            assert (await heard(page, "state"))["choices"] == {"amount": 2}
            odd.close()
            page.close()

        asyncio.run(run())


class Opened:
    """A page's figure, asked for its first picture."""

    def __init__(self, served: Served) -> None:
        self.served = served

    async def __aenter__(self) -> Opened:
        self.page = await control(self.served)
        self.window = self.served.windows[(await heard(self.page, "window"))["window"]]
        await heard(self.page, "state")
        self.path = f"/figure/{self.window.name}/0?token={self.served.token}"
        self.figure = await connect(self.served, self.path)
        tell(self.figure, type="refresh")
        assert (await picture(self.figure)).startswith(b"\x89PNG")
        return self

    async def __aexit__(self, *error: object) -> None:
        self.page.close()

    def move(self, x: int, y: int) -> None:
        tell(self.figure, type="motion_notify", x=x, y=y, button=0, buttons=0, modifiers=[])


class TestFigures:
    def test_of_moves_that_come_before_a_picture_is_drawn_the_last_counts(self, served: Served):
        async def run() -> None:
            async with Opened(served) as opened:
                for x in range(1, 40):
                    opened.move(x, 10)
                with pytest.raises(TimeoutError):
                    await picture(opened.figure, 0.2)
                assert opened.window.viewer.moves == []

        asyncio.run(run())

        async def acknowledged() -> None:
            async with Opened(served) as opened:
                for x in range(1, 40):
                    opened.move(x, 10)
                tell(opened.figure, type="ack")
                await picture(opened.figure)
                assert opened.window.viewer.moves == [(39, 90)]

        asyncio.run(acknowledged())

    def test_a_key_follows_the_moves_before_it_at_once(self, served: Served):
        async def run() -> None:
            async with Opened(served) as opened:
                opened.move(5, 10)
                tell(opened.figure, type="key_press", key="shift+kArrowLeft")
                assert (await heard(opened.page, "say"))["say"] == "key shift+left"
                assert opened.window.viewer.moves == [(5, 90)]

        asyncio.run(run())

    @pytest.mark.parametrize("key", ["s", "q", "l", "p", "ArrowLeft", "g"])
    def test_keys_are_the_viewers_alone(self, served: Served, key: str):
        async def run() -> None:
            async with Opened(served) as opened:
                tell(opened.figure, type="key_press", key=f"k{key}")
                tell(opened.figure, type="send_image_mode")
                heard_types = set()
                while "image_mode" not in heard_types:
                    heard_types.add((await heard(opened.figure, "type"))["type"])
                assert not heard_types & {"save", "navigate_mode"}

        asyncio.run(run())

    def test_sizes_are_bounded_and_odd_events_are_said(self, served: Served):
        async def run() -> None:
            async with Opened(served) as opened:
                canvas = opened.window.viewer.figure.canvas
                tell(opened.figure, type="resize", width=10**9, height=-5)
                tell(opened.figure, type="set_device_pixel_ratio", device_pixel_ratio=0.001)
                tell(opened.figure, type="resize", width="wide", height=5)
                assert "wide" in (await heard(opened.page, "say"))["say"]
                assert canvas.device_pixel_ratio == 0.5
                tell(opened.figure, type="set_device_pixel_ratio", device_pixel_ratio=float("nan"))
                assert "nan is no ratio" in (await heard(opened.page, "say"))["say"]
                assert canvas.device_pixel_ratio == 0.5
                assert canvas.get_width_height() == (4096, 16)
                tell(opened.figure, type="savefig")  # no event of a page
                tell(opened.figure, type="motion_notify")
                tell(opened.figure, type="ack")
                assert "KeyError" in (await heard(opened.page, "say"))["say"]

        asyncio.run(run())

    def test_an_exception_in_a_drawing_is_said_and_the_next_one_is_drawn(self, served: Served):
        async def run() -> None:
            async with Opened(served) as opened:
                figure = opened.window.viewer.figure
                axes = figure.add_subplot()
                axes.set_title("$\\nonsense{$")
                tell(opened.figure, type="ack")
                tell(opened.figure, type="draw")
                assert (await heard(opened.page, "say"))["error"]
                await picture(opened.figure)
                axes.set_title("plain")
                tell(opened.figure, type="ack")
                tell(opened.figure, type="draw")
                await picture(opened.figure)

        asyncio.run(run())

    @pytest.mark.parametrize(("form", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
    def test_it_can_be_kept_as_a_file(self, served: Served, form: str, begins: bytes):
        async def run() -> None:
            async with Opened(served) as opened:
                path = f"/picture/{opened.window.name}/{{}}.{form}?token={served.token}"
                answers = [await asyncio.to_thread(ask, served, path.format(key)) for key in (0, 1)]
                assert [answer.code for answer in answers] == [200, 404]
                assert answers[0].body.startswith(begins)
                assert answers[0].headers["Content-Disposition"] == f'attachment; filename="benchkit-0.{form}"'
                tell(opened.figure, type="ack")
                assert (await picture(opened.figure)).startswith(b"\x89PNG")

        asyncio.run(run())

    def test_closed_by_the_viewer_its_socket_closes(self, served: Served):
        async def run() -> None:
            async with Opened(served) as opened:
                tell(opened.page, act="close")
                assert (await heard(opened.page, "close")) == {"close": 0}
                while await asyncio.wait_for(opened.figure.read_message(), PATIENCE) is not None:
                    pass
                again = await connect(served, opened.path)
                assert await asyncio.wait_for(again.read_message(), PATIENCE) is None

        asyncio.run(run())


SERVE = """
import sys
from benchkit.commands._shared import guarded
from benchkit.inspect.server import serve
sys.exit(guarded(lambda: serve(None, port=eval(sys.argv[1])), False))
"""


class TestServing:
    @pytest.fixture
    def taken(self) -> Iterator[int]:
        with socket.create_server(("127.0.0.1", 0)) as holder:
            yield holder.getsockname()[1]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_it_says_where_it_is_and_ends_when_told_to(self, number: signal.Signals):
        argv = [sys.executable, "-c", SERVE, "0"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            line = child.stdout.readline()
            found = re.fullmatch(
                r"Open (http://127\.0\.0\.1:(\d+)/\?token=[\w-]{32})  \(from another machine, after: "
                r"ssh -L \2:127\.0\.0\.1:\2 \S+\)\n",
                line,
            )
            assert found, line
            child.stdout.readline()
            asyncio.run(self.stopped(found[1], lambda: child.send_signal(number)))
            out, err = child.communicate(timeout=20)
        assert (child.returncode, out, err) == (0, "ended.\n", "")

    async def stopped(self, url: str, stop: Callable[[], None]) -> None:
        """Stop a server that a page looks at: its sockets are closed."""
        address, token = url.removeprefix("http://").split("/?token=")
        host = address.replace("127.0.0.1", "localhost")  # as behind a tunnel
        headers = {"Host": host, "Origin": f"http://{host}"}
        page = await websocket_connect(HTTPRequest(f"ws://{address}/control?token={token}", headers=headers))
        await heard(page, "window")
        stop()
        while await asyncio.wait_for(page.read_message(), 10) is not None:
            pass

    def test_a_port_that_was_asked_for_is_taken_or_refused(self, taken: int):
        from benchkit.inspect.server import serve

        with pytest.raises(UsageError, match=rf"port {taken} .* --port"):
            serve(lambda window, state: None, port=taken)  # type: ignore[arg-type, return-value]
        with pytest.raises(UsageError, match="70000 is no port"):
            serve(lambda window, state: None, port=70000)  # type: ignore[arg-type, return-value]

    def test_otherwise_any_free_one_will_do(self, taken: int, monkeypatch: pytest.MonkeyPatch):
        from benchkit.inspect import server

        monkeypatch.setattr(server, "PORT", taken)
        (found,) = server._listening(None)
        with found:
            assert found.getsockname()[0] == "127.0.0.1"
            assert found.getsockname()[1] != taken
