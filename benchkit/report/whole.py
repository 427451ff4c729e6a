"""Pictures of whole sets as families draw them: of each experiment, and of all together."""

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
    """Those of all experiments together, then each experiment's own."""
    for name, draw in _joint(experiments).items():
        yield Whole(name, "", _drawn(draw))
    for each in experiments:
        for name, draw in each.family.pictures(each.columns, _meta(each)).items():
            yield Whole(name, each.tag, _drawn(draw))


def _joint(experiments: Sequence[Experiment]) -> dict[str, Callable[[Any], None]]:
    """What the family shows of several experiments, where they are ordered by one column."""
    orders = {each.family.order(each.columns)[0] for each in experiments}
    column = orders.pop() if len(orders) == 1 else ""
    if len(experiments) < 2 or not column:
        return {}
    return experiments[0].family.compared({each.tag: each.item_scores[column] for each in experiments})


def _meta(experiment: Experiment) -> Any:
    from benchkit.store.table import Table

    with Table(experiment.folder / "targets.h5", "targets") as targets:
        return dict(targets.meta)


def _drawn(draw: Callable[[Any], None]) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(dpi=DPI)
    draw(figure)
    figure.set_dpi(DPI)
    figure.tight_layout()
    return webp(trimmed(rendered(figure)), quality=None)
