"""Ridge regression of one-hot targets, all strengths from one eigendecomposition, and exact leave-one-out.

As in big_vision (big_vision/evaluators/fewshot_lsr.py): columns are centred and divided by their standard deviation (over
N) + 1e-5, targets are +1 for the own class and -1 for others, and a column of 100 is the bias; W minimises
|X W - Y|^2 + strength |W|^2 over all columns, the bias too, which at 100 is as good as free.

Centred columns are orthogonal to the bias, so the bias is solved by itself: mean target x B N / (B N + strength) with
B = 100^2. Everything else lies in the smaller of Z'Z (D x D) and ZZ' (N x N), whose eigenvectors serve every strength.
float64 throughout; Z goes through in blocks and is never held.

Leaving item i out changes its residual r to r / (1 - h), h its diagonal element of the hat matrix: exact for the columns as
they are, standardised with the item in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchkit.errors import UsageError
from benchkit.heads.solvers.blocks import affine, check_labels, check_rows, fixed_threads

if TYPE_CHECKING:
    import torch

STRENGTH = 2.0**10  # big_vision's, big_vision/configs/common_fewshot.py
STRENGTHS = tuple(2.0**i for i in range(-10, 20))
BIAS = 100.0
LEAST_STD = 1e-5
BLOCK = 1024  # rows that are multiplied together when predicting
_ROWS = 4096  # rows standardised at once


@dataclasses.dataclass(frozen=True)
class Fit:
    """Regression outputs = features @ weight + bias, of features as they are.

    A class without rows has the output of its bias, -1 but for the penalty. The mean output of the other classes lies
    above that in every row, so it is never the highest.

    Attributes:
        strength: the ridge, in units of the squared standardised columns summed over rows.
        weight: float64 (D, K).
        bias: float64 (K,).
    """

    strength: float
    weight: np.ndarray
    bias: np.ndarray


@dataclasses.dataclass(frozen=True)
class Problem:
    """Rows Z (N, D), standardised where they are needed, and their targets.

    Attributes:
        features: (N, D) as they came.
        labels: int (N,).
        n_classes: K.
        mean, std: float64 (D,) of the columns; std with the 1e-5.
    """

    features: np.ndarray
    labels: np.ndarray
    n_classes: int
    mean: torch.Tensor
    std: torch.Tensor

    @property
    def dual(self) -> bool:
        """Whether the smaller Gram matrix is that of the rows: N < D."""
        return self.features.shape[0] < self.features.shape[1]

    def places(self) -> Iterator[slice]:
        """Blocks of rows."""
        yield from _places(len(self.features))

    def rows(self, place: slice) -> torch.Tensor:
        """Z of a block."""
        return (_wide(self.features[place]) - self.mean) / self.std

    def targets(self, place: slice) -> torch.Tensor:
        """(B, K) of a block: +1 for the own class, -1 for others."""
        import torch

        classes = torch.from_numpy(np.asarray(self.labels[place], np.int64))
        return 2.0 * torch.nn.functional.one_hot(classes, self.n_classes).double() - 1

    def mean_target(self) -> torch.Tensor:
        """(K,)."""
        return _wide(2 * np.bincount(self.labels, minlength=self.n_classes) / len(self.labels) - 1)

    def column_gram(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Z'Z (D, D) and Z'Y (D, K): twice the sums per class, as the columns of Z sum to 0."""
        import torch

        width = self.features.shape[1]
        gram = torch.zeros((width, width), dtype=torch.float64)
        sums = torch.zeros((self.n_classes, width), dtype=torch.float64)
        classes = torch.from_numpy(np.asarray(self.labels, np.int64))
        for place in self.places():
            rows = self.rows(place)
            gram += rows.T @ rows
            sums.index_add_(0, classes[place], rows)
        return gram, 2 * sums.T

    def row_gram(self) -> tuple[torch.Tensor, torch.Tensor]:
        """ZZ' (N, N) and the centred targets (N, K): what of Y is the same in all rows, Z cannot reach."""
        rows = self.rows(slice(None))
        return rows @ rows.T, self.targets(slice(None)) - self.mean_target()


