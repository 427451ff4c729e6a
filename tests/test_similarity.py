"""Two-alternative forced choice: cases by hand, agreement with torchmetrics and scikit-learn, and what is undefined."""

import numpy as np
import pytest

from benchkit.errors import RunError, UsageError
from benchkit.eval.similarity import Similarity
from benchkit.metrics import similarity as choice
from benchkit.metrics.intervals import bootstrap
from benchkit.store.items import ArrayItems

FAMILY = Similarity(None)
REF, NEAR, FAR = [1.0, 0.0], [2.0, 1.0], [1.0, 3.0]  # cosines to REF: .894 and .316; lengths do not count


def triplets(*views, dtype=np.float32):
    return np.array(views, dtype)


def items(embedding, votes, **targets):
    """Predictions and truth of triplets named a, b, c ..."""
    names = [chr(ord("a") + i) for i in range(len(votes))]
    truth = {"vote": np.array(votes), "views": ["r\nl\nr"] * len(votes)}
    for name, values in targets.items():
        truth[name.replace("__", "/")] = values
    return ArrayItems(names, {"embedding": np.asarray(embedding)}), ArrayItems(names, truth, {"kinds": ["x", "y", "z"]})


def summary(*args, **targets):
    return FAMILY.summarize(FAMILY.score(*items(*args, **targets)))


LEFT, RIGHT, TIE = [REF, NEAR, FAR], [REF, FAR, NEAR], [REF, NEAR, [4.0, 2.0]]


class TestByHand:
    def test_answers(self):
        cosines = choice.cosines(triplets(LEFT, RIGHT, TIE))
        assert cosines[0] == pytest.approx([2 / 5**0.5, 1 / 10**0.5])
        assert choice.answers(cosines).tolist() == [0, 1, 0.5]

    def test_five_triplets_with_a_tie(self):
        """Answers left, right, right, tie, left; votes left, right, left, right, right."""
        found = summary(triplets(LEFT, RIGHT, RIGHT, TIE, LEFT), [0, 1, 0, 1, 1])
        hits, said, voted = 1 + 0.5, 2 + 0.5, 3  # of "right": the tie is half of one
        assert found["accuracy"] == pytest.approx((1 + 1 + 0 + 0.5 + 0) / 5)
        assert found["precision"] == pytest.approx(hits / said)
        assert found["recall"] == pytest.approx(hits / voted)
        assert found["f1"] == pytest.approx(2 * (0.6 * 0.5) / (0.6 + 0.5))
        assert found["tie_rate"] == pytest.approx(1 / 5)
        assert found["share_right"] == pytest.approx(3 / 5)
        assert found["accuracy_imagenet_gap"] is None

    def test_columns_of_each_item(self):
        columns = FAMILY.score(*items(triplets(LEFT, RIGHT, TIE), [0, 0, 0]))
        assert columns["accuracy"].tolist() == [1, 0, 0.5]
        assert columns["tie"].tolist() == [0, 0, 1]

    def test_the_gap_is_imagenet_less_the_others(self):
        halves = ["yes", "yes", "yes", "no", "no"]
        embedding = triplets(LEFT, RIGHT, TIE, LEFT, LEFT)
        found = summary(embedding, [0, 0, 0, 0, 1], category__imagenet=halves)
        assert found["accuracy_imagenet_gap"] == pytest.approx(1.5 / 3 - 1 / 2)
        assert summary(embedding, [0, 0, 0, 0, 1], category__imagenet=["no"] * 5)["accuracy_imagenet_gap"] is None

    def test_accuracy_by_kind(self):
        predictions, truth = items(triplets(LEFT, RIGHT, TIE), [0, 0, 0], kind=np.array([0, 0, 2]))
        parts = FAMILY.breakdown(FAMILY.score(predictions, truth), truth.meta)
        assert parts == {"accuracy/x": 0.5, "accuracy/y": None, "accuracy/z": 0.5}

    def test_the_floor_is_a_tie_everywhere(self):
        predictions, truth = items(triplets(LEFT, RIGHT, RIGHT, LEFT), [1, 1, 1, 0])
        floor = FAMILY.summarize(FAMILY.chance(truth, predictions))
        assert (floor["accuracy"], floor["tie_rate"], floor["recall"]) == (0.5, 1, 0.5)
        assert floor["precision"] == pytest.approx(3 / 4)
        same = summary(np.ones((4, 3, 5), np.float32), [1, 1, 1, 0])
        assert same == floor


class TestTies:
    def test_within_the_error_of_float32(self):
        """A right image turned by a little more or less than the tie's width."""
        for turn, answer in ((0.5 * choice.TIE, 0.5), (2 * choice.TIE, 0.0), (-2 * choice.TIE, 1.0)):
            angle = np.pi / 4 + turn * 2**0.5  # the cosine's slope is there -1 / sqrt(2)
            views = [[1.0, 0.0], [1.0, 1.0], [np.cos(angle), np.sin(angle)]]
            assert choice.answers(choice.cosines(triplets(views, dtype=np.float64))) == answer

    def test_lengths_and_tiny_or_huge_features_do_not_matter(self):
        views = np.random.default_rng(0).normal(size=(50, 3, 16)).astype(np.float32)
        straight = choice.answers(choice.cosines(views))
        for scale in (1e-30, 1e30):
            assert np.array_equal(choice.answers(choice.cosines(views * np.float32(scale))), straight)
        doubled = views.copy()
        doubled[:, 2] = 3 * doubled[:, 1]
        assert choice.answers(choice.cosines(doubled)).tolist() == [0.5] * 50

    def test_a_vector_of_zeros_has_cosine_0(self):
        zero = [0.0, 0.0]
        assert choice.answers(choice.cosines(triplets([zero, NEAR, FAR], [REF, zero, zero]))).tolist() == [0.5, 0.5]
        assert choice.answers(choice.cosines(triplets([REF, zero, [-1.0, 0.0]], [REF, zero, NEAR]))).tolist() == [0, 1]


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(3)
    return rng.normal(size=(1500, 3, 24)).astype(np.float32), rng.integers(0, 2, 1500)


