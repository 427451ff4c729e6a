"""Checks of poses against images and depth: is another reading of the numbers clearly better than the one that was given?

A handful of pairs is looked at. Where both views have depth, points of view 0 are put into view 1 and compared with its
depth; else SIFT matches are compared with the epipolar rays. Data are refused only if one and the same other reading
explains much more, in most of the pairs that say anything: where little can be matched, or where readings hardly differ
(small motions), nothing is refused. Of several readings that explain about as much all are named.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets import _pair_evidence as evidence
from benchkit.datasets._pair_guesses import GIVEN, STEPLESS, UNIT, Guess
from benchkit.datasets._pair_items import Pair
from benchkit.errors import UsageError

PAIRS = 12  # that are looked at, at most
ENOUGH = 400  # matches: then no further pair is looked at
LEAST = 40  # matches of all pairs together, below which nothing is decided
TELLING = 15  # matches (or a hundred times as many depths) of a pair that has a say
PIXELS = (1.0, 2.0, 4.0, 8.0)  # distances, of the reduced image, within which a match is explained
DEPTHS = (0.01, 0.02, 0.05)  # relative differences of depth that count as the same
MORE = 0.25  # by so much must another reading's share of matches be larger
MOST = 0.5  # and at least so large
MORE_DEPTH, MOST_DEPTH = 0.15, 0.4  # the same of depths, which are hidden now and then, and noisy
SEEN = 0.05  # of the points: a reading that puts fewer where there is depth is taken as if it had put so many
SAY = 0.75  # of the pairs that tell both readings apart: in so many it must be better
TELL = 0.5  # of all pairs: so many must tell them apart
SURE = 0.75  # share of depths that agree as given: then matches are not asked
DOUBTFUL = 0.5  # a smaller share is told
FARTHER = 0.1  # by so much must another unit of depth explain more than no t at all does
ALIKE = 0.1  # shares of readings that are all named, where the images do not tell which one it is
SAME = 0.02  # shares that do not tell which one is more likely
NAMED = 3  # readings, at most


@dataclasses.dataclass(frozen=True)
class Count:
    """What one pair says.

    Attributes:
        total: matches, or pixels with depth that were looked at.
        explained: by reading, how many it explains at each tolerance, (tolerances,).
        of: by reading, how many it could have explained: all matches; the points that it puts where view 1 has depth.
        readings: by name.
    """

    total: int
    explained: dict[str, NDArray[np.int64]]
    of: dict[str, float]
    readings: dict[str, Guess]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Another reading is better: its name, what mends it, and the shares of both at the most telling tolerance."""

    name: str
    mend: str
    share: float
    given: float
    total: int
    pairs: int


@dataclasses.dataclass(frozen=True, eq=False)
class _Better:
    """A reading that is clearly better than the given one: by how much at each tolerance, 0 where it is not clearly so."""

    name: str
    guess: Guess
    shares: NDArray[np.float64]
    given: NDArray[np.float64]
    gain: NDArray[np.float64]
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
    return Count(len(points0), explained, dict.fromkeys(readings, float(len(points0))), readings)


def count_depths(depth0: NDArray[np.float32], depth1: NDArray[np.float32], readings: dict[str, Guess]) -> Count:
    """Depths of view 0 that each reading explains."""
    explained: dict[str, NDArray[np.int64]] = {}
    of: dict[str, float] = {}
    pixels = evidence.sampled(depth0)
    for name, guess in readings.items():
        off = evidence.agreements(pixels, depth1, guess)
        explained[name] = np.array([np.count_nonzero(off <= most) for most in DEPTHS])
        of[name] = max(float(np.count_nonzero(np.isfinite(off))), SEEN * len(pixels))
    return Count(len(pixels), explained, of, readings)


def judge(counts: Sequence[Count], least: int, more: float, most: float) -> list[Verdict]:
    """The readings that are clearly better than the given one and about equally good, the best first; none without.

    Args:
        counts: of the pairs.
        least: counted in all pairs together, below which nothing is decided.
        more: by so much its share must be larger at one tolerance.
        most: and at least so large.
    """
    total = sum(count.total for count in counts)
    if total < least:
        return []
    names = dict.fromkeys(name for count in counts for name in count.explained if name not in (GIVEN, STEPLESS))
    found = [each for name in names if (each := _better(counts, name, more, most)) is not None]
    if not found:
        return []
    at = int(max(found, key=lambda each: float(each.gain.max())).gain.argmax())
    return [
        Verdict(each.name, each.guess.mend, float(each.shares[at]), float(each.given[at]), total, each.pairs)
        for each in _ranked(found, at)
    ]


