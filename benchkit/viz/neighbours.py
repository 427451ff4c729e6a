"""An image and those that lie nearest to it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

GAP = 0.08  # between two pictures, in sides of one
ROOM = 0.54  # for two lines below each, likewise
COLOURS = {True: "tab:green", False: "tab:red", None: "0.4"}
BELOW, MOST = 0.06, 2  # between a picture and its lines, likewise, and how many lines there are at most
POINTS = (3.0, 7.0)  # size of letters, at least and at most
LETTERS = 40  # in a line, at most
LINE = 1.45  # height of a line, in sizes of letters


@dataclass(frozen=True)
class Neighbour:
    """One picture, uint8 (h, w, 3) or None, the lines below it, and whether it is a right answer (None: not an answer)."""

    picture: np.ndarray | None
    said: tuple[str, ...]
    right: bool | None


def draw_tiles(axes: Any, tiles: Sequence[Neighbour]) -> None:
    """Pictures in rows on matplotlib axes, each in a square with a frame in the colour of what it is.

    As many stand side by side as make them largest in the room that the axes have. Lines below a picture are as large as
    there is room for, and cut in their middle.
    """
    from matplotlib.patches import Rectangle

    across = _across(len(tiles), *axes.get_window_extent().size)
    step = (1 + GAP, 1 + ROOM)
    for place, tile in enumerate(tiles):
        left, top = place % across * step[0], place // across * step[1]
        if tile.picture is not None:
            height, width = np.array(tile.picture.shape[:2]) / max(tile.picture.shape[:2])
            x, y = left + (1 - width) / 2, top + (1 - height) / 2
            axes.imshow(tile.picture, extent=(x, x + width, y + height, y))
        colour = COLOURS[tile.right]
        axes.add_patch(Rectangle((left, top), 1, 1, fill=False, edgecolor=colour, linewidth=2))
        axes.add_artist(_lines()(left + 0.5, top + 1 + BELOW, tile.said, colour))
    rows = -(-len(tiles) // across)
    axes.set(xlim=(-0.03, across * step[0] - GAP + 0.03), ylim=(rows * step[1], -0.03), aspect="equal")
    axes.set_axis_off()


def _across(count: int, width: float, height: float) -> int:
    """How many of `count` pictures stand side by side."""
    sides = {k: min(width / (k * (1 + GAP)), height / (-(-count // k) * (1 + ROOM))) for k in range(1, count + 1)}
    return max(sides, key=lambda k: (sides[k], k))


def shortened(text: str, letters: int) -> str:
    """Text of at most so many letters: its middle gives way, since names often differ at their ends."""
    if len(text) <= letters:
        return text
    kept = max(letters - 1, 2)
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


@functools.cache
def _lines() -> Any:
    """A matplotlib Text that fits itself below a picture; made here, so that importing this module imports no matplotlib."""
    from matplotlib.text import Text

    class Lines(Text):
        """Lines below a picture that is one unit of its axes wide; how many pixels that is, only a drawing knows."""

        def __init__(self, x: float, y: float, said: Sequence[str], colour: str) -> None:
            super().__init__(x, y, "\n".join(said), color=colour, ha="center", va="top", parse_math=False)
            self.said = tuple(said)

        def draw(self, renderer: Any) -> None:
            """As large as there is room for."""
            (left, _), (right, _) = self.axes.transData.transform([(0, 0), (1, 0)])  # type: ignore[union-attr]
            side = abs(right - left) * 72 / self.get_figure(root=True).dpi  # type: ignore[union-attr]
            size = float(np.clip((ROOM - BELOW) * side / (MOST * LINE), *POINTS))
            self.set_fontsize(size)
            room = (1 + GAP / 2) * abs(right - left)
            for letters in range(min(max(map(len, self.said), default=0), LETTERS), 2, -1):
                self.set_text("\n".join(shortened(line, letters) for line in self.said))
                if self.get_window_extent(renderer).width <= room:
                    break
            super().draw(renderer)

    return Lines
