"""What a user's model does with fixed images: part of its identity, and a check of what every bank relies on.

Weights, settings and code of the model's own classes do not say all: a function may read a global table, a file, or a
helper in another package. So the model is shown a fixed batch, and a few numbers of what it answers are kept. They are
rounded, since another machine's bits differ by about 1e-6, and must mean the same model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchkit.errors import UsageError

DIGITS = 3  # of the numbers kept
TOLERANCE = 1e-2  # of the largest value: how far an image's feature may move with its neighbours


def probe(forward: Any) -> dict[str, list[float]]:
    """Per feature key the mean, the spread, and a fixed projection of the features of a fixed batch, rounded.

    Args:
        forward: `benchkit.export.forward.Forward` with the keys to look at.

    Raises:
        UsageError: an image's features depend on the other images of its batch, or change from one forward to the next.
    """
    size, count = forward.preprocess.size, forward.model.batch_size
    first, other = (_images(seed, count, size) for seed in (0, 1))
    answers = forward.answers(first)
    _check_neighbours(forward, answers, first, other)
    return {key: _numbers(_flat(value)) for key, value in answers.items()}


def _flat(value: Any) -> np.ndarray:
    """One array, also of local features, of which each image has its own number."""
    return np.concatenate([each.reshape(-1) for each in value]) if isinstance(value, list) else value


def _images(seed: int, count: int, size: int) -> np.ndarray:
    """uint8 (count, size, size, 3): blocks of colour, so that every kind of filter answers."""
    coarse = np.random.default_rng(seed).integers(0, 256, (count, -(-size // 8), -(-size // 8), 3), np.uint8)
    return np.ascontiguousarray(coarse.repeat(8, axis=1).repeat(8, axis=2)[:, :size, :size])


def _check_neighbours(forward: Any, answers: dict[str, np.ndarray], first: np.ndarray, other: np.ndarray) -> None:
    """The first half of the batch again, in reverse and with other images for neighbours."""
    half = -(-len(first) // 2)
    mixed = np.concatenate([other[half:], first[:half][::-1]])
    again = forward.answers(mixed)
    for key, value in answers.items():
        before, after = _flat(value[:half]), _flat(again[key][len(mixed) - half :][::-1])
        scale = max(float(np.abs(before).max(initial=0)), 1e-12)
        same = before.shape == after.shape and np.abs(before - after).max(initial=0) <= TOLERANCE * scale
        if not same and np.isfinite(before).all():
            raise UsageError(
                f"the model's {key} of an image changes with the other images of its batch, or from one forward to the "
                "next (batch statistics, dropout, sorting over the batch?), so no score of it would mean anything. "
                "Make it deterministic and independent of its neighbours in eval mode."
            )


def _numbers(value: np.ndarray) -> list[float]:
    flat = np.nan_to_num(value.astype(np.float64)).reshape(-1)
    spread = float(flat.std()) or 1.0
    direction = np.random.default_rng(2).standard_normal(flat.size)
    projection = float(flat @ direction) / (spread * np.sqrt(flat.size))
    return [_rounded(flat.mean() / spread), _rounded(spread), _rounded(projection)]


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS - 1}e}") if abs(value) >= 10**-DIGITS else 0.0
