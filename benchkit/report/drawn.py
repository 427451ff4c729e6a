"""Pictures of single items as their family draws them, small enough for a page."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchkit.experiments.files import TagFiles
from benchkit.report.embed import webp

if TYPE_CHECKING:
    from benchkit.experiments.experiment import Experiment
    from benchkit.experiments.frames import Frames
    from benchkit.viz.panels import Panel

SIDE = 190  # pixels: longer side of a map
DPI = 110


class Drawn(NamedTuple):
    """An encoded picture and a line on it."""

    caption: str
    encoded: bytes


class Drawings(contextlib.ExitStack):
    """Draws items of some experiments of one benchmark; a context manager, which keeps their files open."""

    def __init__(self, experiments: Sequence[Experiment]) -> None:
        super().__init__()
        self.experiments = experiments
        self._files: dict[int, TagFiles] = {}
        self._frames: dict[str, Frames] = {}
        truths = {each.record["data"]["targets"] for each in experiments}
        self._one_truth = len(truths) == 1

    def item(self, name: str) -> tuple[list[Drawn], list[list[Drawn]]]:
        """What all experiments share of an item (image and truth of maps), and the pictures of each, if it has the item."""
        shared: list[Drawn] = []
        own: list[list[Drawn]] = []
        for place, each in enumerate(self.experiments):
            files = self._open(place)
            if name not in files.predictions.position or name not in files.targets.position:
                own.append([])
            elif each.family.dense:
                panels = self._panels(each, files, name)
                known = panels[:-2] if self._one_truth else []
                shared = shared or [_encoded(panel) for panel in known]
                own.append([_encoded(panel) for panel in panels[len(known) :]])
            else:
                own.append([Drawn("", webp(self._drawn(each, files, name)))])
        return shared, own

    def _open(self, place: int) -> TagFiles:
        if place not in self._files:
            self._files[place] = self.enter_context(TagFiles(self.experiments[place].folder))
        return self._files[place]

    def _frames_of(self, record: Mapping[str, Any]) -> Frames:
        """Images of a data set and preprocessing; opened once for all experiments that share them."""
        from benchkit.experiments.frames import Frames

        key = json.dumps([record["conf"]["data"], record["backbone"]["identity"]["preprocess"]], sort_keys=True)
        if key not in self._frames:
            self._frames[key] = Frames(record)
        return self._frames[key]

    def _panels(self, experiment: Experiment, files: TagFiles, name: str) -> list[Panel]:
        from benchkit.viz.panels import panels

        family, field = experiment.family, experiment.family.needs[0]
        prediction, target, thumb = files.item(name)
        given = prediction[field], target[field], target["meta"]
        predicted, truth, meta = family.pictured(*given, files.predictions.meta)
        image = self._frames_of(experiment.record).image(name, thumb, (truth.shape[0], truth.shape[1]))
        return panels(field, predicted, truth, meta, image)

    def _drawn(self, experiment: Experiment, files: TagFiles, name: str) -> np.ndarray:
        from matplotlib.figure import Figure

        prediction, target, image = files.item(name)
        pair = files.count_views() == 2
        if pair:
            image = self._frames_of(experiment.record).views(name, files.views(name), files.thumbnails(name))
        figure = Figure(figsize=(4.4, 3) if pair else (2, 2.3), dpi=DPI)
        experiment.family.draw(figure.add_axes((0.02, 0.02, 0.96, 0.84)), prediction, target, image)
        return trimmed(rendered(figure))


def rendered(figure: Any) -> np.ndarray:
    """A matplotlib figure as uint8 (h, w, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
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
    return Drawn(said, webp(panel.picture, SIDE))
