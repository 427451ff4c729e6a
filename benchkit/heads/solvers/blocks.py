"""What the solvers share: a fixed number of threads, blocks of a fixed shape, and the check that inputs are finite."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from benchkit.errors import RunError, UsageError


@contextlib.contextmanager
def fixed_threads(threads: int) -> Iterator[None]:
    """Torch works with `threads` threads inside and with as many as before outside; bits depend on the count."""
    import torch

    if threads < 1:
        raise UsageError(f"threads must be at least 1, not {threads}.")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def padded_blocks(rows: np.ndarray, block: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (rows in use, float32 (block, D)): the last block is filled up with zero rows.

    Every product then has one shape, so the bits of a row do not depend on how many rows follow it.
    """
    if block < 1:
        raise UsageError(f"block must be at least 1, not {block}.")
    for start in range(0, len(rows), block):
        part = np.asarray(rows[start : start + block], dtype=np.float32)
        used = len(part)
        if used < block:
            part = np.concatenate([part, np.zeros((block - used, part.shape[1]), np.float32)])
        yield used, np.ascontiguousarray(part)


def affine(features: np.ndarray, weight: np.ndarray, bias: np.ndarray, block: int) -> np.ndarray:
    """float32 (N, K): features (N, D) @ weight (D, K) + bias (K), in padded blocks, in the precision of `weight`."""
    import torch

    out = np.empty((len(features), len(bias)), np.float32)
    matrix, done = torch.tensor(weight), 0
    for used, part in padded_blocks(features, block):
        out[done : done + used] = (torch.tensor(part, dtype=matrix.dtype) @ matrix).numpy()[:used] + bias
        done += used
    return out


def check_rows(features: np.ndarray, what: str) -> None:
    """Stop unless features are (N, D) with N, D >= 1 (UsageError) and finite (RunError)."""
    if features.ndim != 2 or 0 in features.shape:
        raise UsageError(f"{what} must be a matrix with at least one row and column, not of shape {features.shape}.")
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise RunError(
            f"{what}: {int((~finite).sum())} of {len(finite)} rows are not finite, the first is row {row}. "
            "Export these items again (fp32 instead of fp16 if values overflowed) or skip them."
        )


def check_labels(labels: np.ndarray, n_rows: int, n_classes: int) -> None:
    """Stop with UsageError unless labels are N integers in 0..n_classes-1."""
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu":
        raise UsageError(f"labels must be {n_rows} integers, one per row, not {labels.dtype} of shape {labels.shape}.")
    if labels.min() < 0 or labels.max() >= n_classes:
        raise UsageError(f"labels go from {labels.min()} to {labels.max()}, outside 0..{n_classes - 1}.")
