"""The viewer in windows of the desktop, by one of matplotlib's interactive backends."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchkit.commands._shared import say
from benchkit.errors import printable
from benchkit.inspect.window import SCATTER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchkit.inspect.viewer import Viewer

TOOLKITS = {  # modules that a backend of matplotlib needs, any of them
    "qtagg": ("PySide6", "PyQt6", "PyQt5"),
    "tkagg": ("_tkinter",),
    "macosx": ("matplotlib.backends._macosx",),
    "wxagg": ("wx",),
}
TRY = """
import importlib, sys
from matplotlib.figure import Figure
importlib.import_module(f"matplotlib.backends.backend_{sys.argv[1]}").FigureCanvas.new_manager(Figure(), 1)
"""
PATIENCE = 30  # seconds
INSTALL = "pip install PySide6-Essentials (Qt), or your system's package of Tk (Debian: apt install python3-tk)"


def backend() -> tuple[str, str]:
    """The matplotlib backend by which a window can be opened here, or "" and why there is none.

    The one that $MPLBACKEND names is tried first, then those of `TOOLKITS`, each in a process of its own: Qt ends its process
    where a library of the system is missing.
    """
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "", "there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set)"
    wanted = os.environ.get("MPLBACKEND", "").lower()
    installed = [name for name, modules in TOOLKITS.items() if any(_is_there(each) for each in modules)]
    failed = []
    for name in sorted(installed, key=lambda name: name != wanted):
        if (problem := _problem(name)) is None:
            return name, ""
        failed.append(f"{name}: {problem}")
    return "", f"no window can be opened ({'; '.join(failed) or 'no toolkit for windows is installed'}): {INSTALL}"


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it is missing
        return False


def _problem(name: str) -> str | None:
    """Why a backend opens no window; None where it does."""
    try:
        tried = subprocess.run([sys.executable, "-c", TRY, name], capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"it did not answer within {PATIENCE} s"
    lines = [line for line in tried.stderr.splitlines() if line.strip()]
    return (
        None
        if tried.returncode == 0
        else printable(lines[0 if tried.returncode < 0 else -1] if lines else "it failed", 200)
    )


class DesktopWindow:
    """A `Window` of windows, one for each figure.

    Args:
        canvas: the class of canvases of a matplotlib backend.

    Attributes:
        managers: of matplotlib, by key.
    """

    speaks = False  # standard error may be behind the windows

    def __init__(self, canvas: Any) -> None:
        self.canvas = canvas
        self.managers: dict[int, Any] = {}

    def open(self, key: int, figure: Figure, title: str) -> None:
        """Show a figure in a window of its own."""
        from matplotlib._pylab_helpers import Gcf  # by which backends know when their last window is closed

        number = max([0, *Gcf.figs]) + 1
        manager = self.canvas.new_manager(figure, number)
        Gcf.figs[number] = manager
        manager.set_window_title(printable(title))
        self.managers[key] = manager
        figure.canvas.mpl_connect("close_event", lambda event: self._closed(key))
        manager.show()

    def close(self, key: int) -> None:
        """Close the window of a figure."""
        from matplotlib._pylab_helpers import Gcf

        manager = self.managers.pop(key, None)
        if manager is not None:
            Gcf.destroy(manager)

    def changed(self) -> None:
        """Windows have no toolbar of the viewer's."""

    def say(self, text: str, error: bool = False) -> None:
        """On standard error too, where it can be copied."""
        say(printable(text))

    def _closed(self, key: int) -> None:
        """By the user: without the scatter nothing is left to do."""
        self.managers.pop(key, None)
        for other in list(self.managers) if key == SCATTER else ():
            self.close(other)


def show(make_viewer: Callable[[DesktopWindow, Mapping[str, str]], Viewer], name: str) -> int:
    """Open a viewer and wait until its scatter is closed; returns the exit status. `name`: as `backend` gives it."""
    window = DesktopWindow(importlib.import_module(f"matplotlib.backends.backend_{name}").FigureCanvas)
    make_viewer(window, {}).start()
    window.managers[SCATTER].start_main_loop()
    return 0
