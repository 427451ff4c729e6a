"""The best constant of pixels: commonest class, median depth, mean direction, mean value. One map is in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchkit.errors import UsageError
from benchkit.store.items import Items

_HALF = 1 << 16  # values of one half of a float32's bits
AHEAD = (0.0, 0.0, -1.0)  # towards the camera: where directions cancel out


def field_of(truth: Items) -> str | None:
    """The field of pixels that the truth holds, None where it holds none."""
    return next((field for field in CONSTANTS if field in truth), None)


def constant_of(truth: Items, field: str) -> np.ndarray:
    """The constant of a field over the valid pixels of all items.

    Raises:
        UsageError: no pixel is valid.
    """
    return CONSTANTS[field](truth)


def _each(truth: Items, field: str) -> Iterator[np.ndarray]:
    return (np.asarray(truth.item(field, row)) for row in range(len(truth.names)))


def _commonest(truth: Items) -> np.ndarray:
    """Index of the class with the most pixels, of equals the first; in the masks' dtype."""
    ignore = truth.meta.get("ignore")
    counts, dtype = np.zeros(_HALF, np.int64), np.dtype(np.uint8)
    for mask in _each(truth, "mask"):
        counts += np.bincount(mask.ravel(), minlength=_HALF)
        dtype = mask.dtype
    if ignore is not None:
        counts[ignore] = 0
    _check(int(counts.sum()), "mask")
    return np.array(counts.argmax(), dtype)


def _median(truth: Items) -> np.ndarray:
    """Median of the depths above 0, exactly (of an even number the lower one), float32.

    Numbers above 0 are in the order of their bits, so the upper half of the bits is counted first, then the lower half of
    those that share the median's.
    """
    upper = _histogram(truth, lambda bits: bits >> 16)
    count = int(upper.sum())
    _check(count, "depth")
    rank = (count - 1) // 2
    high = int(np.searchsorted(np.cumsum(upper), rank, side="right"))
    rank -= int(upper[:high].sum())
    lower = _histogram(truth, lambda bits: bits[bits >> 16 == high] & (_HALF - 1))
    low = int(np.searchsorted(np.cumsum(lower), rank, side="right"))
    return np.array((high << 16) | low, np.uint32).view(np.float32)


def _histogram(truth: Items, half: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    counts = np.zeros(_HALF, np.int64)
    for depth in _each(truth, "depth"):
        valid = np.ascontiguousarray(depth[(depth > 0) & np.isfinite(depth)], np.float32)
        counts += np.bincount(half(valid.view(np.uint32)), minlength=_HALF)
    return counts


def _direction(truth: Items) -> np.ndarray:
    """Mean of the unit vectors, of length 1, float32 (3,)."""
    total, count = np.zeros(3), 0
    for normals in _each(truth, "normals"):
        valid = normals[(normals != 0).any(axis=2)].astype(np.float64)
        total += (valid / np.linalg.norm(valid, axis=1, keepdims=True)).sum(axis=0)
        count += len(valid)
    _check(count, "normals")
    length = np.linalg.norm(total)
    return (total / length if length > 1e-9 * count else np.array(AHEAD)).astype(np.float32)


def _mean(truth: Items) -> np.ndarray:
    """Mean of the numbers, float32, () or (C,)."""
    total: np.ndarray | float = 0.0
    count = 0
    for values in _each(truth, "map"):
        valid = np.isfinite(values) if values.ndim == 2 else np.isfinite(values).all(axis=2)
        total = total + values[valid].sum(axis=0, dtype=np.float64)
        count += int(valid.sum())
    _check(count, "map")
    return np.asarray(total / count, np.float32)


def _check(valid: int, field: str) -> None:
    if not valid:
        raise UsageError(
            f"no pixel of {field} in the train items is valid (all are ignored, zero or not finite): look at the data "
            "set's ignore label, scale and split."
        )


CONSTANTS: dict[str, Callable[[Items], np.ndarray]] = {
    "mask": _commonest,
    "depth": _median,
    "normals": _direction,
    "map": _mean,
}
