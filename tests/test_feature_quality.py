"""Numbers of features themselves: by hand, against NumPy's SVD and scikit-learn, and the rule of what has no interval."""

import json

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples, silhouette_score
from sklearn.metrics.pairwise import cosine_distances

import benchkit
from benchkit.errors import RunError, UsageError
from benchkit.eval.feature_quality import FeatureQuality, Settings
from benchkit.metrics import embedding as numbers_of
from benchkit.store.items import ArrayItems

FAMILY = FeatureQuality(Settings())


def items(embedding, labels=None, n_classes=3):
    names = [f"{i:04d}" for i in range(len(embedding))]
    truth = {} if labels is None else {"label": np.asarray(labels)}
    meta = {} if labels is None else {"classes": [chr(ord("a") + i) for i in range(n_classes)]}
    return ArrayItems(names, {"embedding": np.asarray(embedding, np.float32)}), ArrayItems(names, truth, meta)


@pytest.fixture(scope="module")
def clusters():
    """More rows than any block, seven classes of uneven sizes, some of them near one another."""
    rng = np.random.default_rng(5)
    labels = rng.choice(7, 5000, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.04, 0.01])
    rows = rng.normal(size=(7, 24))[labels] + rng.normal(size=(5000, 24)) * rng.uniform(0.1, 2, (5000, 1))
    return rows.astype(np.float32), labels


class TestRankme:
    def test_by_hand(self):
        """Orthogonal rows of lengths 3, 2 and 1 are the singular values; equal ones use all directions alike."""
        shares = np.array([3, 2, 1]) / 6
        assert numbers_of.rankme(np.diag([3.0, 2, 1])) == pytest.approx(np.prod(shares**-shares))
        assert numbers_of.rankme(np.eye(5)[:, :4]) == pytest.approx(4)
        assert numbers_of.rankme(np.ones((40, 7))) == pytest.approx(1, abs=1e-9)
        assert numbers_of.rankme(np.zeros((4, 3))) is None

    @pytest.mark.parametrize("shape", [(300, 40), (40, 300)])
    def test_with_the_formula_of_the_paper(self, shape):
        """Shares of the singular values plus 1e-7, as in eq. 1 of Garrido et al."""
        rng = np.random.default_rng(0)
        rows = (rng.normal(size=shape) @ np.diag(0.9 ** np.arange(shape[1])) + 1).astype(np.float32)
        values = np.linalg.svd(rows, full_matrices=False)[1].astype(np.float64)
        shares = values / values.sum() + 1e-7
        assert numbers_of.rankme(rows) == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-4)

    def test_scale_and_rotation_do_not_matter_and_rows_drawn_twice_do(self, clusters):
        rows = clusters[0][:200].astype(np.float64)
        turn = np.linalg.qr(np.random.default_rng(1).normal(size=(24, 24)))[0]
        straight = numbers_of.rankme(rows)
        assert numbers_of.rankme(1e-6 * rows @ turn) == pytest.approx(straight, rel=1e-9)
        few = rows[:20]
        drawn = np.random.default_rng(2).integers(0, 20, 20)
        assert numbers_of.rankme(few[drawn]) < 0.8 * numbers_of.rankme(few)


class TestUniformity:
    def test_by_hand(self):
        """Three pairs: squared distances 2, 4 and 2."""
        rows = [[5.0, 0], [0, 2], [-1, 0]]
        expected = np.log((2 * np.exp(-4) + np.exp(-8)) / 3)
        assert numbers_of.uniformity(np.array(rows)) == pytest.approx(expected, rel=1e-6)
        assert numbers_of.uniformity(np.ones((30, 4))) == pytest.approx(0, abs=1e-6)
        assert numbers_of.uniformity(np.ones((1, 4))) is None

    def test_with_all_distances(self, clusters):
        """The authors' own form: log of the mean of exp(-2 |x - y|^2) over the pairs that torch's pdist lists."""
        import torch

        rows = torch.nn.functional.normalize(torch.tensor(clusters[0][:1500]).double(), dim=1)
        expected = torch.pdist(rows).pow(2).mul(-2).exp().mean().log()
        assert numbers_of.uniformity(clusters[0][:1500]) == pytest.approx(float(expected), abs=1e-6)

    def test_even_on_a_circle(self):
        """Its value for evenly many directions in the plane, the integral: log of I0(4) exp(-4)."""
        angle = np.linspace(0, 2 * np.pi, 2001)[:-1]
        found = numbers_of.uniformity(np.stack([np.cos(angle), np.sin(angle)], 1))
        assert found == pytest.approx(np.log(np.i0(4.0)) - 4, abs=3e-3)


