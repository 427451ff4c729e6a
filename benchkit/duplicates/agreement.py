"""How well two thumbnails agree: as they are, or after one was moved and scaled onto a part of the other.

Measured on 440 photos of 22 classes (Caltech-101) with copies of 100 of them; the thresholds lie between these numbers:
    found of 100, with features of efficientnet_lite0 (without features, where that differs):
        JPEG of quality 50: 100. Half size: 100. Grey: 100. Mirrored: 100. Brighter by 1.2: 100, by 1.5: 95.
        Cut off: 5 % at each side 99, mirrored too 99; 5 % at two sides 100 (92); 10 % at each 86 (66), 15 % 40 (2).
        Turned by 2 degrees: 80. In a frame of 5 %: 41. Turned by 90 degrees: none.
    agreement of such copies: above .82 but for 2 in 100; of different photos of one object up to .72, of scenes .59
    false pairs: none among the 96,580 of the photos (6 are found, each truly one photo) nor among 1,999,000 of generated
        scenes; 7 among 1,547,920 of the photos' quarters, 4 of them halves of something symmetric; 51 among 1,613,706 of
        handwritten digits of 8 x 8 pixels. Successive frames of a film can agree like copies.
"""

from __future__ import annotations

import numpy as np

from benchkit.duplicates import alignment
from benchkit.duplicates.pictures import SIDE, Pictures

LEAST = 0.78  # agreement of copies
LEAST_PLAIN = 0.95  # the same, where one of the pictures is plain
PLAIN = (
    0.5  # mean agreement of a plain picture with itself, two pixels aside: as handwritten digits, up to .45 in photos
)
CORRELATION = 0.9  # least, of grey values
STRONG = 0.5  # gradients above this share of a picture's own root mean square count alike: no border outweighs the rest
COARSE = 0.75  # least correlation at half the resolution with which a frame is looked at closer
TINT = 0.5  # least cosine of Cb and Cr, where both pictures have colours
COLOURLESS = 3.0  # root mean square of Cb and Cr in a grey picture
COVERED = 0.9  # least share of a frame that lies in the picture
_BATCH = 128  # pairs at a time: they stay in the processor's cache


def agreement(pictures: Pictures, first: np.ndarray, second: np.ndarray, mirrored: bool) -> np.ndarray:
    """Compare P pairs of rows; `mirrored` turns the second of each left to right.

    Returns:
        (P, 2): the cosine of the gradients of both pictures as they are, and in the better frame; -1 where colours or
        grey values differ.
    """
    starts = range(0, len(first), _BATCH)
    parts = [_batch(pictures, first[i : i + _BATCH], second[i : i + _BATCH], mirrored) for i in starts]
    return np.concatenate([np.zeros((0, 2), np.float32), *parts])


def plain(pictures: Pictures) -> np.ndarray:
    """bool (N,): pictures with so little detail that others agree with them by chance."""
    starts = range(0, len(pictures.grey), _BATCH)
    parts = [_beside_itself(pictures.grey[i : i + _BATCH].astype(np.float32)) >= PLAIN for i in starts]
    return np.concatenate([np.zeros(0, bool), *parts])


def _beside_itself(grey: np.ndarray) -> np.ndarray:
    """Mean agreement (B,) of pictures with themselves, moved by two pixels down, right, and along both diagonals."""
    inner = np.zeros((1, SIDE, SIDE), np.float32)
    inner[:, 2:-2, 2:-2] = 1
    own = _gradient(grey, inner)
    moved = [np.roll(grey, shift, axis=(1, 2)) for shift in ((2, 0), (0, 2), (2, 2), (2, -2))]
    return np.mean([_cosine(own, _gradient(each, inner)) for each in moved], axis=0)


def _batch(pictures: Pictures, first: np.ndarray, second: np.ndarray, mirrored: bool) -> np.ndarray:
    a, b = pictures.grey[first].astype(np.float32), pictures.grey[second].astype(np.float32)
    b = np.ascontiguousarray(b[:, :, ::-1]) if mirrored else b
    found = np.full((len(a), 2), -1, np.float32)
    near = np.flatnonzero(_tints_agree(pictures.tint[first], pictures.tint[second], mirrored))
    found[near, 0] = _score(a[near], b[near], np.ones((len(near), SIDE, SIDE), np.float32))
    rest = near[found[near, 0] < LEAST_PLAIN]
    found[rest, 1] = np.maximum(_framed(a[rest], b[rest]), _framed(b[rest], a[rest]))
    return found


def _tints_agree(first: np.ndarray, second: np.ndarray, mirrored: bool) -> np.ndarray:
    """Colours as they lie in the picture; a grey picture agrees with any, and more or less saturation is no difference."""
    a = first.astype(np.float32).reshape(len(first), -1)
    b = (second[..., ::-1] if mirrored else second).astype(np.float32).reshape(len(second), -1)
    strengths = [np.sqrt((tint * tint).mean(axis=1)) for tint in (a, b)]
    grey = np.minimum(*strengths) < COLOURLESS
    return grey | ((a * b).mean(axis=1) >= TINT * strengths[0] * strengths[1])


def _framed(inside: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Score (B,) of pictures against the frames that they take up in others; -1 where they clearly take up none."""
    found = np.full(len(inside), -1, np.float32)
    frames = alignment.coarse(inside, whole)
    halves = alignment.halved(inside), alignment.cut_out(alignment.halved(whole), frames)
    near = np.flatnonzero(_correlation(*halves, np.ones_like(halves[0])) >= COARSE)
    frames = alignment.fine(inside[near], whole[near], frames[near])
    mask = alignment.covered(frames, SIDE).astype(np.float32)
    score = _score(inside[near], alignment.cut_out(whole[near], frames), mask)
    found[near] = np.where(mask.mean(axis=(1, 2)) < COVERED, -1, score)
    return found


def _score(a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Cosine of gradients where `mask` is 1, (B,); -1 where grey values do not correlate."""
    detail = _cosine(_gradient(a, mask), _gradient(b, mask))
    return np.where(_correlation(a, b, mask) >= CORRELATION, detail, -1)


def _correlation(a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> np.ndarray:
    count = np.maximum(mask.sum(axis=(1, 2), keepdims=True), 1)
    centred = [(p - (p * mask).sum(axis=(1, 2), keepdims=True) / count) * mask for p in (a, b)]
    return _cosine(*map(_flat, centred))


def _gradient(pictures: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Down and right, (B, 2 x (m-1) x (m-1)), strong ones at length 1."""
    down = pictures[:, 1:, :-1] - pictures[:, :-1, :-1]
    right = pictures[:, :-1, 1:] - pictures[:, :-1, :-1]
    valid = mask[:, 1:, 1:] * mask[:, :-1, :-1]
    squares = down * down + right * right
    usual = (squares * valid).sum(axis=(1, 2), keepdims=True) / np.maximum(valid.sum(axis=(1, 2), keepdims=True), 1)
    weights = valid / np.sqrt(squares + STRONG**2 * usual + 1e-6)
    return np.concatenate([_flat(down * weights), _flat(right * weights)], axis=1)


def _flat(pictures: np.ndarray) -> np.ndarray:
    return pictures.reshape(len(pictures), pictures.shape[1] * pictures.shape[2])


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.einsum("bk,bk->b", a, a) * np.einsum("bk,bk->b", b, b))
    return np.einsum("bk,bk->b", a, b) / np.maximum(lengths, 1e-6)
