"""The images of an item, of maps in the frame that was scored: from the data set where they are still there, else thumbnails.

A record may be a stranger's, and says where its data lie. Images are read of a kind of data set that ships with benchkit (or is
trusted, `benchkit.trust`), from a folder that is here or a generator, never from a network; of items that the data set itself
lists; and where there is a thumbnail, only if it shows the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchkit.export.truth import FramedTruth

LIKE = 12.0  # mean difference (of 255) between a thumbnail and one made anew, above which they show different images
MOST_ITEMS, MOST_SIDE = 1_000_000, 4096  # of generated images that are made anew
SIDE = 1000  # pixels: longer side of the views of a pair that are shown


class Frames:
    """Images of a tag's items.

    Args:
        record: of the tag: its data set and its preprocessing.
    """

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.preprocess = _preprocess(record["backbone"]["identity"]["preprocess"])
        self.items: frozenset[str] = frozenset()
        self.truth = self._truth(record["conf"]["data"])
        self.from_thumbs: list[str] = []

    def _truth(self, data: Mapping[str, Any]) -> FramedTruth | None:
        from benchkit.errors import BenchkitError
        from benchkit.export.truth import FramedTruth
        from benchkit.registry import find

        try:
            component = find("datasets", data["name"])
            if not _is_here(component, data):
                return None
            settings = component.settings(**{key: value for key, value in data.items() if key != "name"})
            dataset = component.build(settings)
            self.items = frozenset(dataset.items(settings.split))  # folders are read
            return FramedTruth(dataset, self.preprocess)
        except (BenchkitError, OSError, TypeError, ValueError):  # moved, deleted, or of another version of the code
            return None

    def image(self, item: str, thumb: np.ndarray | None, size: tuple[int, int]) -> np.ndarray | None:
        """uint8 (h, w, 3) of this size; None where there is neither image nor thumbnail.

        `from_thumbs` gathers the items whose thumbnail was enlarged.
        """
        whole = self._whole(item, thumb)
        if whole is not None and whole.shape[:2] == size:
            return whole
        if thumb is None:
            return None
        self.from_thumbs.append(item)
        return _enlarged(self.preprocess.framed(thumb), size)

    def views(self, item: str, names: Sequence[str], thumbs: Sequence[np.ndarray] | None) -> list[np.ndarray] | None:
        """The views of a pair, uint8 (h, w, 3) each, made smaller where they are large; None without images and thumbnails.

        `from_thumbs` gathers the items of which a thumbnail is shown.
        """
        small: list[np.ndarray | None] = [None] * len(names) if thumbs is None else [*thumbs]
        there = self._lists(item, names)
        images = [self._exported(name, thumb) if there else None for name, thumb in zip(names, small, strict=True)]
        if thumbs is None and any(image is None for image in images):
            return None
        if any(image is None for image in images):
            self.from_thumbs.append(item)
        shown = [thumb if image is None else image for image, thumb in zip(images, small, strict=True)]
        return [_within(each, SIDE) for each in shown if each is not None]

    def _whole(self, item: str, thumb: np.ndarray | None) -> np.ndarray | None:
        """The image itself in the frame, unless it cannot be read any more or is not the one that was exported."""
        from benchkit.errors import BenchkitError

        if self.truth is None or item not in self.items:
            return None
        try:
            if self._exported(self.truth.dataset.views(item)[0], thumb) is None:
                return None
            return self.truth.image(item)
        except (BenchkitError, OSError, KeyError):
            return None

    def _lists(self, item: str, names: Sequence[str]) -> bool:
        """Whether the data set has this item, of these views: a name from elsewhere could be any path."""
        if self.truth is None or item not in self.items:
            return False
        return list(self.truth.dataset.views(item)) == list(names)

    def _exported(self, view: str, thumb: np.ndarray | None) -> np.ndarray | None:
        """A view as the data set has it, unless it cannot be read any more or is not the one that was exported."""
        from benchkit.errors import BenchkitError
        from benchkit.export.decoding import thumbnail
        from benchkit.images import decode_exact

        if self.truth is None:
            return None
        try:
            image = self.truth.dataset.image(view)
        except (BenchkitError, OSError, KeyError):
            return None
        if thumb is not None:
            anew = decode_exact(thumbnail(image).tobytes())
            if anew.shape != thumb.shape or np.abs(anew.astype(np.float32) - thumb).mean() > LIKE:
                return None
        return image


def _is_here(component: Any, data: Mapping[str, Any]) -> bool:
    """Whether a data set is a folder, or a generator of images in a number that can be made."""
    sizes = [data.get(key, 0) for key in ("n_train", "n_test", "side")]
    if not all(isinstance(size, int) for size in sizes) or max(sizes) > MOST_ITEMS or sizes[-1] > MOST_SIDE:
        return False
    return bool(data.get("root")) or bool(getattr(component.build, "generated", False))


def _preprocess(known: Mapping[str, Any]) -> Any:
    from benchkit.preprocess import Preprocess

    filled = {"short": known["short"] or known["size"], "multiple": known["multiple"] or 1}
    return Preprocess(**{**known, **filled, "mean": tuple(known["mean"]), "std": tuple(known["std"])})


def _within(picture: np.ndarray, side: int) -> np.ndarray:
    """At most so large; small pictures stay as they are."""
    from PIL import Image

    shrunk = Image.fromarray(picture)
    shrunk.thumbnail((side, side), Image.Resampling.BILINEAR)
    return np.array(shrunk)


def _enlarged(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    from PIL import Image

    return np.array(Image.fromarray(picture).resize(size[::-1], Image.Resampling.BILINEAR))
