"""Generated 3-D scenes: the data that is always there. The class is the shape and material of the main object; the same
images have exact masks, depth and normals (data.truth).

Every image is a function of the generator's version, the seed and the item's name. Scores on scenes compare models under
one fixed, clean condition; they stand for no photograph.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from benchkit.datasets import _scene_maps, _scene_truth
from benchkit.datasets.base import Arrays, Dataset, DataSettings
from benchkit.errors import UsageError
from benchkit.settings import setting


@dataclasses.dataclass
class Settings(DataSettings):
    """Settings of the generated scenes."""

    n_train: int = setting(240, "scenes in the train split")
    n_test: int = setting(120, "scenes in the test split")
    seed: int = setting(0, "seed of the generator, together with each item's name")
    side: int = setting(224, "side of the rendered image in pixels")
    truth: Literal[
        "class", "mask", "foreground", "depth", "normals", "edges", "keypoints2d", "occlusion_edges", "boundaries"
    ] = setting(
        "class",
        "class, mask (floor, wall, sky and shapes), foreground (the main object), depth (up to 10 m), normals, edges, "
        "keypoints2d (both of the picture), occlusion_edges or boundaries (where objects hide what is behind)",
    )


class Scenes(Dataset):
    """See the module."""

    generated = True

    def __init__(self, settings: Settings) -> None:
        from benchkit.render import scene

        self.settings = settings
        self.classes = list(scene.CLASSES)
        self.version = scene.VERSION
        self.maps = _scene_truth.FIELDS.get(settings.truth, ())
        self.stacks = ("boundaries",) if settings.truth == "boundaries" else ()
        if min(settings.n_train, settings.n_test) < 0 or settings.side < 8:
            raise UsageError("data.n_train and data.n_test must not be negative, and data.side at least 8.")

    def items(self, split: str) -> list[str]:
        """`<split>/<number>`; the classes take turns."""
        counts = {"train": self.settings.n_train, "test": self.settings.n_test}
        if split not in counts:
            raise UsageError(f"generated scenes have the splits train and test, not {split!r}: set data.split=test.")
        return [f"{split}/{i:06d}" for i in range(counts[split])]

    def _class(self, item: str) -> int:
        return int(item.split("/")[1]) % len(self.classes)

    def path(self, view: str) -> None:
        """Nothing is on disk."""
        return

    def recipe(self, view: str) -> str:
        """Generator, version, seed, side and name."""
        return f"scenes\0{self.version}\0{self.settings.seed}\0{self.settings.side}\0{view}"

    def generated_size(self, view: str) -> tuple[int, int]:
        """Square."""
        return self.settings.side, self.settings.side

    def image(self, view: str) -> np.ndarray:
        """The rendered scene, read-only."""
        return _rendered(view, self.settings.seed, self._class(view), self.settings.side)

    def label(self, item: str) -> str | None:
        """Shape and material of the main object, where they are what is asked for."""
        return None if self.maps else self.classes[self._class(item)]

    def target(self, item: str) -> Arrays:
        """`label`: index into the class names; or one of the maps that `_scene_truth.truth` makes."""
        if self.settings.truth in _scene_maps.FROM_IMAGE:
            return {"map": _scene_maps.FROM_IMAGE[self.settings.truth](self.image(item))}
        if self.maps:
            known = self.settings
            return _scene_truth.truth(known.truth, item, known.seed, self._class(item), known.side)
        return {"label": np.int64(self._class(item))}  # type: ignore[dict-item]

    def category(self, item: str) -> dict[str, str]:
        """The class of the main object."""
        return {"class": self.classes[self._class(item)]}

    def meta(self) -> dict[str, Any]:
        """Class names in the order of the labels, or unit and source of the maps."""
        return _scene_truth.meta(self.settings.truth) if self.maps else {"classes": self.classes}


@lru_cache(maxsize=512)  # several models in one process look at the same scenes; at 224 pixels this is 77 MB
def _rendered(view: str, seed: int, label: int, side: int) -> np.ndarray:
    from benchkit.render.raycast import render
    from benchkit.render.scene import make_scene

    pixels = render(make_scene(view, seed, label), side).rgb
    pixels.setflags(write=False)
    return pixels


build = Scenes
