"""Generated triplets: a scene, and two variations of it of which one is changed less. No person voted.

Each triplet changes one thing (`kind`): the viewpoint, the main object (turned, or replaced by another one of its colours),
the objects around it (some, or most replaced), or the layout (they move). The side that is changed less is the vote. Both
variations have a light of their own, equally far from the reference's, so colours alone do not tell. Every image is a
function of the generator's version, the seed and the item's name.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.datasets._generated import Generated, GeneratedSettings, number_of
from benchkit.datasets.base import Arrays
from benchkit.settings import setting

if TYPE_CHECKING:
    from benchkit.render.scene import Scene

VIEWS = ("reference", "left", "right")
LITTLE, MUCH = (0.2, 0.45), (0.65, 1.0)  # ranges of a change's strength


@dataclasses.dataclass
class Settings(GeneratedSettings):
    """Settings of the generated triplets."""

    n_train: int = setting(128, "triplets in the train split")
    n_test: int = setting(64, "triplets in the test split")


class SceneTriplets(Generated):
    """See the module; kinds, then sides take turns."""

    def __init__(self, settings: Settings) -> None:
        from benchkit.render import scene, variation

        super().__init__(settings)
        self.kinds = list(variation.CHANGES)
        self.generator = ("scene_triplets", f"{scene.VERSION}.{variation.VERSION}")

    def views(self, item: str) -> tuple[str, ...]:
        """Reference, left, right."""
        return tuple(f"{item}/{view}" for view in VIEWS)

    def image(self, view: str) -> np.ndarray:
        """The rendered view, read-only."""
        item, _, which = view.rpartition("/")
        much = None if which == "reference" else which != VIEWS[1 + self._vote(item)]
        return _rendered(item, self.kinds[self._kind(item)], much, self.settings.seed, self.settings.side)

    def _kind(self, item: str) -> int:
        return number_of(item) % len(self.kinds)

    def _vote(self, item: str) -> int:
        number = number_of(item)
        return (number + number // len(self.kinds)) % 2

    def label(self, item: str) -> str:
        """What is changed: limited splits have all kinds."""
        return self.kinds[self._kind(item)]

    def target(self, item: str) -> Arrays:
        """`vote`: 1 where the right image is changed less, else 0; `kind`: index into meta's `kinds`."""
        return {"vote": np.int64(self._vote(item)), "kind": np.int64(self._kind(item))}  # type: ignore[dict-item]

    def category(self, item: str) -> dict[str, str]:
        """What is changed."""
        return {"kind": self.label(item)}

    def meta(self) -> dict[str, Any]:
        """`kinds`: what the triplets change."""
        return {"kinds": self.kinds}


@lru_cache(maxsize=512)  # several models in one process look at the same images; at 224 pixels this is 77 MB
def _rendered(item: str, kind: str, much: bool | None, seed: int, side: int) -> np.ndarray:
    from benchkit.render.raycast import render

    pixels = render(_scene(item, kind, much, seed), side).rgb
    pixels.setflags(write=False)
    return pixels


def _scene(item: str, kind: str, much: bool | None, seed: int) -> Scene:
    """The reference (None), or a variation of it that is changed little or much."""
    from benchkit.render.scene import CLASSES, generator, make_scene
    from benchkit.render.variation import CHANGES, relit, varied

    name, number = f"triplet/{item}", number_of(item)
    scene = make_scene(name, seed, number // len(CHANGES) % len(CLASSES))
    if much is None:
        return scene
    strength = generator(name, seed, f"strength {much}").uniform(*(MUCH if much else LITTLE))
    return relit(varied(scene, kind, strength, name, seed), f"{name}/{much}", seed)


build = SceneTriplets
