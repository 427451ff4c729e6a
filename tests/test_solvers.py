"""Logistic regression and kNN votes: by hand, against scikit-learn, and the edge cases that have a stated rule."""

import numpy as np
import pytest

from benchkit.errors import RunError, UsageError
from benchkit.heads.solvers import multinomial, neighbours


def blobs(n=400, d=12, k=4, seed=0, distance=0.6):
    """Overlapping classes, and columns of scales 0.01 to 10."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % k
    rows = generator.normal(size=(k, d))[labels] * distance + generator.normal(size=(n, d)) + 1
    return (rows * np.geomspace(0.01, 10, d)).astype(np.float32), labels


def fit(features, labels, strengths, n_classes, **options):
    return multinomial.fit_path(features, labels, strengths, n_classes, threads=1, **options)


class TestPath:
    @pytest.mark.parametrize("k", [2, 3, 4])
    def test_optimum_is_scikit_learns(self, k):
        linear = pytest.importorskip("sklearn.linear_model")
        features, labels = blobs(k=k)
        strengths = [1e-4, 1e-2, 1.0, 100.0]
        ours = fit(features, labels, strengths, k, tol=1e-5)
        assert ours.converged.all()
        for at, c in enumerate(strengths):
            theirs = linear.LogisticRegression(C=c, tol=1e-10, max_iter=100_000)
            theirs.fit(features.astype(np.float64), labels)
            weights, intercepts = theirs.coef_.T, theirs.intercept_
            got, bias = ours.weights[at], ours.intercepts[at]
            if k == 2:
                got, bias = got[:, 1:] - got[:, :1], bias[1:] - bias[:1]
            np.testing.assert_allclose(got, weights, rtol=1e-3, atol=1e-3 * np.abs(weights).max())
            np.testing.assert_allclose(bias, intercepts, rtol=1e-3, atol=1e-3 * max(1, np.abs(intercepts).max()))
            assert ours.train_accuracy[at] == pytest.approx(theirs.score(features, labels), abs=2 / len(labels))

    def test_loss_by_hand(self):
        """Two points at -1 and 1: w minimises 2 log(1 + e^-w) + w^2 / 2, so w (1 + e^w) = 2."""
        ours = fit(np.array([[-1], [1]], np.float32), np.array([0, 1]), [1.0], 2, tol=1e-6)
        w = float(ours.weights[0, 0, 1] - ours.weights[0, 0, 0])
        assert w * (1 + np.exp(w)) == pytest.approx(2, abs=1e-4)
        assert ours.loss[0] == pytest.approx(2 * np.log1p(np.exp(-w)) + w * w / 2, rel=1e-6)
        np.testing.assert_allclose(ours.intercepts[0], 0, atol=1e-6)

    def test_strongest_penalty_leaves_the_class_shares(self):
        features, _ = blobs(n=100, k=2)
        labels = (np.arange(100) < 25).astype(int)
        ours = fit(features - features.mean(0), labels, [1e-12], 2)
        assert ours.intercepts[0, 1] - ours.intercepts[0, 0] == pytest.approx(np.log(25 / 75), abs=1e-4)

    def test_order_of_strengths_is_kept_and_the_path_does_not_matter(self):
        features, labels = blobs()
        many = fit(features, labels, [10.0, 1e-3, 0.1], 4, tol=1e-5)
        alone = fit(features, labels, [10.0], 4, tol=1e-5)
        np.testing.assert_allclose(many.weights[0], alone.weights[0], atol=2e-3 * np.abs(alone.weights).max())
        assert np.linalg.norm(many.weights[1]) < np.linalg.norm(many.weights[2]) < np.linalg.norm(many.weights[0])

    def test_rows_in_another_order(self):
        features, labels = blobs()
        order = np.random.default_rng(1).permutation(len(labels))
        one = fit(features, labels, [0.01, 1.0], 4, tol=1e-6)
        other = fit(features[order], labels[order], [0.01, 1.0], 4, tol=1e-6)
        scale = np.abs(one.weights).max((1, 2), keepdims=True)
        np.testing.assert_allclose(other.weights / scale, one.weights / scale, atol=1e-5)

    @pytest.mark.parametrize("threads", [1, 2])
    def test_same_bits_twice(self, threads):
        features, labels = blobs()
        strengths = multinomial.STRENGTHS[::8]
        one, other = (multinomial.fit_path(features.copy(), labels, strengths, 4, threads=threads) for _ in range(2))
        assert one.weights.tobytes() == other.weights.tobytes()
        assert one.intercepts.tobytes() == other.intercepts.tobytes()

    def test_fewer_rows_than_columns_and_separable(self):
        linear = pytest.importorskip("sklearn.linear_model")
        generator = np.random.default_rng(3)
        features, labels = generator.normal(size=(20, 50)).astype(np.float32), np.arange(20) % 3
        ours = fit(features, labels, [1.0, 1e5], 3, tol=1e-5)
        theirs = linear.LogisticRegression(C=1.0, tol=1e-10, max_iter=100_000).fit(features.astype(float), labels)
        np.testing.assert_allclose(ours.weights[0], theirs.coef_.T, atol=1e-3 * np.abs(theirs.coef_).max())
        assert ours.converged.all()
        np.testing.assert_array_equal(ours.train_accuracy, 1)

    def test_missing_class_never_wins(self):
        features, labels = blobs(k=2)
        two = fit(features, labels, [1e-6, 1.0, 1e5], 2)
        four = fit(features, labels * 2, [1e-6, 1.0, 1e5], 4)
        np.testing.assert_array_equal(four.weights[:, :, [0, 2]], two.weights)
        assert np.isfinite(four.intercepts).all()
        anything = np.random.default_rng(0).normal(size=(500, 12)).astype(np.float32) * 1e4
        assert set(multinomial.logits(four, anything, 64).argmax(1)) <= {0, 2}

    def test_one_class(self):
        features, _ = blobs()
        ours = fit(features, np.full(400, 2), [1.0], 4)
        assert (multinomial.logits(ours, features, 128).argmax(1) == 2).all()
        assert ours.train_accuracy[0] == 1
        assert ours.loss[0] == 0

    def test_constant_features_give_no_accuracy_to_ties(self):
        labels = np.arange(40) % 4
        ours = fit(np.full((40, 3), 7, np.float32), labels, [1e-3, 1.0, 1e5], 4)
        np.testing.assert_allclose(ours.weights, 0, atol=1e-6)
        assert (ours.train_accuracy <= 0.25).all()

    def test_refusals(self):
        features, labels = blobs()
        broken = features.copy()
        broken[5, 3] = np.nan
        with pytest.raises(RunError, match="row 5"):
            fit(broken, labels, [1.0], 4)
        with pytest.raises(UsageError, match=r"0\.\.2"):
            fit(features, labels, [1.0], 3)
        with pytest.raises(UsageError, match="above 0"):
            fit(features, labels, [0.0], 4)
        with pytest.raises(UsageError, match="one per row"):
            fit(features, labels[:-1], [1.0], 4)

    def test_iterations_are_bounded_and_said(self):
        features, labels = blobs()
        ours = fit(features, labels, [1.0], 4, tol=1e-7, max_iter=2)
        assert ours.n_iter[0] == 2
        assert not ours.converged[0]


def test_logits_do_not_depend_on_the_number_of_rows():
    features, labels = blobs()
    solution = fit(features, labels, [1.0], 4)
    whole = multinomial.logits(solution, features, 64)
    np.testing.assert_allclose(whole, features @ solution.weights[0] + solution.intercepts[0], atol=1e-4)
    for n in (1, 63, 64, 65, 399):
        assert multinomial.logits(solution, features[:n], 64).tobytes() == whole[:n].tobytes()


class TestChoice:
    def choose(self, features, labels, n_classes, names=None, **options):
        names = [f"item{i:04d}" for i in range(len(labels))] if names is None else names
        options = {"seed": 0, "threads": 1, "strengths": (1e-6, 1e-2, 1.0)} | options
        return multinomial.choose_strength(features, labels, n_classes, names=names, **options)

    def test_holdout_is_a_stratified_tenth_and_follows_names(self):
        features, labels = blobs()
        names = [f"item{i:04d}" for i in range(400)]
        choice = self.choose(features, labels, 4, names)
        np.testing.assert_array_equal(np.bincount(labels[choice.train_rows]), 90)
        order = np.random.default_rng(0).permutation(400)
        moved = self.choose(features[order], labels[order], 4, [names[i] for i in order])
        assert {names[order[i]] for i in moved.train_rows} == {names[i] for i in choice.train_rows}
        assert moved.strength == choice.strength
        other = self.choose(features, labels, 4, names, seed=1)
        assert set(other.train_rows) != set(choice.train_rows)

    def test_accuracy_is_that_of_the_fit_on_the_rest(self):
        features, labels = blobs()
        choice = self.choose(features, labels, 4)
        held = np.setdiff1d(np.arange(400), choice.train_rows)
        for c, accuracy in zip(choice.strengths, choice.holdout_accuracy, strict=True):
            solution = fit(features[choice.train_rows], labels[choice.train_rows], [c], 4)
            expected = (multinomial.logits(solution, features[held], 64).argmax(1) == labels[held]).mean()
            assert accuracy == pytest.approx(expected, abs=1.01 / len(held))
        assert choice.strength == choice.strengths[int(np.argmax(choice.holdout_accuracy))]

    def test_of_equally_accurate_strengths_the_most_likely_is_chosen(self):
        features = np.repeat(np.eye(2, dtype=np.float32), 20, axis=0)  # separable: every strength is right on all
        choice = self.choose(features, np.repeat([0, 1], 20), 2, strengths=(10.0, 1e-4, 1.0))
        np.testing.assert_array_equal(choice.holdout_accuracy, 1)
        assert choice.strength == 10  # 1e-4 would call both classes equally likely

    def test_the_least_log_loss_is_counted_by_hand(self):
        features = np.array([[1.0], [-1.0]], np.float32).repeat(30, axis=0)
        labels = np.array([0, 1]).repeat(30)
        labels[[0, 30]] = [1, 0]  # one label in thirty is wrong: certainty of more than 29 to 1 is punished
        choice = self.choose(features, labels, 2, strengths=(1e-3, 1e-1, 1e3))
        held = np.setdiff1d(np.arange(60), choice.train_rows)
        assert len(set(choice.holdout_accuracy)) == 1
        losses = []
        for c in choice.strengths:
            solution = fit(features[choice.train_rows], labels[choice.train_rows], [c], 2)
            logits = multinomial.logits(solution, features[held], 8).astype(float)
            losses.append(np.mean(np.logaddexp(*logits.T) - logits[np.arange(len(held)), labels[held]]))
        assert choice.strength == choice.strengths[int(np.argmin(losses))]

    def test_two_items_of_a_class_go_to_both_parts(self):
        features, labels = blobs(n=42, k=2)
        labels = np.where(np.arange(42) < 2, 2, labels)
        choice = self.choose(features, labels, 3)
        assert (labels[choice.train_rows] == 2).sum() == 1

    @pytest.mark.parametrize(("labels", "why"), [([0, 0, 0, 1], "one train item"), ([1, 1, 1, 1], "one class only")])
    def test_no_holdout(self, labels, why):
        choice = self.choose(np.eye(4, dtype=np.float32), np.array(labels), 3)
        assert choice.strength == 1
        assert why in choice.reason
        assert len(choice.train_rows) == 4
        assert len(choice.holdout_accuracy) == 0

    def test_names_must_differ(self):
        with pytest.raises(UsageError, match="different names"):
            self.choose(np.eye(4, dtype=np.float32), np.array([0, 0, 1, 1]), 2, names=["a", "a", "b", "c"])

    def test_fit_is_one_strength(self):
        features, labels = blobs()
        solution = multinomial.fit(features, labels, 1.0, 4, threads=1)
        assert solution.weights.shape == (1, 12, 4)
        assert solution.train_accuracy.shape == (1,)


def vote(train, labels, queries, n_classes, **options):
    arrays = [np.asarray(a, np.float32) for a in (train, queries)]
    return neighbours.vote(arrays[0], np.asarray(labels), arrays[1], n_classes, threads=1, **options)


class TestVote:
    def test_by_hand(self):
        """Cosines of (1, 0): 1 to row 0, 0.6 to row 1, 0 to row 2, -1 to row 3."""
        train = [[2, 0], [3, 4], [0, 9], [-1, 0]]
        votes = vote(train, [0, 1, 1, 0], [[5, 0]], 3, k=3, temperature=0.5)
        np.testing.assert_allclose(votes, [[1, np.exp(-0.8) + np.exp(-2), 0]], rtol=1e-5)

    def test_agrees_with_scikit_learn(self):
        sklearn_neighbours = pytest.importorskip("sklearn.neighbors")
        features, labels = blobs(seed=5)
        theirs = sklearn_neighbours.KNeighborsClassifier(20, metric="cosine", weights=lambda d: np.exp(-d / 0.07))
        shares = theirs.fit(features[:300], labels[:300]).predict_proba(features[300:])
        votes = vote(features[:300], labels[:300], features[300:], 4)
        np.testing.assert_allclose(votes / votes.sum(1, keepdims=True), shares, atol=1e-4)

    def test_k_above_train_uses_all(self):
        train, labels = np.eye(3), [0, 1, 2]
        np.testing.assert_array_equal(vote(train, labels, train, 3, k=50), vote(train, labels, train, 3, k=3))
        assert neighbours.effective_k(50, 3) == 3
        assert neighbours.effective_k(50, 3, skip_self=True) == 2
        assert neighbours.effective_k(2, 3) == 2

    def test_itself_is_left_out(self):
        train = [[1, 0], [1, 0.1], [0, 1]]
        votes = vote(train, [0, 1, 2], [train[0], train[0]], 3, k=1, skip_self=np.array([0, -1]))
        np.testing.assert_array_equal(votes.argmax(1), [1, 0])
        alone = vote([[1, 0]], [0], [[1, 0]], 2, skip_self=np.array([0]))
        np.testing.assert_array_equal(alone, [[0, 0]])

    def test_ties_go_to_the_lower_row(self):
        """All rows are one direction at different lengths; rounding must not choose among them."""
        generator = np.random.default_rng(0)
        direction = generator.normal(size=(1, 40))
        train = direction * generator.uniform(0.1, 10, (300, 1))
        votes = vote(train, np.arange(300), direction * 3, 300, k=5)
        np.testing.assert_array_equal(np.flatnonzero(votes[0]), np.arange(5))

    def test_zero_vectors_have_cosine_zero(self):
        votes = vote([[0, 0], [1, 0], [-1, 0]], [0, 1, 2], [[1, 0], [0, 0]], 3, k=3, temperature=1.0)
        np.testing.assert_allclose(votes, np.exp([[-1, 0, -2], [-1, -1, -1]]), rtol=1e-6)

    def test_small_temperature_and_extreme_lengths_stay_finite(self):
        votes = vote([[1e30, 0], [0, 1e-30]], [0, 1], [[1e-30, 0], [1e30, 1e30]], 2, temperature=1e-3)
        assert np.isfinite(votes).all()
        assert votes[0, 0] == 1

    def test_bits_do_not_depend_on_other_queries(self):
        features, labels = blobs()
        whole = vote(features, labels, features, 4, block=64)
        for n in (1, 63, 65, 200):
            assert vote(features, labels, features[:n], 4, block=64).tobytes() == whole[:n].tobytes()
        assert vote(features, labels, features, 4, block=64).tobytes() == whole.tobytes()

    def test_rows_in_another_order(self):
        features, labels = blobs()
        order = np.random.default_rng(1).permutation(400)
        np.testing.assert_allclose(
            vote(features[order], labels[order], features, 4), vote(features, labels, features, 4), rtol=1e-5, atol=1e-7
        )

    def test_many_train_rows_are_compared_in_parts(self, monkeypatch):
        features, labels = blobs()
        whole = vote(features, labels, features, 4)
        monkeypatch.setattr(neighbours, "COLUMNS", 37)
        np.testing.assert_allclose(vote(features, labels, features, 4), whole, rtol=1e-5, atol=1e-7)

    def test_refusals(self):
        with pytest.raises(UsageError, match="k >= 1"):
            vote(np.eye(2), [0, 1], np.eye(2), 2, k=0)
        with pytest.raises(UsageError, match="columns"):
            vote(np.eye(2), [0, 1], np.eye(3), 2)
        with pytest.raises(UsageError, match="skip_self"):
            vote(np.eye(2), [0, 1], np.eye(2), 2, skip_self=np.array([0, 2]))
        with pytest.raises(RunError, match="row 1"):
            vote(np.eye(2), [0, 1], [[1, 0], [np.inf, 0]], 2)


def test_a_strong_penalty_still_takes_a_step():
    labels = np.arange(240) % 12
    generator = np.random.default_rng(0)
    rows = 0.01 * (generator.normal(size=(12, 64))[labels] + 0.5 * generator.normal(size=(240, 64)))
    solution = fit(rows.astype(np.float32), labels, [1e-5], 12)
    assert solution.train_accuracy[0] == 1
