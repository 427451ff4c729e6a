"""Retrieval: average precision over the whole ranking and recall@k, exact, in blocks of queries.

Protocol of VisBench (protocols.md, section 1): cosine on L2-normalised float32 rows, a positive is an item of the
same class, AP = mean over the positives of the precision at their rank, recall@k = any positive among the first k.
Ties count against the prediction: an item of another class that is as similar as a positive is ranked before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchkit.errors import RunError

Progress = Callable[[int, int], None]

ROWS_AT_ONCE = 32  # rows of keys that one thread turns over at a time: they stay in its cache
COLUMN_PAD = 64  # gallery rows are padded to a multiple of this, so no column falls on a ragged edge of the product
BLOCK_BYTES = 208 << 20  # of similarities held at once
SELF = np.iinfo(np.int32).max  # sorts behind every similarity


def retrieval(
    features: NDArray[np.float32],
    labels: NDArray[np.integer],
    *,
    gallery: tuple[NDArray[np.float32], NDArray[np.integer]] | None = None,
    recalls: Sequence[int] = (1, 5, 10),
    block: int | None = None,
    threads: int = 1,
    progress: Progress | None = None,
) -> dict[str, NDArray[np.float64]]:
    """AP and recall@k of every query; a query without a positive is undefined: NaN in all columns.

    Args:
        features: (N, D) float32 queries. Rows of zeros have cosine 0 to everything.
        labels: (N,) integer classes.
        gallery: features (M, D) and labels (M,) to search in; None: every item queries all the others.
        recalls: the k of recall@k; k may exceed the number of candidates.
        block: queries per matrix product, without effect on the result; memory is about 4 * M * (D + block) bytes.
            Default: at most 4096 and 208 MB.
        threads: threads that rank; the matrix product has as many as BLAS was given.
        progress: called as progress(queries done, N) after each block.

    Returns:
        {"AP", "recall@1", ...}: (N,) float64 in [0, 1]. The order of the items changes only the order of the rows.

    Raises:
        RunError: a feature is NaN or infinite (the row is named), or lengths disagree.
    """
    _check(features, labels, "features")
    if gallery is not None:
        _check(*gallery, "gallery features")
    searched = _Gallery(*(gallery or (features, labels)), holds_queries=gallery is None)
    scores = np.full((2, len(features)), np.nan)  # AP, rank of the best positive
    block = block or searched.default_block
    distance = np.empty((block, len(searched.rows)), np.float32)
    rank = partial(_rank_part, searched, labels, scores)
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(features), block):
            stop = min(start + block, len(features))
            searched.distances(features[start:stop], out=distance)
            share = -(-(stop - start) // threads)  # one part per thread: waking up costs more than imbalance
            parts = [range(first, min(first + share, stop)) for first in range(start, stop, share)]
            list(pool.map(rank, (distance[part.start - start : part.stop - start] for part in parts), parts))
            if progress is not None:
                progress(stop, len(features))
    hits = {f"recall@{k}": np.where(np.isnan(scores[1]), np.nan, scores[1] <= k) for k in recalls}
    return {"AP": scores[0], **hits}


class _Gallery:
    """Unit rows in class order, so the positives of a query are one slice of its row of similarities."""

    def __init__(self, features: NDArray[np.float32], labels: NDArray[np.integer], holds_queries: bool):
        self.size = len(features)
        self.holds_queries = holds_queries
        order = np.argsort(labels, kind="stable")
        self.labels = labels[order]
        self.position = np.empty(self.size, np.intp)  # of an item in class order
        self.position[order] = np.arange(self.size)
        self.rows = np.zeros((-(-self.size // COLUMN_PAD) * COLUMN_PAD, features.shape[1]), np.float32)
        for start in range(0, self.size, 1024):
            self.rows[start : min(start + 1024, self.size)] = unit_rows(features[order[start : start + 1024]])
        self.copies, self.originals = _copies(self.rows[: self.size])

    def distances(self, queries: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Write minus the cosine of each query to each row; always one product of the same shape, padded with zeros."""
        padded = np.zeros((len(out), queries.shape[1]), np.float32)
        np.negative(unit_rows(queries), out=padded[: len(queries)])
        np.matmul(padded, self.rows.T, out=out)

    @property
    def default_block(self) -> int:
        """Queries per product; BLAS threads spin for about 25 ms after each, so few large products are better."""
        return max(64, min(4096, BLOCK_BYTES // (4 * len(self.rows)) // 64 * 64))

    def rank(self, distance: NDArray[np.float32], labels: NDArray[np.integer], queries: slice) -> NDArray[np.float64]:
        """AP and best rank (2, Q) of a few queries, NaN without a positive; their rows of `distance` are overwritten."""
        distance = distance[:, : self.size]
        if self.copies.size:  # equal rows tie exactly, whatever BLAS does with their columns
            distance[:, self.copies] = distance[:, self.originals]
        keys = _ordered_keys(distance)
        begin, end = (np.searchsorted(self.labels, labels, side) for side in ("left", "right"))
        for row, first, last in zip(keys, begin, end, strict=True):
            row[first:last] |= 1
        if self.holds_queries:
            keys[np.arange(len(keys)), self.position[queries]] = SELF
        keys.sort(axis=1)
        positive = (keys[:, : self.size - self.holds_queries] & 1).astype(np.uint8)
        return _score_rankings(positive, end - begin - self.holds_queries)


def _rank_part(
    searched: _Gallery,
    labels: NDArray[np.integer],
    scores: NDArray[np.float64],
    distance: NDArray[np.float32],
    queries: range,
) -> None:
    """Fill `scores[:, queries]`; `distance` has one row for each of these queries."""
    for first in range(0, len(queries), ROWS_AT_ONCE):
        few = slice(queries[first], min(queries[first] + ROWS_AT_ONCE, queries.stop))
        scores[:, few] = searched.rank(distance[first : first + few.stop - few.start], labels[few], few)


def _score_rankings(positive: NDArray[np.uint8], counts: NDArray[np.intp]) -> NDArray[np.float64]:
    """AP and rank (from 1) of the first positive, (2, Q), of Q rankings (Q, M) of 0 and 1; NaN without a positive.

    Many rankings in one go: calls on single rows take and return Python's lock so often that threads wait for it.
    """
    scores = np.full((2, len(positive)), np.nan)
    some = counts > 0
    before = np.cumsum(counts) - counts  # positives of the queries before
    found = np.flatnonzero(positive.reshape(-1).view(bool))
    ranks = found - np.repeat(np.arange(len(positive)) * positive.shape[1] - 1, counts)
    places = np.arange(1, len(found) + 1) - np.repeat(before, counts)
    if some.any():
        scores[0, some] = np.add.reduceat(places / ranks, before[some]) / counts[some]
        scores[1, some] = ranks[before[some]]
    return scores


def _ordered_keys(distance: NDArray[np.float32]) -> NDArray[np.int32]:
    """Even int32 in the order of the float32 (|value| < 2), -0 equal to 0, in place; bit 0 is left for the positives.

    Sorting these puts each negative before the positives of the same similarity, and sorts faster than floats.
    """
    keys = distance.view(np.int32)
    sign = keys >> 31
    keys <<= 1  # twice the magnitude: the sign falls off, and below 2.0 the highest bit is free
    keys ^= sign
    keys -= sign
    return keys


def _copies(rows: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows that repeat an earlier one bit by bit, and that earlier one (compared by a 64-bit hash)."""
    seen: dict[int, int] = {}
    first = np.array([seen.setdefault(hash(row.tobytes()), i) for i, row in enumerate(rows)], np.intp)
    copies = np.flatnonzero(first != np.arange(len(rows)))
    return copies, first[copies]


def unit_rows(features: NDArray[np.floating]) -> NDArray[np.float32]:
    """(N, D) -> (N, D) float32 of L2 norm 1; zeros stay zero. Norms are float64: nothing over- or underflows."""
    rows = features.astype(np.float64)
    norms = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    rows /= np.where(norms > 0, norms, 1.0)[:, None]
    return rows.astype(np.float32) + np.float32(0)  # -0 becomes 0


def _check(features: NDArray[np.floating], labels: NDArray[np.integer], what: str) -> None:
    if features.ndim != 2 or labels.shape != (len(features),):
        raise RunError(f"{what} {features.shape} and labels {labels.shape} do not belong together: (N, D) and (N,) do.")
    for start in range(0, len(features), 4096):
        bad = ~np.isfinite(features[start : start + 4096]).all(axis=1)
        if bad.any():
            raise RunError(
                f"{what}: row {start + int(bad.argmax())} is not finite, so it has no place in a ranking. "
                "Export the features again in float32, or leave this item out."
            )


def count_positives(labels: NDArray[np.integer], gallery_labels: NDArray[np.integer] | None = None) -> NDArray[np.intp]:
    """(N,) number of positives of each query, itself excluded when it is searched among its own set (no gallery)."""
    searched = np.sort(labels if gallery_labels is None else gallery_labels)
    counts = np.searchsorted(searched, labels, "right") - np.searchsorted(searched, labels, "left")
    return counts - (gallery_labels is None)


def chance(
    n_positives: ArrayLike, n_candidates: int, recalls: Sequence[int] = (1, 5, 10)
) -> dict[str, NDArray[np.float64]]:
    """Expected AP and recall@k of a random order of N candidates of which R are positives: the floor of retrieval.

    E[AP] = (H_N + (R-1)/(N-1) (N - H_N)) / N, H_N the harmonic number (rank r holds a positive with probability R/N,
    and then each of the r-1 before it does with (R-1)/(N-1)); E[recall@k] = 1 - C(N-R, k) / C(N, k).

    Args:
        n_positives: R, a number or an array of any shape; where it is 0 the result is NaN.
        n_candidates: N, the query itself excluded.
        recalls: the k of recall@k; beyond N it counts as N.

    Returns:
        The keys of `retrieval`, float64 in the shape of `n_positives`.
    """
    positives = np.asarray(n_positives, np.float64)
    defined = np.where(positives > 0, 1.0, np.nan)
    harmonic = float(np.sum(1.0 / np.arange(1, n_candidates + 1)))
    share = (positives - 1) / max(n_candidates - 1, 1)
    columns = {"AP": defined * (harmonic + share * (n_candidates - harmonic)) / n_candidates}
    for k in recalls:
        left = n_candidates - np.arange(min(k, n_candidates))
        missing = np.minimum(
            positives[..., None] / left, 1.0
        )  # as a sum of logarithms, so that rare positives keep digits
        with np.errstate(divide="ignore"):  # logarithms, so that a recall near 0 keeps its digits
            columns[f"recall@{k}"] = defined * -np.expm1(np.log1p(-missing).sum(axis=-1))
    return columns
