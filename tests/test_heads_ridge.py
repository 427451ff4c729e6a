"""Few-shot ridge regression: by hand, against scikit-learn and refits, and the edge cases that have a stated rule."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge as TheirRidge
from tiny_items import KEY, features, truth

from benchkit.errors import RunError, UsageError
from benchkit.heads.ridge import Ridge, Settings
from benchkit.heads.solvers import least_squares
from benchkit.settings import setting


def ridge(
    rows: Any, labels: Any, classes: int, names: list[str] | None = None, seed: int = 0, **settings: Any
) -> Ridge:
    head = Ridge(Settings(**settings))
    head.fit(KEY, features(rows, names), truth(labels, classes, names), seed, 1)
    return head


def scores(head: Ridge, rows: Any) -> np.ndarray:
    return head.predict(KEY, features(rows), 1)["scores"]


def blobs(n: int, width: int, classes: int, seed: int = 0, distance: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes, and columns of scales 0.01 to 10 around 3."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, width))
    labels = np.arange(n) % classes
    rows = distance * centres[labels] + generator.normal(size=(n, width)) + 3
    return (rows * np.geomspace(0.01, 10, width)).astype(np.float32), labels


def design(rows: np.ndarray, like: np.ndarray | None = None) -> np.ndarray:
    """big_vision's: standardised as `like`, and the bias column."""
    rows, like = rows.astype(np.float64), (rows if like is None else like).astype(np.float64)
    return np.column_stack([(rows - like.mean(0)) / (like.std(0) + 1e-5), np.full(len(rows), 100.0)])


def targets(labels: np.ndarray, classes: int) -> np.ndarray:
    return np.where(labels[:, None] == np.arange(classes), 1.0, -1.0)


def left_out(rows: np.ndarray, labels: np.ndarray, classes: int, strengths: list[float]) -> np.ndarray:
    return least_squares.decompose(rows, labels, classes, threads=1).left_out(strengths)


