"""The linear probe: against a plain PyTorch loop, scikit-learn, a step by hand, and the edge cases that have a stated rule."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tiny_items import KEY, features, truth

from benchkit.errors import RunError, UsageError
from benchkit.heads.linear import Linear, Settings
from benchkit.heads.solvers import adamw
from benchkit.heads.solvers.blocks import fixed_threads


def recipe_of(**settings: Any) -> adamw.Recipe:
    return adamw.Recipe(**dataclasses.asdict(Settings(**settings)))


def linear(rows: Any, labels: Any, classes: int, seed: int = 0, threads: int = 1, **settings: Any) -> Linear:
    head = Linear(Settings(**settings))
    head.fit(KEY, features(rows), truth(labels, classes), seed, threads)
    return head


def scores(head: Linear, rows: Any) -> np.ndarray:
    return head.predict(KEY, features(rows), 1)["scores"]


def blobs(n: int, classes: int, distance: float, seed: int = 0, width: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes whose rows come shuffled."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.arange(n) % classes)
    centres = np.random.default_rng(99).normal(size=(classes, width))
    return (distance * centres[labels] + generator.normal(size=(n, width))).astype(np.float32), labels


def plain_loop(rows: np.ndarray, labels: np.ndarray, classes: int, seed: int, settings: Settings) -> Any:
    """VisBench's fit, written out: torch's own layer, optimiser and order of rows, all from the global seed."""
    import torch

    torch.manual_seed(seed)
    inputs, wanted = torch.from_numpy(rows), torch.from_numpy(labels)
    if settings.standardize:
        inputs = (inputs - inputs.mean(0)) / inputs.std(0).clamp(min=1e-6)
    layer = torch.nn.Linear(rows.shape[1], classes)
    optimiser = torch.optim.AdamW(layer.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, foreach=False)
    losses = []
    for _ in range(settings.epochs):
        order = torch.randperm(len(rows))
        total = 0.0
        for start in range(0, len(rows), settings.batch_size):
            batch = order[start : start + settings.batch_size]
            loss = torch.nn.CrossEntropyLoss()(layer(inputs[batch]), wanted[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(batch)
        losses.append(total / len(rows))
    with torch.no_grad():
        outputs = layer(inputs)
        final = torch.nn.CrossEntropyLoss()(outputs, wanted).item()
    return outputs.numpy(), np.array(losses), final


class TestTraining:
    @pytest.mark.parametrize(
        "settings",
        [
            {"epochs": 20},
            {"epochs": 12, "batch_size": 7, "lr": 0.03, "weight_decay": 0.5},
            {"epochs": 15, "standardize": True, "batch_size": 1000},
        ],
    )
    def test_is_a_plain_loop(self, settings: dict[str, Any]):
        rows, labels = blobs(150, 5, 0.8)
        rows = rows * np.geomspace(0.1, 3, 12).astype(np.float32) + 1
        with fixed_threads(1):
            outputs, losses, final = plain_loop(rows, labels, 5, 3, Settings(**settings))
        head = linear(rows, labels, 5, seed=3, **settings)
        np.testing.assert_allclose(scores(head, rows), outputs, atol=2e-4)
        np.testing.assert_allclose(head.layer.losses, losses, atol=1e-5)
        assert head.log()["train_loss"] == pytest.approx(final, abs=1e-5)
        assert head.log()["train_top1"] == (outputs.argmax(1) == labels).mean()
        assert head.log()["epochs"] == settings["epochs"]

    def test_one_step_by_hand(self):
        """AdamW's first step is the rate times the gradient's sign, after decay: bias and weight of one item x = 2.

        The gradient of the own class is p - 1 < 0, of the other p > 0, times x for the weight.
        """
        import torch

        start = torch.nn.Linear(1, 2)
        torch.manual_seed(5)
        start.reset_parameters()
        head = linear([[2]], [1], 2, seed=5, lr=0.1, weight_decay=0.2, epochs=1)
        weight, bias = start.weight.detach().numpy()[:, 0], start.bias.detach().numpy()
        np.testing.assert_allclose(head.state()["weight"][0], weight * (1 - 0.1 * 0.2) + [-0.1, 0.1], rtol=1e-5)
        np.testing.assert_allclose(head.state()["bias"], bias * (1 - 0.1 * 0.2) + [-0.1, 0.1], rtol=1e-5)
        first = 2 * weight + bias
        assert head.layer.losses[0] == pytest.approx(np.logaddexp(*first) - first[1], rel=1e-5)

    def test_reaches_what_scikit_learn_reaches(self):
        rows, labels = blobs(1000, 4, 0.7)
        others, theirs = blobs(1000, 4, 0.7, seed=1)
        exact = LogisticRegression(C=1e4, tol=1e-8, max_iter=10000).fit(rows, labels)
        head = linear(rows, labels, 4, epochs=100, batch_size=100)
        assert exact.score(rows, labels) < 0.95
        assert head.log()["train_top1"] == pytest.approx(exact.score(rows, labels), abs=0.01)
        assert (scores(head, others).argmax(1) == theirs).mean() == pytest.approx(exact.score(others, theirs), abs=0.01)
        shares = exact.predict_proba(rows)[np.arange(1000), labels]
        assert head.log()["train_loss"] == pytest.approx(-np.log(shares).mean(), rel=0.02)
        assert head.log()["converged"] == 1

    def test_separable_features_are_separated(self):
        rows, labels = blobs(200, 4, 4.0)
        others, theirs = blobs(200, 4, 4.0, seed=1)
        exact = LogisticRegression(C=1e4, max_iter=10000).fit(rows, labels)
        head = linear(rows, labels, 4)
        assert head.log()["train_top1"] == exact.score(rows, labels) == 1
        assert (scores(head, others).argmax(1) == theirs).mean() >= exact.score(others, theirs) - 0.005
        assert head.log()["converged"] == 1
        assert head.log()["train_loss"] < 0.01

    def test_global_random_state_is_neither_read_nor_moved(self):
        import torch

        rows, labels = blobs(40, 3, 1.0)
        torch.manual_seed(1)
        before = torch.get_rng_state()
        one = linear(rows, labels, 3, epochs=2)
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(2)
        other = linear(rows, labels, 3, epochs=2)
        assert np.array_equal(one.state()["weight"], other.state()["weight"])

    @pytest.mark.parametrize("threads", [1, 2])
    def test_same_bits_twice_and_another_seed_differs(self, threads: int, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(adamw, "SMALL", 0)  # on all the threads
        rows, labels = blobs(600, 3, 1.0, width=200)
        one, other = (linear(rows, labels, 3, seed=4, threads=threads, epochs=3) for _ in range(2))
        assert one.state()["weight"].tobytes() == other.state()["weight"].tobytes()
        assert one.state()["bias"].tobytes() == other.state()["bias"].tobytes()
        another = linear(rows, labels, 3, seed=5, threads=threads, epochs=3)
        assert not np.array_equal(one.state()["weight"], another.state()["weight"])

    def test_small_layers_do_not_depend_on_threads(self):
        rows, labels = blobs(600, 3, 1.0, width=200)
        one, two = (linear(rows, labels, 3, threads=threads, epochs=3) for threads in (1, 2))
        assert one.state()["weight"].tobytes() == two.state()["weight"].tobytes()

    def test_half_precision_features(self):
        """A bank in fp16 is read batch by batch; the numbers are those of the same rows in fp32."""
        rows, labels = blobs(100, 3, 1.0)
        half, recipe = rows.astype(np.float16), recipe_of(epochs=3, standardize=True)
        one, other = (adamw.train(x, labels, 3, recipe, seed=0, threads=1) for x in (half, half.astype(np.float32)))
        np.testing.assert_allclose(one.weight, other.weight, rtol=1e-6)
        assert np.array_equal(adamw.logits(one, half), adamw.logits(one, half.astype(np.float32)))

    def test_features_are_not_copied(self):
        """Training on 8 MB that cannot be written, as a mapped file: no more than a tenth of that is ever held."""
        import tracemalloc

        rows, labels = blobs(20_000, 3, 1.0, width=100)
        rows.flags.writeable = False
        recipe = recipe_of(epochs=1)
        adamw.train(rows[:300], labels[:300], 3, recipe, seed=0, threads=1)  # what is loaded once
        tracemalloc.start()
        with fixed_threads(1):
            adamw._descend(adamw._Batches(rows, 256, None, None), labels, 3, recipe, 0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < rows.nbytes / 10

    def test_rates_that_are_too_large_are_an_error(self):
        rows, labels = blobs(60, 3, 1.0)
        with pytest.raises(RunError, match=r"epoch 1 of 200: model\.head\.lr=1e\+38.*standardize"):
            linear(1e3 * rows, labels, 3, lr=1e38)

    def test_refusals(self):
        rows, labels = blobs(60, 3, 1.0)
        broken = rows.copy()
        broken[5, 3] = np.nan
        with pytest.raises(RunError, match="row 5"):
            linear(broken, labels, 3)
        with pytest.raises(UsageError, match=r"0\.\.1"):
            linear(rows, labels, 2)


class TestConverged:
    def layer(self, losses: Any) -> adamw.Layer:
        return adamw.Layer(np.zeros((1, 2)), np.zeros(2), np.asarray(losses, float), 0.0, 0.0)

    @pytest.mark.parametrize(
        ("before", "last", "rest"),
        [(1.0, 0.991, True), (1.0, 0.989, False), (1.0, 1.009, True), (1.0, 1.011, False), (0.002, 0.0011, True)],
    )
    def test_the_last_tenth_against_the_tenth_before(self, before: float, last: float, rest: bool):
        assert self.layer([9.0] * 160 + [before] * 20 + [last] * 20).converged is rest

    def test_few_epochs(self):
        assert not self.layer([0.5]).converged
        assert self.layer([0.5, 0.5]).converged
        assert not self.layer([9.0, 0.5]).converged

    def test_an_underfitting_probe_says_so(self):
        """Two steps an epoch at a small rate: the loss still falls when training ends."""
        rows, labels = blobs(400, 4, 3.0)
        log = linear(0.1 * rows, labels, 4, lr=1e-3, epochs=50).log()
        assert log["train_loss"] > 1
        assert log["converged"] == 0


class TestStandardize:
    def test_scale_and_offset_of_columns_do_not_matter(self):
        rows, labels = blobs(100, 3, 1.0)
        factors = np.geomspace(1e-3, 1e3, 12).astype(np.float32)
        one = linear(rows, labels, 3, standardize=True, epochs=20)
        other = linear(rows * factors + 5 * factors, labels, 3, standardize=True, epochs=20)
        np.testing.assert_allclose(scores(other, rows * factors + 5 * factors), scores(one, rows), atol=2e-3)

    def test_constant_columns_decide_nothing(self):
        rows, labels = blobs(100, 3, 1.0)
        wide = np.column_stack([rows, np.full(100, 0.1), np.zeros(100)]).astype(np.float32)
        head = linear(wide, labels, 3, standardize=True, epochs=5)
        moved = wide + np.where(np.arange(14) >= 12, 0.01, 0).astype(np.float32)
        np.testing.assert_allclose(scores(head, moved), scores(head, wide), atol=0.02)

    def test_one_item(self):
        assert scores(linear([[3, 4]], [1], 2, standardize=True), [[3, 4]]).argmax() == 1


class TestScores:
    @pytest.mark.parametrize("standardize", [False, True])
    def test_state_reproduces_the_logits(self, standardize: bool):
        rows, labels = blobs(80, 4, 1.0)
        head = linear(rows, labels, 4, epochs=5, standardize=standardize)
        state = head.state()
        assert {k: v.shape for k, v in state.items()} == {"weight": (12, 4), "bias": (4,)}
        np.testing.assert_allclose(rows @ state["weight"] + state["bias"], scores(head, rows), atol=1e-5)
        assert scores(head, rows).dtype == np.float32

    def test_other_rows_do_not_matter(self):
        rows, labels = blobs(80, 4, 1.0)
        head = linear(rows, labels, 4, epochs=2)
        whole = scores(head, np.tile(rows, (20, 1)))
        assert np.array_equal(scores(head, rows[5:6]), whole[5:6])
        assert np.array_equal(scores(head, np.tile(rows, (20, 1))[:1025]), whole[:1025])

    def test_a_class_missing_from_train_is_not_the_answer(self):
        rows, labels = blobs(90, 3, 2.0)
        head = linear(rows, 2 * labels, 6)
        assert set(scores(head, rows).argmax(1)) <= {0, 2, 4}

    def test_collapsed_features_score_no_better_than_one_class(self):
        log = linear(np.ones((12, 3)), np.arange(12) % 3, 3).log()
        assert log["train_top1"] <= 1 / 3 + 1e-9


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lr", 0.0),
        ("lr", float("inf")),
        ("weight_decay", -1.0),
        ("epochs", 0),
        ("batch_size", 0),
    ],
)
def test_settings_out_of_range(key: str, value: Any):
    with pytest.raises(ValueError, match=key):
        Settings(**{key: value})


@pytest.mark.slow
def test_ten_thousand_rows_take_seconds():
    """200 epochs of 40 steps, in processor time: 2 s on an idle machine, several times that on a crowded one."""
    import time

    rows, labels = blobs(10_000, 10, 0.3, width=384)
    started = time.process_time()
    linear(rows, labels, 10, threads=2)
    assert time.process_time() - started < 20
