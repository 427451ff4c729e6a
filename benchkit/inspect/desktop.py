"""The viewer in windows of the desktop, by one of matplotlib's interactive backends."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchkit.commands._shared import say
from benchkit.errors import UsageError, printable
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
INSTALL = "pip install PySide6-Essentials (Qt), or your system's package of Tk (Debian: apt install python3-tk)"


def unavailable() -> str:
    """Why no window can be opened here; "" where one can."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set)"
    if toolkit() is None:
        return f"no toolkit for windows is installed: {INSTALL}"
    return ""


def toolkit() -> str | None:
    """The backend of matplotlib whose toolkit is installed: the one that $MPLBACKEND names, else the first."""
    wanted = os.environ.get("MPLBACKEND", "").lower()
    fitting = [name for name, modules in TOOLKITS.items() if any(_is_there(each) for each in modules)]
    return wanted if wanted in fitting else next(iter(fitting), None)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it is missing
        return False


class DesktopWindow:
    """A `Window` of windows, one for each figure.

    Args:
        canvas: the class of canvases of a matplotlib backend.

    Attributes:
        managers: of matplotlib, by key.
    """

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


def show(make_viewer: Callable[[DesktopWindow, Mapping[str, str]], Viewer]) -> int:
    """Open a viewer and wait until its scatter is closed; returns the exit status.

    Raises:
        UsageError: no window can be opened.
    """
    if reason := unavailable():
        raise UsageError(f"{reason}; or --backend webagg shows it in a browser.")
    try:
        backend = importlib.import_module(f"matplotlib.backends.backend_{toolkit()}")
        window = DesktopWindow(backend.FigureCanvas)
        make_viewer(window, {}).start()
        manager = window.managers[SCATTER]
    except (ImportError, RuntimeError) as error:  # of the toolkit; Tk's own is a RuntimeError by another name
        raise UsageError(
            f"no window can be opened ({toolkit()}: {error}): --backend webagg shows it in a browser."
        ) from error
    manager.start_main_loop()
    return 0
