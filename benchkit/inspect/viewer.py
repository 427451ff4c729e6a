"""The viewer: a scatter, item frames, and everything that a key or a toolbar does to them. It knows no window system."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.errors import BenchkitError, UsageError, printable, reason
from benchkit.experiments.draw import kinds_of
from benchkit.experiments.joined import Joined
from benchkit.inspect.desk import OF_FRAMES, Desk
from benchkit.inspect.events import Events
from benchkit.inspect.hover import Hover
from benchkit.inspect.keys import help_lines
from benchkit.inspect.order import found_by, ordered
from benchkit.inspect.scatter import Scatter
from benchkit.inspect.selection import Selector, write_names
from benchkit.inspect.view import ORDERS, axes_of, read_view
from benchkit.inspect.window import SCATTER, Window

if TYPE_CHECKING:
    from benchkit.experiments.experiment import Experiment
    from benchkit.inspect.frames import ItemFrame


class Viewer:
    """Experiments of one benchmark in a window.

    Several viewers in one process know nothing of each other.

    Args:
        experiments: at least one.
        window: where figures are shown.
        state: as `state()` told it; what is unknown in it is said and left out.

    Attributes:
        view: what is being looked at.
        order: rows of the items' names, as arrows go through them.
        desk: the item frames.
    """

    def __init__(
        self, experiments: Sequence[Experiment], window: Window, state: Mapping[str, str] | None = None
    ) -> None:
        self.joined, self.window = Joined(experiments), window
        self.kinds = kinds_of(experiments[0].family)
        self.view, self._odd = read_view(self.joined, self.kinds, state or {})
        self.order: list[int] = []
        self.scatter, self.desk = Scatter(self.joined), Desk(self)
        self._draw()
        self.hover = Hover(self.scatter)
        self.selector = Selector(self.scatter, lambda names: self.guarded(lambda: self._select(names)))
        self.events = Events(self)
        own = ("x", "y", "diff_only", "text", "kind", "order", "toggle", "search", "select", "save", "help")
        self._actions: dict[str, Callable[..., None]] = {
            **{name: getattr(self, f"_act_{name}") for name in own},
            **{name: getattr(self.desk, name) for name in OF_FRAMES},
        }

    @property
    def frames(self) -> dict[int, ItemFrame]:
        """Item frames by key, from 1."""
        return self.desk.frames

    def start(self) -> None:
        """Open the scatter, and the frame of the state's item."""
        self.window.open(SCATTER, self.scatter.figure, self.joined.experiments[0].benchmark)
        self.events.listen(SCATTER, self.scatter.figure)
        for line in self._odd:
            self.tell(line)
        if self.view.item:
            self.act("show_item", item=self.view.item)

    def state(self) -> dict[str, str]:
        """What is being looked at, as text that another viewer takes. A large selection is left out (`view.TOLD`)."""
        return self.view.told()

    def choices(self) -> dict[str, Any]:
        """What a toolbar offers and what is chosen, as plain JSON."""
        view, tags = self.view, self.joined.tags
        shown = zip(tags, self.scatter.colours, strict=True)
        return {
            "benchmark": self.joined.experiments[0].benchmark,
            "items": len(self.joined.names),
            "axes": axes_of(self.joined),
            **{name: getattr(view, name) for name in ("x", "y", "diff_only", "text", "order", "search")},
            "orders": dict(ORDERS),
            "kinds": list(self.kinds),
            "kind": view.kind or self.kinds[0],
            "experiments": [{"tag": tag, "visible": tag not in view.hidden, "colour": c} for tag, c in shown],
            "found": len(found_by(self.joined, view.search)),
            "selected": list(view.selected),
            "selecting": self.selector.mode,
            "frames": {str(key): frame.item for key, frame in self.frames.items()},
            "keys": [list(each) for each in help_lines()],
        }

    def act(self, action: str, /, **values: str) -> None:
        """Do by name what a key or a toolbar does; what goes wrong is said.

        Args:
            action: one of
                x, y, kind, order: `to` (one of `choices()`), else `step` ("1" or "-1") further along;
                diff_only, text, help: `on` ("1" or "0"), else the other way;
                next, previous: the next item in the order, in the frame of the key `frame` (else the latest one);
                next_extra, previous_extra: the same in a further frame;
                show_item: `item` in the first frame; open: in a further one; close: `frame`, else the latest one;
                toggle: hide or show the experiment `tag`; search: `text`;
                select: by the mouse with `mode` ("lasso", "range", "none"), or `names`, a JSON list;
                save: write the selected names down.
            values: as above.
        """
        self.guarded(lambda: self._act(action, values))

    def _act(self, action: str, values: Mapping[str, str]) -> None:
        if action not in self._actions:
            raise UsageError(f"there is no action {action[:40]!r}; there are {', '.join(self._actions)}.")
        work = self._actions[action]
        try:
            inspect.signature(work).bind(**values)
        except TypeError:
            known = ", ".join(inspect.signature(work).parameters) or "no values"
            raise UsageError(f"the request {action} was not understood: it takes {known}.") from None
        work(**values)
        self.window.changed()

    def guarded(self, work: Callable[[], object]) -> None:
        """Do something; what goes wrong in it is said, and the viewer goes on."""
        try:
            work()
        except Exception as error:
            said = (
                str(error)
                if isinstance(error, BenchkitError)
                else f"unexpected {type(error).__name__}: {reason(error)}."
            )
            with contextlib.suppress(Exception):  # nothing is left to say it with
                self.tell(said, error=True)

    def tell(self, text: str, error: bool = False) -> None:
        """Say something through the window, and below the scatter where that is not to be seen."""
        self.scatter.say("" if self.window.speaks else text, error)
        self.scatter.figure.canvas.draw_idle()
        if text:
            self.window.say(text, error)

    def closed(self, key: int) -> None:
        """The user has closed a frame."""
        if key in self.frames:
            self.desk.forget(key)
            self.window.changed()

    def escape(self) -> None:
        """Leave the selection and the help."""
        self.selector.end()
        self._act_help("0")
        self.tell("")
        self.window.changed()

    def _draw(self) -> None:
        self.order = ordered(self.joined, self.view)
        marked: dict[str, Iterable[str]] = {
            "selected": self.view.selected,
            "found": found_by(self.joined, self.view.search),
            "open": [frame.item for frame in self.frames.values()],
        }
        self.scatter.draw(self.view, self.order, marked)

    def redraw(self) -> None:
        """Draw the scatter anew."""
        self._draw()
        self.hover.prepare()
        toolbar = getattr(self.scatter.figure.canvas.manager, "toolbar", None)
        if toolbar is not None and not self.scatter.zoomed:
            toolbar.update()  # its way back leads to other axes
        self.scatter.figure.canvas.draw_idle()

    def _axis(self, which: str, to: str, step: str) -> None:
        setattr(self.view, which, _chosen(axes_of(self.joined), getattr(self.view, which), to, step))
        self.redraw()
        self.desk.caption()

    def _act_x(self, to: str = "", step: str = "1") -> None:
        self._axis("x", to, step)

    def _act_y(self, to: str = "", step: str = "1") -> None:
        self._axis("y", to, step)

    def _act_diff_only(self, on: str = "") -> None:
        self.view.diff_only = _switched(self.view.diff_only, on)
        self.redraw()
        self.desk.caption()

    def _act_order(self, to: str = "", step: str = "1") -> None:
        self.view.order = _chosen(list(ORDERS), self.view.order, to, step)
        self.redraw()
        self.tell(f"items {ORDERS[self.view.order]}")

    def _act_toggle(self, tag: str) -> None:
        if tag not in self.joined.tags:
            raise UsageError(f"there is no experiment {tag!r}.")
        self.view.hidden ^= {tag}
        self.redraw()
        self.desk.draw()

    def _act_search(self, text: str = "") -> None:
        self.view.search = text
        found = found_by(self.joined, text)
        if found:
            self.desk.show_item(found[0])
        else:
            self.redraw()
        self.tell(f"{len(found)} of {len(self.joined.names)} names hold {text!r}" if text else "")

    def _act_select(self, mode: str = "", names: str = "") -> None:
        if names:
            self._select([name for name in _list(names) if name in self.joined.position])
        elif mode in ("", "none"):
            self.selector.end()
        else:
            self.selector.begin(mode)
            self.hover.leave()
            self.tell(f"draw {'a line about' if mode == 'lasso' else 'a rectangle around'} the items (escape: leave)")

    def _select(self, names: Sequence[str]) -> None:
        self.view.selected = list(names)
        self.redraw()
        self.tell(f"{len(names)} items selected; w writes their names down" if names else "nothing is selected")
        self.window.changed()

    def _act_save(self) -> None:
        path = write_names(self.view.selected, self.joined.experiments[0].benchmark, Path.cwd())
        self.tell(f"{len(self.view.selected)} names: {path}")

    def _act_help(self, on: str = "") -> None:
        self.scatter.help(help_lines(), _switched(self.scatter.overlay.get_visible(), on))
        self.scatter.figure.canvas.draw_idle()

    def _act_text(self, on: str = "") -> None:
        self.view.text = _switched(self.view.text, on)
        self.desk.draw()

    def _act_kind(self, to: str = "", step: str = "1") -> None:
        self.view.kind = _chosen(self.kinds, self.view.kind or self.kinds[0], to, step)
        self.desk.draw()


def _chosen(known: Sequence[str], now: str, to: str, step: str) -> str:
    """The one named, else the one some steps after what it is now.

    Raises:
        UsageError: it is not known.
    """
    if to and to not in known:
        raise UsageError(f"there is no {to[:80]!r}; there are {', '.join(map(printable, known))}.")
    return to or known[(known.index(now) + _number(step)) % len(known)]


def _number(step: str) -> int:
    """A number of steps. Raises UsageError."""
    try:
        return int(step)
    except ValueError:
        raise UsageError(f"the request was not understood: {step[:40]!r} is no number of steps.") from None


def _list(names: str) -> list[str]:
    """The texts of a JSON list. Raises UsageError."""
    try:
        found = json.loads(names)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise UsageError(f"the request was not understood: {names[:40]!r} is no list of names.")
    return [name for name in found if isinstance(name, str)]


def _switched(now: bool, on: str) -> bool:
    return not now if on == "" else on == "1"
