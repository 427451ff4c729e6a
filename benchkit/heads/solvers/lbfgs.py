"""The optimum of a penalised multinomial log loss, by L-BFGS on rotated features, for one strength after another.

Three things make the path cheap:

* Features are centred and rotated onto the eigenvectors of their covariance. Neither changes the problem (the intercept
  is not penalised, the penalty knows no direction), and there the Hessian is close to diagonal: eigenvalue x mean
  p (1 - p) of the class + penalty. That diagonal is the metric in which L-BFGS starts, so columns of very different
  scale cost nothing.
* Each strength starts from the solution of the one before.
* So does its memory: a pair (step, change of the gradient) is kept for the log loss alone, and the penalty's share,
  which is exact, is added for each strength.

Rows go through in blocks, so (N, K) logits are never held. Each worker thread takes one share of the rows and
multiplies it single-threaded: they meet once per evaluation, not at every product, where a busy machine makes them
wait.
Products are float32; steps, sums and penalties are float64.
Where float32 cannot make the objective smaller, the search goes on in float64.
"""

from __future__ import annotations

import dataclasses
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch

from benchkit.heads.solvers.blocks import fixed_threads

ROWS = 8192  # rows per block, fewer where their logits would be more than ENTRIES
ENTRIES = 2**22
MEMORY = 50  # pairs that L-BFGS keeps, as far as BYTES allow, but at least 10
BYTES = 2**28
NOISE = 1e-8  # relative error of an objective from float32 products: a rise this small is none
TRIALS = 30  # lengths tried along one direction
FAR = -60.0  # logits further below the top count as this far: e^-60 is nothing, and denormal numbers are slow


class State(NamedTuple):
    """The objective at one point: value, gradient (P, K), the log loss's own gradient and its curvature per class."""

    point: torch.Tensor
    value: float
    gradient: torch.Tensor
    loss_gradient: torch.Tensor
    curvature: torch.Tensor


class Optimum(NamedTuple):
    """What a strength ended with: point (P, K), objective, iterations, and whether the tolerance was met."""

    point: torch.Tensor
    value: float
    iterations: int
    converged: bool


