"""Whether two thumbnails show the same photo: their pixels agree, as they are or in a frame of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchkit.duplicates import alignment
from benchkit.duplicates.pictures import SIDE, Pictures

CORRELATION = 0.9  # least, of grey values
GRADIENT = 0.8  # least, of their differences between neighbours: shapes without detail have a high correlation
COARSE = 0.75  # least correlation at half the resolution with which a pair is looked at closer
TINT = 0.5  # least cosine of Cb and Cr, where both pictures have colours
COLOURLESS = 3.0  # root mean square of Cb and Cr in a grey picture
COVERED = 0.9  # least share of a frame that lies in the picture
_BATCH = 128  # pairs at a time: they stay in the processor's cache


@dataclass
class Agreement:
    """How well B pairs agree.

    Attributes:
        as_they_are, framed: (B, 2), correlation of grey values and of gradients; -1 where it was not looked at.
    """

    as_they_are: np.ndarray
    framed: np.ndarray

    def same(self) -> np.ndarray:
        """bool (B,): the same picture in the same frame."""
        return _enough(self.as_they_are)

    def moved(self) -> np.ndarray:
        """bool (B,): the same picture, one of them cropped."""
        return ~self.same() & _enough(self.framed)

    def strength(self) -> np.ndarray:
        """(B,): the higher correlation of gradients."""
        return np.maximum(self.as_they_are[:, 1], self.framed[:, 1])


def _enough(scores: np.ndarray) -> np.ndarray:
    return (scores[:, 0] >= CORRELATION) & (scores[:, 1] >= GRADIENT)


def agreement(pictures: Pictures, first: np.ndarray, second: np.ndarray, mirrored: bool) -> Agreement:
    """Compare pairs of rows; `mirrored` turns the second of each left to right."""
    parts = [
        _batch(pictures, first[start : start + _BATCH], second[start : start + _BATCH], mirrored)
        for start in range(0, len(first), _BATCH)
    ]
    return Agreement(_joined([p.as_they_are for p in parts]), _joined([p.framed for p in parts]))


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros((0, 2), np.float32)


def _batch(pictures: Pictures, first: np.ndarray, second: np.ndarray, mirrored: bool) -> Agreement:
    a, b = pictures.grey[first].astype(np.float32), pictures.grey[second].astype(np.float32)
    b = np.ascontiguousarray(b[:, :, ::-1]) if mirrored else b
    found = np.full((2, len(a), 2), -1, np.float32)
    near = np.flatnonzero(_tints_agree(pictures.tint[first], pictures.tint[second], mirrored))
    found[0, near] = _scores(a[near], b[near], np.ones((len(near), SIDE, SIDE), np.float32))
    for inside, whole in ((a, b), (b, a)):
        rest = near[~_enough(found[0, near])]
        framed = _framed(inside[rest], whole[rest])
        better = framed[:, 1] > found[1, rest, 1]
        found[1, rest[better]] = framed[better]
    return Agreement(*found)


def _tints_agree(first: np.ndarray, second: np.ndarray, mirrored: bool) -> np.ndarray:
    """Colours as they lie in the picture; a grey picture agrees with any, and more or less saturation is no difference."""
    a = first.astype(np.float32).reshape(len(first), -1)
    b = (second[..., ::-1] if mirrored else second).astype(np.float32).reshape(len(second), -1)
    strengths = [np.sqrt((tint * tint).mean(axis=1)) for tint in (a, b)]
    grey = np.minimum(*strengths) < COLOURLESS
    return grey | ((a * b).mean(axis=1) >= TINT * strengths[0] * strengths[1])


def _framed(inside: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Scores (B, 2) of pictures against the frames that they take up in others; -1 where they clearly take up none."""
    found = np.full((len(inside), 2), -1, np.float32)
    frames = alignment.coarse(inside, whole)
    halves = alignment.halved(inside), alignment.cut_out(alignment.halved(whole), frames)
    near = np.flatnonzero(_correlation(*halves, np.ones_like(halves[0])) >= COARSE)
    frames = alignment.fine(inside[near], whole[near], frames[near])
    mask = alignment.covered(frames, SIDE).astype(np.float32)
    scores = _scores(inside[near], alignment.cut_out(whole[near], frames), mask)
    scores[mask.mean(axis=(1, 2)) < COVERED] = -1
    found[near] = scores
    return found


def _scores(a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Correlation of grey values and of gradients where `mask` is 1; all (B, m, m)."""
    return np.stack([_correlation(a, b, mask), _cosine(_gradient(a, mask), _gradient(b, mask))], axis=1)


def _correlation(a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> np.ndarray:
    count = np.maximum(mask.sum(axis=(1, 2), keepdims=True), 1)
    centred = [(p - (p * mask).sum(axis=(1, 2), keepdims=True) / count) * mask for p in (a, b)]
    return _cosine(*map(_flat, centred))


def _gradient(pictures: np.ndarray, mask: np.ndarray) -> np.ndarray:
    down = (pictures[:, 1:] - pictures[:, :-1]) * (mask[:, 1:] * mask[:, :-1])
    right = (pictures[:, :, 1:] - pictures[:, :, :-1]) * (mask[:, :, 1:] * mask[:, :, :-1])
    return np.concatenate([_flat(down), _flat(right)], axis=1)


def _flat(pictures: np.ndarray) -> np.ndarray:
    return pictures.reshape(len(pictures), pictures.shape[1] * pictures.shape[2])


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.einsum("bk,bk->b", a, a) * np.einsum("bk,bk->b", b, b))
    return np.einsum("bk,bk->b", a, b) / np.maximum(lengths, 1e-6)
