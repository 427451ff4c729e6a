"""Intrinsics of another resolution than the files': by what they have to be multiplied, as their principal points tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchkit.datasets._pair_items import Matrix

LARGER = 1.2  # of an image's side: a principal point so far off the centre may be that of another resolution
EVEN = 0.1  # by how much the two sides' factors may differ then
ALIKE = 1.1  # factors that differ by less are one, since principal points are a few percent off the centre
ABOVE = (4 / 3, 3 / 2, 2.0, 5 / 2, 8 / 3, 3.0, 4.0, 5.0, 6.0, 8.0)  # between the sides of common resolutions
USUAL = (*ABOVE, *(1 / each for each in ABOVE))


def factor(K: Matrix, size: tuple[int, int]) -> float:
    """What K has to be multiplied with so that its principal point is the centre; 1 where it is near, or not so by both sides."""
    if min(K[0, 2], K[1, 2]) <= 0:
        return 1.0
    across, down = size[0] / 2 / K[0, 2], size[1] / 2 / K[1, 2]
    found = float(np.sqrt(across * down))
    if abs(across / down - 1) > EVEN or 1 / LARGER < found < LARGER:
        return 1.0
    return found


def common(factors: Sequence[float]) -> float | None:
    """The median of the factors of many views, if it is all of theirs; None where they differ."""
    if not factors:
        return None
    middle = float(np.median(factors))
    return middle if all(_alike(each, middle) for each in factors) else None


def snapped(found: float) -> float | None:
    """The factor between common resolutions that is about as large; None without."""
    nearest = min(USUAL, key=lambda each: abs(np.log(found / each)))
    return nearest if _alike(found, nearest) else None


def candidates(factors: tuple[float, float]) -> list[tuple[tuple[float, float], str]]:
    """Factors of both views and what they are called: those of common resolutions first, then as they were found."""
    if factors == (1.0, 1.0):
        return []
    usual = tuple(1.0 if each == 1 else snapped(each) for each in factors)
    exact = [(usual, "")] if None not in usual else []
    found = [*exact, (factors, "about ")]
    return [(pair, " and ".join(f"{sign}{each:.4g}" for each in dict.fromkeys(pair))) for pair, sign in found]  # type: ignore[misc,union-attr]


def _alike(one: float, other: float) -> bool:
    return bool(max(one, other) <= ALIKE * min(one, other))
