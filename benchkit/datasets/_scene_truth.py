"""Exact maps of generated scenes: what each pixel shows, how far away it is, which way it faces."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from benchkit.datasets import _scene_maps
from benchkit.datasets.base import Arrays

FIELDS = {
    "mask": ("mask",),
    "foreground": ("mask",),
    "depth": ("depth",),
    "normals": ("normals",),
    **_scene_maps.FIELDS,
}
SURROUNDINGS = ("floor", "wall", "sky")  # the first classes of a mask; the shapes of objects follow
FAR = 10.0  # metres: no true depth is given beyond it, as depth cameras give none
KEPT_BYTES = 192 * 2**20  # of truth in memory: several models and families in one process ask for the same

Key = tuple[str, str, int, int, int]
_kept: OrderedDict[Key, Arrays] = OrderedDict()
_lock = threading.Lock()


def meta(kind: str) -> dict[str, Any]:
    """What holds for all maps of a kind: classes and ignored value, unit and largest depth, source of normals."""
    from benchkit.render.shapes import SHAPES

    kinds: dict[str, dict[str, Any]] = {
        "mask": {"classes": [*SURROUNDINGS, *SHAPES], "ignore": None},
        "foreground": {"classes": ["background", "foreground"], "ignore": 255},
        "depth": {"unit": "m", "max_depth": FAR},
        "normals": {"normals_from": "the rendered surfaces, exact"},
        **_scene_maps.META,
    }
    return kinds[kind]


def truth(kind: str, view: str, seed: int, label: int, side: int) -> Arrays:
    """The fields of a view, read-only.

    Args:
        kind: mask: `mask` uint8 (side, side), floor, wall, sky or an object's shape. foreground: `mask` uint8, 1 on the
            main object. depth: `depth` float32 (side, side), metres, 0 beyond 10; with `intrinsics` K float64 (3, 3), in
            pixels of the rendered image. normals: `normals` float32 (side, side, 3), unit, x right, y down, z forward,
            zero in the sky. occlusion_edges and boundaries: see `_scene_maps`.
        view, seed, label, side: of the image.
    """
    with _lock:
        found = _kept.get((kind, view, seed, label, side))
        if found is not None:
            _kept.move_to_end((kind, view, seed, label, side))
            return dict(found)
    made = _made(kind, view, seed, label, side)
    for name in made.keys() - ({"normals"} - {kind}):  # three times as large as the rest: kept when asked for
        _keep((name, view, seed, label, side), made[name])
    return dict(made[kind])


def _made(kind: str, view: str, seed: int, label: int, side: int) -> dict[str, Arrays]:
    """The fields of this kind, and of those that cost nothing more, from one cast of rays."""
    from benchkit.render.raycast import geometry
    from benchkit.render.room import FLOOR, NOTHING
    from benchkit.render.scene import make_scene
    from benchkit.render.shapes import SHAPES

    scene = make_scene(view, seed, label)
    seen = geometry(scene, side)
    shapes = [len(SURROUNDINGS) + list(SHAPES).index(thing.name.split("_")[1]) for thing in scene.objects]
    around = np.full(-NOTHING, SURROUNDINGS.index("wall"))  # by surface, from NOTHING to the last side of the room
    around[FLOOR - NOTHING], around[0] = SURROUNDINGS.index("floor"), SURROUNDINGS.index("sky")
    classes = np.concatenate([around, shapes]).astype(np.uint8)
    depth = {"depth": np.where(seen.depth <= FAR, seen.depth, np.float32(0)), "intrinsics": seen.intrinsics}
    more = {name: make(seen) for name, make in _scene_maps.FROM_GEOMETRY.items() if name == kind}
    return {
        **more,
        "mask": {"mask": classes[seen.surface - NOTHING]},
        "foreground": {"mask": (seen.instance == 0).astype(np.uint8)},
        "depth": depth,
        "normals": {"normals": seen.normals},
    }


def _keep(key: Key, fields: Arrays) -> None:
    for values in fields.values():
        values.setflags(write=False)
    with _lock:
        _kept[key] = fields
        _kept.move_to_end(key)
        total = sum(_bytes(each) for each in _kept.values())
        while total > KEPT_BYTES and len(_kept) > 1:
            total -= _bytes(_kept.popitem(last=False)[1])


def _bytes(fields: Arrays) -> int:
    return sum(values.nbytes for values in fields.values())
