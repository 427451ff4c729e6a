"""Heads on small data: by hand, and against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from tiny_items import KEY, features, truth

from benchkit import registry
from benchkit.errors import UsageError
from benchkit.heads.constant import Constant
from benchkit.heads.embed import Embed
from benchkit.heads.knn import Knn
from benchkit.heads.knn import Settings as KnnSettings
from benchkit.heads.logreg import Logreg
from benchkit.heads.logreg import Settings as LogregSettings
from benchkit.heads.solvers import multinomial
from benchkit.store.items import ArrayItems


def blobs(n: int, classes: int, spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    centres = np.random.default_rng(99).normal(size=(classes, 6))
    return (centres[labels] + spread * rng.normal(size=(n, 6))).astype(np.float32), labels


def knn(rows: Any, labels: Any, classes: int, names: list[str] | None = None, **settings: Any) -> Knn:
    head = Knn(KnnSettings(**settings))
    head.fit(KEY, features(rows, names), truth(labels, classes, names), 0, 1)
    return head


def logreg(rows: Any, labels: Any, classes: int, names: list[str] | None = None, **settings: Any) -> Logreg:
    head = Logreg(LogregSettings(**settings))
    head.fit(KEY, features(rows, names), truth(labels, classes, names), 0, 2)
    return head


class TestKnn:
    def test_by_hand(self):
        """Train at 0, 90 and 180 degrees, query at 0: of k = 2 the cosines are 1 and 0; weights exp((cos - 1) / t)."""
        head = knn([[1, 0], [0, 2], [-3, 0]], [0, 1, 2], 4, k=2, temperature=0.5)
        votes = head.predict(KEY, features([[5, 0]], ["query"]), 1)["scores"]
        np.testing.assert_allclose(votes, [[1, np.exp(-2), 0, 0]], rtol=1e-6)
        assert votes.dtype == np.float32
        assert head.log() == {"k": 2}

    def test_agrees_with_scikit_learn(self):
        rows, labels = blobs(200, 5, 1.0)
        queries, _ = blobs(60, 5, 1.0, seed=1)
        names = [f"q{i}" for i in range(60)]
        votes = knn(rows, labels, 5, k=20).predict(KEY, features(queries, names), 1)["scores"]
        unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (rows.astype(float), queries.astype(float))]
        theirs = KNeighborsClassifier(20, metric="cosine", algorithm="brute", weights=lambda d: np.exp(-d / 0.07))
        theirs.fit(unit[0], labels)
        shares = votes / votes.sum(1, keepdims=True)
        np.testing.assert_allclose(shares, theirs.predict_proba(unit[1]), atol=1e-4)

    def test_an_item_never_sees_itself(self):
        """Train = test: each item's nearest other decides; without exclusion each would answer its own class."""
        rows, labels = [[1, 0], [1, 0.1], [0, 1], [0.1, 1]], [0, 1, 2, 3]
        head = knn(rows, labels, 4, k=1)
        answers = head.predict(KEY, features(rows), 1)["scores"].argmax(1)
        assert answers.tolist() == [1, 0, 3, 2]

    def test_itself_is_known_by_name_not_by_place(self):
        rows = [[1, 0], [1, 0.1], [0, 1], [0.1, 1]]
        head = knn(rows, [0, 1, 2, 3], 4, names=["a", "b", "c", "d"], k=1)
        some = features([rows[2], rows[0]], ["c", "another"])  # "another" equals a, but is another item
        assert head.predict(KEY, some, 1)["scores"].argmax(1).tolist() == [3, 0]

    @pytest.mark.parametrize(("k", "same", "voters"), [(20, False, 4), (20, True, 3), (4, True, 3), (2, True, 2)])
    def test_k_beyond_train_is_recorded(self, k: int, same: bool, voters: int):
        rows = np.eye(4) + 0.5
        head = knn(rows, [0, 1, 2, 3], 4, k=k)
        votes = head.predict(KEY, features(rows, None if same else list("abcd")), 1)["scores"]
        assert head.log() == {"k": voters}
        assert (votes > 0).sum(1).tolist() == [voters] * 4

    def test_a_class_missing_from_train_gets_no_vote(self):
        votes = knn([[1, 0], [0, 1]], [0, 2], 3, k=2).predict(KEY, features([[1, 1]], ["q"]), 1)["scores"]
        assert votes[0, 1] == 0
        assert (votes[0, [0, 2]] > 0).all()

    def test_one_class_in_train(self):
        votes = knn([[1, 0], [0, 1]], [1, 1], 3, k=2).predict(KEY, features([[1, 1]], ["q"]), 1)["scores"]
        assert votes.argmax() == 1

    def test_collapsed_features_answer_one_class(self):
        """All cosines are 1: the first k train rows by name vote, whatever the query's class."""
        labels = np.arange(30) % 3
        head = knn(np.ones((30, 4)), labels, 3, k=3)
        votes = head.predict(KEY, features(np.ones((9, 4)), [f"q{i}" for i in range(9)]), 1)["scores"]
        assert (votes == votes[0]).all()
        assert np.allclose(votes, 1)  # ties, which count as wrong

    def test_other_queries_do_not_matter(self):
        rows, labels = blobs(50, 5, 1.0)
        queries, _ = blobs(300, 5, 1.0, seed=1)
        names = [f"q{i:04d}" for i in range(300)]
        head = knn(rows, labels, 5)
        alone = head.predict(KEY, features(queries[7:8], names[7:8]), 1)["scores"]
        assert np.array_equal(head.predict(KEY, features(queries, names), 1)["scores"][7:8], alone)

    @pytest.mark.parametrize(("key", "value"), [("k", 0), ("k", -3), ("temperature", 0.0), ("temperature", -1.0)])
    def test_settings_out_of_range(self, key: str, value: float):
        with pytest.raises(ValueError, match=key):
            KnnSettings(**{key: value})


