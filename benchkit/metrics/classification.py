"""Classification: top-k, negative log-likelihood, confidence and calibration, item by item.

Scores are logits, or votes (kNN, constant): non-negative weights whose share of the row's sum is the probability; a row
without any vote is uniform. Ties count against the prediction, and a score that is not a number is an error.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchkit.errors import RunError

LEAST_PROBABILITY = float(np.finfo(np.float32).eps)  # of a class nobody voted for: its nll is 15.9, not infinite
ROWS_AT_ONCE = 4096

Scores = NDArray[np.floating]
Labels = NDArray[np.integer]


def rank(scores: Scores, labels: Labels) -> NDArray[np.intp]:
    """(N,) number of other classes with a score at least the true one's: 0 is right, and equal scores are wrong.

    Args:
        scores: (N, K) without NaN; infinities are allowed and equal to one another.
        labels: (N,) integers in [0, K).
    """
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    return np.count_nonzero(scores >= own, axis=1) - 1


def top_k(scores: Scores, labels: Labels, k: int) -> NDArray[np.bool_] | None:
    """Whether the true class is among the k best; None where that says nothing, k >= K.

    Args:
        scores: (N, K) logits, votes or distances turned around; infinities are allowed and equal to one another.
        labels: (N,) integers in [0, K).

    Returns:
        (N,) bool.

    Raises:
        RunError: a score is NaN or a label is no class; the first such row is named.
    """
    _check(labels, scores, np.isnan(scores), "is NaN")
    if k >= scores.shape[1]:
        return None
    return rank(scores, labels) < k


def nll(scores: Scores, labels: Labels, *, votes: bool = False) -> NDArray[np.float64]:
    """(N,) -log probability of the true class, in nats; the probability is at least `LEAST_PROBABILITY`.

    So a class that no train item showed costs 15.94 nats an item, whatever number its logit is, and one such item does
    not swamp the mean; scikit-learn's log_loss clips float32 probabilities at the same value.

    Args:
        scores: (N, K) finite logits, or votes.
        labels: (N,) integers in [0, K).

    Raises:
        RunError: a score is not finite, a vote is negative, or a label is no class; the first such row is named.
    """
    _check(labels, scores, _unusable(scores, votes), _complaint(votes))
    out = np.empty(len(scores))
    for start in range(0, len(scores), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        out[rows] = -np.take_along_axis(_log_probabilities(scores[rows], votes), labels[rows, None], axis=1)[:, 0]
    return out


def confidence(scores: Scores, *, votes: bool = False) -> NDArray[np.float64]:
    """(N,) largest probability of each row, in [1/K, 1]; `ece` compares it with `top_k(scores, labels, 1)`.

    Raises:
        RunError: a score is not finite or a vote is negative; the first such row is named.
    """
    _check(None, scores, _unusable(scores, votes), _complaint(votes))
    out = np.empty(len(scores))
    for start in range(0, len(scores), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        out[rows] = np.exp(_log_probabilities(scores[rows], votes).max(axis=1))
    return out


def ece(confidence: NDArray[np.floating], correct: NDArray[np.bool_], n_bins: int = 15) -> float | None:
    """Expected calibration error (Guo et al. 2017): mean |accuracy - confidence| over bins, weighted by their items.

    Args:
        confidence: (N,) in [0, 1]; the bins are (0, 1/n], (1/n, 2/n] ... (and 0 is in the first).
        correct: (N,) bool.

    Returns:
        In [0, 1], lower is better; None without items.
    """
    if not len(confidence):
        return None
    gap = np.bincount(_bins(confidence, n_bins), weights=confidence - correct)
    return float(np.abs(gap).sum() / len(confidence))


def calibration(
    confidence: NDArray[np.floating], correct: NDArray[np.bool_], n_bins: int = 15
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Items, mean confidence and accuracy of every bin of `ece`, each (n_bins,); NaN in bins without items.

    Source: reliability diagrams, Guo et al. 2017.
    """
    bins = _bins(confidence, n_bins)
    items = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        sure = np.bincount(bins, weights=confidence, minlength=n_bins) / items
        right = np.bincount(bins, weights=correct, minlength=n_bins) / items
    return items, sure, right