def _better(counts: Sequence[Count], name: str, more: float, most: float) -> _Better | None:
    there = [count for count in counts if name in count.explained]
    guess = there[0].readings[name]
    new, given = shares(there, name), shares(there, GIVEN)
    enough = np.maximum(most, given + more)
    if guess.kind == UNIT:
        enough = np.maximum(enough, shares(there, STEPLESS) + FARTHER)
    apart = np.array([shares([count], name) - shares([count], GIVEN) for count in there])  # (pairs, tolerances)
    telling, better = (np.abs(apart) > SAME).sum(axis=0), (apart > SAME).sum(axis=0)
    clear = (new >= enough) & (telling >= TELL * len(counts)) & (better >= SAY * telling)
    return _Better(name, guess, new, given, np.where(clear, new - given, 0), len(there)) if clear.any() else None


def _ranked(found: Sequence[_Better], at: int) -> list[_Better]:
    """Those about as good as the best at a tolerance, one of each kind; of the same share the more usual fault first."""
    most = max(float(each.shares[at]) for each in found)
    left = [each for each in found if each.shares[at] >= most - ALIKE]
    ranked: list[_Better] = []
    while left:
        best = max(float(each.shares[at]) for each in left)
        first = next(each for each in left if each.shares[at] >= best - SAME)
        ranked.append(first)
        left = [
            each for each in left if each is not first and (not each.guess.kind or each.guess.kind != first.guess.kind)
        ]
    return ranked[:NAMED]


def shares(counts: Sequence[Count], name: str) -> NDArray[np.float64]:
    """What a reading explains of what it could, all pairs together, at each tolerance."""
    explained = np.sum([count.explained[name] for count in counts], axis=0)
    return np.asarray(explained / max(sum(count.of[name] for count in counts), 1.0))


def count_until_enough(pairs: Sequence[Pair], count: Callable[[Pair], Count | None]) -> list[Count]:
    """Look at pairs until there are enough matches."""
    counts: list[Count] = []
    for pair in pairs:
        found = count(pair)
        if found is not None and found.total >= TELLING:
            counts.append(found)
        if sum(each.total for each in counts) >= ENOUGH and len(counts) >= 4:
            break
    return counts


def count_first(pairs: Sequence[Pair], count: Callable[[Pair], Count | None]) -> list[Count]:
    """Look at the first pairs with depth."""
    counts = [count(pair) for pair in pairs[: PAIRS // 2]]
    return [each for each in counts if each is not None and each.total >= 100 * TELLING]


def judge_matches(counts: Sequence[Count]) -> list[Verdict]:
    """Readings that explain clearly more matches."""
    return judge(counts, LEAST, MORE, MOST)


def judge_depths(counts: Sequence[Count]) -> list[Verdict]:
    """Readings that explain clearly more depths."""
    return judge(counts, 1, MORE_DEPTH, MOST_DEPTH)


def is_sure(counts: Sequence[Count]) -> bool:
    """Whether depths agree with the poses as they are given."""
    return bool(counts) and bool(shares(counts, GIVEN)[-1] >= SURE)


def doubt(counts: Sequence[Count]) -> str:
    """What is told where few depths agree with the poses, and no other reading was found; '' where enough do."""
    if not counts or (share := float(shares(counts, GIVEN)[-1])) >= DOUBTFUL:
        return ""
    total = sum(count.total for count in counts)
    far = all(STEPLESS in count.explained for count in counts) and abs(share - shares(counts, STEPLESS)[-1]) < SAME
    unit = "; as many agree without any t, as they do if depth is in far too large a unit" if far else ""
    return (
        f"Poses and depth maps agree (within {DEPTHS[-1]:.0%}) at no more than {share:.0%} of {total:,} points in "
        f"{len(counts)} pairs{unit}. None of the usual mistakes explains it, so nothing was refused; where surfaces are not "
        "hidden from one of the views, look at data.depth_scale, the poses and the intrinsics before scores by depth are used."
    )


def refuse(verdicts: Sequence[Verdict], what: str, where: str, kind: str) -> None:
    """Say what is wrong.

    Raises:
        UsageError: always.
    """
    best = verdicts[0]
    begin = (
        f"{where}: the poses do not fit the {what}. Of {best.total:,} {kind} in {best.pairs} pairs they explain "
        f"{best.given:.0%}; "
    )
    if len(verdicts) == 1:
        told = f"{best.share:.0%} are explained if {best.name}. Then {best.mend}; or"
    else:
        each = "; ".join(f"{one.share:.0%} are explained if {one.name}: then {one.mend}" for one in verdicts)
        told = f"about as many are explained by {len(verdicts)} other readings, the likeliest first: {each}. Or"
    raise UsageError(f"{begin}{told} take the numbers as they are with data.check=off.")
