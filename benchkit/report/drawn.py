"""Pictures of single items as their family draws them, small enough for a page."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchkit.experiments.files import TagFiles
from benchkit.report.damage import Damage
from benchkit.report.embed import webp

if TYPE_CHECKING:
    from benchkit.experiments.draw import Item
    from benchkit.experiments.experiment import Experiment
    from benchkit.viz.panels import Panel

SIDE = 190  # pixels: longer side of a map
DPI = 96
INCHES = (2.0, 2.3)  # of an item of one view
WIDE = (4.6, 3.0)  # of more views, or neighbours
INVALID = "#ff00ff"  # magenta: of pixels in every kind of map
TELLING = "neighbours"  # the kind that is drawn in place of the first, which would be the same for every experiment


class Drawn(NamedTuple):
    """An encoded picture and a line on it."""

    caption: str
    encoded: bytes


class Pictures(NamedTuple):
    """Of one item: what all experiments share, each one's own, and colour -> what it means in all of them."""

    shared: list[Drawn]
    own: list[list[Drawn]]
    key: dict[str, str]


class Drawings(contextlib.ExitStack):
    """Draws items of some experiments of one benchmark; a context manager, which keeps their files open.

    Args:
        experiments: of one benchmark.
        damage: takes the errors of those whose files cannot be read: they have no pictures.
    """

    def __init__(self, experiments: Sequence[Experiment], damage: Damage) -> None:
        from benchkit.experiments.draw import Images

        super().__init__()
        self.experiments = experiments
        self._damage = damage
        self._files: dict[int, TagFiles | None] = {}
        self._images = Images()
        self._one_truth = len({each.record["data"]["targets"] for each in experiments}) == 1

    def item(self, name: str) -> Pictures:
        """What all experiments share of an item (image and truth of maps), and the pictures of each, if it has the item."""
        found = Pictures([], [], {})
        for place, experiment in enumerate(self.experiments):
            own: list[Drawn] = []
            with self._damage.of(experiment):
                shared, own = self._pictures(place, name, found.key)
                found.shared.extend([] if found.shared else shared)
            found.own.append(own)
        if self.experiments[0].family.dense:
            found.key[INVALID] = "invalid: nothing known, or ignored"
        return found

    def _pictures(self, place: int, name: str, key: dict[str, str]) -> tuple[list[Drawn], list[Drawn]]:
        """What an experiment shares with the others, and its own; nothing where it has no such item. `key` grows."""
        experiment, item = self.experiments[place], self._item(place, name)
        if item is None:
            return [], []
        if not experiment.family.dense:
            return [], [Drawn("", webp(_drawn(experiment, item)))]
        panels = _panels(experiment, item, key)
        known = panels[:-2] if self._one_truth else []
        return [_encoded(panel) for panel in known], [_encoded(panel) for panel in panels[len(known) :]]

    def _item(self, place: int, name: str) -> Item | None:
        """An item with its files and images; None where the experiment has none of that name."""
        from benchkit.experiments.draw import item_of

        experiment = self.experiments[place]
        if place not in self._files:
            self._files[place] = None  # stays so where they cannot be opened
            self._files[place] = self.enter_context(TagFiles(experiment.folder))
        files = self._files[place]
        if files is None or name not in files.predictions.position or name not in files.targets.position:
            return None
        return item_of(files, name, self._images.of(experiment))


def _panels(experiment: Experiment, item: Item, key: dict[str, str]) -> list[Panel]:
    """Of a map; `key` grows by what its colours mean."""
    from benchkit.viz.panels import panels, present_in

    family, field = experiment.family, experiment.family.needs[0]
    given = item.prediction[field], item.target[field], item.target["meta"]
    predicted, truth, meta = family.pictured(*given, item.said)
    key |= _classes(present_in(field, predicted, truth, meta), meta)
    return panels(field, predicted, truth, meta, item.framed((truth.shape[0], truth.shape[1])))


def _classes(present: Sequence[int], meta: Mapping[str, Any]) -> dict[str, str]:
    """Colour -> name of the classes in a mask, and of right and wrong pixels; nothing of other maps."""
    from benchkit.viz import maps, panels

    if not present:
        return {}
    colours = maps.class_colours(len(meta["classes"]))
    errors = {_hex(panels.RIGHT): "right", _hex(panels.WRONG): "wrong"}
    return {**{_hex(colours[k]): str(meta["classes"][k]) for k in present[: panels.NAMED]}, **errors}


def _hex(colour: np.ndarray) -> str:
    return "#" + "".join(f"{int(each):02x}" for each in colour)


def _drawn(experiment: Experiment, item: Item) -> np.ndarray:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    kinds = experiment.family.kinds()
    draw = kinds.get(TELLING) or next(iter(kinds.values()))
    wide = TELLING in kinds or item.files.count_views() > 1
    figure = Figure(figsize=WIDE if wide else INCHES, dpi=DPI)
    with rc_context(
        {"axes.titley": 1.0}
    ):  # else matplotlib looks for room beside ticks that are not shown: a third of the time
        draw(figure.add_axes((0.02, 0.02, 0.96, 0.84)), item)
    return trimmed(rendered(figure))


def legible(figure: Any) -> None:
    """Show what no font can, a name that is not UTF-8, by its number: else the figure cannot be drawn."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(text.get_text().encode("utf-8", "backslashreplace").decode())


def rendered(figure: Any) -> np.ndarray:
    """A matplotlib figure as uint8 (h, w, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # names of items and classes are in any script
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def trimmed(picture: np.ndarray, margin: int = 4) -> np.ndarray:
    """Without the white about it, but for a margin."""
    inked = np.any(picture < 255, axis=2)
    rows, columns = np.flatnonzero(inked.any(axis=1)), np.flatnonzero(inked.any(axis=0))
    if not len(rows):
        return picture
    top, left = max(rows[0] - margin, 0), max(columns[0] - margin, 0)
    return picture[top : rows[-1] + 1 + margin, left : columns[-1] + 1 + margin]


def _encoded(panel: Panel) -> Drawn:
    scale = panel.scale
    said = f"{panel.name}: {scale.low:.3g} to {scale.high:.3g} {scale.unit}".rstrip() if scale else panel.name
    return Drawn(f"{said}: {panel.note}" if panel.note else said, webp(panel.picture, SIDE))