def predicted(scores: Scores, labels: Labels) -> NDArray[np.intp]:
    """(N,) the class that scores highest; of several the first that is not the true one, since ties are wrong.

    Args:
        scores: (N, K); infinities are allowed.
        labels: (N,) integers in [0, K).
    """
    answer = scores.argmax(axis=1)
    tied = (answer == labels) & (rank(scores, labels) > 0)
    others = scores[tied].copy()
    np.put_along_axis(others, labels[tied, None], -np.inf, axis=1)
    answer[tied] = others.argmax(axis=1)
    return answer


def confusion(labels: Labels, answers: Labels, n_classes: int) -> NDArray[np.intp]:
    """Counts (K, K): row = true class, column = answer. Items with a negative answer are left out."""
    kept = answers >= 0
    pairs = labels[kept] * n_classes + answers[kept]
    return np.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes)


def class_accuracies(correct: NDArray[np.floating], labels: Labels, n_classes: int) -> NDArray[np.float64]:
    """(K,) share of each class's items that are correct; NaN for a class without items.

    Args:
        correct: (N,) 0, 1, or shares over several draws; NaN items are left out.
        labels: (N,) integers in [0, K).
    """
    kept = ~np.isnan(correct)
    items = np.bincount(labels[kept], minlength=n_classes)
    with np.errstate(invalid="ignore"):
        return np.bincount(labels[kept], weights=correct[kept], minlength=n_classes) / items


def mean_class_accuracy(correct: NDArray[np.bool_], labels: Labels) -> float | None:
    """Mean over the classes that occur in the truth of the share of their items that are correct; None without items.

    Args:
        correct: (N,) bool.
        labels: (N,) integers, not negative.
    """
    if not len(labels):
        return None
    items = np.bincount(labels)
    hits = np.bincount(labels, weights=correct)
    return float((hits[items > 0] / items[items > 0]).mean())


def _bins(confidence: NDArray[np.floating], n_bins: int) -> NDArray[np.intp]:
    """Index of the bin (edge, next edge] of each value; five times faster than a binary search, and as exact."""
    edges = (np.arange(n_bins + 1) / n_bins).astype(confidence.dtype)  # as rounded as the confidences themselves
    near = np.minimum((confidence * n_bins).astype(np.intp), n_bins - 1)  # right but for rounding and the edges
    return np.maximum(near + (confidence > edges[near + 1]) - (confidence <= edges[near]), 0)


def _log_probabilities(scores: Scores, votes: bool) -> NDArray[np.float64]:
    values = scores.astype(np.float64)
    if votes:
        total = values.sum(axis=1, keepdims=True)
        shares = np.divide(values, total, out=np.full_like(values, 1 / values.shape[1]), where=total > 0)
        return np.log(np.maximum(shares, LEAST_PROBABILITY))
    values -= values.max(axis=1, keepdims=True)  # the largest is 0: exp cannot overflow
    return np.maximum(values - np.log(np.exp(values).sum(axis=1, keepdims=True)), np.log(LEAST_PROBABILITY))


def _unusable(scores: Scores, votes: bool) -> NDArray[np.bool_]:
    return ~np.isfinite(scores) | (scores < 0) if votes else ~np.isfinite(scores)


def _complaint(votes: bool) -> str:
    return "is negative or not finite, so it is no vote" if votes else "is not finite"


def _check(labels: Labels | None, scores: Scores, bad: NDArray[np.bool_], complaint: str) -> None:
    if bad.any():
        row = int(bad.any(axis=1).argmax())
        raise RunError(f"scores: row {row} {complaint}. The head or its features diverged: export again in float32.")
    unknown = np.zeros(0, bool) if labels is None else (labels < 0) | (labels >= scores.shape[1])
    if labels is not None and unknown.any():
        row = int(unknown.argmax())
        raise RunError(
            f"labels: row {row} is {labels[row]}, and the scores have classes 0 to {scores.shape[1] - 1}. "
            "Targets and predictions were made with different class lists: export both again."
        )
