"""What is being looked at: the axes, the order, what is hidden; as text it goes into an address and comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchkit.errors import printable

if TYPE_CHECKING:
    from benchkit.experiments.joined import Joined

ITEM = "item"  # an axis: the place of an item in the order
ORDERS = {
    "name": "by name",
    "score": "by the first's score",
    "difference": "by second minus first",
    "spread": "by spread, widest first",
    "x": "by place on the x axis",
}
FEW = 30  # labels of a category that is shown by itself
TOLD = 100  # selected names that an address holds


@dataclass
class View:
    """The state of one viewer.

    Attributes:
        x, y: a column of scores, a category, or `item`.
        diff_only: scores are differences to the first experiment.
        order: of `ORDERS`.
        hidden: tags.
        item: shown in the first frame; "" for none.
        kind: of picture; "" for the family's first.
        text: whether frames show scores as text.
        search: what names have to hold to be marked.
        selected: names.
    """

    x: str
    y: str
    diff_only: bool = False
    order: str = "name"
    hidden: set[str] = field(default_factory=set)
    item: str = ""
    kind: str = ""
    text: bool = False
    search: str = ""
    selected: list[str] = field(default_factory=list)

    def told(self) -> dict[str, str]:
        """As text; what is as it is by itself is left out, and so is a selection of more than `TOLD` names."""
        found = {"x": self.x, "y": self.y, "order": self.order, "item": self.item, "kind": self.kind}
        found |= {"search": self.search, "diff_only": "1" * self.diff_only, "text": "1" * self.text}
        selected = self.selected if len(self.selected) <= TOLD else []
        lists = {"hidden": sorted(self.hidden), "selected": selected}
        found |= {name: json.dumps(each, ensure_ascii=False) for name, each in lists.items() if each}
        return {name: text for name, text in found.items() if text}


def first_view(joined: Joined) -> View:
    """The score by which the family orders pictures against the first category with few labels, or else against the items."""
    fitting = (name for name, labels in joined.categories.items() if len(set(labels)) <= FEW)
    first = joined.experiments[0]
    column, _ = first.family.order(first.item_scores)
    return View(next(fitting, ITEM), column if column in joined.columns else axes_of(joined)[0])


def axes_of(joined: Joined) -> list[str]:
    """Everything that an axis can show."""
    return list(dict.fromkeys([*joined.columns, *joined.categories, ITEM]))


def read_view(joined: Joined, kinds: list[str], state: Mapping[str, str]) -> tuple[View, list[str]]:
    """A view from text, and a line for each thing in it that is unknown or wrong: that stays as it is by itself."""
    view, odd = first_view(joined), []
    readers = _readers(joined, kinds)
    for name, text in state.items():
        try:
            setattr(view, name, readers[name](text))
        except (KeyError, ValueError, TypeError, RecursionError):
            odd.append(f"{printable(name, 40)}={printable(text, 80)} says nothing here and is left out")
    return view, odd


def _readers(joined: Joined, kinds: list[str]) -> dict[str, Callable[[str], Any]]:
    axis = _one_of(axes_of(joined))
    lists = {"hidden": lambda text: set(_all_of(joined.tags, text)), "selected": lambda t: _all_of(joined.names, t)}
    flags = {"diff_only": _flag, "text": _flag}
    return {
        **{"x": axis, "y": axis, "order": _one_of(ORDERS), "item": _one_of(joined.position), "kind": _one_of(kinds)},
        **{"search": str, **flags, **lists},
    }


def _one_of(known: Any) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise ValueError(text)
        return text

    return read


def _flag(text: str) -> bool:
    return {"1": True, "0": False}[text]


def _all_of(known: list[str], text: str) -> list[str]:
    """A JSON list of known names."""
    names = json.loads(text)
    if not isinstance(names, list) or not set(names) <= set(known):
        raise ValueError(text)
    return list(dict.fromkeys(names))