@dataclasses.dataclass
class Problem:
    """Rotated features with a column of ones (N, P), eigenvalues (P,), labels (N,), and the way back to the columns."""

    rows: torch.Tensor
    eigenvalues: torch.Tensor
    labels: torch.Tensor
    n_classes: int
    mean: torch.Tensor
    rotation: torch.Tensor
    dtype: torch.dtype = torch.float32
    pool: ThreadPoolExecutor | None = None
    workers: int = 1

    def loss(self, point: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        """Mean log loss, its gradient (P, K) and the mean of p (1 - p) per class (K,)."""
        share = functools.partial(self._share, point.to(self.dtype))
        shares = self.pool.map(share, range(self.workers)) if self.pool else map(share, range(self.workers))
        total, gradient, curvature = (sum(parts) for parts in zip(*shares, strict=True))
        n = len(self.rows)
        return float(total) / n, gradient / n, curvature / n

    def _share(self, weights: torch.Tensor, worker: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What one worker's rows add to the three sums, float64."""
        total = torch.zeros((), dtype=torch.float64)
        gradient = torch.zeros(weights.shape, dtype=torch.float64)
        curvature = torch.zeros(weights.shape[1], dtype=torch.float64)
        size = max(1, min(ROWS, ENTRIES // self.n_classes))
        share = [part.tensor_split(self.workers)[worker].split(size) for part in (self.rows, self.labels)]
        for rows, labels in zip(*share, strict=True):
            rows = rows.to(self.dtype)
            residuals = rows @ weights
            total += _log_loss_(residuals, labels[:, None])
            sure = residuals.abs()
            curvature += (sure - sure * sure).sum(0)
            gradient += rows.T @ residuals
        return total, gradient, curvature

    def back(self, point: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Weights float32 (D, K) and intercepts float32 (K,) on the features as they came.

        What all classes share is taken out: the log loss does not see it, the penalty is smaller without it, and only
        then are intercepts defined (the metric differs by class, so the search may have moved along it).
        """
        point = point - point.mean(1, keepdim=True)
        weights = self.rotation @ point[:-1]
        return weights.float().numpy(), (point[-1] - self.mean @ weights).float().numpy()


def rotate(features: np.ndarray, labels: np.ndarray, n_classes: int) -> Problem:
    """The problem in the features' own axes; with fewer rows than columns only the axes that rows span."""
    exact = torch.tensor(features, dtype=torch.float64)
    mean = exact.mean(0)
    exact -= mean
    if len(exact) < exact.shape[1]:
        _, sizes, transposed = torch.linalg.svd(exact, full_matrices=False)
        eigenvalues, rotation = sizes.square() / len(exact), transposed.T
    else:
        eigenvalues, rotation = torch.linalg.eigh(exact.T @ exact / len(exact))
    one = torch.ones((len(exact), 1), dtype=torch.float64)
    rows = torch.cat([exact @ rotation, one], 1).float()
    spread = torch.cat([eigenvalues.clamp_min(0), torch.ones(1, dtype=torch.float64)])
    return Problem(rows, spread, torch.tensor(labels, dtype=torch.int64), n_classes, mean, rotation)


def path(problem: Problem, penalties: list[float], max_iter: int, tol: float, threads: int) -> list[Optimum]:
    """Minimise mean log loss + penalty / 2 |W|^2 for each penalty, in the order given (best from large to small).

    A penalty is done when the expected gain of a Newton step, estimated in the diagonal metric, is below tol^2 / 2 of
    the objective; or after max_iter iterations, or when no step in float64 makes it smaller.
    """
    # OpenMP's thread count belongs to the calling thread: each worker sets its own
    with fixed_threads(1), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        problem.pool, problem.workers = pool, threads
        found = _path(problem, penalties, max_iter, tol)
        problem.pool = None
    return found


def _path(problem: Problem, penalties: list[float], max_iter: int, tol: float) -> list[Optimum]:
    shares = torch.bincount(problem.labels, minlength=problem.n_classes).double() / len(problem.labels)
    point = torch.zeros((len(problem.eigenvalues), problem.n_classes), dtype=torch.float64)
    point[-1] = shares.log() - shares.log().mean()
    steps: list[torch.Tensor] = []
    changes: list[torch.Tensor] = []
    found = []
    for penalty in penalties:
        problem.dtype = torch.float32
        found.append(_minimise(problem, penalty, point, steps, changes, max_iter, tol))
        point = found[-1].point
    return found


def _minimise(
    problem: Problem,
    penalty: float,
    start: torch.Tensor,
    steps: list[torch.Tensor],
    changes: list[torch.Tensor],
    max_iter: int,
    tol: float,
) -> Optimum:
    """One penalty; the memory (steps, changes of the loss's gradient) is used and added to."""
    memory = min(MEMORY, max(10, BYTES // (16 * start.numel())))
    penalties = torch.full_like(problem.eigenvalues, penalty)[:, None]
    penalties[-1] = 0
    state = _state(problem, penalties, start)
    for iteration in range(max_iter + 1):
        metric = problem.eigenvalues[:, None] * state.curvature.clamp_min(1e-300) + penalties
        gain = float((state.gradient.square() / metric).sum())
        # A strong penalty makes any step's gain small, but without one step all classes are equally likely.
        done = gain <= tol * tol * state.value and (iteration > 0 or gain == 0)
        if done or iteration == max_iter:
            break
        pairs = [(step, change + penalties * step) for step, change in zip(steps, changes, strict=True)]
        direction = _direction(state.gradient, metric, pairs)
        after = _search(problem, penalties, state, direction)
        if after is None:
            steps.clear()
            changes.clear()
            if problem.dtype == torch.float64:
                break
            problem.dtype = torch.float64
            state = _state(problem, penalties, state.point)
            continue
        steps.append(after.point - state.point)
        changes.append(after.loss_gradient - state.loss_gradient)
        del steps[:-memory], changes[:-memory]
        state = after
    return Optimum(state.point, state.value, iteration, done)


def _state(problem: Problem, penalties: torch.Tensor, point: torch.Tensor) -> State:
    loss, gradient, curvature = problem.loss(point)
    pull = penalties * point
    return State(point, loss + float((pull * point).sum()) / 2, gradient + pull, gradient, curvature)


def _log_loss_(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Sum of log losses, float64; the logits (B, K) become probabilities - one-hot truth, in place.

    Logits are taken relative to the true class, and its residual is minus the sum of the others', so both stay exact to
    float32's relative precision when the truth is nearly certain (1 - p would be lost).
    """
    logits -= logits.gather(1, labels)
    top = logits.amax(1, keepdim=True)
    logits -= top
    logits.clamp_min_(FAR)
    logits.exp_()
    truth = logits.gather(1, labels)
    logits.scatter_(1, labels, 0.0)
    others = logits.sum(1, keepdim=True)
    total = truth + others
    # where truth is the top, its exponential is 1, so log(total) = log1p(others)
    losses = torch.where(top > 0, total.log() + top, others.log1p())
    logits.scatter_(1, labels, -others)
    logits /= total
    return losses.sum(dtype=torch.float64)


def _direction(
    gradient: torch.Tensor, metric: torch.Tensor, pairs: list[tuple[torch.Tensor, torch.Tensor]]
) -> torch.Tensor:
    """Minus the L-BFGS inverse Hessian times the gradient (Nocedal and Wright, algorithm 7.4), from 1 / metric."""
    ahead = gradient.clone()
    kept = []
    for step, change in reversed(pairs):
        rate = 1 / float((step * change).sum())
        share = rate * float((step * ahead).sum())
        ahead -= share * change
        kept.append((step, change, rate, share))
    ahead /= metric
    if kept:
        step, change, rate, _ = kept[0]
        ahead *= 1 / (rate * float((change.square() / metric).sum()))
    for step, change, rate, share in reversed(kept):
        ahead += (share - rate * float((change * ahead).sum())) * step
    return -ahead


def _search(problem: Problem, penalties: torch.Tensor, state: State, direction: torch.Tensor) -> State | None:
    """The state at a length that satisfies the strong Wolfe conditions (1e-4, 0.9); None if rounding leaves none.

    Where the objective changes by less than its rounding error the slope alone decides: on a convex line it suffices.
    """
    slope = float((state.gradient * direction).sum())
    if not slope < 0:
        return None
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(TRIALS):
        after = _state(problem, penalties, state.point + length * direction)
        now = float((after.gradient * direction).sum())
        lower = after.value <= state.value + 1e-4 * length * slope
        flat = after.value <= state.value * (1 + NOISE)
        if (lower or flat) and abs(now) <= -0.9 * slope:
            return after
        if lower and now < 0:
            low = length
        else:
            high = length
        length = 2 * length if np.isinf(high) else (low + high) / 2
    return None
