"""Simulated paired experiments: 95 % intervals hold the true difference 95 times of 100, and p is even where there is none.

Of 2,000 simulations the share that holds is binomial: four standard errors are .0195. The percentile bootstrap of few units
is a little too narrow, as it takes the normal distribution for Student's t and n for n - 1: by .004 with 100 units, .008
with 50. Ends found among 1,000 resamples lose .002, among 200 .01. All three are computed below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy import stats

from benchkit.metrics.intervals import mean_interval
from benchkit.metrics.paired import intervals, permuted, permuted_mean

pytestmark = pytest.mark.slow

SIMULATIONS = 2000
RESAMPLES = 1000  # as `benchkit compare`
FEWER = 200  # of a score of the whole set, which is made anew for each: this takes its time
NOISE = 4 * np.sqrt(0.95 * 0.05 / SIMULATIONS)


def too_narrow(n_units: int) -> float:
    """By how much less than .95 the percentile interval of a mean of normal numbers holds the truth."""
    reach = stats.norm.ppf(0.975) * np.sqrt((n_units - 1) / n_units)
    return float(0.95 - (1 - 2 * stats.t.sf(reach, n_units - 1)))


def lost_to(resamples: int) -> float:
    """By how much less than .95 lies between the two ends, which are found among so many sorted resamples."""
    rank = 0.025 * (resamples - 1) + 1
    return 0.95 - (1 - 2 * rank / (resamples + 1))


def simulated(seed: int) -> Iterator[np.random.Generator]:
    yield from (np.random.default_rng([seed, number]) for number in range(SIMULATIONS))


def assert_covers(n_units: int, resamples: int, held: list[bool]) -> None:
    assert len(held) == SIMULATIONS
    assert 0.95 - NOISE - too_narrow(n_units) - lost_to(resamples) < np.mean(held) < 0.95 + NOISE


def of_mean(apart: np.ndarray, truth: float, groups: np.ndarray | None = None) -> bool:
    drawn = mean_interval(apart, n_resamples=RESAMPLES, seed=0, groups=groups)
    assert drawn is not None
    return drawn[0] <= truth <= drawn[1]


def test_the_mean_over_items():
    def held(rng: np.random.Generator) -> bool:
        hard = rng.normal(0, 2, 100)  # what is hard for one is hard for the other
        first, second = hard + rng.normal(0, 1, 100), hard + rng.normal(0.3, 1, 100)
        return of_mean(second - first, 0.3)

    assert_covers(100, RESAMPLES, [held(rng) for rng in simulated(1)])


def grouped(rng: np.random.Generator, difference: float) -> tuple[np.ndarray, np.ndarray]:
    """Differences of 50 scenes of four images, and their scenes: the second's gain is a scene's more than an image's."""
    scenes = np.repeat(np.arange(50), 4)
    return rng.normal(difference, 1, 50)[scenes] + rng.normal(0, 0.5, 200), scenes


def test_groups():
    found = [grouped(rng, 0.3) for rng in simulated(2)]
    assert_covers(50, RESAMPLES, [of_mean(apart, 0.3, scenes) for apart, scenes in found])
    alone = np.mean([of_mean(apart, 0.3) for apart, _ in found[:300]])
    assert alone < 0.8  # images of a scene that count as independent evidence claim far too much


def ratio(columns: dict) -> dict:
    hits, predicted = columns["stats/counts"].sum(axis=0)
    return {"precision": hits / predicted}


def predictions(rng: np.random.Generator, *chances: float) -> list[dict[str, np.ndarray]]:
    """Hits and predictions of 100 images of the same difficulty by two methods, each right with its chance on average."""
    easy = rng.uniform(-0.2, 0.2, 100)
    predicted = [rng.poisson(10, 100) + 1 for _ in chances]
    return [
        {"stats/counts": np.stack([rng.binomial(n, np.clip(p + easy, 0, 1)), n], axis=1)}
        for n, p in zip(predicted, chances, strict=True)
    ]


def test_a_score_of_the_whole_set():
    def held(rng: np.random.Generator) -> bool:
        drawn = intervals(*predictions(rng, 0.5, 0.55), ratio, resamples=FEWER, seed=0)["precision"]
        assert drawn is not None
        return drawn[0] <= 0.05 <= drawn[1]

    assert_covers(100, FEWER, [held(rng) for rng in simulated(3)])


@pytest.mark.parametrize(
    "p_of",
    [
        lambda rng: permuted_mean(rng.normal(0, 1, 60) * rng.uniform(0.1, 3, 60), permutations=199, seed=1),
        lambda rng: permuted_mean(*grouped(rng, 0)[:1], permutations=199, seed=1, groups=np.repeat(np.arange(50), 4)),
        lambda rng: permuted(*predictions(rng, 0.5, 0.5), ratio, permutations=59, seed=1)["precision"],
    ],
    ids=["mean", "groups", "whole set"],
)
def test_p_is_even_where_there_is_no_difference(p_of: Callable[[np.random.Generator], float]):
    ps = np.array([p_of(rng) for rng in simulated(4)])
    for level in (0.05, 0.2, 0.5):
        assert abs(np.mean(ps <= level) - level) < 4 * np.sqrt(level * (1 - level) / SIMULATIONS)
