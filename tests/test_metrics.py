"""Scores against values worked out by hand, independent libraries, and the rules for ties, NaN and the undefined."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk

from benchkit.errors import RunError
from benchkit.metrics import classification, intervals, ranking


def clouds(n=300, dimensions=8, classes=5, seed=0):
    """Overlapping classes: features float32 and labels, neither trivial nor at chance."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    centres = rng.standard_normal((classes, dimensions))
    return (centres[labels] + rng.standard_normal((n, dimensions))).astype(np.float32), labels


def reference_retrieval(similarity, labels):
    """AP and best rank by sorting every row on (similarity descending, other classes first)."""
    precision, best = [], []
    for i, row in enumerate(similarity):
        others = np.arange(len(row)) != i
        positive = (labels == labels[i])[others]
        order = np.lexsort((positive, -row[others]))
        ranks = np.flatnonzero(positive[order]) + 1
        precision.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
        best.append(ranks[0])
    return np.array(precision), np.array(best)


class TestTopK:
    def test_by_hand(self):
        scores = np.array([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
        labels = np.array([1, 1, 0])
        assert classification.top_k(scores, labels, 1).tolist() == [True, False, False]
        assert classification.top_k(scores, labels, 2).tolist() == [True, True, False]

    def test_ties_are_wrong(self):
        scores = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 2.0], [np.inf, np.inf, 0.0]])
        labels = np.array([0, 0, 0])
        assert not classification.top_k(scores, labels, 1).any()
        assert classification.top_k(scores, labels, 2).tolist() == [True, False, True]

    def test_as_many_guesses_as_classes_is_undefined(self):
        assert classification.top_k(np.zeros((2, 5)), np.zeros(2, int), 5) is None
        assert classification.top_k(np.zeros((2, 6)), np.zeros(2, int), 5) is not None

    def test_nan_names_the_first_row(self):
        scores = np.zeros((4, 3))
        scores[2:, 1] = np.nan
        with pytest.raises(RunError, match="row 2 "):
            classification.top_k(scores, np.zeros(4, int), 1)

    @pytest.mark.parametrize("label", [-1, 3])
    def test_label_without_class(self, label):
        with pytest.raises(RunError, match=f"row 1 is {label}"):
            classification.top_k(np.zeros((2, 3)), np.array([0, label]), 1)

    @pytest.mark.parametrize("k", [1, 5])
    def test_agrees_with_scikit_learn(self, k):
        rng = np.random.default_rng(0)
        scores, labels = rng.standard_normal((500, 20)), rng.integers(0, 20, 500)
        expected = sk.top_k_accuracy_score(labels, scores, k=k, labels=np.arange(20))
        assert classification.top_k(scores, labels, k).mean() == pytest.approx(expected)


