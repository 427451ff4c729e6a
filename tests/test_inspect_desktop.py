"""The inspector as a command, and in windows: which toolkit, what closes what; windows stand on canvases in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import CloseEvent, KeyEvent
from matplotlib.backends.backend_agg import FigureCanvasAgg
from tiny_inspector import NAMES, Made

from benchkit.__main__ import main
from benchkit.inspect import desktop
from benchkit.inspect.desktop import DesktopWindow
from benchkit.inspect.viewer import Viewer

NAN = float("nan")


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its managers are matplotlib's own, without a toolkit."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("benchkit.experiments.draw.Images.of", lambda self, experiment: None)
    yield DesktopWindow(FigureCanvasAgg)
    Gcf.figs.clear()


@pytest.fixture
def viewer(window: DesktopWindow, tmp_path: Path) -> Viewer:
    made = Viewer([Made("first", {"hit": [1, 0, NAN, 1]}, root=tmp_path)], window)
    made.start()
    return made


def press(window: DesktopWindow, key: str, frame: int = 0) -> None:
    KeyEvent("key_press_event", window.managers[frame].canvas, key)._process()


class TestWindows:
    def test_each_frame_has_one_and_delete_closes_it(self, viewer: Viewer, window: DesktopWindow):
        press(window, "right")
        press(window, "shift+right")
        assert list(window.managers) == [0, 1, 2]
        assert len(Gcf.figs) == 3
        press(window, "delete", frame=1)
        assert list(window.managers) == [0, 2]
        assert [frame.item for frame in viewer.frames.values()] == [NAMES[1]]
        assert len(Gcf.figs) == 2

    def test_a_window_that_the_user_closes_is_forgotten(self, viewer: Viewer, window: DesktopWindow):
        press(window, "right")
        CloseEvent("close_event", window.managers[1].canvas)._process()
        assert (list(window.managers), viewer.frames) == ([0], {})
        press(window, "right")
        assert list(window.managers) == [0, 1]

    def test_the_scatter_takes_all_frames_with_it(self, viewer: Viewer, window: DesktopWindow):
        press(window, "right")
        press(window, "shift+right")
        CloseEvent("close_event", window.managers[0].canvas)._process()
        assert window.managers == {}
        assert len(Gcf.figs) == 1  # the scatter's own, which its toolkit destroys

    def test_matplotlibs_own_keys_are_off_in_these_windows_alone(self, viewer: Viewer, window: DesktopWindow):
        import matplotlib

        handler = window.managers[0].key_press_handler_id
        callbacks = window.managers[0].canvas.callbacks.callbacks["key_press_event"]
        assert handler is not None
        assert handler not in callbacks
        assert matplotlib.rcParams["keymap.save"] == matplotlib.rcParamsDefault["keymap.save"]
        press(window, "l")  # a logarithmic axis elsewhere
        assert viewer.scatter.axes.get_yscale() == "linear"

    def test_what_is_said_stands_on_standard_error(self, viewer: Viewer, window: DesktopWindow, capsys):
        viewer.act("show_item", item="no\x1b such")
        assert "no experiment has an item 'no\\x1b such'" in capsys.readouterr().err


class TestToolkit:
    def test_without_a_display_there_is_none(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(sys, "platform", "linux")
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            monkeypatch.delenv(name, raising=False)
        assert desktop.backend() == ("", "there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set)")

    @pytest.fixture
    def tried(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Backends that were tried; Qt dies as it does without a library of the system, Tk opens."""
        seen: list[str] = []

        def run(argv: list[str], **_: Any) -> Any:
            seen.append(argv[-1])
            died = argv[-1] == "qtagg"
            stderr = "qt.qpa.plugin: libxcb-cursor0 is needed\nmore\n" if died else ""
            return subprocess.CompletedProcess(argv, -6 if died else 0, "", stderr)

        monkeypatch.setenv("DISPLAY", ":7")
        monkeypatch.delenv("MPLBACKEND", raising=False)
        monkeypatch.setattr(desktop.subprocess, "run", run)
        monkeypatch.setattr(desktop, "_is_there", lambda module: module in ("PySide6", "_tkinter"))
        return seen

    def test_the_first_that_opens_a_window_is_taken(self, tried: list[str]):
        assert desktop.backend() == ("tkagg", "")
        assert tried == ["qtagg", "tkagg"]

    def test_the_users_own_comes_first(self, tried: list[str], monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("MPLBACKEND", "TkAgg")
        assert desktop.backend() == ("tkagg", "")
        assert tried == ["tkagg"]

    def test_why_none_opens_is_said_with_what_to_install(self, tried: list[str], monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(desktop, "_is_there", lambda module: module == "PySide6")
        name, problem = desktop.backend()
        assert name == ""
        assert problem.startswith(
            "no window can be opened (qtagg: qt.qpa.plugin: libxcb-cursor0 is needed): pip install"
        )

    def test_nothing_installed(self, tried: list[str], monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(desktop, "_is_there", lambda module: False)
        assert "no toolkit for windows is installed" in desktop.backend()[1]


class TestCommand:
    @pytest.fixture
    def opened(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        """Viewers that the command made, in windows (their toolkit) or on a page (its port)."""
        import tiny_inspector

        seen: list[Any] = []

        def shown(make_viewer: Any, name: str) -> int:
            seen.append((make_viewer(tiny_inspector.Screen(), {}), name))
            return 0

        def served(make_viewer: Any, port: int | None = None) -> int:
            seen.append((make_viewer(tiny_inspector.Screen(), {"y": "error"}), port))
            return 0

        monkeypatch.setattr("benchkit.commands.inspect._get_ready", lambda: None)
        monkeypatch.setattr(desktop, "show", shown)
        monkeypatch.setattr(desktop, "backend", lambda: ("tkagg", ""))
        monkeypatch.setattr("benchkit.inspect.server.serve", served)
        return seen

    @pytest.fixture
    def tags(self, monkeypatch: pytest.MonkeyPatch) -> None:
        first = Made("first", {"hit": [1, 0, 1, 0], "error": [1, 2, 3, 4]})
        other = Made("second", {"hit": [1, 0], "error": [1, 2]}, ["a/0", "c/0"])
        monkeypatch.setattr("benchkit.experiments.experiment.open_experiments", lambda *_: [first, other])
        monkeypatch.setattr("benchkit.commands.eval.show", lambda records, style: print([r["tag"] for r in records]))

    def test_summaries_are_printed_before_windows_open(self, tags: None, opened: list[Any], capsys):
        assert main(["inspect", "made", "first", "second", "--x", "error"]) == 0
        (viewer, name), said = opened[0], capsys.readouterr()
        assert (viewer.view.x, viewer.view.y, name) == ("error", "hit", "tkagg")
        assert said.out == "['first', 'second']\n"
        assert "shown in windows (tkagg)" in said.err
        assert "second has 1 items that first does not have, and lacks 3 of its 4." in said.err

    def test_without_a_window_it_is_a_page_and_says_why(self, tags: None, opened: list[Any], capsys, monkeypatch):
        monkeypatch.setattr(desktop, "backend", lambda: ("", "there is no display"))
        assert main(["inspect", "made", "first", "--y", "hit"]) == 0
        viewer, port = opened[0]
        assert (viewer.view.y, port) == ("error", None)  # the page's address comes after the command
        assert "shown in a browser (--backend webagg), since there is no display." in capsys.readouterr().err

    def test_a_port_means_a_page(self, tags: None, opened: list[Any]):
        assert main(["inspect", "made", "first", "--port", "9000"]) == 0
        assert opened[0][1] == 9000

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["--x", "eror"], "--x eror: made has no such score."),
            (["--backend", "desktop", "--port", "9000"], "--port is of the page in a browser"),
        ],
    )
    def test_what_cannot_be_is_refused(self, tags: None, opened: list[Any], capsys, argv: list[str], said: str):
        assert main(["inspect", "made", "first", *argv]) == 2
        assert said in capsys.readouterr().err
        assert opened == []

    def test_windows_asked_for_where_there_are_none_are_an_error(
        self, tags: None, opened: list[Any], capsys, monkeypatch
    ):
        monkeypatch.setattr(desktop, "backend", lambda: ("", "there is no display"))
        assert main(["inspect", "made", "first", "--backend", "desktop"]) == 2
        assert "there is no display; or --backend webagg shows it in a browser." in capsys.readouterr().err

    def test_an_unknown_tag_is_refused(self, tmp_path: Path, capsys):
        assert main(["inspect", "classification", "nobody", "--outputs", str(tmp_path)]) == 2
        assert "nobody" in capsys.readouterr().err

    def test_a_tag_does_nothing_to_the_terminal(self, capsys):
        from benchkit.commands.inspect import _say_items

        _say_items([Made("a\x1b[31m", {"hit": [1]}, ["p"]), Made("b\u202e", {"hit": [1]}, ["q"])])  # type: ignore[list-item]
        assert "b\\u202e has 1 items that a\\x1b[31m does not have" in capsys.readouterr().err