class TestFit:
    def test_by_hand(self):
        """Points 1 and 3 of two classes: z = -1 and 1 (but for the 1e-5), so W = z'y / (z'z + s) = 2 / (2 + s).

        The mean target is 0, so at x = 2 nothing is said, and at x = 3 the outputs are -+ 2 / (2 + s).
        """
        head = ridge([[1], [3]], [0, 1], 2, strength=2.0)
        np.testing.assert_allclose(scores(head, [[1], [2], [3], [5]])[:, 1], [-0.5, 0, 0.5, 1.5], atol=2e-5)
        np.testing.assert_allclose(scores(head, [[1], [2], [3], [5]])[:, 0], [0.5, 0, -0.5, -1.5], atol=2e-5)
        state = head.state()
        np.testing.assert_allclose(state["weight"], [[-0.5, 0.5]], atol=2e-5)
        np.testing.assert_allclose(state["bias"], [1, -1], atol=4e-5)
        assert head.log() == {"train_top1": 1, "strength": 2, "shots": 0, "draws": 1, "short_classes": 0}

    def test_bias_by_hand(self):
        """Three of one class, one of another, on one point: outputs are the mean targets x 40000 / (40000 + s)."""
        head = ridge(np.ones((4, 2)), [0, 0, 0, 1], 3, strength=20000.0)
        np.testing.assert_allclose(scores(head, [[1, 1], [7, -7]]), [[1 / 3, -1 / 3, -2 / 3]] * 2, rtol=1e-6)

    @pytest.mark.parametrize("strength", [2.0**-10, 1.0, 1024.0, 2.0**19])
    @pytest.mark.parametrize(("n", "width", "classes"), [(90, 7, 3), (20, 40, 3), (30, 30, 2), (9, 8, 5), (41, 40, 4)])
    def test_agrees_with_scikit_learn(self, strength: float, n: int, width: int, classes: int):
        rows, labels = blobs(n, width, classes)
        others, _ = blobs(50, width, classes, seed=1)
        theirs = TheirRidge(alpha=strength, fit_intercept=False, solver="svd")
        theirs.fit(design(rows), targets(labels, classes))
        head = ridge(rows, labels, classes, strength=strength)
        np.testing.assert_allclose(scores(head, others), theirs.predict(design(others, rows)), atol=1e-5)
        ours = theirs.predict(design(rows)) - targets(labels, classes)
        np.testing.assert_allclose(scores(head, rows) - targets(labels, classes), ours, atol=1e-5)

    @pytest.mark.parametrize("n", [12, 60])
    def test_dependent_columns_and_constant_ones(self, n: int):
        """Copies, sums and constants: fewer directions than columns, on both sides of N = D."""
        rows, labels = blobs(n, 10, 3)
        rows = np.column_stack(
            [rows, rows[:, :3], rows[:, 0] + rows[:, 1], np.zeros(n), np.full(n, 1e4), np.full(n, 0.1)]
        )
        rows = rows.astype(np.float32)
        for strength in (2.0**-10, 8.0):
            theirs = TheirRidge(alpha=strength, fit_intercept=False, solver="svd")
            theirs.fit(design(rows), targets(labels, 3))
            head = ridge(rows, labels, 3, strength=strength)
            np.testing.assert_allclose(scores(head, rows), theirs.predict(design(rows)), atol=1e-5)
            np.testing.assert_allclose(head.state()["weight"][-3:], 0, atol=1e-6)
            moved = rows + np.where(np.arange(rows.shape[1]) >= 14, 5.0, 0.0)
            np.testing.assert_allclose(scores(head, moved), scores(head, rows), atol=1e-4)

    def test_rows_and_columns_meet_where_there_are_as_many(self):
        """From N = D on the columns' Gram matrix is decomposed, below it the rows'."""
        rows, labels = blobs(40, 20, 4)
        small, large = (least_squares.decompose(rows[:n], labels[:n], 4, threads=1) for n in (19, 20))
        assert (small.problem.dual, large.problem.dual) == (True, False)
        assert (len(small.eigenvalues), len(large.eigenvalues)) == (19, 20)

    def test_a_large_offset_costs_no_accuracy(self):
        """Means a million times the spread: float32 holds 2^-4 steps there, which the fit must see exactly."""
        generator = np.random.default_rng(0)
        rows = (generator.integers(-8, 8, size=(60, 5)) / 16 + 2.0**19).astype(np.float32)
        labels = np.arange(60) % 3
        theirs = TheirRidge(alpha=4.0, fit_intercept=False, solver="svd").fit(design(rows), targets(labels, 3))
        np.testing.assert_allclose(
            scores(ridge(rows, labels, 3, strength=4.0), rows), theirs.predict(design(rows)), atol=1e-5
        )

    def test_half_precision_features(self):
        rows, labels = blobs(40, 6, 3)
        half = rows.astype(np.float16)
        one = least_squares.decompose(half, labels, 3, threads=1)
        other = least_squares.decompose(half.astype(np.float32), labels, 3, threads=1)
        assert np.array_equal(one.fit(1.0).weight, other.fit(1.0).weight)

    def test_many_rows_go_through_in_blocks(self, monkeypatch: pytest.MonkeyPatch):
        for n in (50, 8):
            rows, labels = blobs(n, 12, 3)
            whole = least_squares.decompose(rows, labels, 3, threads=1)
            errors, found = whole.left_out([1.0]), whole.fit(1.0)
            monkeypatch.setattr(least_squares, "_ROWS", 7)
            parts = least_squares.decompose(rows, labels, 3, threads=1)
            np.testing.assert_allclose(parts.left_out([1.0]), errors, rtol=1e-8)
            np.testing.assert_allclose(parts.fit(1.0).weight, found.weight, rtol=1e-7, atol=1e-9)
            monkeypatch.undo()

    def test_a_class_missing_from_train_is_never_the_answer(self):
        rows, labels = blobs(60, 8, 3)
        for strength in (0.01, 1024.0, 2.0**19):
            found = scores(ridge(rows, 2 * labels, 6, strength=strength), 100 * blobs(300, 8, 3, seed=2)[0])
            assert set(found.argmax(1)) <= {0, 2, 4}

    def test_one_class_and_one_item(self):
        head = ridge(np.eye(4), [1, 1, 1, 1], 3)
        assert (scores(head, np.eye(4)).argmax(1) == 1).all()
        alone = ridge([[5, 6]], [2], 3, strength=None)
        assert scores(alone, [[1, 2]]).argmax() == 2
        assert alone.log()["strength"] == 1024

    def test_collapsed_features_count_ties_against(self):
        head = ridge(np.ones((12, 3)), np.arange(12) % 3, 3)
        assert head.log()["train_top1"] == 0
        assert np.ptp(scores(head, np.ones((2, 3)))) == 0

    def test_refusals(self):
        rows, labels = blobs(20, 4, 2)
        broken = rows.copy()
        broken[5, 3] = np.inf
        with pytest.raises(RunError, match="row 5"):
            ridge(broken, labels, 2)
        with pytest.raises(UsageError, match=r"0\.\.0"):
            least_squares.decompose(rows, labels, 1, threads=1)
        with pytest.raises(UsageError, match="above 0"):
            least_squares.fit(least_squares.decompose(rows, labels, 2, threads=1), 0.0, threads=1)


