"""Plots of whole sets as pictures: those of all experiments together, and each one's own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from benchkit.errors import printable
from benchkit.report.damage import Damage
from benchkit.report.drawn import legible, rendered, trimmed
from benchkit.report.embed import webp
from benchkit.report.figures import COLOURS

if TYPE_CHECKING:
    from benchkit.experiments.experiment import Experiment
    from benchkit.experiments.plots import Draw

DPI = 110


class Whole(NamedTuple):
    """One picture: what it shows, of which tag ("" for all together), encoded."""

    name: str
    tag: str
    encoded: bytes


def whole_pictures(experiments: Sequence[Experiment], colours: Sequence[str], damage: Damage) -> Iterator[Whole]:
    """Those of all experiments together, then each experiment's own; of one alone everything is its own.

    Args:
        experiments: of one benchmark.
        colours: of each, which plots of all give them in turn.
        damage: takes the errors of those whose files cannot be read.
    """
    from benchkit.experiments.plots import joint_plots, plots

    joint: dict[str, Draw] = {}
    with damage.of(*experiments):
        joint = joint_plots(experiments)
    for name, draw in joint.items():
        with damage.of(*experiments):
            yield Whole(_words(name), "", _drawn(draw, colours))
    for each, colour in zip(experiments, colours, strict=True):
        with damage.of(each):
            for name, draw in plots(each).items():
                if name not in joint:
                    others = (other for other in COLOURS if other != colour)
                    yield Whole(_words(name), printable(each.tag), _drawn(draw, [colour, *others]))


def _words(name: str) -> str:
    return name.replace("_", " ")


def _drawn(draw: Draw, colours: Sequence[str]) -> bytes:
    """Encoded; what is drawn first, second ... has these colours."""
    from cycler import cycler
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure()
    with rc_context({"axes.prop_cycle": cycler(color=list(colours))}):
        draw(figure)
    legible(figure)
    figure.set_dpi(DPI)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # names of tags and classes are in any script
        figure.tight_layout()
    return webp(trimmed(rendered(figure)), quality=None)
