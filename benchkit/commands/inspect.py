"""Look at scored tags item by item: a scatter of their scores, and pictures of each item, in windows or in a browser.

Hover over a point for its name and lines to the same item of the other tags; click for its pictures. `h` shows all keys.
In a browser it works through `ssh -L PORT:localhost:PORT`.

examples:
  python -m benchkit.inspect classification efficientnet_lite0 mobilenet_v2
  python -m benchkit.inspect depth "dinov2*" --x abs_rel --y d1 --backend webagg --port 8988
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchkit.commands._shared import guarded, parse, parser, say

if TYPE_CHECKING:
    from benchkit.experiments.experiment import Experiment

BACKENDS = ("desktop", "webagg")


def main(argv: Sequence[str] | None = None, prog: str = "benchkit inspect") -> int:
    """The command; returns the exit status."""
    made = parser(prog, __doc__)
    made.add_argument("benchmark", help="instance or family, as it was exported")
    made.add_argument("tags", nargs="+", metavar="TAG", help="scored experiments; * stands for any letters")
    made.add_argument("--x", metavar="METRIC", help="score or category on the x axis (default: a category, else items)")
    made.add_argument("--y", metavar="METRIC", help="likewise on the y axis (default: the headline)")
    made.add_argument("--backend", choices=BACKENDS, help="default: desktop where a window can be opened, else webagg")
    made.add_argument("--port", type=int, metavar="P", help="of the page (default: 8988, else any free one)")
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _run(given), given.traceback, goes_on=False)


def _run(given: argparse.Namespace) -> int:
    from benchkit.commands.eval import show
    from benchkit.experiments.experiment import open_experiments
    from benchkit.experiments.joined import Joined
    from benchkit.inspect import desktop
    from benchkit.inspect.viewer import Viewer
    from benchkit.store.outputs import Outputs

    experiments = open_experiments(Outputs(given.outputs), given.benchmark, given.tags)
    state = _axes(given, Joined(experiments))
    toolkit = _toolkit(given)
    show([{**each.record, "tag": each.tag} for each in experiments], "table")
    _say_items(experiments)

    def make_viewer(window: Any, told: Mapping[str, str]) -> Viewer:
        return Viewer(experiments, window, {**state, **told})

    threading.Thread(target=_get_ready).start()
    if toolkit:
        return desktop.show(make_viewer, toolkit)
    from benchkit.inspect.server import serve

    return serve(make_viewer, port=given.port)


def _get_ready() -> None:
    """Import what resizes a data set's images (torch: seconds) while the user looks at the scatter, not at the first click."""
    with contextlib.suppress(ImportError):  # said where it is needed
        import torchvision.transforms.v2  # noqa: F401


def _axes(given: argparse.Namespace, joined: Any) -> dict[str, str]:
    """The axes asked for, as state of a viewer."""
    from benchkit.conf.find import nearest
    from benchkit.errors import UsageError
    from benchkit.inspect.view import axes_of

    known = axes_of(joined)
    asked = {which: name for which in ("x", "y") if (name := getattr(given, which)) is not None}
    for which, name in asked.items():
        if name not in known:
            hint = nearest(name, known)
            raise UsageError(f"--{which} {name}: {given.benchmark} has no such score. {hint}It has {', '.join(known)}.")
    return asked


def _toolkit(given: argparse.Namespace) -> str:
    """The matplotlib backend whose windows are opened, "" for a browser; says why where nobody chose."""
    from benchkit.errors import UsageError
    from benchkit.inspect.desktop import backend

    if given.port is not None and given.backend == "desktop":
        raise UsageError("--port is of the page in a browser: --backend webagg.")
    if given.backend == "webagg" or given.port is not None:
        return ""
    name, problem = backend()
    if problem and given.backend:
        raise UsageError(f"{problem}; or --backend webagg shows it in a browser.")
    if not given.backend:
        where = (
            f"a browser (--backend webagg), since {problem}"
            if problem
            else f"windows ({name}), not in a browser (webagg)"
        )
        say(f"shown in {where}.")
    return name


def _say_items(experiments: Sequence[Experiment]) -> None:
    """Which experiments have other items than the first: those are shown too, each where it is known."""
    from benchkit.errors import printable

    first, *others = experiments
    known = set(first.names)
    for other in others:
        names = set(other.names)
        if names != known:
            more, less = len(names - known), len(known - names)
            tag, than = printable(other.tag), printable(first.tag)
            say(f"{tag} has {more} items that {than} does not have, and lacks {less} of its {len(known)}.")
