"""The truth of an item in the scored frame: pixel maps go through the image's own resize and crop, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from benchkit.datasets.base import Dataset
from benchkit.preprocess import Preprocess

Derive = Callable[[np.ndarray], Mapping[str, np.ndarray]]
Complete = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


class FramedTruth:
    """Fields of an item's truth by name.

    Args:
        dataset: gives the truth in the image's own frame.
        preprocess: the frame.
        derive: makes the truth from the image itself, uint8 (h, w, 3) in the scored frame (corners, orientation); where
            it is given the data set is not asked.
        complete: adds to the truth in the scored frame what heads learn of it.
    """

    def __init__(
        self,
        dataset: Dataset,
        preprocess: Preprocess,
        derive: Derive | None = None,
        complete: Complete | None = None,
    ) -> None:
        self.dataset, self.preprocess, self.derive, self.complete = dataset, preprocess, derive, complete

    @property
    def uniform(self) -> bool:
        """Whether all maps have one shape."""
        return self.preprocess.resize == "crop"

    def __call__(self, item: str) -> dict[str, np.ndarray]:
        """The item's fields."""
        if self.derive is not None:
            return dict(self.derive(self.image(item)))
        maps = self.dataset.maps
        target = self.dataset.target(item)
        fields = {name: self._framed(name, value) if name in maps else value for name, value in target.items()}
        return fields if self.complete is None else dict(self.complete(fields))

    def field(self, item: str, name: str) -> np.ndarray:
        """One map that `Dataset.target` leaves out; of another grid than the view's pixels as it is."""
        value = self.dataset.field(item, name)
        return value if self.dataset.map_shape(item, name) is not None else self._framed(name, value)

    def _framed(self, name: str, value: np.ndarray) -> np.ndarray:
        if name in self.dataset.stacks:
            return np.stack([self.preprocess.framed(each) for each in value])
        return self.preprocess.framed(value)

    def image(self, item: str) -> np.ndarray:
        """The item's image in the scored frame, uint8 (h, w, 3)."""
        image = self.dataset.image(self.dataset.views(item)[0])
        if not self.uniform:
            return image
        return np.ascontiguousarray(self.preprocess.apply(image).permute(1, 2, 0).numpy())
