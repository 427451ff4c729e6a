"""Classification's numbers per class, draws, margins and pictures, by hand and against scikit-learn and torchmetrics."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.metrics import confusion_matrix, recall_score

from benchkit.eval.classification import Classification, Settings
from benchkit.metrics import classification as scores_of
from benchkit.store.items import ArrayItems

NAMES = ["a", "b", "c"]


def truth(labels: list[int], classes: list[str] = NAMES) -> ArrayItems:
    names = [f"{i:03d}" for i in range(len(labels))]
    return ArrayItems(names, {"label": np.array(labels)}, {"classes": classes})


def predictions(scores: np.ndarray, **meta: object) -> ArrayItems:
    return ArrayItems([f"{i:03d}" for i in range(len(scores))], {"scores": scores}, {"scores_are": "logits", **meta})


def family() -> Classification:
    return Classification(Settings())


class TestPerClass:
    def test_by_hand(self):
        """Class a: 2 of 3 right; b: 0 of 1; c does not occur."""
        scores = np.array([[2, 1, 0], [2, 1, 0], [0, 1, 0], [1, 0, 0]], np.float32)
        columns = family().score(predictions(scores), truth([0, 0, 0, 1]))
        parts = family().breakdown(columns, {"classes": NAMES})
        assert parts == {"top1/a": pytest.approx(2 / 3), "top1/b": 0, "top1/c": None}
        assert family().summarize(columns)["mean_class_acc"] == pytest.approx(1 / 3)

    def test_agrees_with_scikit_learn(self):
        rng = np.random.default_rng(0)
        labels, scores = rng.integers(0, 5, 400), rng.normal(size=(400, 5)).astype(np.float32)
        scores[np.arange(400), labels] += 1
        columns = family().score(predictions(scores), truth(labels.tolist(), list("abcde")))
        answers = scores.argmax(1)
        assert np.array_equal(columns["stats/predicted"], answers)
        parts = family().breakdown(columns, {"classes": list("abcde")})
        assert list(parts.values()) == pytest.approx(recall_score(labels, answers, average=None))
        counts = scores_of.confusion(labels, answers, 5)
        assert np.array_equal(counts, confusion_matrix(labels, answers))

    def test_ties_are_the_other_class(self):
        scores = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1], [np.inf, np.inf, 0]])
        assert scores_of.predicted(scores, np.array([0, 0, 0, 1])).tolist() == [1, 1, 1, 0]

    def test_negative_answers_are_left_out(self):
        counts = scores_of.confusion(np.array([0, 1, 1]), np.array([1, -1, 1]), 2)
        assert counts.tolist() == [[0, 1], [0, 1]]


class TestDraws:
    def test_the_mean_over_draws_by_hand(self):
        """Two draws: the first item is right in both, the second in one, the third in none."""
        right, wrong = [3.0, 0.0, 0.0], [0.0, 3.0, 0.0]
        scores = np.array([[right, right], [right, wrong], [wrong, wrong]], np.float32)
        columns = family().score(predictions(scores), truth([0, 0, 0]))
        assert columns["top1"].tolist() == [1, 0.5, 0]
        good, bad = -np.log(np.exp(3) / (np.exp(3) + 2)), -np.log(1 / (np.exp(3) + 2))
        np.testing.assert_allclose(columns["nll"], [good, (good + bad) / 2, bad], rtol=1e-6)
        summary = family().summarize(columns)
        assert summary["top1"] == 0.5
        assert summary["ece"] is None
        assert summary["mean_class_acc"] == 0.5
        assert family().breakdown(columns, {"classes": NAMES})["top1/a"] == 0.5

    @pytest.mark.parametrize(
        ("scores", "title", "colour"),
        [
            ([3, 1, 2], "a", "tab:green"),
            ([1, 1, 2], "a\ntaken for c", "tab:red"),
            ([[3, 1, 2], [3, 1, 2], [0, 5, 1]], "a\ntaken for b\nright in 2 of 3 draws", "tab:green"),
            ([[0, 1, 2], [0, 1, 2], [0, 5, 1], [9, 1, 1]], "a\ntaken for c\nright in 1 of 4 draws", "tab:red"),
        ],
    )
    def test_the_picture_says_how_many_are_right(self, scores, title, colour):
        axes = Figure().subplots()
        target = {"label": 0, "meta": {"classes": ["a", "b", "c"]}}
        family().draw(axes, {"scores": np.array(scores)}, target)
        assert (axes.get_title(), axes.title.get_color()) == (title, colour)

    def test_one_draw_is_no_draws(self):
        scores = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)
        one = family().summarize(family().score(predictions(scores), truth([0, 1] * 10)))
        other = family().summarize(family().score(predictions(scores[:, None]), truth([0, 1] * 10)))
        assert {k: v for k, v in one.items() if k != "ece"} == {k: v for k, v in other.items() if k != "ece"}


def test_margins_have_no_probabilities():
    scores = np.array([[0.9, -1.0, -0.9], [-0.2, 0.1, -0.7]], np.float32)
    summary = family().summarize(family().score(predictions(scores, scores_are="margins"), truth([0, 1])))
    assert summary["top1"] == 1
    assert summary["nll"] is None
    assert summary["ece"] is None


def test_calibration_agrees_with_torchmetrics():
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error

    rng = np.random.default_rng(2)
    labels, scores = rng.integers(0, 4, 600), (2 * rng.normal(size=(600, 4))).astype(np.float32)
    columns = family().score(predictions(scores), truth(labels.tolist(), list("abcd")))
    theirs = multiclass_calibration_error(torch.tensor(scores), torch.tensor(labels), 4, n_bins=15, norm="l1")
    assert family().summarize(columns)["ece"] == pytest.approx(float(theirs), abs=1e-6)
    items, sure, right = scores_of.calibration(columns["stats/confidence"], columns["top1"], 15)
    gaps = np.abs(sure - right)[items > 0]
    assert (gaps * items[items > 0]).sum() / 600 == pytest.approx(float(theirs), abs=1e-6)
    assert items.sum() == 600


@pytest.mark.parametrize("n_classes", [3, 60])
def test_pictures(n_classes: int, tmp_path):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rng = np.random.default_rng(3)
    classes = [f"class_{i} $x$" for i in range(n_classes)]
    labels = rng.integers(0, n_classes, 200).tolist()
    columns = family().score(predictions(rng.normal(size=(200, n_classes)).astype(np.float32)), truth(labels, classes))
    pictures = family().pictures(columns, {"classes": classes})
    assert list(pictures) == ["confusion", "reliability"]
    for name, draw in pictures.items():
        figure = Figure()
        draw(figure)
        FigureCanvasAgg(figure).print_png(str(tmp_path / f"{name}.png"))
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