class TestLeaveOneOut:
    @pytest.mark.parametrize(("n", "width"), [(24, 5), (12, 30), (13, 12)])
    @pytest.mark.parametrize("strength", [2.0**-10, 0.5, 1024.0, 2.0**19])
    def test_is_a_refit_without_the_item(self, n: int, width: int, strength: float):
        rows, labels = blobs(n, width, 3)
        whole, wanted = design(rows), targets(labels, 3)
        errors = []
        for item in range(n):
            rest = np.arange(n) != item
            fit = TheirRidge(alpha=strength, fit_intercept=False, solver="svd").fit(whole[rest], wanted[rest])
            errors.append(((fit.predict(whole[[item]])[0] - wanted[item]) ** 2).sum())
        np.testing.assert_allclose(left_out(rows, labels, 3, [strength])[0], errors, rtol=1e-5)

    def test_by_hand(self):
        """Two items at z = -1 and 1, one class each would be alone; so both twice: leaving one out leaves three.

        Without an item of z = 1: z'z = 3, z'y = 3 (y = z), sum of z = -1, and the bias column of 100 takes part.
        """
        rows, labels, s = np.array([[-1], [-1], [1], [1]], np.float32), np.array([0, 0, 1, 1]), 3.0
        gram = np.array([[3 + s, -100.0], [-100.0, 30000 + s]])
        slope, bias = np.linalg.solve(gram, [3.0, -100.0])
        error = 2 * (1 - slope - 100 * bias) ** 2
        np.testing.assert_allclose(left_out(rows, labels, 2, [s]), [[error] * 4], rtol=1e-4)

    def test_the_least_error_is_chosen_and_of_equals_the_largest(self):
        rows, labels = blobs(60, 8, 3, distance=0.7)
        errors = left_out(rows, labels, 3, list(least_squares.STRENGTHS)).sum(1)
        head = ridge(rows, labels, 3, strength=None)
        assert head.log()["strength"] == pytest.approx(least_squares.STRENGTHS[int(errors.argmin())], rel=1e-12)
        assert 0 < errors.argmin() < 29
        flat = least_squares.decompose(np.ones((6, 2), np.float32), np.arange(6) % 2, 2, threads=1)
        assert least_squares.choose_strength(flat, strengths=(1.0, 4.0, 2.0), threads=1) == 4

    def test_strengths_are_the_thirty_powers_of_two(self):
        assert len(least_squares.STRENGTHS) == 30
        assert (least_squares.STRENGTHS[0], least_squares.STRENGTHS[-1]) == (1 / 1024, 524288)

    def test_items_alone_in_their_class_say_nothing(self):
        rows, labels = blobs(20, 6, 2)
        labels = np.where(np.arange(20) == 4, 2, labels)
        errors = left_out(rows, labels, 3, [1.0, 8.0])
        assert (errors[:, 4] == 0).all()
        assert (np.delete(errors, 4, axis=1) > 0).all()

    def test_one_shot_takes_the_strength_of_big_vision(self):
        rows, labels = blobs(30, 6, 3)
        assert ridge(rows, labels, 3, shots=[1], strength=None).log()["strength"] == pytest.approx(1024, rel=1e-12)