class TestLogreg:
    @pytest.mark.parametrize("strength", [1e-3, 1.0, 100.0])
    @pytest.mark.parametrize("classes", [2, 5])
    def test_agrees_with_scikit_learn(self, strength: float, classes: int):
        rows, labels = blobs(150, classes, 1.5)
        head = logreg(rows, labels, classes, strength=strength)
        logits = head.predict(KEY, features(rows), 2)["scores"].astype(float)
        theirs = LogisticRegression(C=strength, tol=1e-10, max_iter=10000).fit(rows.astype(float), labels)
        shares = np.exp(logits - logits.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        np.testing.assert_allclose(shares, theirs.predict_proba(rows.astype(float)), atol=3e-3)
        assert head.log()["train_top1"] == pytest.approx((logits.argmax(1) == labels).mean())
        assert head.log()["strength"] == strength
        assert head.log()["holdout_items"] == 0
        assert head.log()["converged"] == 1

    def test_hold_out_is_stratified_and_by_name(self):
        """Of 5 classes with 20 items 2 each are held out, the same names in any order."""
        rows, labels = blobs(100, 5, 1.5)
        head = logreg(rows, labels, 5)
        assert head.log()["holdout_items"] == 10
        order = np.random.default_rng(3).permutation(100)
        mixed = logreg(rows[order], labels[order], 5, names=[f"{i:04d}" for i in order])
        assert mixed.log() == head.log()
        ours, theirs = (h.predict(KEY, features(rows), 2)["scores"] for h in (head, mixed))
        np.testing.assert_array_equal(theirs, ours)

    def test_strength_is_the_best_on_the_hold_out(self):
        """Hold-out redone here: fit each strength on the rest with scikit-learn (exactly), none is better."""
        rows, labels = blobs(120, 4, 2.0)
        head = logreg(rows, labels, 4, holdout=0.3)
        names = [f"{i:04d}" for i in range(120)]
        chosen = multinomial.choose_strength(rows, labels, 4, holdout=0.3, seed=0, names=names, threads=2)
        held = np.setdiff1d(np.arange(120), chosen.train_rows)
        assert np.bincount(labels[held]).tolist() == [9] * 4

        def accuracy(strength: float) -> float:
            fit = LogisticRegression(C=strength, tol=1e-10, solver="newton-cholesky").fit(
                rows[chosen.train_rows], labels[chosen.train_rows]
            )
            return fit.score(rows[held], labels[held])

        best = max(accuracy(c) for c in multinomial.STRENGTHS[::4])
        assert accuracy(head.log()["strength"]) >= best - 1.5 / len(held)

    def test_a_class_with_one_item_means_no_hold_out(self):
        rows, labels = blobs(20, 4, 1.0)
        labels[labels == 3] = 2
        labels[0] = 3
        log = logreg(rows, labels, 4).log()
        assert (log["strength"], log["holdout_items"]) == (1, 0)

    def test_a_class_missing_from_train_is_never_the_answer(self):
        rows, labels = blobs(60, 3, 1.0)
        head = logreg(rows, labels * 2, 6)
        scores = head.predict(KEY, features(10 * rows), 2)["scores"]
        assert scores.shape == (60, 6)
        assert set(scores.argmax(1)) <= {0, 2, 4}
        assert np.isfinite(scores).all()

    def test_one_class_in_train(self):
        head = logreg(np.eye(4), [1, 1, 1, 1], 3)
        assert (head.predict(KEY, features(np.eye(4)), 2)["scores"].argmax(1) == 1).all()
        assert head.log()["train_top1"] == 1

    def test_collapsed_features_count_ties_against(self):
        """Balanced classes on one point: all logits are equal, so no train item is right."""
        head = logreg(np.ones((12, 3)), np.arange(12) % 3, 3)
        scores = head.predict(KEY, features(np.ones((2, 3))), 2)["scores"]
        assert np.ptp(scores) < 1e-4
        assert head.log()["train_top1"] in (0, pytest.approx(1 / 3))  # rounding may single out one class, never more

    def test_state_reproduces_the_logits(self):
        rows, labels = blobs(80, 4, 1.0)
        head = logreg(rows, labels, 4, strength=1.0)
        state = head.state()
        assert {k: v.shape for k, v in state.items()} == {"weight": (6, 4), "bias": (4,)}
        assert {v.dtype for v in state.values()} == {np.dtype(np.float32)}
        np.testing.assert_allclose(
            rows @ state["weight"] + state["bias"], head.predict(KEY, features(rows), 2)["scores"], atol=1e-5
        )

    def test_other_rows_do_not_matter(self):
        rows, labels = blobs(80, 4, 1.0)
        head = logreg(rows, labels, 4, strength=1.0)
        whole = head.predict(KEY, features(np.tile(rows, (20, 1))), 2)["scores"]
        assert np.array_equal(head.predict(KEY, features(rows[5:6]), 2)["scores"], whole[5:6])

    @pytest.mark.parametrize(
        ("key", "value"),
        [("holdout", 0.0), ("holdout", 1.0), ("holdout", -0.1), ("strength", 0.0), ("strength", float("inf"))],
    )
    def test_settings_out_of_range(self, key: str, value: float):
        with pytest.raises(ValueError, match=key):
            LogregSettings(**{key: value})


class TestConstant:
    def fit(self, labels: Any, classes: int) -> Constant:
        head = Constant()
        head.fit("", None, truth(labels, classes), 0, 1)
        return head

    def test_by_hand(self):
        """Shares 1/2, 1/4, 1/4, and half an item of 4 for the class that never occurs."""
        head = self.fit([0, 0, 1, 2], 4)
        scores = head.predict("", features(np.zeros((3, 1))), 1)["scores"]
        np.testing.assert_allclose(np.exp(scores), [[0.5, 0.25, 0.25, 0.125]] * 3, rtol=1e-5)
        assert np.array_equal(head.state()["scores"], scores[0])

    def test_the_commonest_class_is_the_answer_among_many(self):
        """One item more is enough, behind a thousand classes of nearly the same size."""
        labels = np.concatenate([np.repeat(np.arange(999), 1300), np.repeat(999, 1301)])
        assert self.fit(labels, 1000).state()["scores"].argmax() == 999

    def test_equal_shares_are_told_apart_by_class_order(self):
        scores = self.fit(np.arange(3000) % 1000, 1000).state()["scores"]
        assert (np.diff(scores) < 0).all()
        np.testing.assert_allclose(np.exp(scores), 1e-3, rtol=1e-3)

    def test_reads_no_image(self):
        assert Constant().wants().kind is None


def test_embed_gives_the_features():
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float16)
    found = Embed().predict(KEY, ArrayItems(list("abcde"), {KEY: rows}), 1)["embedding"]
    assert found.dtype == np.float32
    assert np.array_equal(found, rows.astype(np.float32))
    assert not Embed.trains
    assert not Embed.votes


@pytest.mark.parametrize(("head", "key"), [("knn", "k=0"), ("logreg", "holdout=1"), ("logreg", "strength=-1")])
def test_settings_out_of_range_name_the_argument(head: str, key: str):
    from benchkit.conf.build import build

    with pytest.raises(UsageError, match=r"model\.head.*command line.*" + key.split("=")[0]):
        build("color_histogram", "classification", [f"model.head.name={head}", f"model.head.{key}"])


def test_heads_are_found_by_their_modules():
    assert {"constant", "embed", "knn", "logreg"} <= set(registry.names("heads"))
    assert "solvers" not in registry.names("heads")
