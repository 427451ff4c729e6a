"""Numbers of embeddings themselves: how many directions they use, how evenly they spread, how their classes separate.

Effective rank: Garrido et al. 2023, "RankMe". Uniformity and alignment: Wang and Isola 2020, "Understanding Contrastive
Representation Learning through Alignment and Uniformity on the Hypersphere". Silhouette: Rousseeuw 1987.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchkit.errors import RunError
from benchkit.metrics.ranking import unit_rows

TIE = 2.0**-22  # distances that differ by less are equal: a little above float32's error
ROWS_AT_ONCE = 2048
PAIRS_OF = 256  # rows compared with all others at once


def rankme(embedding: NDArray[np.floating]) -> float | None:
    """exp of the entropy of the singular values over their sum: 1 (one direction) to min(N, C) (all alike).

    Rows are neither centred nor normalised, as in the paper. Its 1e-7 beside each share is left out: it only keeps the
    logarithm of 0 away, and would raise constant rows above 1.

    Args:
        embedding: (N, C).

    Returns:
        None where all rows are zero.

    Raises:
        RunError: a value is not finite; names the first such row.
    """
    check(embedding)
    values = np.linalg.svd(embedding.astype(np.float64), compute_uv=False)
    if not values.sum() > 0:
        return None
    shares = values[values > 0] / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def uniformity(embedding: NDArray[np.floating], t: float = 2.0) -> float | None:
    """log of the mean over all pairs of exp(-t |x - y|^2), rows of length 1: 0 when all are one, lower when they spread.

    Args:
        embedding: (N, C).
        t: 2 in the paper.

    Returns:
        None with fewer than two rows.

    Raises:
        RunError: a value is not finite; names the first such row.
    """
    check(embedding)
    if len(embedding) < 2:
        return None
    rows, total = unit_rows(embedding), 0.0
    for start in range(0, len(rows), PAIRS_OF):
        block = rows[start : start + PAIRS_OF]
        cosines = block @ rows[start:].T  # of each row with those behind it, which are right of the diagonal
        near = np.exp(-2 * t * (1 - cosines.astype(np.float64)))
        total += float(np.triu(near[:, : len(block)], 1).sum() + near[:, len(block) :].sum())
    return float(np.log(total / (len(rows) * (len(rows) - 1) / 2)))


def class_distances(
    embedding: NDArray[np.floating], labels: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean cosine distance (1 - cosine) of every item to the others of its class, and to the nearest other class.

    Exact without pairs: the mean cosine of a row of length 1 to a class is its product with the class's mean row. A row
    of zeros is at distance 1 from everything.

    Args:
        embedding: (N, C).
        labels: (N,) integers, not negative.

    Returns:
        two float64 (N,): NaN for an item alone in its class; the second NaN where there is no other class.

    Raises:
        RunError: a value is not finite; names the first such row.
    """
    check(embedding)
    present, classes = np.unique(labels, return_inverse=True)
    counts = np.bincount(classes)
    sums = _class_sums(embedding, classes, len(present))
    own, nearest = np.full((2, len(embedding)), np.nan)
    for start in range(0, len(embedding), ROWS_AT_ONCE):
        rows, mine = _unit(embedding[start : start + ROWS_AT_ONCE]), classes[start : start + ROWS_AT_ONCE]
        inner, place = rows @ sums.T, (np.arange(len(rows)), mine)
        others = inner[place] - np.einsum("nc,nc->n", rows, rows)
        with np.errstate(invalid="ignore"):
            own[start : start + len(rows)] = 1 - others / np.where(counts[mine] > 1, counts[mine] - 1, np.nan)
        distances = 1 - inner / counts
        distances[place] = np.inf
        best = distances.min(axis=1)
        nearest[start : start + len(rows)] = np.where(np.isfinite(best), best, np.nan)
    return np.maximum(own, 0), np.maximum(nearest, 0)


def silhouette(own: NDArray[np.floating], nearest: NDArray[np.floating]) -> NDArray[np.float64]:
    """(N,) (nearest - own) / max(own, nearest), in [-1, 1]: 0 where they are equal within `TIE`, NaN where one is.

    Rousseeuw sets an item alone in its class to 0; here it has no value.

    Args:
        own, nearest: as `class_distances` gives them.
    """
    lead = nearest - own
    largest = np.maximum(own, nearest)
    return np.where(np.abs(lead) < TIE, 0.0, lead / np.where(largest > 0, largest, 1.0))


def _class_sums(embedding: NDArray[np.floating], classes: NDArray[np.intp], count: int) -> NDArray[np.float64]:
    """(K, C) sums of the rows of length 1 of each class."""
    sums, order = np.zeros((count, embedding.shape[1])), np.argsort(classes, kind="stable")
    for start in range(0, len(order), ROWS_AT_ONCE):
        block = order[start : start + ROWS_AT_ONCE]
        firsts = np.flatnonzero(np.diff(classes[block], prepend=-1))
        sums[classes[block][firsts]] += np.add.reduceat(_unit(embedding[block]), firsts, axis=0)
    return sums


def check(embedding: NDArray[np.floating]) -> None:
    """See that the embedding is (N, C) and finite.

    Raises:
        RunError: it is not; names the first row that is not finite.
    """
    if embedding.ndim != 2:
        raise RunError(f"embeddings have the shape (items, columns), not {embedding.shape}: one view per item is due.")
    for start in range(0, len(embedding), ROWS_AT_ONCE):
        bad = ~np.isfinite(embedding[start : start + ROWS_AT_ONCE]).all(axis=1)
        if bad.any():
            raise RunError(
                f"embedding: row {start + int(bad.argmax())} is not finite, so it has no distance to others. Export the "
                "features again in float32, or leave this item out."
            )


def _unit(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """Rows of length 1 in float64; zeros stay zero."""
    rows = rows.astype(np.float64)
    norms = np.sqrt(np.einsum("nc,nc->n", rows, rows))
    return rows / np.where(norms > 0, norms, 1.0)[:, None]