@dataclasses.dataclass(frozen=True)
class Decomposition:
    """A problem ready for any strength; P = min(N, D).

    Attributes:
        problem: the rows and targets.
        eigenvalues: (P,) of the smaller Gram matrix, 0 or above.
        basis: (P, P) its eigenvectors, in columns.
        right: (P, K) basis' Z'Y, or basis' (Y - mean target) where N < D.
    """

    problem: Problem
    eigenvalues: torch.Tensor
    basis: torch.Tensor
    right: torch.Tensor

    def bias(self, strength: float) -> torch.Tensor:
        """Output (K,) at the mean of the features."""
        return self.problem.mean_target() / (1 + strength / (BIAS**2 * len(self.problem.features)))

    def fit(self, strength: float) -> Fit:
        """Weight and bias at one strength, folded back to features as they are."""
        import torch

        problem, weight = self.problem, self.basis @ (self.right / (self.eigenvalues + strength)[:, None])
        if problem.dual:
            parts = [problem.rows(place).T @ weight[place] for place in problem.places()]
            weight = torch.stack(parts).sum(0)
        weight = weight / problem.std[:, None]
        return Fit(strength, weight.numpy(), (self.bias(strength) - problem.mean @ weight).numpy())

    def left_out(self, strengths: Sequence[float]) -> np.ndarray:
        """Squared error of each item when it is left out, summed over classes: float64 (S, N).

        That of an item which is alone in its class is 0 throughout: what is not shown cannot be found, at any strength.
        """
        problem, n = self.problem, len(self.problem.features)
        errors = np.zeros((len(strengths), n))
        for place in problem.places():
            along = self.basis[place] if problem.dual else problem.rows(place) @ self.basis
            squares, targets = along.square(), problem.targets(place)
            for at, strength in enumerate(strengths):
                scale = (self.eigenvalues if problem.dual else 1.0) / (self.eigenvalues + strength)
                outputs = (along * scale) @ self.right + self.bias(strength)
                hat = squares @ scale + 1 / (n + strength / BIAS**2)
                errors[at, place] = ((targets - outputs).square().sum(1) / (1 - hat).square()).numpy()
        errors[:, np.bincount(problem.labels, minlength=problem.n_classes)[problem.labels] == 1] = 0
        return errors


def decompose(features: np.ndarray, labels: np.ndarray, n_classes: int, *, threads: int) -> Decomposition:
    """Standardise the columns and decompose the smaller Gram matrix.

    Args:
        features: float32 or float16 (N, D).
        labels: int (N,), in 0..n_classes-1; classes may be missing.
        n_classes: K.
        threads: torch threads.

    Raises:
        UsageError: shapes or labels out of range.
        RunError: features are not finite.
    """
    import torch

    check_rows(features, "train features")
    check_labels(labels, len(features), n_classes)
    with fixed_threads(threads):
        problem = Problem(features, labels, n_classes, *_moments(features))
        gram, right = problem.row_gram() if problem.dual else problem.column_gram()
        eigenvalues, basis = torch.linalg.eigh(gram)
        return Decomposition(problem, eigenvalues.clamp(min=0), basis.contiguous(), basis.T @ right)


def choose_strength(ready: Decomposition, *, strengths: Sequence[float] = STRENGTHS, threads: int) -> float:
    """The strength with the least squared error over items left out one by one; of equals the largest.

    With one item per class nothing can be left out, and the strength is big_vision's 2^10.
    """
    if np.bincount(ready.problem.labels).max() == 1:
        return STRENGTH
    candidates = sorted(map(float, strengths), reverse=True)
    with fixed_threads(threads):
        return candidates[int(ready.left_out(candidates).sum(axis=1).argmin())]


def fit(ready: Decomposition, strength: float, *, threads: int) -> Fit:
    """Weight and bias at one strength; see `Decomposition.fit`.

    Raises:
        UsageError: strength is not a finite number above 0.
    """
    if not 0 < strength < np.inf:
        raise UsageError(f"strength must be a finite number above 0, not {strength}.")
    with fixed_threads(threads):
        return ready.fit(strength)


def outputs(found: Fit, features: np.ndarray, *, threads: int) -> np.ndarray:
    """Regression outputs float32 (N, K), computed in float64 in blocks of a fixed shape.

    A row's bits do not depend on how many rows there are.
    """
    check_rows(features, "features")
    with fixed_threads(threads):
        return affine(features, found.weight, found.bias, BLOCK)


def _places(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, _ROWS):
        yield slice(start, min(start + _ROWS, n_rows))


def _wide(rows: np.ndarray) -> torch.Tensor:
    import torch

    return torch.from_numpy(np.asarray(rows, np.float64))


def _moments(features: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation + 1e-5 per column, float64."""
    import torch

    mean, squares = (torch.zeros(features.shape[1], dtype=torch.float64) for _ in range(2))
    for place in _places(len(features)):
        mean += _wide(features[place]).sum(0)
    mean /= len(features)
    for place in _places(len(features)):
        squares += (_wide(features[place]) - mean).square().sum(0)
    return mean, (squares / len(features)).sqrt() + LEAST_STD
