"""What is compared of a thumbnail: a small grey picture, its tint, and two perceptual hashes.

The hash is the sign of the 63 lowest frequencies of an 8 x 8 discrete cosine transform (as in Zauner 2010,
"Implementation and Benchmarking of Perceptual Image Hash Functions", with the sign in place of the median). A mirrored
picture has the same coefficients with the sign of every odd horizontal frequency turned, so its hash needs no picture.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from benchkit.errors import RunError
from benchkit.images import Unreadable, decode_fast
from benchkit.progress import track
from benchkit.store.table import Table

SIDE = 32  # pixels of the grey picture
TINT_SIDE = 8
FREQUENCIES = 8
INNER = 0.05  # cut from each side for the second hash, which a cropped copy resembles
FLAT = 2.0  # grey levels: a standard deviation below it is noise of the JPEG
BITS = FREQUENCIES * FREQUENCIES - 1
MIRROR = np.tile(np.where(np.arange(FREQUENCIES) % 2, -1, 1), FREQUENCIES)[1:].astype(np.float32)
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601, as in JPEG
_TINT = np.array([[-0.1687, -0.3313, 0.5], [0.5, -0.4187, -0.0813]], np.float32)  # Cb, Cr


@dataclass
class Pictures:
    """N thumbnails.

    Attributes:
        names: their views.
        grey: float16 (N, 32, 32), 0..255, whatever the aspect.
        tint: float16 (N, 2, 8, 8), Cb and Cr around 0.
        whole, inner: int8 (N, 63), hashes of +1 and -1: of the picture, and of what lies 5 % inside it.
        flat: bool (N,), without structure that could be compared.
    """

    names: list[str]
    grey: np.ndarray
    tint: np.ndarray
    whole: np.ndarray
    inner: np.ndarray
    flat: np.ndarray

    def only(self, keep: np.ndarray) -> Pictures:
        """Those rows where `keep`, bool (N,), is True."""
        names = [name for name, kept in zip(self.names, keep, strict=True) if kept]
        arrays = (self.grey, self.tint, self.whole, self.inner, self.flat)
        return Pictures(names, *(array[keep] for array in arrays))


def read_pictures(thumbs: Table, names: list[str]) -> Pictures:
    """Decode the thumbnails of some views.

    Raises:
        RunError: a view has none, or one that is damaged; names it.
    """
    return pictures_of(names, (_decoded(thumbs, name) for name in track(names, len(names), "thumbnails", "views")))


def pictures_of(names: list[str], images: Iterable[np.ndarray]) -> Pictures:
    """What is compared of images uint8 (h, w, 3) of any size, one per name; one is in memory at a time."""
    count = len(names)
    grey = np.zeros((count, SIDE, SIDE), np.float16)
    tint = np.zeros((count, 2, TINT_SIDE, TINT_SIDE), np.float16)
    hashes = np.zeros((2, count, BITS), np.int8)
    for row, image in enumerate(images):
        pixels = image.astype(np.float32)
        luma = pixels @ _LUMA
        grey[row] = _resized(luma, SIDE)
        tint[row] = _tint(pixels)
        for which, cut in enumerate((0.0, INNER)):
            hashes[which, row] = _hash(luma, cut)
    flat = grey.astype(np.float32).std(axis=(1, 2)) < FLAT
    return Pictures(names, grey, tint, hashes[0], hashes[1], flat)


def _decoded(thumbs: Table, name: str) -> np.ndarray:
    row = thumbs.position.get(name)
    if row is None:
        raise RunError(f"{thumbs.path} has no thumbnail of {name!r}. Export again to make it.")
    try:
        return decode_fast(np.asarray(thumbs.item("thumb", row)).tobytes())
    except Unreadable as error:
        raise RunError(f"{thumbs.path}: the thumbnail of {name!r} is damaged: {error}. Export again.") from error


def _resized(plane: np.ndarray, side: int) -> np.ndarray:
    return _weights(plane.shape[0], side) @ plane @ _weights(plane.shape[1], side).T


def _tint(pixels: np.ndarray) -> np.ndarray:
    small = np.stack([_resized(pixels[:, :, channel], TINT_SIDE) for channel in range(3)])
    return np.tensordot(_TINT, small, axes=1)


def _hash(luma: np.ndarray, cut: float) -> np.ndarray:
    waves = [_waves(length, cut) for length in luma.shape]
    return np.where((waves[0] @ luma @ waves[1].T).ravel()[1:] > 0, 1, -1)


@lru_cache(maxsize=512)
def _waves(length: int, cut: float) -> np.ndarray:
    """The lowest frequencies of the cosine transform of `length` pixels resized to SIDE: (8, length)."""
    place = (np.arange(SIDE) + 0.5) / SIDE
    return np.cos(np.pi * np.arange(FREQUENCIES)[:, None] * place).astype(np.float32) @ _weights(length, SIDE, cut)


@lru_cache(maxsize=512)
def _weights(length: int, side: int, cut: float = 0.0) -> np.ndarray:
    """Weights (side, length) that resize `length` pixels, `cut` of them left out at each end: linear, antialiased."""
    scale = length * (1 - 2 * cut) / side
    centres = length * cut + (np.arange(side) + 0.5) * scale - 0.5
    weights = np.maximum(0, 1 - np.abs(np.arange(length) - centres[:, None]) / max(1.0, scale))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
