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
from benchkit.datasets._generated import Generated, GeneratedSettings, number_of
from benchkit.datasets.base import Arrays
from benchkit.settings import setting


@dataclasses.dataclass
class Settings(GeneratedSettings):
    """Settings of the generated scenes."""

    truth: Literal[
        "class", "mask", "foreground", "depth", "normals", "edges", "keypoints2d", "occlusion_edges", "boundaries"
    ] = setting(
        "class",
        "class, mask (floor, wall, sky and shapes), foreground (the main object), depth (up to 10 m), normals, edges, "
        "keypoints2d (both of the picture), occlusion_edges or boundaries (where objects hide what is behind)",
    )


class Scenes(Generated):
    """See the module; the classes take turns."""

    def __init__(self, settings: Settings) -> None:
        from benchkit.render import scene

        super().__init__(settings)
        self.classes = list(scene.CLASSES)
        self.generator = ("scenes", scene.VERSION)
        self.maps = _scene_truth.FIELDS.get(settings.truth, ())
        self.stacks = ("boundaries",) if settings.truth == "boundaries" else ()

    def _class(self, item: str) -> int:
        return number_of(item) % len(self.classes)

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


@lru_cache(maxsize=1024)  # several models in one process look at the same scenes; at 224 pixels this is 154 MB
def _rendered(view: str, seed: int, label: int, side: int) -> np.ndarray:
    from benchkit.render.raycast import render
    from benchkit.render.scene import make_scene

    pixels = render(make_scene(view, seed, label), side).rgb
    pixels.setflags(write=False)
    return pixels


build = Scenes
