"""Plots of whole sets as pictures: those of all experiments together, and each one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from benchkit.report.drawn import rendered, trimmed
from benchkit.report.embed import webp

if TYPE_CHECKING:
    from benchkit.experiments.experiment import Experiment

DPI = 110


class Whole(NamedTuple):
    """One picture: what it shows, of which tag ("" for all together), encoded."""

    name: str
    tag: str
    encoded: bytes


def whole_pictures(experiments: Sequence[Experiment]) -> Iterator[Whole]:
    """Those of all experiments together, then each experiment's own; of one alone everything is its own."""
    from benchkit.experiments.plots import joint_plots, plots

    joint = joint_plots(experiments)
    for name, draw in joint.items():
        yield Whole(_words(name), "", _drawn(draw))
    for each in experiments:
        for name, draw in plots(each).items():
            if name not in joint:
                yield Whole(_words(name), each.tag, _drawn(draw))


def _words(name: str) -> str:
    return name.replace("_", " ")


def _drawn(draw: Callable[[Any], None]) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure()
    draw(figure)
    figure.set_dpi(DPI)
    figure.tight_layout()
    return webp(trimmed(rendered(figure)), quality=None)
