"""Views of items as inputs, decoded when they are asked for: what heads read that take the images themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchkit.datasets.base import Dataset
from benchkit.errors import RunError
from benchkit.export.batches import Picture
from benchkit.export.decoding import read_image
from benchkit.export.manifest import Facts
from benchkit.images import Unreadable
from benchkit.preprocess import PADDED, Preprocess


@dataclasses.dataclass(frozen=True)
class View:
    """One image as the conf wants it.

    Attributes:
        pixels: uint8 tensor (3, h, w), RGB, not normalised, on the CPU.
        shown: height and width of its part that shows the image; what lies right of it and below is padding.
        corner: float64 (2,), x and y of the input's corner in the resized image (0 unless it is cropped).
        factor: float64 (2,), from pixels of the resized image to original ones, along x and y.
        size: width and height of the original.
    """

    pixels: Any
    shown: tuple[int, int]
    corner: np.ndarray
    factor: np.ndarray
    size: tuple[int, int]

    def original(self, points: np.ndarray) -> np.ndarray:
        """Points (n, 2) of the input in original pixels, float32; x and y, the corner of the top-left pixel at (0, 0)."""
        return ((np.asarray(points, np.float64).reshape(-1, 2) + self.corner) * self.factor).astype(np.float32)


class Views:
    """Views by name.

    Attributes:
        names: of views, those of an item one after the other.
        device: where the conf wants the model (cpu, cuda:0): the head moves its net and its inputs there.
    """

    def __init__(
        self, dataset: Dataset, facts: Mapping[str, Facts], names: Sequence[str], preprocess: Preprocess, device: str
    ) -> None:
        self.names, self.device = list(names), device
        self._dataset, self._facts, self._preprocess = dataset, facts, preprocess

    def of(self, names: Sequence[str]) -> Views:
        """Some of the views."""
        return Views(self._dataset, self._facts, names, self._preprocess, self.device)

    def view(self, row: int) -> View:
        """One view, decoded anew.

        Raises:
            RunError: it cannot be decoded, or is no longer the image that it was.
        """
        name, made = self.names[row], self._preprocess
        facts = self._facts[name]
        try:
            image = read_image(Picture(name, facts.sha256, facts.height, facts.width, self._dataset), made.decoder)
        except Unreadable as error:
            raise RunError(f"the view {name!r}: {error}. Mend the file and run the same command again.") from error
        height, width = image.shape[:2]
        rows, columns = made.resized(height, width)
        crop, corner = (made.size, made.size), np.zeros(2)
        if made.resize == "crop":
            corner = np.array([round((columns - made.size) / 2), round((rows - made.size) / 2)], np.float64)
        shown = (rows, columns) if made.resize in PADDED else crop
        return View(made.apply(image), shown, corner, np.array([width / columns, height / rows]), (width, height))
