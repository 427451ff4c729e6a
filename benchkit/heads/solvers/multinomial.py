"""Multinomial logistic regression over many strengths, and the choice of one on a held-out part of train.

The objective is scikit-learn's (`LogisticRegression`, penalty l2): C x sum of log losses + |W|^2 / 2, intercepts not
penalised; with two classes present scikit-learn has one weight vector w, here W = (-w / 2, w / 2).
Strengths and hold-out follow DINOv2 (facebookresearch/dinov2, dinov2/eval/log_regression.py, which uses cuML's
LogisticRegression, tol 1e-12 in float64): C = 10^linspace(-6, 5, 45), features as they are (no standardising), a tenth
of train held out, refit on all of it. DINOv2 draws the tenth at random; here it is stratified and drawn by the hash of
the item's name.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np

from benchkit.errors import UsageError
from benchkit.heads.solvers.blocks import affine, check_labels, check_rows, fixed_threads

STRENGTHS = tuple(float(c) for c in 10 ** np.linspace(-6, 5, 45))
ABSENT = -1e4  # intercept of a class without train rows: finite in fp16, and its probability is 0
_ROWS = 16384  # rows whose logits are held at once


@dataclasses.dataclass(frozen=True)
class Solution:
    """Classifiers for S strengths: logits = features @ weights[s] + intercepts[s].

    A class without train rows has weights 0 and intercept -1e4. The logits of the classes present sum to 0 in every
    row, so the largest is at least 0 (but for rounding) and such a class never wins. With one class present its weights
    and intercept are 0.

    Attributes:
        strengths: (S,) C, in the order asked for.
        weights: float32 (S, D, K).
        intercepts: float32 (S, K).
        n_iter: int (S,) iterations spent.
        loss: float64 (S,) C x sum of log losses + |W|^2 / 2 at the end (two classes: scikit-learn's w for W).
        converged: bool (S,) whether the tolerance was met.
        train_accuracy: float64 (S,) share of train rows whose class has the one largest logit (ties are wrong).
    """

    strengths: tuple[float, ...]
    weights: np.ndarray
    intercepts: np.ndarray
    n_iter: np.ndarray
    loss: np.ndarray
    converged: np.ndarray
    train_accuracy: np.ndarray


@dataclasses.dataclass(frozen=True)
class Choice:
    """The strength chosen, and what it was chosen from.

    Attributes:
        strength: C.
        strengths: (S,) the candidates, ascending; empty where nothing was compared.
        holdout_accuracy: float64 (S,) of each candidate, ties between classes wrong; empty likewise.
        train_rows: int (T,) rows that the candidates were fitted on, ascending; the others were held out.
        reason: one line that says why this strength.
    """

    strength: float
    strengths: tuple[float, ...]
    holdout_accuracy: np.ndarray
    train_rows: np.ndarray
    reason: str


def fit_path(
    features: np.ndarray,
    labels: np.ndarray,
    strengths: Sequence[float],
    n_classes: int,
    *,
    max_iter: int = 1000,
    tol: float = 1e-3,
    threads: int,
) -> Solution:
    """Fit one classifier per strength; the same bits at every run with the same rows, strengths and threads.

    The objective is strictly convex, so the optimum does not depend on the path; what is found does, within `tol`.

    Args:
        features: float32 (N, D).
        labels: int (N,), in 0..n_classes-1; classes may be missing.
        strengths: C, each above 0.
        n_classes: K.
        max_iter: iterations per strength.
        tol: the objective ends within about tol^2 / 2 (relative) of its minimum. Not scikit-learn's tol, which bounds
            the largest entry of the mean gradient and at large C stops far from the optimum.
        threads: torch threads.

    Raises:
        UsageError: shapes, labels or strengths out of range.
        RunError: features are not finite.
    """
    check_rows(features, "train features")
    check_labels(labels, len(features), n_classes)
    if len(strengths) == 0 or not all(0 < c < np.inf for c in strengths):
        raise UsageError(f"strengths must be finite numbers above 0, not {list(strengths)}.")
    count, present = len(strengths), np.unique(labels)
    weights = np.zeros((count, features.shape[1], n_classes), np.float32)
    intercepts = np.full((count, n_classes), ABSENT, np.float32)
    intercepts[:, present] = 0
    found = Solution(
        tuple(map(float, strengths)), weights, intercepts,
        n_iter=np.zeros(count, np.int64), loss=np.zeros(count), converged=np.ones(count, bool), train_accuracy=np.zeros(count),
    )  # fmt: skip
    with fixed_threads(threads):
        if len(present) > 1:  # else every strength gives the same classifier
            _solve(found, features, labels, max_iter, tol, threads)
        found.train_accuracy[:] = _accuracy_and_loss(weights, intercepts, features, labels)[0]
    return found


def _solve(found: Solution, features: np.ndarray, labels: np.ndarray, max_iter: int, tol: float, threads: int) -> None:
    """Fill in the classifiers of all strengths, from the strongest penalty to the weakest."""
    from benchkit.heads.solvers import lbfgs

    present, inner = np.unique(labels, return_inverse=True)
    problem = lbfgs.rotate(features, inner, len(present))
    order = np.argsort(found.strengths, kind="stable")
    scales = np.asarray(found.strengths)[order] * len(features)
    penalties = [float(p) for p in (2 if len(present) == 2 else 1) / scales]
    ends = lbfgs.path(problem, penalties, max_iter, tol, threads)
    for at, scale, end in zip(order, scales, ends, strict=True):
        found.weights[at][:, present], found.intercepts[at][present] = problem.back(end.point)
        found.n_iter[at], found.loss[at], found.converged[at] = end.iterations, end.value * scale, end.converged


def fit(features: np.ndarray, labels: np.ndarray, strength: float, n_classes: int, *, threads: int) -> Solution:
    """One classifier (S = 1) on all rows at the strength chosen; see `fit_path`."""
    return fit_path(features, labels, [strength], n_classes, threads=threads)


def logits(solution: Solution, features: np.ndarray, block: int, *, threads: int = 1) -> np.ndarray:
    """Logits float32 (N, K) of the first strength's classifier.

    Rows are multiplied in blocks of exactly `block` rows, the last one padded, so a row's bits do not depend on how
    many rows there are.
    """
    check_rows(features, "features")
    if features.shape[1] != solution.weights.shape[1]:
        raise UsageError(f"features have {features.shape[1]} columns, the classifier {solution.weights.shape[1]}.")
    with fixed_threads(threads):
        return affine(features, solution.weights[0], solution.intercepts[0], block)


def choose_strength(
    features: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    *,
    strengths: Sequence[float] = STRENGTHS,
    holdout: float = 0.1,
    seed: int,
    names: Sequence[str],
    threads: int,
) -> Choice:
    """Choose the strength with the best accuracy on a stratified hold-out, of equals that with the least log loss there.

    Separable features reach the best accuracy at every strength; the smallest would then leave all classes equally likely
    (log loss ln K), which is no probability to report. Of equals in both the smallest C is chosen, the most regular.

    Of each class round(holdout x rows) are held out, at least one and never all, first in the order of the sha256 of
    (seed, name): which items they are depends on nothing else of the order or of the other items of the class.
    A class with a single row cannot be in both parts: then nothing is held out, C = 1, and `reason` says so.

    Args:
        features: float32 (N, D).
        labels: int (N,), in 0..n_classes-1.
        n_classes: K.
        strengths: C to choose from.
        holdout: share of each class, above 0 and below 1.
        seed: of the hold-out.
        names: N item names, each once.
        threads: torch threads.

    Raises:
        UsageError: as `fit_path`, or names are not N different ones, or holdout is out of range.
        RunError: features are not finite.
    """
    check_rows(features, "train features")
    check_labels(labels, len(features), n_classes)
    if len(names) != len(features) or len(set(names)) != len(names):
        raise UsageError(f"{len(features)} rows need as many different names, not {len(set(names))}.")
    if not 0 < holdout < 1:
        raise UsageError(f"holdout must lie between 0 and 1, not {holdout}.")
    counts = np.bincount(labels, minlength=n_classes)
    if (counts > 0).sum() == 1:
        return _unchosen(len(features), "C = 1: train has one class only, so every strength gives the same classifier")
    if (counts == 1).any():
        alone = int((counts == 1).sum())
        return _unchosen(len(features), f"C = 1: {alone} classes have one train item, so no stratified hold-out exists")
    held = _held_out(labels, counts, names, holdout, seed)
    return _best(features, labels, held, tuple(sorted(map(float, strengths))), n_classes, threads)


def _best(
    features: np.ndarray,
    labels: np.ndarray,
    held: np.ndarray,
    candidates: tuple[float, ...],
    n_classes: int,
    threads: int,
) -> Choice:
    path = fit_path(features[~held], labels[~held], candidates, n_classes, threads=threads)
    with fixed_threads(threads):
        accuracy, losses = _accuracy_and_loss(path.weights, path.intercepts, features[held], labels[held])
    best = int(np.lexsort((losses, -accuracy))[0])
    reason = f"best of {len(candidates)} on {int(held.sum())} held-out items: accuracy {accuracy[best]:.4f}"
    return Choice(candidates[best], candidates, accuracy, np.flatnonzero(~held), reason)


def _unchosen(n_rows: int, reason: str) -> Choice:
    return Choice(1.0, (), np.empty(0), np.arange(n_rows), reason)


def _held_out(labels: np.ndarray, counts: np.ndarray, names: Sequence[str], share: float, seed: int) -> np.ndarray:
    """Bool (N,): the hold-out; every class present has at least two rows."""
    digests = np.array([hashlib.sha256(f"{seed}\0{name}".encode()).hexdigest() for name in names])
    held = np.zeros(len(labels), bool)
    for label in np.flatnonzero(counts):
        rows = np.flatnonzero(labels == label)
        rows = rows[np.argsort(digests[rows])]
        held[rows[: min(max(1, round(share * len(rows))), len(rows) - 1)]] = True
    return held


def _accuracy_and_loss(
    weights: np.ndarray, intercepts: np.ndarray, features: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Float64 (S,) each: share of rows whose class has the one largest logit (a tie is wrong), mean log loss in nats."""
    accuracy, loss = np.zeros(len(weights)), np.zeros(len(weights))
    for start in range(0, len(labels), _ROWS):
        part, truth = features[start : start + _ROWS], labels[start : start + _ROWS]
        rows = np.arange(len(truth))
        for at, (matrix, intercept) in enumerate(zip(weights, intercepts, strict=True)):
            answers = affine(part, matrix, intercept, 1024)
            own = answers[rows, truth].astype(np.float64)
            top = answers.max(axis=1, keepdims=True).astype(np.float64)
            loss[at] += (np.log(np.exp(answers - top).sum(axis=1)) + top[:, 0] - own).sum()
            answers[rows, truth] = -np.inf
            accuracy[at] += (own > answers.max(axis=1)).sum()
    return accuracy / len(labels), loss / len(labels)
