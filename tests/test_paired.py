"""Paired differences: intervals, permutation p, McNemar and Holm, by hand and against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchkit.metrics.intervals import bootstrap, mean_interval
from benchkit.metrics.paired import Swaps, holm, intervals, mcnemar, permuted, permuted_mean


def mean(columns: dict) -> dict:
    return {"mean": float(columns["x"].mean())}


def ratio(columns: dict) -> dict:
    """A score of the whole set that is no mean over items: hits of all by predictions of all; None without any."""
    hits, predicted = columns["stats/counts"].sum(axis=0)
    return {"precision": hits / predicted if predicted else None}


def counts(*rows: tuple[int, int]) -> dict[str, np.ndarray]:
    return {"stats/counts": np.array(rows)}


def p_of(differences, permutations=9999, seed=0, groups=None) -> float:
    return permuted_mean(np.array(differences, float), permutations=permutations, seed=seed, groups=groups)


class TestPermutationOfMeans:
    def test_four_items_by_hand(self):
        # |1 + 2 + 3 - 1| = 5 of at most 7: subsets of {1, 2, 3, 1} that sum to at most 1 or at least 6 are 6 of 16.
        assert p_of([1, 2, 3, -1]) == 6 / 16
        assert p_of([-1, -2, -3, 1]) == 6 / 16

    def test_without_a_difference_it_is_one(self):
        assert p_of([0, 0, 0]) == 1
        assert p_of([1, -1]) == 1
        assert p_of([]) == 1

    def test_sums_that_are_equal_but_for_rounding_count_as_equal(self):
        assert 0.1 + 0.2 - 0.3 > 0 > 0.3 - 0.1 - 0.2  # none of it is a difference
        assert p_of([0.1, 0.2, -0.3]) == 1
        assert p_of([0.1, 0.2, 0.3, 0.6]) == p_of([1, 2, 3, 6])

    def test_whole_groups_change_sides(self):
        # Groups sum to 3, 1 and -1, of which |3| is found in all ways but where both others go against the first.
        groups = np.array(["a", "b", "a", "c"])
        assert p_of([1, 1, 2, -1], groups=groups) == 6 / 8
        assert p_of([1, 1, 1, 1], groups=np.array(["a"] * 4)) == 1

    @pytest.mark.parametrize("seed", range(4))
    def test_all_ways_agree_with_scipy(self, seed: int):
        rng = np.random.default_rng(seed)
        first, second = rng.normal(size=12), rng.normal(0.4, 1, size=12)
        assert p_of(second - first) == pytest.approx(scipys(first, second), abs=1e-12)
        right = rng.integers(0, 2, (2, 12)).astype(float)  # ties everywhere
        assert p_of(right[1] - right[0]) == pytest.approx(scipys(*right), abs=1e-12)

    def test_drawn_ways_agree_with_scipy_within_noise(self):
        rng = np.random.default_rng(1)
        first, second = rng.normal(size=(2, 300))
        ours, theirs = p_of(second - first), scipys(first, second)
        assert 0.05 < ours < 0.5
        assert abs(ours - theirs) < 5 * np.sqrt(2 * ours * (1 - ours) / 9999)

    def test_drawn_p_is_never_zero_and_repeats(self):
        apart = np.random.default_rng(0).normal(1, 0.1, 50)
        assert p_of(apart, 999) == 1 / 1000
        noise = np.random.default_rng(0).normal(0, 1, 50)
        assert p_of(noise) == p_of(noise)
        assert p_of(noise) != p_of(noise, seed=1)

    def test_items_that_agree_leave_fewer_ways(self):
        # 1 of 2 ways for each of three items that differ: exact, whatever number of items agrees.
        assert p_of([1, 1, 1] + [0] * 1000, permutations=8) == 2 / 8


class TestSwaps:
    def test_all_ways_are_tried_where_there_are_no_more(self):
        ways = np.concatenate(list(Swaps(3, 8, 0).blocks()))
        assert len({tuple(way) for way in ways}) == len(ways) == 8
        assert not Swaps(3, 7, 0).exact

    def test_drawn_ways_are_fair_and_as_many_as_asked_for(self):
        ways = np.concatenate(list(Swaps(1500, 2000, 0).blocks()))  # several blocks
        assert ways.shape == (2000, 1500)
        assert set(np.unique(ways)) == {0, 1}
        assert abs(ways.mean() - 0.5) < 5 * 0.5 / np.sqrt(ways.size)
        assert np.abs(ways.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(2000)


class TestPermutationOfSets:
    def p(self, first, second, summarize=ratio, permutations=999, **more) -> float | None:
        return next(iter(permuted(first, second, summarize, permutations=permutations, seed=0, **more).values()))

    def test_three_items_by_hand(self):
        # All four predictions wrong, then all right: only no swap and all swaps give a difference of 1.
        first, second = counts((0, 1), (0, 1), (0, 2)), counts((1, 1), (1, 1), (2, 2))
        assert self.p(first, second) == 2 / 8

    def test_denominators_change_sides_too(self):
        # 2/3 - 1/2 = 1/6; with either item swapped 1/3 - 3/4 or its opposite, which are further apart.
        assert self.p(counts((1, 2), (1, 2)), counts((2, 2), (0, 1))) == 1
        # 3/3 - 1/2; with either item swapped 1 - 2/3 or its opposite, which are less far apart.
        assert self.p(counts((1, 2), (0, 0)), counts((2, 2), (1, 1))) == 2 / 4

    def test_it_agrees_with_the_fast_way_for_means(self):
        rng = np.random.default_rng(0)
        first, second = rng.normal(size=(2, 9))
        groups = np.array(list("aabbcdefg"))
        for more in ({}, {"groups": groups}):
            p = self.p({"x": first}, {"x": second}, mean, **more)
            assert p == p_of(second - first, 999, **more)

    def test_it_agrees_with_scipy(self):
        rng = np.random.default_rng(0)
        first, second = rng.integers(0, 5, (2, 9, 2)) + np.array([0, 5])
        both = np.concatenate([first, second])

        def statistic(one, other):  # of rows that are named by number
            return ratio({"stats/counts": both[other]})["precision"] - ratio({"stats/counts": both[one]})["precision"]

        rows = np.arange(9), np.arange(9, 18)
        theirs = stats.permutation_test(rows, statistic, permutation_type="samples", n_resamples=999).pvalue
        assert 0.01 < theirs < 0.99
        assert self.p({"stats/counts": first}, {"stats/counts": second}) == pytest.approx(theirs, abs=1e-12)

    def test_only_items_that_differ_are_swapped(self):
        same = [(1, 2)] * 500
        first, second = counts((0, 1), (0, 1), *same), counts((1, 1), (1, 1), *same)
        assert self.p(first, second, permutations=4) == 2 / 4
        nan = {"x": np.array([np.nan, 1.0])}
        assert self.p(nan, nan, lambda c: {"sum": float(np.nansum(c["x"]))}) == 1

    def test_what_is_undefined_is_none(self):
        first, second = counts((0, 0)), counts((1, 1))
        assert self.p(first, second) is None
        # 1 - 0; two of eight ways leave one side without a prediction, and of the other four 1/2 - 0 is the difference.
        assert self.p(counts((0, 1), (0, 1), (0, 0)), counts((0, 0), (0, 0), (1, 1))) == 2 / 6

    def test_several_scores_share_the_ways(self):
        rng = np.random.default_rng(0)
        sides = [
            {"x": rng.normal(size=50), "stats/counts": rng.integers(0, 5, (50, 2)) + np.array([0, 5])} for _ in range(2)
        ]
        both = permuted(*sides, lambda c: {**mean(c), **ratio(c)}, permutations=99, seed=3)
        assert both["mean"] == permuted(*sides, mean, permutations=99, seed=3)["mean"]
        assert set(both) == {"mean", "precision"}


class TestIntervals:
    def test_what_both_have_in_common_cancels(self):
        first = {"x": np.random.default_rng(0).normal(0, 100, 40)}
        second = {"x": first["x"] + 0.25}
        low, high = intervals(first, second, mean, resamples=200, seed=0)["mean"] or (0, 0)
        assert (low, high) == (pytest.approx(0.25), pytest.approx(0.25))

    def test_equal_columns_have_no_difference(self):
        first = {"x": np.random.default_rng(0).normal(0, 100, 40)}
        assert intervals(first, dict(first), mean, resamples=50, seed=0) == {"mean": (0, 0)}

    def test_it_is_near_the_normal_theory(self):
        rng = np.random.default_rng(0)
        first, second = {"x": rng.normal(size=400)}, {"x": rng.normal(size=400)}
        low, high = intervals(first, second, mean, resamples=2000, seed=0)["mean"] or (0, 0)
        apart = second["x"] - first["x"]
        reach = 1.96 * apart.std(ddof=1) / 20
        assert (low, high) == (
            pytest.approx(apart.mean() - reach, abs=0.02),
            pytest.approx(apart.mean() + reach, abs=0.02),
        )

    @pytest.mark.parametrize("groups", [None, np.repeat(np.arange(60), np.arange(60) % 5 + 1)[:150]])
    def test_the_fast_way_for_means_is_the_same_bootstrap(self, groups: np.ndarray | None):
        values = np.random.default_rng(0).gamma(1, 1, 150)
        slow = bootstrap({"x": values}, mean, n_resamples=4000, seed=0, groups=groups)["mean"] or (0, 0)
        fast = mean_interval(values, n_resamples=4000, seed=0, groups=groups)
        assert fast == pytest.approx(slow, abs=0.015)  # of a standard error of .08
        assert fast == mean_interval(values, n_resamples=4000, seed=0, groups=groups)

    def test_of_one_unit_there_is_no_interval(self):
        one = np.array(["a"] * 3)
        assert mean_interval(np.arange(3.0), n_resamples=9, seed=0, groups=one) is None
        assert mean_interval(np.arange(1.0), n_resamples=9, seed=0) is None
        assert intervals({"x": np.arange(3.0)}, {"x": np.ones(3)}, mean, resamples=9, seed=0, groups=one) == {
            "mean": None
        }

    def test_groups_are_drawn_whole(self):
        first = {"x": np.zeros(40)}
        second = {"x": np.repeat([0.0, 1.0], 20)}
        groups = np.repeat(["a", "b"], 20)
        drawn = intervals(first, second, mean, resamples=200, seed=0, groups=groups)["mean"]
        assert drawn == (0, 1)
        low, high = intervals(first, second, mean, resamples=200, seed=0)["mean"] or (0, 0)
        assert 0.2 < low < high < 0.8


class TestMcNemar:
    def test_one_against_five_by_hand(self):
        # 2 (C(6,0) + C(6,1)) / 2^6
        first = np.array([1.0, 0, 0, 0, 0, 0, 1, 0])
        second = np.array([0.0, 1, 1, 1, 1, 1, 1, 0])
        assert mcnemar(first, second) == (1, 5, 14 / 64)

    def test_without_any_item_that_differs_it_is_one(self):
        assert mcnemar(np.ones(5), np.ones(5)) == (0, 0, 1)

    @pytest.mark.parametrize(("one", "other"), [(3, 3), (0, 8), (40, 61), (3000, 4000)])
    def test_it_agrees_with_scipys_binomial_test(self, one: int, other: int):
        first = np.repeat([1.0, 0.0], [one, other])
        expected = stats.binomtest(one, one + other).pvalue
        assert mcnemar(first, 1 - first) == (one, other, pytest.approx(expected, rel=1e-9))

    def test_it_is_the_permutation_of_a_column_of_zeros_and_ones(self):
        first, second = np.random.default_rng(0).integers(0, 2, (2, 20)).astype(float)
        assert mcnemar(first, second)[2] == pytest.approx(p_of(second - first, 10**6), abs=1e-12)


class TestHolm:
    def test_three_by_hand(self):
        # .01 x 3, .03 x 2, and .04 x 1, which cannot be below the one before
        assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])

    def test_none_is_no_test(self):
        assert holm([None, 0.02, None, 0.5]) == [None, 0.04, None, 0.5]
        assert holm([None]) == [None]

    def test_it_ends_at_one(self):
        assert holm([0.6, 0.9, 0.7]) == [1, 1, 1]


def scipys(first: np.ndarray, second: np.ndarray) -> float:
    def statistic(one, other, axis):
        return np.mean(other - one, axis=axis)

    way = {"permutation_type": "samples", "n_resamples": 9999, "vectorized": True, "rng": np.random.default_rng(7)}
    return float(stats.permutation_test((first, second), statistic, **way).pvalue)
