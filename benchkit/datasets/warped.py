"""Images beside themselves through a homography, drawn from the seed, the item's name and a strength.

Any folder of images, or generated scenes where there is no root. Each image is resized to its central square of `side`
pixels, which is the first view; the second is that square warped (black where nothing of it lies). Truth is the homography in
pixels of the views, the corner of the top-left pixel at (0, 0).
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np

from benchkit.datasets.base import Arrays, Dataset
from benchkit.datasets.images import LAYOUT, Images
from benchkit.datasets.images import Settings as ImagesSettings
from benchkit.datasets.scenes import Scenes
from benchkit.datasets.scenes import Settings as ScenesSettings
from benchkit.geometry.homography import LARGEST_WARP, random_warp, warped
from benchkit.images import DECODERS
from benchkit.settings import setting

__all__ = ["LAYOUT", "Settings", "Warped", "build"]

VERSION = 1
SOURCE, WARPED = "source", "warped"


@dataclasses.dataclass
class Settings(ImagesSettings):
    """Settings of the warps."""

    warps: list[float] = setting([0.2], "strengths: each corner moves by at most so much of width and height")
    side: int = setting(224, "side of the views in pixels")
    seed: int = setting(0, "seed of the warps (and of the scenes), together with each item's name")
    n_train: int = setting(0, "scenes in the train split, where there is no root")
    n_test: int = setting(60, "scenes in the test split, where there is no root")

    def __post_init__(self) -> None:
        super().__post_init__()
        bad = [each for each in self.warps if not 0 <= each < LARGEST_WARP]
        if bad or not self.warps or len(set(self.warps)) < len(self.warps):
            raise ValueError(f"warps are different strengths from 0 to below {LARGEST_WARP}, not {self.warps}")
        if self.side < 8:
            raise ValueError(f"side is at least 8 pixels, not {self.side}")


class Warped(Dataset):
    """See the module; an item is `<image>` or, of several strengths, `<image>~<strength>`.

    Raises:
        UsageError: root is no folder of images.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.generated = settings.root is None
        known = {field.name: getattr(settings, field.name) for field in dataclasses.fields(ImagesSettings)}
        if self.generated:
            common = {field.name for field in dataclasses.fields(ScenesSettings)}
            drawn: dict[str, Any] = {
                "seed": settings.seed,
                "side": settings.side,
                "n_train": settings.n_train,
                "n_test": settings.n_test,
            }
            self.source: Any = Scenes(ScenesSettings(**{k: v for k, v in known.items() if k in common}, **drawn))
        else:
            self.source = Images(ImagesSettings(**known))

    def items(self, split: str) -> list[str]:
        """In name order."""
        return sorted(self._item(image, warp) for image in self.source.items(split) for warp in self.settings.warps)

    def _item(self, image: str, warp: float) -> str:
        return image if len(self.settings.warps) == 1 else f"{image}~{warp:g}"

    def _parts(self, item: str) -> tuple[str, float]:
        """The image and the strength of an item."""
        if len(self.settings.warps) == 1:
            return item, self.settings.warps[0]
        image, _, warp = item.rpartition("~")
        return image, float(warp)

    def views(self, item: str) -> tuple[str, str]:
        """The image's square, which items of several strengths share, and that square warped."""
        return f"{self._parts(item)[0]}/{SOURCE}", f"{item}/{WARPED}"

    def path(self, view: str) -> None:
        """Views are made, not stored."""
        return

    def recipe(self, view: str) -> str:
        """What a view's pixels are a function of: the image's bytes, or the scene's recipe; side; seed, name and strength."""
        name, _, kind = view.rpartition("/")
        image, warp = (name, None) if kind == SOURCE else self._parts(name)
        path = self.source.path(image)
        made_of = self.source.recipe(image) if path is None else hashlib.sha256(path.read_bytes()).hexdigest()
        drawn = [] if warp is None else [self.settings.seed, image, repr(warp)]
        return "\0".join(map(str, ["warped", VERSION, self.settings.side, self.settings.decoder, made_of, *drawn]))

    def generated_size(self, view: str) -> tuple[int, int]:
        """Square."""
        return self.settings.side, self.settings.side

    def image(self, view: str) -> np.ndarray:
        """The view."""
        name, _, kind = view.rpartition("/")
        if kind == SOURCE:
            return self._square(name)
        return warped(self._square(self._parts(name)[0]), self._matrix(name))

    def _square(self, image: str) -> np.ndarray:
        """The central square, resized."""
        from PIL import Image

        path, side = self.source.path(image), self.settings.side
        if path is None:
            return np.asarray(self.source.image(image))
        pixels = DECODERS[self.settings.decoder](path.read_bytes())
        height, width = pixels.shape[:2]
        short = min(height, width)
        left, top = (width - short) / 2, (height - short) / 2
        box = (left, top, left + short, top + short)
        return np.array(Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC, box=box))

    def _matrix(self, item: str) -> np.ndarray:
        """The same corners move in the same directions at every strength."""
        image, warp = self._parts(item)
        digest = hashlib.sha256(f"{VERSION}\0{self.settings.seed}\0{image}".encode()).digest()
        generator = np.random.default_rng(np.frombuffer(digest, np.uint32))
        return random_warp(generator, self.settings.side, self.settings.side, warp)

    def target(self, item: str) -> Arrays:
        """`homography`: float64 (3, 3), from the first view's pixels to the second's; `size0`, `size1`: float64 (2,), width
        and height; `scale0`, `scale1`: 1, from pixels to the scored frame.
        """
        size, scale = np.full(2, float(self.settings.side)), np.ones(())
        return {"homography": self._matrix(item), "size0": size, "size1": size, "scale0": scale, "scale1": scale}

    def group(self, item: str) -> str:
        """The image, where it is there in several strengths."""
        return self._parts(item)[0] if len(self.settings.warps) > 1 else ""

    def category(self, item: str) -> dict[str, str]:
        """The strength."""
        return {"warp": f"{self._parts(item)[1]:g}"}


build = Warped
