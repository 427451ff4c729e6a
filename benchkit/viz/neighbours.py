"""An image and those that lie nearest to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

ACROSS = 4  # pictures in a row
GAP = 0.08  # between two, in sides of one
ROOM = 0.34  # for two lines below each, likewise
COLOURS = {True: "tab:green", False: "tab:red", None: "0.4"}
LETTERS = 16


@dataclass(frozen=True)
class Neighbour:
    """One picture, uint8 (h, w, 3) or None, the lines below it, and whether it is a right answer (None: not an answer)."""

    picture: np.ndarray | None
    said: tuple[str, ...]
    right: bool | None


def draw_tiles(axes: Any, tiles: Sequence[Neighbour]) -> None:
    """Pictures in rows on matplotlib axes, each in a square with a frame in the colour of what it is."""
    from matplotlib.patches import Rectangle

    step = (1 + GAP, 1 + ROOM)
    for place, tile in enumerate(tiles):
        left, top = place % ACROSS * step[0], place // ACROSS * step[1]
        if tile.picture is not None:
            height, width = np.array(tile.picture.shape[:2]) / max(tile.picture.shape[:2])
            x, y = left + (1 - width) / 2, top + (1 - height) / 2
            axes.imshow(tile.picture, extent=(x, x + width, y + height, y))
        colour = COLOURS[tile.right]
        axes.add_patch(Rectangle((left, top), 1, 1, fill=False, edgecolor=colour, linewidth=2))
        lines = [line if len(line) <= LETTERS else line[: LETTERS - 1] + "…" for line in tile.said]
        said = "\n".join(lines)
        axes.text(left + 0.5, top + 1.03, said, ha="center", va="top", fontsize=6, color=colour, parse_math=False)
    rows, across = -(-len(tiles) // ACROSS), min(len(tiles), ACROSS)
    axes.set(xlim=(-0.03, across * step[0] - GAP + 0.03), ylim=(rows * step[1], -0.03), aspect="equal")
    axes.set_axis_off()
