"""Time of 45 strengths of logistic regression against scikit-learn's loop over the same ones, in one process."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchkit.heads.solvers import multinomial

ROWS, COLUMNS, CLASSES, BOUND = 10_000, 384, 10, 0.5


def run(threads: int, long: bool = False) -> list[dict[str, Any]]:
    """Both with `threads` threads: ours the best of two runs, scikit-learn's once.

    scikit-learn fits every ninth strength only, and `sklearn_seconds` is scaled up to all 45; with `long` it fits all
    (about 20 minutes), and columns of other scales are measured too.
    `max_accuracy_difference` is over strengths where scikit-learn says it converged, on as many held-out rows as train
    has. At C above 1 scikit-learn's tol (largest entry of the mean gradient below 1e-4) is met long before the optimum,
    so accuracies differ there though both "converged": `converged_at_optimum` counts the strengths where its objective
    is within 1e-4 of ours, `max_accuracy_difference_at_optimum` is over those, and `max_objective_excess` is the
    largest (ours - theirs) / theirs in float64: 0 or negative where ours is the lower one.
    """
    return [_compare(scaled, threads, 1 if long else 9) for scaled in ((False, True) if long else (False,))]


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


def _compare(scaled: bool, threads: int, every: int) -> dict[str, Any]:
    rows, labels = features(scaled)
    picked = slice(every // 2, None, every)
    runs = [_ours(rows, labels, threads) for _ in range(2)]
    seconds, weights, intercepts = min(runs, key=lambda result: result[0])
    sklearn_seconds, their_weights, their_intercepts, converged = _scikit_learn(rows, labels, threads, picked)
    accuracy, objective = _measure(rows, labels, weights[picked], intercepts[picked], picked)
    their_accuracy, their_objective = _measure(rows, labels, their_weights, their_intercepts, picked)
    difference = np.abs(accuracy - their_accuracy)
    optimum = converged & (their_objective <= objective * (1 + 1e-4))
    name = ", columns x 0.01-10" if scaled else ""
    sklearn_seconds *= len(weights) / len(accuracy)
    return {
        "figure": f"logreg {len(weights)} strengths {ROWS}x{COLUMNS} {CLASSES} classes{name}",
        "threads": threads,
        "seconds": seconds,
        "sklearn_seconds": sklearn_seconds,
        "sklearn_strengths": len(accuracy),
        "ratio": seconds / sklearn_seconds,
        "bound": BOUND,
        "sklearn_converged": int(converged.sum()),
        "max_accuracy_difference": float(difference[converged].max()),
        "converged_at_optimum": int(optimum.sum()),
        "max_accuracy_difference_at_optimum": float(difference[optimum].max()),
        "max_objective_excess": float((objective / their_objective - 1).max()),
        "best_accuracy": float(accuracy.max()),
        "sklearn_best_accuracy": float(their_accuracy.max()),
    }


def _measure(
    rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, intercepts: np.ndarray, picked: slice
) -> tuple[np.ndarray, np.ndarray]:
    """Held-out accuracy and objective (scikit-learn's, float64) of each classifier."""
    exact, accuracy, objective = rows.astype(np.float64), [], []
    for c, matrix, intercept in zip(multinomial.STRENGTHS[picked], weights, intercepts, strict=True):
        answers = exact @ matrix.astype(np.float64) + intercept
        accuracy.append((answers[ROWS:].argmax(1) == labels[ROWS:]).mean())
        train = answers[:ROWS] - answers[np.arange(ROWS), labels[:ROWS]][:, None]
        losses = np.logaddexp.reduce(train, axis=1).sum()
        objective.append(c * losses + 0.5 * np.square(matrix, dtype=np.float64).sum())
    return np.array(accuracy), np.array(objective)


def _ours(rows: np.ndarray, labels: np.ndarray, threads: int) -> tuple[float, np.ndarray, np.ndarray]:
    start = time.perf_counter()
    path = multinomial.fit_path(rows[:ROWS], labels[:ROWS], multinomial.STRENGTHS, CLASSES, threads=threads)
    return time.perf_counter() - start, path.weights, path.intercepts


def _scikit_learn(
    rows: np.ndarray, labels: np.ndarray, threads: int, picked: slice
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Seconds, weights (S, D, K), intercepts (S, K) and whether each stopped before 1000 iterations."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    models, start = [], time.perf_counter()
    with threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for c in multinomial.STRENGTHS[picked]:
            models.append(LogisticRegression(C=c, max_iter=1000, tol=1e-4).fit(rows[:ROWS], labels[:ROWS]))
    seconds = time.perf_counter() - start
    weights, intercepts = (np.stack(parts) for parts in zip(*((m.coef_.T, m.intercept_) for m in models), strict=True))
    return seconds, weights, intercepts, np.array([m.n_iter_[0] < 1000 for m in models])
