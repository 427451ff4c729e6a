"""Pairs worth a look: by Hamming distance of hashes, and by cosine of features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchkit.duplicates.blocks import Found, Similarity, blocks_of_pairs, pairs_above
from benchkit.duplicates.pictures import BITS, MIRROR, Pictures
from benchkit.store.table import Table

HAMMING = 14  # of 63 bits, at most
COSINE = 0.7  # of centred features, at least
PER_VIEW = 20  # pairs that are looked at, per view: where all pictures are alike, the most similar ones
PROJECTED = 256  # dimensions to which wider features are projected at random: near-1 cosines hardly change
_READ = 4096  # rows


def most_per_block(count: int) -> int:
    """How many pairs of one block are looked at."""
    return max(1000, PER_VIEW * count // max(1, blocks_of_pairs(count)))


def by_hash(pictures: Pictures, mirrored: bool) -> Iterator[Found]:
    """Pairs whose hashes lie near each other, or one's of the whole picture near the other's of its inner part."""
    whole, inner = pictures.whole.astype(np.float32), pictures.inner.astype(np.float32)
    turned = (whole * MIRROR, inner * MIRROR) if mirrored else (whole, inner)

    def agreeing_bits(rows: slice, columns: slice) -> np.ndarray:
        best = whole[rows] @ turned[0][columns].T
        np.maximum(best, whole[rows] @ turned[1][columns].T, out=best)
        return np.maximum(best, inner[rows] @ turned[0][columns].T, out=best)

    count = len(whole)
    return pairs_above(agreeing_bits, count, BITS - 2 * HAMMING, most_per_block(count))


def pooled_key(features: Table) -> str | None:
    """The feature key whose rows lie in features.h5 itself, the last one asked for; None where none does."""
    inline = [key for key in features.meta["keys"] if f"features/{key}" in features]
    return inline[-1] if inline else None


def by_cosine(features: Table, key: str, names: list[str]) -> Iterator[Found]:
    """Pairs of views whose features point the same way from the mean of all views."""
    return pairs_above(_cosine(_directions(features, key, names)), len(names), COSINE, most_per_block(len(names)))


def _cosine(directions: np.ndarray) -> Similarity:
    return lambda rows, columns: directions[rows] @ directions[columns].T


def _directions(features: Table, key: str, names: list[str]) -> np.ndarray:
    """Unit vectors (N, at most 256) of centred features; a row at the mean itself is 0 and near nothing."""
    column = f"features/{key}"
    width = (features.shape(column) or (0,))[0]
    total = np.zeros(width, np.float64)
    for block in features.blocks(column, _READ):
        total += block.sum(axis=0, dtype=np.float64)
    mean = (total / max(1, len(features.names))).astype(np.float32)
    onto = None if width <= PROJECTED else np.random.default_rng(0).standard_normal((width, PROJECTED), np.float32)
    centred = (block.astype(np.float32) - mean for block in features.blocks(column, _READ))
    projected = np.concatenate([block if onto is None else block @ onto for block in centred])
    chosen = projected[[features.position[name] for name in names]]
    lengths = np.linalg.norm(chosen, axis=1, keepdims=True)
    return np.divide(chosen, lengths, out=np.zeros_like(chosen), where=lengths > 0)