class TestProbabilities:
    def test_nll_by_hand(self):
        logits = np.array([[0.0, 0.0], [0.0, math.log(3)], [1000.0, 0.0]], np.float32)
        bound = -math.log(np.finfo(np.float32).eps)  # 15.94 in place of 1000: one hopeless item does not swamp the mean
        expected = [math.log(2), math.log(4 / 3), bound]
        np.testing.assert_allclose(classification.nll(logits, np.array([0, 1, 1])), expected, rtol=1e-6)

    def test_nll_agrees_with_scikit_learn(self):
        rng = np.random.default_rng(1)
        logits, labels = rng.standard_normal((5000, 7)) * 1.5, rng.integers(0, 7, 5000)
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        ours = classification.nll(logits, labels)
        assert ours.mean() == pytest.approx(sk.log_loss(labels, shares, labels=np.arange(7)))
        np.testing.assert_allclose(classification.confidence(logits), shares.max(axis=1))
        votes = classification.nll(shares * 9, labels, votes=True)  # votes need not sum to 1
        np.testing.assert_allclose(votes, np.minimum(ours, -math.log(classification.LEAST_PROBABILITY)))

    def test_votes_by_hand(self):
        votes = np.array([[3.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
        np.testing.assert_allclose(classification.confidence(votes, votes=True), [0.75, 1 / 3])
        nll = classification.nll(votes, np.array([2, 1]), votes=True)
        np.testing.assert_allclose(nll, [-math.log(np.finfo(np.float32).eps), math.log(3)])

    @pytest.mark.parametrize(("bad", "votes"), [(np.nan, False), (np.inf, False), (np.nan, True), (-1.0, True)])
    def test_unusable_scores_name_the_row(self, bad, votes):
        scores = np.ones((3, 2))
        scores[1, 0] = bad
        with pytest.raises(RunError, match="row 1 "):
            classification.nll(scores, np.zeros(3, int), votes=votes)
        with pytest.raises(RunError, match="row 1 "):
            classification.confidence(scores, votes=votes)


class TestCalibration:
    def test_by_hand(self):
        confidence = np.array([0.95, 0.85, 0.85, 0.15])
        correct = np.array([True, True, False, False])
        # bins of a tenth: |1 - .95| of 1 item, |.5 - .85| of 2, |0 - .15| of 1
        assert classification.ece(confidence, correct, n_bins=10) == pytest.approx((0.05 + 2 * 0.35 + 0.15) / 4)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_an_edge_belongs_to_the_bin_below(self, dtype):
        confidence = np.array([0.2, 0.19], dtype)  # (2/15, 3/15] holds both, so their errors cancel
        assert classification.ece(confidence, np.array([True, False])) == pytest.approx((0.8 - 0.19) / 2, abs=1e-6)
        confidence = np.array([0.2, 0.21], dtype)
        assert classification.ece(confidence, np.array([True, False])) == pytest.approx((0.8 + 0.21) / 2, abs=1e-6)

    def test_ends_and_nothing(self):
        assert classification.ece(np.array([1.0, 0.0]), np.array([True, False])) == 0
        assert classification.ece(np.zeros(0), np.zeros(0, bool)) is None

    @pytest.mark.parametrize("n_bins", [1, 7, 15])
    def test_agrees_with_a_search_over_edges(self, n_bins):
        rng = np.random.default_rng(2)
        edges = np.arange(n_bins + 1) / n_bins
        confidence = np.concatenate([edges, np.nextafter(edges, 0), rng.random(2000)])
        correct = rng.random(len(confidence)) < confidence
        inside = (confidence[:, None] > edges[:-1]) & (confidence[:, None] <= edges[1:])
        inside[confidence == 0, 0] = True
        gaps = [abs((correct[rows] * 1.0 - confidence[rows]).sum()) for rows in inside.T]
        assert classification.ece(confidence, correct, n_bins) == pytest.approx(sum(gaps) / len(confidence))


class TestMeanClassAccuracy:
    def test_absent_classes_do_not_count(self):
        labels = np.array([0, 0, 0, 3])  # classes 1 and 2 do not occur
        assert classification.mean_class_accuracy(np.array([True, False, True, True]), labels) == pytest.approx(5 / 6)
        assert classification.mean_class_accuracy(np.zeros(0, bool), np.zeros(0, int)) is None

    def test_agrees_with_scikit_learn(self):
        rng = np.random.default_rng(3)
        truth, guess = rng.integers(0, 6, 400), rng.integers(0, 6, 400)
        expected = sk.balanced_accuracy_score(truth, guess)
        assert classification.mean_class_accuracy(truth == guess, truth) == pytest.approx(expected)


class TestRetrieval:
    def test_by_hand(self):
        angles = np.deg2rad([0, 10, 25, 90])  # from item 0: a negative, a positive, a negative
        features = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32) * [[1], [7], [0.1], [3]]
        columns = ranking.retrieval(features.astype(np.float32), np.array([0, 1, 0, 1]), recalls=(1, 2, 3))
        np.testing.assert_allclose(columns["AP"], [1 / 2, 1 / 3, 1 / 2, 1 / 2])
        assert columns["recall@1"].tolist() == [0, 0, 0, 0]
        assert columns["recall@2"].tolist() == [1, 0, 1, 1]
        assert columns["recall@3"].tolist() == [1, 1, 1, 1]

    @pytest.mark.parametrize("coarse", [False, True], ids=["without ties", "full of ties"])
    def test_agrees_with_sorting_every_row(self, coarse):
        features, labels = clouds(dimensions=3)
        if coarse:
            features = np.sign(np.round(features))  # few directions, some of them zero
        rows = ranking.unit_rows(features)
        precision, best = reference_retrieval(rows @ rows.T, labels)
        columns = ranking.retrieval(features, labels)
        np.testing.assert_allclose(columns["AP"], precision, rtol=1e-12)
        for k in (1, 5, 10):
            np.testing.assert_array_equal(columns[f"recall@{k}"], best <= k)

    def test_agrees_with_scikit_learn(self):
        features, labels = clouds()
        rows = features / np.linalg.norm(features, axis=1, keepdims=True)
        for i, precision in enumerate(ranking.retrieval(features, labels)["AP"]):
            others = np.arange(len(rows)) != i
            expected = sk.average_precision_score(labels[others] == labels[i], rows[others] @ rows[i])
            assert precision == pytest.approx(expected)

    @pytest.mark.parametrize("value", [0.0, 1.0, -3.7])
    def test_collapsed_features_score_the_worst(self, value):
        labels = np.repeat([0, 1, 2], [20, 30, 50])
        columns = ranking.retrieval(np.full((100, 48), value, np.float32), labels)
        for label, positives in enumerate([19, 29, 49]):
            last = np.arange(99 - positives, 99) + 1  # behind every item of another class
            np.testing.assert_allclose(columns["AP"][labels == label], np.mean(np.arange(1, positives + 1) / last))
        assert columns["recall@10"].sum() == 0

    def test_copies_tie_whatever_the_product_says(self):
        features = np.array([[1, 0], [3, 4], [0, 1], [6, 8]], np.float32)  # 1 and 3 have one direction
        searched = ranking._Gallery(features, np.array([0, 0, 0, 1]), holds_queries=True)
        assert (searched.copies.tolist(), searched.originals.tolist()) == ([3], [1])
        distance = np.array([[-1, -0.6, 0, -0.59999]], np.float32)  # a product that favours the positive
        found = searched.rank(distance, np.array([0]), slice(0, 1))
        np.testing.assert_allclose(found, [[(1 / 2 + 2 / 3) / 2], [2]])

    def test_a_negative_as_similar_as_a_positive_goes_first(self):
        features = np.array([[1, 0], [0, 1], [0, 2], [-1, 0]], np.float32)
        assert ranking.retrieval(features, np.array([0, 0, 1, 1]))["AP"][0] == pytest.approx(1 / 2)

    def test_negative_zero_ties_with_zero(self):
        features = np.array([[1, 0], [-0.0, 1], [0, -1], [-1, 0]], np.float32)
        assert ranking.retrieval(features, np.array([0, 0, 1, 1]))["AP"][0] == pytest.approx(1 / 2)

    def test_keys_order_as_the_floats(self):
        values = np.array([-1.0000001, -1, -1e-45, -0.0, 0.0, 1e-45, 1e-20, 0.5, 1, 1.0000001], np.float32)
        keys = ranking._ordered_keys(values[None].copy())[0]
        assert (keys % 2 == 0).all()
        np.testing.assert_array_equal(np.sign(np.diff(keys)), np.sign(np.diff(values)))

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_not_finite_names_the_row(self, value):
        features, labels = clouds(50)
        features[[17, 30], 2] = value
        with pytest.raises(RunError, match="row 17 "):
            ranking.retrieval(features, labels)
        clean, _ = clouds(50)
        with pytest.raises(RunError, match="gallery features: row 17 "):
            ranking.retrieval(clean, labels, gallery=(features, labels))

    def test_huge_and_tiny_rows_have_directions_too(self):
        features, labels = clouds()
        scales = np.where(np.arange(len(features)) % 2, 1e30, 1e-30)[:, None]
        scaled = ranking.retrieval((features * scales).astype(np.float32), labels)["AP"]
        np.testing.assert_allclose(scaled, ranking.retrieval(features, labels)["AP"], atol=1e-3)

    def test_a_query_without_positive_is_undefined(self):
        features, _ = clouds(6)
        labels = np.array([0, 0, 1, 2, 2, 2])
        columns = ranking.retrieval(features, labels)
        for column in columns.values():
            assert np.isnan(column).tolist() == [False, False, True, False, False, False]
        assert intervals.mean_defined(columns["AP"])[1] == 1
        assert np.isnan(ranking.retrieval(features[:1], labels[:1])["AP"]).all()

    def test_order_of_items_does_not_matter(self):
        features, labels = clouds()
        order = np.random.default_rng(4).permutation(len(labels))
        straight, shuffled = ranking.retrieval(features, labels), ranking.retrieval(features[order], labels[order])
        for name, column in straight.items():
            np.testing.assert_array_equal(column[order], shuffled[name])

    def test_blocks_and_threads_change_no_bit(self):
        features, labels = clouds(257, dimensions=100)
        whole = ranking.retrieval(features, labels)
        for block, threads in [(7, 1), (64, 2), (100, 3), (1000, 2)]:
            parts = ranking.retrieval(features, labels, block=block, threads=threads)
            for name, column in whole.items():
                np.testing.assert_array_equal(column, parts[name])

    def test_other_queries_do_not_matter(self):
        features, labels = clouds()
        whole = ranking.retrieval(features[:100], labels[:100], gallery=(features[100:], labels[100:]))
        alone = ranking.retrieval(features[3:4], labels[3:4], gallery=(features[100:], labels[100:]))
        assert alone["AP"][0] == whole["AP"][3]

    def test_gallery_by_hand(self):
        gallery = np.array([[1, 0], [1, 1], [0, 1]], np.float32)
        queries = np.array([[2, 0.1], [0, 5], [1, 0]], np.float32)
        columns = ranking.retrieval(queries, np.array([1, 0, 9]), gallery=(gallery, np.array([0, 1, 1])), recalls=(1,))
        np.testing.assert_allclose(columns["AP"], [(1 / 2 + 2 / 3) / 2, 1 / 3, np.nan])
        np.testing.assert_array_equal(columns["recall@1"], [0, 0, np.nan])

    def test_progress(self):
        features, labels = clouds(100)
        calls = []
        ranking.retrieval(features, labels, block=40, progress=lambda *call: calls.append(call))
        assert calls == [(40, 100), (80, 100), (100, 100)]

    def test_lengths_must_agree(self):
        features, labels = clouds(10)
        with pytest.raises(RunError, match="do not belong together"):
            ranking.retrieval(features, labels[:9])


class TestChance:
    @pytest.mark.parametrize(("positives", "candidates"), [(1, 1), (1, 5), (2, 5), (5, 5), (3, 7)])
    def test_is_the_mean_over_all_orders(self, positives, candidates):
        precision, best = [], []
        for where in itertools.combinations(range(1, candidates + 1), positives):
            precision.append(np.mean(np.arange(1, positives + 1) / where))
            best.append(where[0])
        expected = ranking.chance(positives, candidates, (1, 2, 10))
        assert expected["AP"] == pytest.approx(np.mean(precision))
        for k in (1, 2, 10):
            assert expected[f"recall@{k}"] == pytest.approx(np.mean(np.array(best) <= k))

    def test_random_features_come_near(self):
        features = np.random.default_rng(5).standard_normal((600, 32)).astype(np.float32)
        labels = np.repeat([0, 1, 2], [100, 200, 300])
        columns = ranking.retrieval(features, labels)
        floor = ranking.chance(ranking.count_positives(labels), 599)
        assert columns["AP"].mean() == pytest.approx(floor["AP"].mean(), abs=0.01)
        assert columns["recall@1"].mean() == pytest.approx(floor["recall@1"].mean(), abs=0.06)

    def test_counts_and_undefined(self):
        labels = np.array([4, 4, 7, 4])
        assert ranking.count_positives(labels).tolist() == [2, 2, 0, 2]
        assert ranking.count_positives(labels, np.array([7, 7, 1])).tolist() == [0, 0, 2, 0]
        floor = ranking.chance([2, 0], 3)
        assert np.isnan(floor["AP"]).tolist() == [False, True]
        assert np.isnan(floor["recall@1"]).tolist() == [False, True]

    def test_rare_positives_keep_their_digits(self):
        assert ranking.chance(1, 10**7, (1,))["recall@1"] == pytest.approx(1e-7, rel=1e-12)


def means(columns):
    return {name: intervals.mean_defined(column)[0] for name, column in columns.items()}


class TestBootstrap:
    def test_agrees_with_scipy(self):
        values = np.random.default_rng(6).exponential(size=200)
        low, high = intervals.bootstrap({"x": values}, means, n_resamples=4000, seed=0)["x"]
        expected = stats.bootstrap((values,), np.mean, n_resamples=4000, method="percentile", rng=1)
        width = np.ptp(expected.confidence_interval)
        assert (low, high) == pytest.approx(tuple(expected.confidence_interval), abs=0.05 * width)

    def test_columns_are_resampled_together(self):
        x = np.random.default_rng(7).random(50)
        columns = {"x": x, "counts": np.stack([x, 2 * x], axis=1)}
        ratio = intervals.bootstrap(columns, lambda c: {"r": c["counts"][:, 1].sum() / c["x"].sum()}, seed=0)["r"]
        assert ratio == pytest.approx((2, 2))

    def test_depends_on_seed_and_columns_only(self):
        columns = {"x": np.random.default_rng(8).random(60)}
        first = intervals.bootstrap(columns, means, seed=3)
        np.random.seed(0)  # noqa: NPY002 (the global state must not matter)
        copy = {"x": columns["x"].copy()}
        assert intervals.bootstrap(copy, means, seed=3) == first
        assert intervals.bootstrap(copy, means, seed=4) != first

    def test_groups_are_drawn_whole(self):
        groups = np.array(["b", "a", "b", "c", "c", "c"])
        sizes = {"a": 1, "b": 2, "c": 3}
        seen = set()

        def collect(columns):
            names, counts = np.unique(columns["group"], return_counts=True)
            assert all(count % sizes[name] == 0 for name, count in zip(names, counts, strict=True))
            drawn = sum(count // sizes[name] for name, count in zip(names, counts, strict=True))
            assert drawn == 3
            for name in names:
                rows = columns["row"][columns["group"] == name]
                assert set(rows) == set(np.flatnonzero(groups == name))
            seen.add(tuple(counts))
            return {"x": float(columns["row"].mean())}

        intervals.bootstrap({"group": groups, "row": np.arange(6)}, collect, seed=0, groups=groups, n_resamples=100)
        assert len(seen) > 3

    def test_groups_widen_the_interval(self):
        rng = np.random.default_rng(9)
        groups = np.repeat(np.arange(20), 25)
        columns = {"x": rng.standard_normal(20)[groups] + 0.1 * rng.standard_normal(500)}
        items = intervals.bootstrap(columns, means, seed=0)["x"]
        scenes = intervals.bootstrap(columns, means, seed=0, groups=groups)["x"]
        assert np.ptp(scenes) > 3 * np.ptp(items)

    @pytest.mark.parametrize("groups", [None, np.zeros(1, int)])
    def test_one_item_has_no_interval(self, groups):
        assert intervals.bootstrap({"x": np.ones(1)}, means, seed=0, groups=groups) == {"x": None}

    def test_one_group_has_no_interval(self):
        assert intervals.bootstrap({"x": np.arange(9.0)}, means, seed=0, groups=np.zeros(9)) == {"x": None}

    def test_undefined_resamples(self):
        often = np.full(100, np.nan)
        often[:3] = [1, 2, 3]  # about 5 % of the resamples hold none of the three
        rare = np.full(100, np.nan)
        rare[0] = 1

        def summarize(columns):
            return {**means(columns), "first": None if np.isnan(columns["rare"]).all() else 1.0}

        found = intervals.bootstrap({"often": often, "rare": rare}, summarize, seed=0, n_resamples=400)
        assert found["often"] == pytest.approx((1, 3))
        assert found["rare"] == (1, 1)  # 63 % hold it
        sparse = intervals.bootstrap(
            {"rare": rare}, lambda c: {"twice": 1.0 if np.count_nonzero(c["rare"] == 1) != 1 else None}, seed=0
        )
        assert sparse["twice"] is None  # undefined on the whole

    def test_undefined_in_most_resamples(self):
        def summarize(columns):
            return {"both": 1.0 if {0, 1} <= set(columns["x"]) else None}  # 40 % of the resamples hold both

        assert summarize({"x": np.arange(30)})["both"] == 1.0
        assert intervals.bootstrap({"x": np.arange(30)}, summarize, seed=0)["both"] is None

    def test_infinite_end(self):
        x = np.arange(50.0)
        x[25:] = np.inf
        found = intervals.bootstrap({"x": x}, lambda c: {"median": float(np.median(c["x"]))}, seed=0)
        assert found["median"] is None

    def test_lengths_must_agree(self):
        with pytest.raises(RunError, match="differ in length"):
            intervals.bootstrap({"x": np.ones(3), "y": np.ones(4)}, means, seed=0)
        with pytest.raises(RunError, match="differ in length"):
            intervals.bootstrap({"x": np.ones(3)}, means, seed=0, groups=np.ones(4))


def test_mean_defined():
    assert intervals.mean_defined(np.array([1.0, np.nan, 3.0])) == (2.0, 1)
    assert intervals.mean_defined(np.array([np.nan])) == (None, 1)
    assert intervals.mean_defined(np.zeros(0)) == (None, 0)
