"""Two experiments on the same items: the interval of a difference, and how likely chance alone makes one as large.

A difference is the second experiment's score minus the first's. What is drawn or swapped is an item with everything that
is known of it in both experiments, or a whole group of items: scores of images of one scene are no independent evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchkit.metrics.intervals import Columns, Interval, Summary, bootstrap

Summarize = Callable[[Columns], Summary]
ROUNDING = 1e-12  # of the size of what is added up: differences that are apart by less are equal
BLOCK = 1 << 18  # signs that are held at once: what a processor keeps near


def less(second: Summary, first: Summary) -> dict[str, float | None]:
    """`second` minus `first` by name; None where either is undefined or absent."""
    found: dict[str, float | None] = {}
    for name, value in second.items():
        other = first.get(name)
        apart = np.nan if value is None or other is None else float(value) - float(other)
        found[name] = None if apart != apart else apart  # NaN, also of two that are infinite
    return found


def intervals(
    first: Columns,
    second: Columns,
    summarize: Summarize,
    *,
    resamples: int,
    seed: int,
    groups: np.ndarray | None = None,
) -> dict[str, Interval | None]:
    """95 % interval of each summary's difference: the paired percentile bootstrap, in which both lose the same items.

    Args:
        first, second: columns (N, ...) of the same items in the same order.
        summarize: pure; called with resampled columns of one experiment.
        groups: (N,) see `intervals.bootstrap`, whose rules for undefined values hold here too.

    A score that noise moves to one side only (a calibration error grows with it) has an interval off to that side, since
    resampling adds noise; `permuted` compares like with like there.
    """
    joined = {f"a/{name}": column for name, column in first.items()}
    joined |= {f"b/{name}": column for name, column in second.items()}

    def differences(drawn: Columns) -> dict[str, float | None]:
        one, other = ({n[2:]: column for n, column in drawn.items() if n[0] == side} for side in "ab")
        return less(summarize(other), summarize(one))

    return bootstrap(joined, differences, n_resamples=resamples, seed=seed, groups=groups)


def permuted(
    first: Columns,
    second: Columns,
    summarize: Summarize,
    *,
    permutations: int,
    seed: int,
    groups: np.ndarray | None = None,
) -> dict[str, float | None]:
    """Two-sided p of each summary's difference: the share of swaps of the two labels, item by item, that make one as large.

    Whole rows of sufficient statistics change sides, and are summarised then: so the test holds for scores of a whole set.
    All swaps are tried where there are at most `permutations`; else so many are drawn, and p = (k + 1) / (n + 1), which is
    never 0 (Phipson & Smyth 2010). Items on which both agree in everything are not swapped: it would change nothing.

    Returns:
        {metric: p}; None where the difference is undefined, as it is, or under more than half of the swaps. Swaps under
        which it is undefined are left out.
    """
    pair = _Pair(first, second)
    _, unit = np.unique(pair.rows if groups is None else groups[pair.rows], return_inverse=True)
    one, other = summarize(first), summarize(second)
    observed = less(other, one)
    swaps = Swaps(int(unit.max(initial=-1)) + 1, permutations, seed)

    def under(mask: NDArray[np.bool_]) -> list[float]:
        one, other = pair.swapped(pair.rows[mask[unit]])
        found = less(summarize(other), summarize(one))
        return [np.nan if (value := found.get(name)) is None else value for name in observed]

    values = np.array([under(mask) for mask in swaps.masks()])
    scale = {name: abs(one[name] or 0) + abs(other[name] or 0) for name, value in observed.items() if value is not None}
    return {
        name: None if value is None else swaps.share(values[:, place], value, ROUNDING * scale[name])
        for place, (name, value) in enumerate(observed.items())
    }


def permuted_mean(
    differences: NDArray[np.float64], *, permutations: int, seed: int, groups: np.ndarray | None = None
) -> float:
    """The same p for the mean of a column, from the items' differences (N,), all of them finite: much faster.

    A swap changes the sign of an item's difference, or of the sum of a group's: Fisher's randomisation test.
    """
    sums = differences
    if groups is not None:
        _, unit = np.unique(groups, return_inverse=True)
        sums = np.bincount(unit, weights=differences).astype(np.float64)
    sums = sums[sums != 0]
    swaps = Swaps(len(sums), permutations, seed)
    total = sums.sum()
    values = np.concatenate([total - 2 * (block @ sums) for block in swaps.blocks()])
    p = swaps.share(values, float(total), ROUNDING * float(np.abs(sums).sum()))
    assert p is not None  # sums of finite numbers
    return p


class Swaps:
    """Which units change sides: all ways where there are at most `permutations`, else as many drawn at random.

    Args:
        n_units: items or groups.
        seed: the only source of chance.
    """

    def __init__(self, n_units: int, permutations: int, seed: int) -> None:
        self.n_units = n_units
        self.exact = n_units < 63 and 2**n_units <= permutations
        self.count = 2**n_units if self.exact else permutations
        self.seed = seed

    def blocks(self) -> Iterator[NDArray[np.float64]]:
        """Rows of 0 and 1 (1: the unit changes sides), together (count, n_units)."""
        rng = np.random.default_rng(self.seed)
        step = max(1, BLOCK // max(self.n_units, 1))
        for start in range(0, self.count, step):
            rows = np.arange(start, min(start + step, self.count))
            if self.exact:
                yield ((rows[:, None] >> np.arange(self.n_units)) & 1).astype(np.float64)
            else:
                size = len(rows) * self.n_units
                raw = np.frombuffer(rng.bytes(-(-size // 8)), np.uint8)
                yield np.unpackbits(raw, count=size).reshape(len(rows), self.n_units).astype(np.float64)

    def masks(self) -> Iterator[NDArray[np.bool_]]:
        """The same, one bool (n_units,) at a time."""
        for block in self.blocks():
            yield from block.astype(bool)

    def share(self, values: NDArray[np.float64], observed: float, rounding: float) -> float | None:
        """p of `observed` among its values under the swaps (count,); NaN is left out, and None is said above a half of it."""
        known = values[~np.isnan(values)]
        if 2 * len(known) < len(values):
            return None
        extreme = int(np.count_nonzero(np.abs(known) >= abs(observed) - rounding))
        return extreme / len(known) if self.exact else (extreme + 1) / (len(known) + 1)


class _Pair:
    """Two sides of columns (N, ...), of which rows can change sides.

    Attributes:
        rows: those in which any column differs; NaN equals NaN. Only columns that differ somewhere change sides.
    """

    def __init__(self, first: Columns, second: Columns) -> None:
        self.sides = first, second
        n_rows = len(next(iter(first.values())))
        self.own = np.arange(2 * n_rows).reshape(2, n_rows)  # where the rows of either side lie in `stacked`
        differ = {name: _unequal(first[name], second[name]) for name in first if name in second}
        self.rows = np.flatnonzero(np.any([*differ.values(), np.zeros(n_rows, bool)], axis=0))
        self.stacked = {n: np.concatenate([first[n], second[n]]) for n, rows in differ.items() if rows.any()}

    def swapped(self, rows: NDArray[np.intp]) -> tuple[Columns, Columns]:
        """Both sides after these rows have changed sides."""
        taken = self.own.copy()
        taken[:, rows] = self.own[::-1, rows]
        first, second = (
            {**side, **{name: column.take(mine, axis=0) for name, column in self.stacked.items()}}
            for side, mine in zip(self.sides, taken, strict=True)
        )
        return first, second


def _unequal(one: np.ndarray, other: np.ndarray) -> NDArray[np.bool_]:
    unequal = (one != other) & ~((one != one) & (other != other))  # only NaN is no equal of itself
    return unequal.reshape(len(one), -1).any(axis=1)


def mcnemar(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[int, int, float]:
    """McNemar's test (1947) of two columns (N,) of 0 and 1, exact: the binomial distribution of the items that differ.

    Returns:
        Items that only the first has right, those that only the second has, and the two-sided p: twice the smaller tail
        with equal chances, at most 1. Items count as independent, also within a group.
    """
    only_first = int(np.count_nonzero((first == 1) & (second == 0)))
    only_second = int(np.count_nonzero((first == 0) & (second == 1)))
    n, fewer = only_first + only_second, min(only_first, only_second)
    ways, tail = 1, 1
    for k in range(fewer):
        ways = ways * (n - k) // (k + 1)
        tail += ways
    return only_first, only_second, min(1.0, 2 * tail / 2**n)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """p adjusted for all of them being looked at (Holm 1979): the k-th smallest of m by m - k + 1, at least the one before.

    None stays None, and is no test.
    """
    known = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    found: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        found[place] = largest
    return found
