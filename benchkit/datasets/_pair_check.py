"""Checks of poses against images and depth: is another reading of the numbers clearly better than the one that was given?

A handful of pairs is looked at. Where both views have depth, points of view 0 are put into view 1 and compared with its
depth; else SIFT matches are compared with the epipolar rays. Data are refused only if one and the same other reading
explains much more, in most of the pairs that say anything: where little can be matched, or where readings hardly differ
(small motions), nothing is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets import _pair_evidence as evidence
from benchkit.datasets._pair_guesses import GIVEN, Guess
from benchkit.datasets._pair_items import Pair
from benchkit.errors import UsageError

PAIRS = 12  # that are looked at, at most
ENOUGH = 400  # matches: then no further pair is looked at
LEAST = 40  # matches of all pairs together, below which nothing is decided
TELLING = 15  # matches (or a hundred times as many depths) of a pair that has a say
PIXELS = (1.0, 2.0, 4.0, 8.0)  # distances, of the reduced image, within which a match is explained
DEPTHS = (0.01, 0.02, 0.05)  # relative differences of depth that count as the same
MORE = 0.3  # by so much must another reading's share of matches be larger
MOST = 0.5  # and at least so large
MORE_DEPTH, MOST_DEPTH = 0.2, 0.4  # the same of depths, which are hidden now and then, and noisy
SEEN = 0.05  # of the points: a reading that puts fewer where there is depth is taken as if it had put so many
SAY = 0.75  # of the pairs in which it must be better
SURE = 0.5  # share of depths that agree as given: then matches are not asked


@dataclasses.dataclass(frozen=True)
class Count:
    """What one pair says.

    Attributes:
        total: matches, or pixels with depth that were looked at.
        explained: by reading, how many it explains at each tolerance, (tolerances,).
        of: by reading, how many it could have explained: all matches; the points that it puts where view 1 has depth.
        mends: by reading, what to do if it is right.
    """

    total: int
    explained: dict[str, NDArray[np.int64]]
    of: dict[str, float]
    mends: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Another reading is better: its name, what mends it, and the shares of both at the most telling tolerance."""

    name: str
    mend: str
    share: float
    given: float
    total: int
    pairs: int


def has_matcher() -> bool:
    """Whether images can be matched here."""
    return importlib.util.find_spec("cv2") is not None


def sample(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs that are looked at, by the hash of their names."""
    return sorted(pairs, key=lambda pair: hashlib.sha256(pair.name.encode()).digest())[:PAIRS]


def count_matches(first: NDArray[np.uint8], second: NDArray[np.uint8], readings: dict[str, Guess]) -> Count:
    """Matches of two images that each reading explains."""
    points0, points1, unit = evidence.matched(first, second)
    explained = {}
    for name, guess in readings.items():
        off = evidence.distances(points0, points1, guess) / unit
        explained[name] = np.array([np.count_nonzero(off <= most) for most in PIXELS])
    of = dict.fromkeys(readings, float(len(points0)))
    return Count(len(points0), explained, of, {name: guess.mend for name, guess in readings.items()})


def count_depths(depth0: NDArray[np.float32], depth1: NDArray[np.float32], readings: dict[str, Guess]) -> Count:
    """Depths of view 0 that each reading explains."""
    explained: dict[str, NDArray[np.int64]] = {}
    of: dict[str, float] = {}
    total = 0
    for name, guess in readings.items():
        off = evidence.agreements(depth0, depth1, guess)
        total = len(off)
        explained[name] = np.array([np.count_nonzero(off <= most) for most in DEPTHS])
        of[name] = max(float(np.count_nonzero(np.isfinite(off))), SEEN * total)
    return Count(total, explained, of, {name: guess.mend for name, guess in readings.items()})


def judge(counts: Sequence[Count], least: int, more: float, most: float) -> Verdict | None:
    """The reading that is clearly better than the given one, the first of those that are equally good; None without.

    Args:
        counts: of the pairs.
        least: counted in all pairs together, below which nothing is decided.
        more: by so much its share must be larger at one tolerance.
        most: and at least so large.
    """
    total = sum(count.total for count in counts)
    if total < least:
        return None
    best: Verdict | None = None
    for name in dict.fromkeys(name for count in counts for name in count.explained if name != GIVEN):
        there = [count for count in counts if name in count.explained]
        new, given = shares(there, name), shares(there, GIVEN)
        gain = np.where(new >= np.maximum(most, given + more), new - given, 0)
        at = int(gain.argmax())
        better = [shares([count], name)[at] > shares([count], GIVEN)[at] for count in there]
        if gain[at] <= 0 or np.mean(better) < SAY or len(there) < SAY * len(counts):
            continue
        if best is None or gain[at] > best.share - best.given + 0.02:
            best = Verdict(name, there[0].mends[name], float(new[at]), float(given[at]), total, len(there))
    return best


def shares(counts: Sequence[Count], name: str) -> NDArray[np.float64]:
    """What a reading explains of what it could, all pairs together, at each tolerance."""
    explained = np.sum([count.explained[name] for count in counts], axis=0)
    return np.asarray(explained / max(sum(count.of[name] for count in counts), 1.0))


def judge_matches(pairs: Sequence[Pair], count: Callable[[Pair], Count | None]) -> tuple[Verdict | None, list[Count]]:
    """Look at pairs until there are enough matches."""
    counts: list[Count] = []
    for pair in pairs:
        found = count(pair)
        if found is not None and found.total >= TELLING:
            counts.append(found)
        if sum(each.total for each in counts) >= ENOUGH and len(counts) >= 4:
            break
    return judge(counts, LEAST, MORE, MOST), counts


def judge_depths(pairs: Sequence[Pair], count: Callable[[Pair], Count | None]) -> tuple[Verdict | None, list[Count]]:
    """Look at the first pairs with depth."""
    counts = [
        found for pair in pairs[: PAIRS // 2] if (found := count(pair)) is not None and found.total >= 100 * TELLING
    ]
    return judge(counts, 1, MORE_DEPTH, MOST_DEPTH), counts


def is_sure(counts: Sequence[Count]) -> bool:
    """Whether depths agree with the poses as they are given."""
    return bool(counts) and bool(shares(counts, GIVEN)[-1] >= SURE)


def refuse(verdict: Verdict, what: str, where: str, kind: str) -> None:
    """Say what is wrong.

    Raises:
        UsageError: always.
    """
    raise UsageError(
        f"{where}: the poses do not fit the {what}. Of {verdict.total:,} {kind} in {verdict.pairs} pairs they explain "
        f"{verdict.given:.0%}; {verdict.share:.0%} are explained if {verdict.name}. Then {verdict.mend}; or take the numbers as "
        "they are with data.check=off."
    )
