"""What a dataset is to benchkit: names first, pixels on demand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchkit.images import DECODERS, read_whole
from benchkit.settings import setting

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass
class DataSettings:
    """What every dataset can be told; a dataset's own `Settings` extends it."""

    root: str | None = setting(None, "folder of the data", identity=False)
    split: str = setting("test", "the split that is evaluated")
    train_split: str = setting("auto", "the split that heads learn from (train); none for heads that learn nothing")
    limit: int | None = setting(None, "at most so many items per split, stratified, by the hash of their names")
    size: int | None = setting(None, "side of the model's input in pixels (default: the model's own)")
    resize: Literal["crop", "pad", "native", "squash"] | None = setting(
        None,
        "crop (short side, then centre crop), pad (long side, aspect kept), native (as it is) or squash (default: the "
        "model's own)",
    )
    resize_short: int | None = setting(
        None,
        "short side in pixels: before the crop (default: size over the crop_pct), or of pad in place of the long one",
    )
    decoder: Literal["fast", "pil"] = setting(
        "fast", "fast (within 2/255 of PIL after resizing) or pil (exactly PIL's pixels)"
    )
    on_error: Literal["stop", "skip"] = setting(
        "stop", "stop or skip, when an image cannot be read; skipped names are recorded"
    )
    on_duplicate: Literal["stop", "keep"] = setting(
        "stop", "stop or keep, when one photo is in train and test or under two labels"
    )
    num_workers: int = setting(0, "decode threads; 0: as many as there are cores", identity=False)

    def __post_init__(self) -> None:
        for name in ("limit", "size", "resize_short"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be above 0, not {value}")


class Dataset:
    """Items with stable names, the views (images) they are made of, and their truth.

    Attributes:
        settings: an instance of the dataset's `Settings`.
        generated: True when images come from a generator; then tables say so.
        maps: fields of `target` that are pixel maps (h, w) or (h, w, C) in the frame of the image's file, upright.
        stacks: those of `maps` that are several, one per annotator, (A, h, w); A may vary between items.
        map_views: for fields of `maps`, which of the item's views they are maps of, where it is not the first.
        given: fields of `target` that a head may read before it predicts: query points, what is valid.
    """

    generated = False
    maps: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    map_views: Mapping[str, int] = {}
    given: tuple[str, ...] = ()
    settings: Any

    def items(self, split: str) -> list[str]:
        """Names of the split's items in name order; decodes nothing."""
        raise NotImplementedError

    def views(self, item: str) -> tuple[str, ...]:
        """Names of the images that the item is made of; by default its own name."""
        return (item,)

    def views_of(self, items: Sequence[str]) -> Sequence[str]:
        """The views of some items, one item's after the other's; the items themselves where each is its own view."""
        if type(self).views is Dataset.views:
            return items
        return [view for item in items for view in self.views(item)]

    def also_called(self, item: str) -> tuple[str, ...]:
        """Other tools' names of an item, by which predictions of theirs are found; of a pair its views joined by _."""
        views = self.views(item)
        return ("_".join(views),) if len(views) == 2 else ()

    @property
    def below(self) -> Path | None:
        """The folder below which views are files by their names, of data sets where `path` says no more than that."""
        return None

    def path(self, view: str) -> Path | None:
        """The file of a view, or None when it lies in an archive or is generated."""
        if self.below is None:
            raise NotImplementedError
        return self.below / view

    def archives(self, view: str) -> tuple[Path, ...]:
        """The files that hold a view without a file of its own; none when it is generated.

        While their sizes and times stay, the view is not read again to know its bytes.
        """
        return ()

    def read(self, view: str) -> bytes | None:
        """The encoded image, from its file or its archive; None when it is generated."""
        path = self.path(view)
        return None if path is None else read_whole(path)

    def source(self) -> str:
        """What the names of views are relative to: facts about their bytes are remembered under it."""
        return str(Path(self.settings.root).resolve()) if self.settings.root else ""

    def recipe(self, view: str) -> str:
        """Generator, version, settings, seed and name of a generated view: what its bytes are a function of."""
        raise NotImplementedError

    def generated_size(self, view: str) -> tuple[int, int]:
        """Height and width of a generated view."""
        raise NotImplementedError

    def image(self, view: str) -> np.ndarray:
        """The decoded view: uint8, (height, width, 3), RGB, upright; by default decoded as `data.decoder` says."""
        data = self.read(view)
        if data is None:
            raise NotImplementedError
        return DECODERS[self.settings.decoder](data)

    def target(self, item: str) -> Arrays:
        """Truth of one item: arrays by field name."""
        raise NotImplementedError

    def map_fields(self, item: str) -> tuple[str, ...]:
        """Those of `maps` that the item's truth has; where `target` leaves maps out, since `field` reads them one by one."""
        return tuple(name for name in self.maps if name in self.target(item)) if self.maps else ()

    def field(self, item: str, name: str) -> np.ndarray:
        """One map of the item's truth."""
        return self.target(item)[name]

    def map_shape(self, item: str, name: str) -> tuple[int, ...] | None:
        """The shape of a map that is not pixel by pixel, (h, w, ...); None where its sides are its view's."""
        return None

    def target_paths(self, item: str) -> tuple[Path, ...]:
        """The files that the item's truth is read from; while their sizes and times stay they are not examined again."""
        return ()

    def examine(self, item: str) -> str:
        """What is wrong with the files of the item's truth (unknown label, other size than the image), '' when nothing is."""
        return ""

    def examined_by(self) -> tuple[str, ...]:
        """What the truth is examined against beside the settings: hashes of tables in files, classes counted elsewhere."""
        return ()

    def target_files(self, item: str) -> list[str]:
        """sha256 of each file, or other text, that the item's truth is read from; empty where names say it all."""
        return []

    def own_id(self, split: str, images: Mapping[str, str]) -> str | None:
        """The identity of a whole split where a specification says how it is made; None where benchkit's own holds.

        Args:
            split: its name.
            images: item -> sha256 of its image; of a limited split fewer items than there are.
        """
        return None

    def label(self, item: str) -> str | None:
        """The class by which limits and splits are stratified; None when there is none."""
        return None

    def group(self, item: str) -> str:
        """The unit a bootstrap resamples (scene, wall, ...); '' when every item stands alone."""
        return ""

    def category(self, item: str) -> dict[str, str]:
        """Label columns for axes and tables, by name."""
        return {}

    def notes(self) -> list[str]:
        """What a reader should know of how the data were read: one sentence or two each."""
        return []

    def meta(self) -> dict[str, Any]:
        """What holds for all targets: class names, ignore value, units. Hashed with the targets."""
        return {}
