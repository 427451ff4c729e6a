"""What the viewer needs of a window system; `desktop` and `server` are two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCATTER = 0  # key of the scatter; item frames count from 1


class Window(Protocol):
    """Shows figures, each under a key.

    Attributes:
        speaks: what is said stands in the window itself; else the viewer writes it below the scatter too.
    """

    speaks: bool

    def open(self, key: int, figure: Figure, title: str) -> None:
        """Give a figure a canvas and show it; afterwards `figure.canvas` takes part in events."""

    def close(self, key: int) -> None:
        """The frame is gone: take it off the screen."""

    def changed(self) -> None:
        """`Viewer.state()` or `Viewer.choices()` are other than before."""

    def say(self, text: str, error: bool = False) -> None:
        """Tell the user, in a line or a paragraph of plain text."""