class TestSilhouette:
    def test_by_hand(self):
        """Two of class a at 45 degrees, one of b at 90 degrees to the first: distances 1 - cosine."""
        near, right = 1 - 0.5**0.5, 1.0
        columns = FAMILY.score(*items([[1, 0], [3, 3], [0, 2]], [0, 0, 1]))
        assert columns["silhouette"][:2] == pytest.approx([1 - near / right, 0], abs=1e-6)
        assert np.isnan(columns["silhouette"][2])
        assert columns["alignment"][:2] == pytest.approx([2 * near] * 2)
        summary = FAMILY.summarize(columns)
        assert summary["silhouette"] == pytest.approx((1 - near) / 2)

    def test_with_scikit_learn(self, clusters):
        rows, labels = clusters
        assert (np.bincount(labels) > 1).all()
        columns = FAMILY.score(*items(rows, labels, 7))
        assert columns["silhouette"] == pytest.approx(silhouette_samples(rows, labels, metric="cosine"), abs=1e-5)
        score = silhouette_score(rows.astype(np.float64), labels, metric="cosine")
        assert FAMILY.summarize(columns)["silhouette"] == pytest.approx(score, abs=1e-9)

    def test_alignment_with_all_pairs(self, clusters):
        rows, labels = clusters[0][:600], clusters[1][:600]
        unit = rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        square = ((unit[:, None] - unit[None]) ** 2).sum(axis=2)
        same = (labels[:, None] == labels) & ~np.eye(600, dtype=bool)
        expected = (square * same).sum(axis=1) / same.sum(axis=1)
        assert FAMILY.score(*items(rows, labels, 7))["alignment"] == pytest.approx(expected, abs=1e-9)

    def test_zeros_are_at_distance_1_from_everything(self):
        rows, labels = np.array([[0.0, 0], [0, 0], [1, 0], [1, 1]]), np.array([0, 0, 1, 1])
        own, nearest = numbers_of.class_distances(rows, labels)
        far = cosine_distances(rows)
        assert own.tolist() == pytest.approx([1, 1, far[2, 3], far[2, 3]])
        assert nearest.tolist() == [1, 1, 1, 1]
        assert numbers_of.silhouette(own, nearest)[:2].tolist() == [0, 0]

    @pytest.mark.parametrize("noise", [0, 1e-8])
    def test_features_that_are_all_alike_score_nothing(self, noise):
        """Their distances are float32's error, whose ratio would be any number."""
        rng = np.random.default_rng(0)
        rows = (rng.normal(size=64) + noise * rng.normal(size=(50, 64))).astype(np.float32)
        columns = FAMILY.score(*items(rows, np.arange(50) % 3))
        assert columns["silhouette"].tolist() == [0] * 50
        assert columns["alignment"] == pytest.approx(np.zeros(50), abs=1e-6)


