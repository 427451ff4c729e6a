"""Votes of the k nearest neighbours, DINO's protocol (facebookresearch/dino, eval_knn.py).

Features are L2-normalised, similarity is the cosine, and each of the k nearest train rows votes for its class with
weight exp(cosine / temperature); k = 20 and temperature = 0.07 are DINO's defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchkit.errors import UsageError
from benchkit.heads.solvers.blocks import check_labels, check_rows, fixed_threads, padded_blocks

if TYPE_CHECKING:
    import torch

COLUMNS = 65536  # train rows compared at once: bounds the similarities held to block x COLUMNS
STEPS = 2**22  # cosines are rounded to 1 / STEPS: a little above float32's error, so equal vectors do tie
ROWS = 2**32  # a neighbour's key = rounded cosine * ROWS + (ROWS - 1 - its row): one order, without ties
NEVER = -(2**62)  # the key of a row that is left out


def effective_k(k: int, n_train: int, *, skip_self: bool = False) -> int:
    """Neighbours that really vote: k, clipped to the train rows there are (one fewer if the query's own is skipped)."""
    return min(k, n_train - int(skip_self))


def vote(
    train: np.ndarray,
    train_labels: np.ndarray,
    queries: np.ndarray,
    n_classes: int,
    *,
    k: int = 20,
    temperature: float = 0.07,
    skip_self: np.ndarray | None = None,
    block: int = 256,
    threads: int,
) -> np.ndarray:
    """Sum the votes of the k nearest train rows per class.

    A vote weighs exp((cosine - 1) / temperature), in (0, 1]: DINO's exp(cosine / temperature) times one constant, so
    shares and order are DINO's and nothing overflows at small temperatures. k is clipped to the rows there are (see
    `effective_k`), a class missing from train gets 0 votes, and a zero vector has cosine 0 to everything. At equal
    cosine (after rounding to 2^-22) the lower train row is nearer; with rows in name order that is the earlier name.
    Queries go through blocks of a fixed shape, so the bits of one query's votes do not depend on the other queries.

    Args:
        train: float32 (M, D), in name order.
        train_labels: int (M,), in 0..n_classes-1.
        queries: float32 (Q, D).
        n_classes: K.
        k: neighbours, at least 1.
        temperature: above 0.
        skip_self: int (Q,), the train row that is the query itself and is left out, -1 where there is none.
        block: queries per block.
        threads: torch threads.

    Returns:
        float32 (Q, K), not negative. All zero for a query that no train row may vote for.

    Raises:
        UsageError: shapes, labels, k, temperature or skip_self out of range.
        RunError: features are not finite.
    """
    own = np.full(len(queries), -1, np.int64) if skip_self is None else np.asarray(skip_self, np.int64)
    check_rows(train, "train features")
    check_rows(queries, "query features")
    check_labels(train_labels, len(train), n_classes)
    _check_vote(train, queries, own, k, temperature)
    with fixed_threads(threads):
        return _votes(train, train_labels, queries, own, n_classes, k, temperature, block)


def _votes(
    train: np.ndarray,
    train_labels: np.ndarray,
    queries: np.ndarray,
    own: np.ndarray,
    n_classes: int,
    k: int,
    temperature: float,
    block: int,
) -> np.ndarray:
    import torch

    labels = torch.from_numpy(np.asarray(train_labels, np.int64))
    votes = np.zeros((len(queries), n_classes), np.float32)
    directions = _unit(torch.tensor(np.asarray(train, np.float32)))
    done = 0
    for used, part in padded_blocks(queries, block):
        out = torch.full((block,), -1, dtype=torch.int64)
        out[:used] = torch.from_numpy(own[done : done + used])
        keys = _nearest(directions, _unit(torch.tensor(part)), out, k)
        votes[done : done + used] = _weigh(keys, labels, n_classes, temperature)[:used]
        done += used
    return votes


def _check_vote(train: np.ndarray, queries: np.ndarray, own: np.ndarray, k: int, temperature: float) -> None:
    if train.shape[1] != queries.shape[1]:
        raise UsageError(f"train features have {train.shape[1]} columns, query features {queries.shape[1]}.")
    if k < 1 or not temperature > 0:
        raise UsageError(f"kNN needs k >= 1 and temperature > 0, not k={k} and temperature={temperature}.")
    if own.shape != (len(queries),) or own.min() < -1 or own.max() >= len(train):
        raise UsageError(f"skip_self must give one train row (0..{len(train) - 1}) or -1 for each query.")


def _unit(rows: torch.Tensor) -> torch.Tensor:
    """L2-normalised rows; zero rows stay zero. The largest entry is divided out first, so no square overflows."""
    import torch

    largest = rows.abs().amax(1, keepdim=True)
    rows = rows / torch.where(largest > 0, largest, 1.0)
    length = rows.double().square().sum(1, keepdim=True).sqrt()
    return (rows / torch.where(length > 0, length, 1.0)).float()


def _nearest(train: torch.Tensor, queries: torch.Tensor, own: torch.Tensor, k: int) -> torch.Tensor:
    """Keys int64 (B, min(k, M)) of the nearest train rows, nearest first."""
    import torch

    best = torch.empty((len(queries), 0), dtype=torch.int64)
    for start in range(0, len(train), COLUMNS):
        cosines = queries @ train[start : start + COLUMNS].T
        rows = torch.arange(start, start + cosines.shape[1])
        keys = (cosines * STEPS).round().to(torch.int64) * ROWS + (ROWS - 1 - rows)
        keys.masked_fill_(own[:, None] == rows, NEVER)
        best = torch.cat([best, keys.topk(min(k, keys.shape[1]), dim=1).values], 1)
        best = best.topk(min(k, best.shape[1]), dim=1).values
    return best


def _weigh(keys: torch.Tensor, labels: torch.Tensor, n_classes: int, temperature: float) -> np.ndarray:
    """Votes float32 (B, K), summed in float64 from the nearest to the farthest."""
    import torch

    cosines = torch.div(keys, ROWS, rounding_mode="floor").double() / STEPS
    rows = ROWS - 1 - torch.remainder(keys, ROWS)
    weights = ((cosines - 1) / temperature).exp().masked_fill(keys == NEVER, 0.0)
    classes = labels[rows.masked_fill(keys == NEVER, 0)]
    votes = torch.zeros((len(keys), n_classes), dtype=torch.float64)
    return votes.scatter_add_(1, classes, weights).float().numpy()
