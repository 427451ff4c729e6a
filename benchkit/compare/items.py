"""Who wins on how many items, and on which items two experiments differ most."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from benchkit.compare.aligned import Aligned


@dataclasses.dataclass(frozen=True)
class Item:
    """One item and what two experiments scored on it."""

    name: str
    first: float
    second: float


@dataclasses.dataclass(frozen=True)
class Flips:
    """The items on which two experiments differ most, the largest difference first.

    Attributes:
        column: the score of an item that was looked at; better: its direction.
        gained: where the second is better; lost: where the first is.
    """

    column: str
    better: str
    gained: list[Item]
    lost: list[Item]


@dataclasses.dataclass(frozen=True)
class Wins:
    """Who is better on how many items.

    Attributes:
        column: the score of an item that was looked at; better: its direction.
        shares: (k, k) share of items on which the row beats the column; NaN where no item has both scores.
        ties: (k, k) share of items on which they are equal.
        counts: (k, k) items that both have a score of.
    """

    column: str
    better: str
    shares: NDArray[np.float64]
    ties: NDArray[np.float64]
    counts: NDArray[np.int64]


def ordered_by(aligned: Aligned) -> tuple[str, str]:
    """The column of single items that stands for the headline, and its direction; "" where there is none."""
    column, better = aligned.experiments[0].family.order(aligned.columns[0])
    known = better in ("higher", "lower") and all(column in columns for columns in aligned.columns)
    return (column, better) if known else ("", "")


def wins(aligned: Aligned) -> Wins | None:
    """Of every pair; None where items have no score of their own."""
    column, better = ordered_by(aligned)
    if not column:
        return None
    sign = -1 if better == "lower" else 1
    values = np.stack([sign * columns[column].astype(np.float64) for columns in aligned.columns])
    one, other = values[:, None], values[None]
    counts = (~np.isnan(one) & ~np.isnan(other)).sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares, ties = (one > other).sum(axis=2) / counts, (one == other).sum(axis=2) / counts
    return Wins(column, better, shares, ties, counts)


def flips(aligned: Aligned, pair: tuple[int, int], count: int) -> Flips | None:
    """At most `count` items each way, equal differences in name order; None where items have no score of their own."""
    column, better = ordered_by(aligned)
    if not column:
        return None
    first, second = (aligned.columns[place][column].astype(np.float64) for place in pair)
    with np.errstate(invalid="ignore"):
        gain = np.nan_to_num(
            (-1 if better == "lower" else 1) * (second - first), nan=0.0, posinf=np.inf, neginf=-np.inf
        )

    def chosen(sizes: NDArray[np.float64]) -> list[Item]:
        order = np.argsort(-sizes, kind="stable")[:count]
        return [Item(aligned.names[k], float(first[k]), float(second[k])) for k in order if sizes[k] > 0]

    return Flips(column, better, chosen(gain), chosen(-gain))
