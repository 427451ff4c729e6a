"""Which key does what."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Key:
    """Keys as matplotlib calls them, the action of the viewer with its values, and what the help says of it."""

    keys: tuple[str, ...]
    action: str
    help: str
    values: dict[str, str] = field(default_factory=dict)


KEYS = (
    Key(("x",), "x", "next score or category on the x axis (shift: the one before)"),
    Key(("X",), "x", "", {"step": "-1"}),
    Key(("y",), "y", "next score or category on the y axis (shift: the one before)"),
    Key(("Y",), "y", "", {"step": "-1"}),
    Key(("d",), "diff_only", "differences to the first experiment, or scores"),
    Key(("o",), "order", "next order of the items"),
    Key(("right",), "next", "next item in this order (shift: in a frame of its own)"),
    Key(("left",), "previous", "item before it in this order (shift: in a frame of its own)"),
    Key(("shift+right",), "next_extra", ""),
    Key(("shift+left",), "previous_extra", ""),
    Key(("delete", "backspace"), "close", "close the frame"),
    Key(("t",), "text", "the item's scores as text, or none"),
    Key(("R",), "kind", "next kind of picture (shift+r)"),
    Key(("/",), "type", "search for a part of items' names: type it, then enter"),
    Key(("s",), "select", "select items with a lasso (shift: within a rectangle)", {"mode": "lasso"}),
    Key(("S",), "select", "", {"mode": "range"}),
    Key(
        ("w",),
        "save",
        "write the selected items' names to a file in the folder where benchkit was started (the page's button downloads them)",
    ),
    Key(("h", "?"), "help", "this help, or none"),
    Key(("escape",), "escape", "leave the search, the selection or the help"),
)
BY_KEY = {key: each for each in KEYS for key in each.keys}
MOUSE = (
    "near a point: its name, and lines to the same item of the other experiments",
    "click on a point: the item's frame",
    "click on an entry of the legend: hide or show the experiment",
)


def named(key: str) -> Key | None:
    """What a key of a matplotlib event does; shift with a letter is the large letter in some window systems."""
    shifted, _, letter = key.rpartition("shift+")
    if letter and shifted == "" and key.startswith("shift+") and len(letter) == 1:
        key = letter.upper() if letter.isalpha() else letter
    return BY_KEY.get(key)


def help_lines() -> list[tuple[str, str]]:
    """Key and what it does, of every key that has a help of its own."""
    shown = [(" or ".join(each.keys), each.help) for each in KEYS if each.help]
    return [*shown, *(("mouse", text) for text in MOUSE)]
