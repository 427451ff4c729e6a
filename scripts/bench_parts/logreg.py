"""Time of 45 strengths of logistic regression against scikit-learn's loop over the same ones, in one process."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchkit.heads.solvers import multinomial

ROWS, COLUMNS, CLASSES, BOUND = 10_000, 384, 10, 0.5


def run(threads: int) -> list[dict[str, Any]]:
    """Both with `threads` threads: ours the best of two runs, scikit-learn's once (it takes minutes).

    `max_accuracy_difference` is over the strengths where scikit-learn converged, on as many held-out rows as train has;
    `..._above` over those where ours is the better one, `..._below` where it is the worse.
    """
    return [_compare(scaled, threads) for scaled in (False, True)]


def features(scaled: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Class means + correlated noise, float32 (2 x ROWS, COLUMNS), labels; `scaled`: columns times 0.01 to 10."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, CLASSES, 2 * ROWS)
    rotation = np.linalg.qr(generator.normal(size=(COLUMNS, COLUMNS)))[0]
    noise = generator.normal(size=(2 * ROWS, COLUMNS)) * 3 / np.sqrt(1 + np.arange(COLUMNS)) @ rotation
    noise += 0.3 * generator.normal(size=noise.shape) + generator.normal(size=COLUMNS)
    rows = 0.07 * generator.normal(size=(CLASSES, COLUMNS))[labels] + noise
    if scaled:
        rows *= generator.permutation(np.geomspace(0.01, 10, COLUMNS))
    return rows.astype(np.float32), labels


def _compare(scaled: bool, threads: int) -> dict[str, Any]:
    rows, labels = features(scaled)
    seconds, accuracy = min((_ours(rows, labels, threads) for _ in range(2)), key=lambda result: result[0])
    sklearn_seconds, theirs, converged = _scikit_learn(rows, labels, threads)
    difference = (accuracy - theirs)[converged]
    name = ", columns x 0.01-10" if scaled else ""
    return {
        "figure": f"logreg {len(theirs)} strengths {ROWS}x{COLUMNS} {CLASSES} classes{name}",
        "threads": threads,
        "seconds": seconds,
        "sklearn_seconds": sklearn_seconds,
        "ratio": seconds / sklearn_seconds,
        "bound": BOUND,
        "max_accuracy_difference": float(np.abs(difference).max()),
        "max_accuracy_difference_above": float(difference.max()),
        "max_accuracy_difference_below": float(-difference.min()),
        "best_accuracy": float(accuracy.max()),
        "sklearn_best_accuracy": float(theirs.max()),
        "sklearn_converged": int(converged.sum()),
    }


def _ours(rows: np.ndarray, labels: np.ndarray, threads: int) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    path = multinomial.fit_path(rows[:ROWS], labels[:ROWS], multinomial.STRENGTHS, CLASSES, threads=threads)
    seconds = time.perf_counter() - start
    held = rows[ROWS:].astype(np.float64)
    answers = [(held @ w + b).argmax(1) for w, b in zip(path.weights, path.intercepts, strict=True)]
    return seconds, (np.stack(answers) == labels[ROWS:]).mean(1)


def _scikit_learn(rows: np.ndarray, labels: np.ndarray, threads: int) -> tuple[float, np.ndarray, np.ndarray]:
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    seconds, accuracy, converged = 0.0, [], []
    with threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for c in multinomial.STRENGTHS:
            start = time.perf_counter()
            model = LogisticRegression(C=c, max_iter=1000, tol=1e-4).fit(rows[:ROWS], labels[:ROWS])
            seconds += time.perf_counter() - start
            accuracy.append(model.score(rows[ROWS:], labels[ROWS:]))
            converged.append(model.n_iter_[0] < 1000)
    return seconds, np.array(accuracy), np.array(converged)
