"""Pictures of single items, in all kinds that a family knows: what inspector and report draw."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.experiments.files import TagFiles, beside
from benchkit.experiments.frames import Frames

if TYPE_CHECKING:
    from benchkit.eval.base import Benchmark
    from benchkit.experiments.experiment import Experiment


@dataclass
class Item:
    """One item of a tag, as `Benchmark.kinds` draws it.

    Attributes:
        name: of the item.
        prediction, target: its fields by name; `target` has `meta`.
        said: the predictions' meta.
        files: of the tag, open: its other items.
        frames: the data set's own images; None for thumbnails.
    """

    name: str
    prediction: Mapping[str, Any]
    target: Mapping[str, Any]
    said: Mapping[str, Any]
    files: TagFiles
    frames: Frames | None = None

    @cached_property
    def image(self) -> Any:
        """What `Benchmark.draw` takes: None, uint8 (h, w, 3), or of a pair a list of two."""
        thumbs = self.files.thumbnails(self.name)
        views = thumbs if self.frames is None else self.frames.views(self.name, self.files.views(self.name), thumbs)
        return views if views is None or len(views) == 2 else beside(views)

    def framed(self, size: tuple[int, int]) -> np.ndarray | None:
        """The image in the frame that was scored, uint8 (h, w, 3) of this size; None where there is none."""
        thumbs = self.files.thumbnails(self.name)
        thumb = None if thumbs is None else thumbs[0]
        return None if self.frames is None else self.frames.image(self.name, thumb, size)


class Images:
    """The images of several experiments' items; each data set is looked through once."""

    def __init__(self) -> None:
        self._known: dict[str, Frames] = {}

    def of(self, experiment: Experiment) -> Frames:
        """Where an experiment's images come from. Frames differ where images are scored in a frame of the model's."""
        record = experiment.record
        frame = record["backbone"]["identity"]["preprocess"] if experiment.family.dense else None
        key = json.dumps([record["conf"]["data"], frame], sort_keys=True, default=str)
        if key not in self._known:
            self._known[key] = Frames(record)
        return self._known[key]


def kinds_of(family: Benchmark) -> list[str]:
    """Kinds of pictures of an item, the first is the one that is shown by itself."""
    return list(family.kinds())


def draw_item(axes: Any, experiment: Experiment, name: str, kind: str = "", images: Images | None = None) -> None:
    """Draw one item of an experiment on matplotlib axes; its files are open only meanwhile.

    Args:
        axes: empty ones.
        experiment: whose prediction is drawn.
        name: of the item.
        kind: of `kinds_of`; "" for the first.
        images: of the data set; None for thumbnails.

    Raises:
        UsageError: there is no such item, or no such kind.
        RunError: a file is missing or damaged.
    """
    kinds = experiment.family.kinds()
    chosen = kind or next(iter(kinds))
    if chosen not in kinds:
        raise UsageError(f"{experiment.benchmark} has no kind of picture {chosen!r}; it has {', '.join(kinds)}.")
    with TagFiles(experiment.folder) as files:
        if name not in files.predictions.position:
            raise UsageError(f"{experiment.folder} has no item {name!r}.")
        kinds[chosen](axes, item_of(files, name, None if images is None else images.of(experiment)))


def item_of(files: TagFiles, name: str, frames: Frames | None = None) -> Item:
    """One item of a tag whose files are open."""
    prediction, target = files.fields(name)
    return Item(name, prediction, target, files.predictions.meta, files, frames)