class TestAgreement:
    def test_with_cosine_similarity_of_torch(self, drawn):
        import torch

        views = torch.tensor(drawn[0])
        near = torch.nn.functional.cosine_similarity(views[:, :1], views[:, 1:], dim=2).numpy()
        assert choice.cosines(drawn[0]) == pytest.approx(near, abs=1e-6)

    def test_with_torchmetrics(self, drawn):
        import torch
        from torchmetrics.functional import classification as theirs

        found = summary(*drawn)
        answer = torch.tensor(choice.answers(choice.cosines(drawn[0])))
        assert found["tie_rate"] == 0
        vote = torch.tensor(drawn[1])
        for name, function in (
            ("accuracy", theirs.binary_accuracy),
            ("f1", theirs.binary_f1_score),
            ("precision", theirs.binary_precision),
            ("recall", theirs.binary_recall),
        ):
            assert found[name] == pytest.approx(float(function(answer.long(), vote)), abs=1e-6), name

    def test_half_answers_are_two_half_items(self, drawn):
        """A tie as half an item that answers right and half an item that answers left, by scikit-learn's weights."""
        from sklearn.metrics import accuracy_score, precision_recall_fscore_support

        answer = choice.answers(choice.cosines(drawn[0]))
        answer[::7] = 0.5
        votes = drawn[1].astype(float)
        split = np.concatenate([np.where(answer == 0.5, 1, answer), np.where(answer == 0.5, 0, answer)])
        kwargs = {"sample_weight": np.full(3000, 0.5)}
        twice = np.concatenate([votes, votes])
        precision, recall, f1, _ = precision_recall_fscore_support(twice, split, average="binary", **kwargs)
        assert choice.positives(answer, votes) == pytest.approx({"precision": precision, "recall": recall, "f1": f1})
        assert choice.agreement(answer, votes).mean() == pytest.approx(accuracy_score(twice, split, **kwargs))

    def test_a_ranking_of_two_is_retrieval_of_the_vote(self, drawn):
        """The area under the curve of one positive and one negative per item: the share in order, ties as half."""
        from sklearn.metrics import roc_auc_score

        cosines, votes = choice.cosines(drawn[0][:200]), drawn[1][:200]
        one_hot = np.eye(2)[votes]
        areas = [roc_auc_score(truth, scores) for truth, scores in zip(one_hot, cosines, strict=True)]
        assert choice.agreement(choice.answers(cosines), votes).tolist() == areas


class TestUndefined:
    def test_nobody_says_right(self):
        found = summary(triplets(LEFT, LEFT), [0, 1])
        assert (found["precision"], found["recall"], found["f1"]) == (None, 0, 0)

    def test_nobody_votes_right(self):
        found = summary(triplets(LEFT, LEFT), [0, 0])
        assert (found["precision"], found["recall"], found["f1"], found["accuracy"]) == (None, None, None, 1)

    def test_intervals_are_of_resampled_items(self):
        predictions, truth = items(triplets(*[LEFT, RIGHT] * 40), [0, 0, 1, 1] * 20)
        columns = FAMILY.score(predictions, truth)
        found = bootstrap(columns, FAMILY.summarize, n_resamples=400, seed=0)
        error = 1.96 * (0.25 / 80) ** 0.5
        assert found["accuracy"] == pytest.approx((0.5 - error, 0.5 + error), abs=0.03)
        assert found["f1"][0] < 0.5 < found["f1"][1]
        assert found["tie_rate"] == (0, 0)
        assert found["accuracy_imagenet_gap"] is None


class TestRefuses:
    @pytest.mark.parametrize("fields", [{}, {"vote": np.array([1])}, {"label": np.array([1]), "views": ["a\nb\nc"]}])
    def test_truth_without_votes_or_three_views(self, fields):
        with pytest.raises(UsageError, match="reference, left, right"):
            FAMILY.check(ArrayItems(["a"], fields))

    def test_pairs(self):
        with pytest.raises(UsageError, match="three views"):
            FAMILY.check(ArrayItems(["a"], {"vote": np.array([1]), "views": ["a\nb"]}))

    def test_features_of_single_images(self):
        with pytest.raises(RunError, match=r"\(items, 3, columns\), not \(2, 4\)"):
            FAMILY.score(*items(np.ones((2, 4)), [0, 1]))

    def test_what_is_not_finite_by_its_row(self):
        views = np.ones((2000, 3, 2), np.float32)
        views[1500, 2, 1] = np.inf
        with pytest.raises(RunError, match="row 1500 is not finite"):
            choice.cosines(views)


def test_draws_vote_and_answer():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    picture = np.zeros((8, 24, 3), np.uint8)
    for views, color in ((LEFT, "tab:red"), (RIGHT, "tab:green"), (TIE, "tab:orange")):
        FAMILY.draw(axes, {"embedding": np.array(views)}, {"vote": 1}, picture)
        assert axes.get_title().startswith("vote right, answer")
        assert axes.title.get_color() == color