class TestDraws:
    def taken(self, head: Ridge, rows: np.ndarray) -> list[set[int]]:
        """Rows that each draw was fitted on: with next to no penalty and N < D these are met exactly."""
        found = scores(head, rows)
        found = found[:, None] if found.ndim == 2 else found
        return [set(np.flatnonzero(np.abs(np.abs(found[:, d]) - 1).max(1) < 1e-2)) for d in range(found.shape[1])]

    def fit(
        self, names: list[str] | None = None, order: Any = slice(None), **settings: Any
    ) -> tuple[Ridge, np.ndarray]:
        rows, labels = blobs(60, 200, 3, distance=0.0)
        return ridge(rows[order], labels[order], 3, names, strength=1e-3, **settings), rows

    def test_shots_are_the_first_in_the_order_of_the_hash(self):
        head, rows = self.fit(shots=[2], draws=3, seed=7)
        for draw, taken in enumerate(self.taken(head, rows)):
            expected = set()
            for label in range(3):
                members = [i for i in range(60) if i % 3 == label]
                members.sort(key=lambda i, d=draw: hashlib.sha256(f"7\0{d}\0{i:04d}".encode()).hexdigest())
                expected.update(members[:2])
            assert taken == expected

    def test_shots_are_nested_and_draws_differ(self):
        few, many = (self.taken(*self.fit(shots=[k], draws=3)) for k in (1, 5))
        assert [len(each) for each in few] == [3] * 3
        assert [len(each) for each in many] == [15] * 3
        assert all(one < other for one, other in zip(few, many, strict=True))
        assert len({frozenset(each) for each in many}) == 3
        assert self.taken(*self.fit(shots=[5], draws=3, seed=1)) != many

    def test_fewer_draws_are_the_first(self):
        one, three = (self.fit(shots=[4], draws=d) for d in (1, 3))
        np.testing.assert_array_equal(scores(one[0], one[1]), scores(three[0], three[1])[:, 0])

    def test_order_of_rows_does_not_matter(self):
        order = np.random.default_rng(0).permutation(60)
        one, rows = self.fit(shots=[4], draws=2)
        other, _ = self.fit([f"{i:04d}" for i in order], order, shots=[4], draws=2)
        np.testing.assert_allclose(scores(other, rows), scores(one, rows), atol=1e-5)

    def test_shapes(self):
        rows, labels = blobs(60, 8, 3)
        several = ridge(rows, labels, 3, shots=[5])
        assert scores(several, rows).shape == (60, 3, 3)
        assert scores(several, rows).dtype == np.float32
        assert {k: v.shape for k, v in several.state().items()} == {"weight": (3, 8, 3), "bias": (3, 3)}
        one = ridge(rows, labels, 3, shots=[5], draws=1)
        assert scores(one, rows).shape == (60, 3)
        assert {k: v.shape for k, v in one.state().items()} == {"weight": (8, 3), "bias": (3,)}
        assert Ridge.scores_are == "margins"

    @pytest.mark.parametrize("shots", [[], [20], [99]])
    def test_all_of_train_is_one_draw(self, shots: list[int]):
        rows, labels = blobs(60, 8, 3)
        whole = ridge(rows, labels, 3, draws=1)
        head = ridge(rows, labels, 3, shots=shots)
        assert np.array_equal(scores(head, rows), scores(whole, rows))
        assert head.log()["draws"] == 1
        assert head.log()["short_classes"] == (3 if shots == [99] else 0)

    def test_short_classes_give_all_they_have(self):
        rows, labels = blobs(60, 200, 3, distance=0.0)
        labels = np.where((labels == 2) & (np.arange(60) > 5), 0, labels)  # class 2 has two items: rows 2 and 5
        head = ridge(rows, labels, 5, shots=[4], strength=1e-3)
        assert head.log() == {
            "train_top1": 1, "strength": pytest.approx(1e-3), "shots": 4, "draws": 3, "short_classes": 3
        }  # fmt: skip
        assert all({2, 5} < each and len(each) == 10 for each in self.taken(head, rows))

    def test_log_is_of_all_draws(self):
        rows, labels = blobs(60, 8, 3, distance=0.5)
        log = ridge(rows, labels, 3, shots=[8], strength=None).log()
        alone = []
        for draw in range(3):
            order = sorted(range(60), key=lambda i, d=draw: hashlib.sha256(f"0\0{d}\0{i:04d}".encode()).hexdigest())
            taken = sorted(i for label in range(3) for i in [r for r in order if labels[r] == label][:8])
            alone.append(ridge(rows[taken], labels[taken], 3, strength=None).log())
        assert len({each["strength"] for each in alone}) > 1
        assert log["strength"] == pytest.approx(np.prod([each["strength"] for each in alone]) ** (1 / 3))
        assert log["train_top1"] == pytest.approx(np.mean([each["train_top1"] for each in alone]))

    def test_several_numbers_of_shots_are_refused(self):
        rows, labels = blobs(12, 4, 3)
        head = Ridge(Settings(shots=[1, 5]))
        with pytest.raises(UsageError, match=r"model\.head\.shots=1,5"):
            head.fit(KEY, features(rows), truth(labels, 3), 0, 1)

    def test_shots_are_swept(self):
        fields = {f.name: f.metadata for f in Settings.__dataclass_fields__.values()}
        assert {name: meta["sweep"] for name, meta in fields.items()} == {"shots": "shot", "draws": "", "strength": ""}
        assert setting(3, "help", sweep="fold").metadata["sweep"] == "fold"


