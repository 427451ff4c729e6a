"""What a stored map means: mask, foreground, depth, normals, plain map or boundaries, checked for what it can be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.datasets import _dense_normals
from benchkit.datasets._dense_labels import Labels, coded
from benchkit.datasets._dense_readers import read_annotators, read_stored
from benchkit.datasets.base import Arrays
from benchkit.images import Unreadable

KINDS = ("mask", "foreground", "depth", "normals", "map", "boundaries")
FIELDS = {kind: "mask" if kind == "foreground" else kind for kind in KINDS}
HOLE, UNIT, ODD = 0.1, 0.1, 0.05  # lengths of holes, how far a unit vector's may be from 1, share that may be farther
_AXES = {"x": 0, "y": 1, "z": 2}


class Reader:
    """Reads targets as one kind of truth.

    Args:
        kind: one of KINDS.
        settings: of the data set.
        labels: what stored labels mean, of masks.
        colors: colour table of masks, or None.
    """

    def __init__(self, kind: str, settings: Any, labels: Labels | None, colors: dict[int, int] | None) -> None:
        self.kind, self.settings, self.labels, self.colors = kind, settings, labels, colors

    def __call__(self, path: Path) -> Arrays:
        """The fields of the item with this target, in the frame of its file.

        Raises:
            Unreadable: it cannot be such truth; says why.
        """
        return {"mask": self._mask, "foreground": self._mask, "depth": self._depth, "normals": self._normals,
                "map": self._map, "boundaries": self._boundaries}[self.kind](path)  # fmt: skip

    def examine(self, path: Path) -> tuple[tuple[int, int], int]:
        """Height and width of the truth in this file, and how many numbers a pixel has.

        Raises:
            Unreadable: as when it is read.
        """
        if self.kind == "normals" and self.settings.intrinsics is not None:  # depth that is right has right normals
            height, width = self.depth(path).shape
            return (height, width), 3
        found = self(path)[FIELDS[self.kind]]
        if self.kind == "boundaries":  # of however many annotators
            return (found.shape[1], found.shape[2]), 1
        return (found.shape[0], found.shape[1]), found.shape[2] if found.ndim == 3 else 1

    def labels_of(self, path: Path) -> np.ndarray:
        """The labels that a mask stores, (h, w)."""
        stored = coded(read_stored(path, self.settings.mat_key, labels=True), self.colors)
        if stored.ndim != 2 or stored.dtype.kind not in "uib":
            raise Unreadable(f"its mask is {stored.dtype} {stored.shape}: labels are whole numbers, one a pixel")
        return stored.astype(np.uint8) if stored.dtype.kind == "b" else stored

    def _mask(self, path: Path) -> Arrays:
        assert self.labels is not None
        return {"mask": self.labels.apply(self.labels_of(path))}

    def _depth(self, path: Path) -> Arrays:
        depth = self.depth(path)
        known = self.settings.intrinsics
        if known is None:
            return {"depth": depth}
        fx, fy, cx, cy = known
        return {"depth": depth, "intrinsics": np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1.0]])}

    def depth(self, path: Path) -> np.ndarray:
        """Metres, float32 (h, w), 0 where there is none."""
        stored, scale = self._quantities(path), self.settings.target_scale
        if stored.ndim != 2 or stored.dtype.kind not in "uif":
            raise Unreadable(f"its depth is {stored.dtype} {stored.shape}: one number a pixel is expected")
        if stored.dtype.kind in "ui" and scale is None:
            raise Unreadable(
                f"its depth is stored in whole numbers ({stored.dtype}, up to {stored.max(initial=0)}): say how many make "
                "a metre with data.target_scale, 1000 for millimetres"
            )
        metres = stored.astype(np.float64) / (scale or 1)
        if self.settings.inverse:
            metres = np.divide(1, metres, out=np.zeros_like(metres), where=metres != 0)
        metres = np.nan_to_num(metres, nan=0.0, posinf=0.0, neginf=-1.0)
        if (metres < 0).any():
            raise Unreadable(f"it holds negative depth, {metres.min():g} m")
        limit = self.settings.max_depth
        with np.errstate(over="ignore"):
            found = (metres if limit is None else np.where(metres <= limit, metres, 0)).astype(np.float32)
        if np.isinf(found).any():
            raise Unreadable(f"it holds depth of {metres.max():g} m: no such number; see data.target_scale")
        return found

    def _quantities(self, path: Path) -> np.ndarray:
        """Stored numbers that are amounts of something."""
        return read_stored(path, self.settings.mat_key, labels=False)

    def _normals(self, path: Path) -> Arrays:
        if self.settings.intrinsics is not None:
            return {"normals": _dense_normals.from_depth(self.depth(path), self.settings.intrinsics)}
        stored = self._quantities(path)
        if stored.ndim != 3 or stored.shape[2] not in (3, 4) or stored.dtype.kind not in "uf":
            raise Unreadable(f"its normals are {stored.dtype} {stored.shape}: three numbers a pixel are expected")
        vectors = stored[..., :3].astype(np.float64)
        if stored.dtype.kind == "u":
            vectors = vectors / np.iinfo(stored.dtype).max * 2 - 1
        return {"normals": _unit(_turned(vectors, self.settings.normals_axes))}

    def _map(self, path: Path) -> Arrays:
        stored = self._quantities(path)
        if stored.ndim not in (2, 3) or stored.dtype.kind not in "uifb":
            raise Unreadable(f"it is {stored.dtype} {stored.shape}: numbers, one or a few a pixel, are expected")
        with np.errstate(over="ignore"):
            values = (stored.astype(np.float64) / (self.settings.target_scale or 1)).astype(np.float32)
        if np.isinf(values).any():
            raise Unreadable("it holds infinity")
        return {"map": np.where(values == 0, np.float32(np.nan), values) if self.settings.zero == "hole" else values}

    def _boundaries(self, path: Path) -> Arrays:
        maps = read_annotators(path) if path.suffix.lower() == ".mat" else [self.labels_of(path)]
        return {"boundaries": np.stack([each > 0 for each in maps]).astype(np.uint8)}


def _turned(vectors: np.ndarray, axes: Sequence[str]) -> np.ndarray:
    """The stored axes as x right, y down, z forward."""
    if list(axes) == ["x", "y", "z"]:
        return vectors
    return np.stack([vectors[..., _AXES[a[-1]]] * (-1 if a[0] == "-" else 1) for a in axes], axis=-1)


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Unit vectors; zero where the stored length is near 0, or that of (-1, -1, -1), which is how holes are stored.

    Raises:
        Unreadable: more than a twentieth of the others are far from length 1: they are stored in another way.
    """
    vectors = np.nan_to_num(vectors, nan=0.0, posinf=0.0, neginf=0.0)
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    hole = (length < HOLE) | (np.abs(vectors + 1).max(axis=-1, keepdims=True) < HOLE)
    good = ~hole & (np.abs(length - 1) < UNIT)
    if good.sum() < (1 - ODD) * (~hole).sum():
        given = length[~hole]
        raise Unreadable(
            f"its normals are no unit vectors: their lengths are {given.min():g} to {given.max():g}, for the most part not 1 "
            "(8-bit images hold (n + 1) / 2, .npy files n itself)"
        )
    return np.where(good, vectors / np.where(good, length, 1), 0).astype(np.float32)