class TestUndefined:
    def test_without_classes(self):
        """rankme and uniformity are left; the picture's headline and its like have no value, and say for how many."""
        predictions, truth = items(np.eye(4))
        columns = FAMILY.score(predictions, truth)
        assert FAMILY.summarize(columns)["silhouette"] is None
        assert FAMILY.breakdown(columns, truth.meta) == {}
        assert FAMILY.whole(predictions, truth)["rankme"] == pytest.approx(4)
        assert np.isnan(FAMILY.chance(truth, predictions)["silhouette"]).all()

    def test_one_class(self):
        columns = FAMILY.score(*items(np.eye(4), [2, 2, 2, 2]))
        assert np.isnan(columns["silhouette"]).all()
        assert columns["alignment"] == pytest.approx([2] * 4)

    def test_by_class(self):
        predictions, truth = items([[1, 0], [1, 0], [0, 1], [0, 1], [1, 1]], [0, 0, 2, 2, 1])
        columns = FAMILY.score(predictions, truth)
        parts = FAMILY.breakdown(columns, truth.meta)
        assert parts == {"silhouette/a": 1, "silhouette/b": None, "silhouette/c": 1}
        assert FAMILY.chance(truth, predictions)["silhouette"].tolist()[:4] == [0] * 4
        assert np.isnan(FAMILY.chance(truth, predictions)["silhouette"][4])


class TestRefuses:
    def test_triplets(self):
        with pytest.raises(UsageError, match="single image"):
            FAMILY.check(ArrayItems(["a", "b"], {"views": ["r\nl\nr"] * 2}))
        with pytest.raises(RunError, match=r"\(items, columns\), not \(2, 3, 4\)"):
            FAMILY.score(*items(np.ones((2, 3, 4)), [0, 1]))

    def test_a_single_item(self):
        with pytest.raises(UsageError, match="two items"):
            FAMILY.check(ArrayItems(["a"], {"views": ["a"]}))

    @pytest.mark.parametrize("function", [numbers_of.rankme, numbers_of.uniformity])
    def test_what_is_not_finite_by_its_row(self, function):
        rows = np.ones((3000, 2), np.float32)
        rows[2500, 1] = np.nan
        with pytest.raises(RunError, match="row 2500 is not finite"):
            function(rows)

    def test_settings(self):
        with pytest.raises(ValueError, match="max_items"):
            Settings(max_items=1)


def test_max_items_are_chosen_by_their_names(clusters):
    """In whatever order they come; fewer are a part of more."""
    few = FeatureQuality(Settings(max_items=100))
    predictions, truth = items(clusters[0][:300])
    order = np.random.default_rng(0).permutation(300)
    mixed = [ArrayItems([each.names[i] for i in order], {}) for each in (predictions, truth)]
    mixed[0].fields["embedding"] = predictions.fields["embedding"][order]
    found = few.whole(predictions, truth)
    assert few.whole(*mixed) == pytest.approx(found, rel=1e-6)
    assert found["rankme"] != pytest.approx(FAMILY.whole(predictions, truth)["rankme"], rel=1e-3)
    assert FeatureQuality(Settings(max_items=300)).whole(predictions, truth) == FAMILY.whole(predictions, truth)


def test_end_to_end(tmp_path):
    """Numbers of the whole set stand in the record with a floor and without an interval; they are those of the files."""
    small = ["data.side=32", "data.n_test=60", "data.n_train=0"]
    end = benchkit.run("color_histogram", "feature_quality", outputs=tmp_path, arguments=small)
    scores = end.record["scores"]
    assert [scores[name]["interval"] is None for name in ("silhouette", "rankme", "uniformity", "alignment")] == [
        False,
        True,
        True,
        False,
    ]
    assert [scores[name]["floor"] for name in ("silhouette", "rankme", "uniformity", "alignment")] == [0, 1, 0, 0]
    assert [scores[name]["better"] for name in ("silhouette", "rankme", "uniformity")] == [
        "higher",
        "higher",
        "neither",
    ]
    summaries = json.loads((end.folder / "summaries.json").read_text())
    assert summaries["floor_rankme"] == 1
    assert {f"silhouette/{name}" for name in set(end.items["category/class"])} <= summaries.keys()
    from benchkit.store.table import Table

    with Table(end.folder / "predictions.h5", "predictions") as table:
        rows = table.read("embedding")
    values = np.linalg.svd(rows.astype(np.float64))[1]
    shares = values[values > 1e-12] / values.sum()
    assert summaries["rankme"] == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-9)
    expected = silhouette_score(rows.astype(np.float64), end.items["category/class"], metric="cosine")
    assert summaries["silhouette"] == pytest.approx(expected, abs=1e-9)