def test_state_reproduces_the_outputs():
    rows, labels = blobs(60, 8, 3)
    head = ridge(rows, labels, 3, shots=[6])
    state = head.state()
    outputs = np.einsum("nc,dck->ndk", rows.astype(np.float64), state["weight"]) + state["bias"]
    np.testing.assert_allclose(scores(head, rows), outputs, atol=1e-6)


def test_other_rows_do_not_matter():
    rows, labels = blobs(80, 16, 4)
    head = ridge(rows, labels, 4, shots=[5])
    whole = scores(head, np.tile(rows, (20, 1)))
    for n in (1, 79, 1025):
        assert np.array_equal(scores(head, np.tile(rows, (20, 1))[:n]), whole[:n])
    assert np.array_equal(scores(head, rows[5:6]), whole[5:6])


@pytest.mark.parametrize("threads", [1, 2])
def test_same_bits_twice(threads: int):
    rows, labels = blobs(200, 40, 4)
    one, other = (least_squares.decompose(rows.copy(), labels, 4, threads=threads).fit(1.0) for _ in range(2))
    assert one.weight.tobytes() == other.weight.tobytes()
    assert one.bias.tobytes() == other.bias.tobytes()


@pytest.mark.parametrize(
    ("key", "value"),
    [("shots", [0]), ("shots", [5, -1]), ("draws", 0), ("strength", 0.0), ("strength", float("inf"))],
)
def test_settings_out_of_range(key: str, value: Any):
    with pytest.raises(ValueError, match=key):
        Settings(**{key: value})


def test_settings_from_the_command_line():
    from benchkit.conf.build import build

    given = ["model.head.name=ridge", "model.head.shots=1,5,10", "model.head.strength=null"]
    settings = build("color_histogram", "classification", given).head.settings
    assert (settings.shots, settings.draws, settings.strength) == ([1, 5, 10], 3, None)
