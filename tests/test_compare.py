"""Comparing experiments: joined by name, refused where the protocols differ, tested in pairs, ranked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_scores import scored, two

from benchkit.__main__ import main
from benchkit.compare import compare
from benchkit.compare.aligned import Aligned
from benchkit.compare.checks import refuse_unequal
from benchkit.compare.comparison import compared
from benchkit.compare.differences import Chance, adjusted, difference, differences, lopsided, metric_named
from benchkit.compare.items import flips, wins
from benchkit.compare.numbers import number, probability, signed
from benchkit.compare.ranking import tied_groups
from benchkit.compare.tables import verdict
from benchkit.errors import UsageError
from benchkit.eval.base import Metric
from benchkit.experiments.experiment import Experiment

QUICK = Chance(resamples=200, permutations=999, set_permutations=199)


def run(root: Path, *argv: str, benchmark: str = "retrieval") -> int:
    return main(["compare", benchmark, *argv, "--outputs", str(root)])


class TestDifference:
    def test_four_items_by_hand(self, tmp_path: Path):
        found = difference(*two(tmp_path, [0.0, 0, 0, 0.5], [0.25, 0.5, 0.75, 0.25]), "mAP")
        assert (found.first, found.second, found.value) == (0.125, 0.4375, 0.3125)
        assert found.p == 6 / 16  # see test_paired.py
        assert (found.better, found.n_items, found.n_units, found.winner) == ("higher", 4, 4, "second")
        assert not found.significant
        assert found.low is not None
        assert found.high is not None
        assert found.low < 0.3125 < found.high

    def test_lower_may_be_better(self, tmp_path: Path):
        columns = [
            {"top1": np.ones(4), "top5": np.ones(4), "nll": np.full(4, x), "stats/label": np.zeros(4, int)}
            for x in (1.0, 2)
        ]
        one, other = (scored(tmp_path, tag, each, "classification") for tag, each in zip("ab", columns, strict=True))
        found = difference(one, other, "nll")
        assert (found.value, found.better, found.unit, found.winner) == (1, "lower", "nats", "first")
        assert difference(one, other, "top1").winner == ""

    def test_items_are_joined_by_name(self, tmp_path: Path):
        first = scored(tmp_path, "a", {"AP": [0.1, 0.2, 0.3]}, names=["x", "y", "z"])
        second = scored(tmp_path, "b", {"AP": [0.3, 0.1, 0.2]}, names=["z", "x", "y"])
        found = difference(first, second, "mAP")
        assert (found.low, found.high, found.p) == (0, 0, 1)
        assert difference(second, first, "mAP") == found

    def test_of_copies_it_is_nothing(self, tmp_path: Path):
        scores = np.random.default_rng(0).random(50)
        found = difference(*two(tmp_path, scores, scores), "mAP")
        assert (found.value, found.low, found.high, found.p, found.winner) == (0, 0, 0, 1, "")

    def test_items_without_a_value_are_left_out_in_pairs_and_counted(self, tmp_path: Path):
        nan = np.nan
        found = difference(*two(tmp_path, [nan, 0.5, 0.5, 0.5], [0.9, nan, 0.75, 1]), "mAP")
        assert (found.first, found.second, found.n_items, found.n_undefined) == (0.5, 0.875, 2, 2)
        nothing = difference(*two(tmp_path / "b", [nan, 0.5], [0.9, nan]), "mAP")
        assert (nothing.value, nothing.low, nothing.p, nothing.n_items, nothing.n_undefined) == (None, None, None, 0, 2)

    def test_groups_are_swapped_whole(self, tmp_path: Path):
        one, other = two(tmp_path, np.zeros(4), [0.25, 0.25, 0.5, 0], group=["s", "t", "s", ""])
        found = difference(one, other, "mAP")
        assert (found.n_items, found.n_units) == (4, 3)
        assert found.p == 2 / 4  # sums .75 and .25 of two groups that differ; the item without a group does not

    def test_columns_of_zeros_and_ones_have_mcnemars_test(self, tmp_path: Path):
        found = difference(*two(tmp_path, [1.0, 0, 0, 0, 0, 0, 1], [0.0, 1, 1, 1, 1, 1, 1]), "mAP")
        assert found.mcnemar is not None
        assert (found.mcnemar.only_first, found.mcnemar.only_second, found.mcnemar.p) == (1, 5, 14 / 64)
        assert found.p == 14 / 64
        assert difference(*two(tmp_path / "b", [0.5, 0], [1.0, 0]), "mAP").mcnemar is None

    def test_metrics_are_found_in_any_case(self, tmp_path: Path):
        one, other = two(tmp_path, [0.5, 0], [1.0, 0])
        assert difference(one, other, "MAP") == difference(one, other, "mAP")
        with pytest.raises(UsageError, match=r"no metric 'miou' here; there are mAP, recall@1"):
            difference(one, other, "miou")

    def test_nothing_in_common_is_an_error(self, tmp_path: Path):
        one, other = (scored(tmp_path, tag, {"AP": [0.5]}, names=[tag]) for tag in "ab")
        with pytest.raises(UsageError, match="no item in common"):
            difference(one, other, "mAP")


def segmented(root: Path, tag: str, positives: Sequence[tuple[int, int]], **more: Any) -> Experiment:
    """Images of ten pixels of either class, of which so many are right; the others are called the other class."""
    right = np.array(positives, np.uint32)
    true = np.full_like(right, 10)
    iou = (right / (true + (true - right)[:, ::-1])).mean(axis=1)
    columns = {"stats/true_positives": right, "stats/predicted": right + (true - right)[:, ::-1], "stats/true": true}
    return scored(root, tag, {**columns, "miou_per_image": iou}, "semantic_segmentation", **more)


class TestIntervalsBesideTheirValue:
    @pytest.mark.parametrize(
        ("value", "expected"), [(0.5, False), (0.11, False), (0.09, True), (0.91, True), (-1, True), (2, True)]
    )
    def test_the_outer_tenth_is_to_one_side(self, value: float, expected: bool):
        assert lopsided(value, 0, 1) is expected

    def test_what_is_undefined_or_has_no_width_is_not(self):
        assert not lopsided(None, 0, 1)
        assert not lopsided(1, None, None)
        assert not lopsided(0, 0, 0)

    def test_a_calibration_error_is_said_to_be(self, tmp_path: Path, capsys: pytest.CaptureFixture):
        """Of a calibrated model ece is noise alone, and resampling adds to it: 10 bins of 20 items."""
        rng = np.random.default_rng(0)
        sure = np.repeat(np.arange(0.05, 1, 0.1), 20)
        right = (np.tile(np.arange(20), 10) < np.round(20 * sure)).astype(float)
        for tag, shift in (("a", 0.0), ("b", 0.2)):
            columns = {
                "top1": right,
                "top5": right,
                "nll": rng.random(200),
                "stats/confidence": np.minimum(sure + shift, 1),
            }
            scored(tmp_path, tag, {**columns, "stats/label": np.zeros(200, int)}, "classification")
        assert run(tmp_path, "a", "b", "--metric", "ece", benchmark="classification") == 0
        assert "the interval of ece lies to one side of its value" in capsys.readouterr().out


class TestScoresOfTheWholeSet:
    def test_two_images_by_hand(self, tmp_path: Path):
        first, second = segmented(tmp_path, "a", [(10, 0), (10, 0)]), segmented(tmp_path, "b", [(10, 10), (10, 10)])
        found = difference(first, second, "miou", resamples=100)
        # all are called the first class: 20 of 40, and 0 of 20; only no swap and both swaps are as far apart
        assert (found.first, found.second, found.p) == (0.25, 1, 2 / 4)
        assert (found.low, found.high) == (0.75, 0.75)

    def test_an_unequal_number_of_pixels_is_no_mean_of_images(self, tmp_path: Path):
        rng = np.random.default_rng(0)
        first, second = (segmented(tmp_path, tag, rng.integers(0, 11, (30, 2))) for tag in "ab")
        found, per_image = (difference(first, second, m, resamples=200) for m in ("miou", "miou_per_image"))
        assert (
            found.value
            == first.family.summarize(second.columns)["miou"] - first.family.summarize(first.columns)["miou"]
        )
        assert found.value != per_image.value
        assert found.p != per_image.p

    def test_it_takes_the_group_into_account(self, tmp_path: Path):
        group = ["s"] * 3 + ["t"] * 3
        first = segmented(tmp_path, "a", [(5, 5)] * 6, group=group)
        second = segmented(tmp_path, "b", [(6, 6)] * 6, group=group)
        assert difference(first, second, "miou", resamples=10).p == 2 / 4

    def test_copies_do_not_differ(self, tmp_path: Path):
        rows = np.random.default_rng(0).integers(0, 11, (30, 2))
        found = difference(segmented(tmp_path, "a", rows), segmented(tmp_path, "b", rows), "miou", resamples=100)
        assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 1)

    def test_what_items_do_not_tell_has_no_interval(self, tmp_path: Path):
        columns = {"silhouette": [0.1, 0.2], "alignment": [1.0, 2], "stats/label": [0, 1]}
        one, other = (scored(tmp_path, tag, columns, "feature_quality") for tag in "ab")
        for each, value in ((one, 8.0), (other, 9.5)):
            each.record["scores"]["rankme"]["value"] = value
        aligned = Aligned([one, other])
        rankme = metric_named(one.family, "rankme")
        found = differences(aligned, (0, 1), [rankme], QUICK)[0]
        assert (found.first, found.second, found.value) == (8, 9.5, 1.5)
        assert (found.low, found.high, found.p, found.significant) == (None, None, None, False)
        some = Aligned([one, scored(tmp_path, "c", {k: [*v, v[0]] for k, v in columns.items()}, "feature_quality")])
        assert differences(some, (0, 1), [rankme], QUICK)[0].value is None  # theirs are over other items

    def test_what_only_informs_is_not_tested(self, tmp_path: Path):
        one, other = two(tmp_path, [0.0] * 6, [1.0] * 6)
        informs = Metric("AP_told", "neither", "", column="AP")
        found = compared(Aligned([one, other]), [informs, one.family.metrics()[0]], [], QUICK, 0)
        told, tested = found.pairs[0].differences.values()
        assert (told.value, told.low, told.p, told.mcnemar, verdict(told)) == (1, 1, None, None, "")
        assert (tested.p, tested.adjusted, verdict(tested), found.n_tests) == (2 / 64, 2 / 64, "B is better", 1)

    def test_holm_is_over_what_has_a_p(self, tmp_path: Path):
        found = difference(*two(tmp_path, [0.0] * 6, [1.0] * 6), "mAP")
        assert found.p == 2 / 64
        assert found.significant
        assert [each.adjusted for each in adjusted([found, found])] == [4 / 64, 4 / 64]
        assert not adjusted([found, found])[0].significant


class TestWhatIsCompared:
    def test_another_protocol_is_refused_by_name(self, tmp_path: Path, capsys: pytest.CaptureFixture):
        scored(tmp_path, "a", {"AP": [0.5, 1]})
        scored(tmp_path, "b", {"AP": [0.5, 1]}, head={"name": "knn"}, size=224)
        assert run(tmp_path, "a", "b") == 2
        err = capsys.readouterr().err
        assert "head.name (embed, knn), size (None, 224)" in err
        assert err.count("\n") == 1
        assert run(tmp_path, "a", "b", "--allow-missing") == 2

    def test_what_is_asked_for_may_differ_and_is_said(self, tmp_path: Path, capsys: pytest.CaptureFixture):
        scored(tmp_path, "a", {"AP": [0.5, 1]}, layers="final")
        scored(tmp_path, "b", {"AP": [0.5, 1]}, layers=3, head={"name": "knn", "k": 5})
        assert run(tmp_path, "a", "b", "--across", "layers") == 2
        err = capsys.readouterr().err
        assert "differ in head.k (None, 5), head.name (embed, knn)." in err
        assert "say --across head" in err
        assert run(tmp_path, "a", "b", "--across", "layers", "head") == 0
        assert (
            "protocols differ, as asked: b: head.k (None, 5), head.name (embed, knn), layers (final, 3)"
            in capsys.readouterr().out
        )

    @pytest.mark.parametrize("field", ["dataset_id", "eval", "version", "targets", "heads"])
    def test_what_makes_scores_mean_something_else_may_not_differ(self, tmp_path: Path, field: str):
        for tag in "ab":
            scored(tmp_path, tag, {"AP": [0.5, 1]})
        with pytest.raises(UsageError, match="what may differ is head, layers"):
            compare("retrieval", ["a", "b"], across=[field], outputs=tmp_path)

    def test_other_data_of_the_same_names_is_refused(self, tmp_path: Path):
        scored(tmp_path, "a", {"AP": [0.5, 1]})
        scored(tmp_path, "b", {"AP": [0.5, 1]}, dataset_id="e")
        with pytest.raises(UsageError, match=r"dataset_id \(d, e\)"):
            compare("retrieval", ["a", "b"], outputs=tmp_path, allow_missing=True)

    def test_items_that_one_lacks_are_named(self, tmp_path: Path, capsys: pytest.CaptureFixture):
        scored(tmp_path, "a", {"AP": [0.5, 0.5, 1]}, names=["x", "y", "only"])
        scored(tmp_path, "b", {"AP": [1, 1]}, names=["y", "x"], dataset_id="e", skipped=["only"])
        assert run(tmp_path, "a", "b") == 2
        err = capsys.readouterr().err
        assert "a has 1 that not all have (only)" in err
        assert "--allow-missing" in err
        assert run(tmp_path, "a", "b", "--allow-missing", "--metric", "mAP") == 0
        out = capsys.readouterr().out
        assert "items: 2 that all tags have" in out
        assert "1 of a (only)" in out
        assert (
            compare("retrieval", ["a", "b"], outputs=tmp_path, allow_missing=True).pairs[0].differences["mAP"].first
            == 0.5
        )

    def test_sets_are_summarised_over_the_common_items(self, tmp_path: Path):
        first = segmented(tmp_path, "a", [(10, 10), (0, 0)], names=["x", "y"])
        second = segmented(tmp_path, "b", [(5, 5), (10, 10)], names=["x", "z"])
        found = difference(first, second, "miou")
        assert (found.first, found.n_items) == (1, 1)
        assert found.second == pytest.approx(1 / 3)
        assert (found.low, found.p) == (None, 1)

    def test_common_items_with_another_truth_are_refused(self, tmp_path: Path):
        names = ["x", "y", "z"]
        one = scored(tmp_path, "a", {"AP": [0.5, 0.5, 1]}, names=names, labels=[0, 1, 0])
        same = scored(tmp_path, "b", {"AP": [1, 1]}, names=["y", "x"], labels=[1, 0])
        other = scored(tmp_path, "c", {"AP": [1, 1]}, names=["y", "x"], labels=[0, 0])
        refuse_unequal(Aligned([one, same]), allow_missing=True)
        with pytest.raises(UsageError, match=r"differs \(label in targets.h5\)"):
            refuse_unequal(Aligned([one, other]), allow_missing=True)

    def test_one_tag_is_no_comparison(self, tmp_path: Path, capsys: pytest.CaptureFixture):
        scored(tmp_path, "a", {"AP": [0.5, 1]})
        assert run(tmp_path, "a", "a") == 2
        assert "a a is one tag twice (a): a comparison takes two" in capsys.readouterr().err
        assert run(tmp_path, "a") == 2
        assert run(tmp_path, "a", "b") == 2  # there is none

    def test_stars_stand_for_scored_tags(self, tmp_path: Path):
        for tag in ("a", "vit_s", "vit_b"):
            scored(tmp_path, tag, {"AP": [0.5, 1]})
        assert compare("retrieval", ["a", "vit_*"], outputs=tmp_path).tags == ["a", "vit_b", "vit_s"]


class TestRanking:
    def groups(self, scores, p, better="higher"):
        return tied_groups(scores, better, lambda one, other: p.get((one, other), 1.0))

    def test_those_not_told_apart_from_the_best_of_a_group_are_in_it(self):
        # Three pairs: p counts threefold. 2 leads, 0 is like it, 1 is not.
        assert self.groups([0.8, 0.1, 0.9], {(2, 0): 0.4, (2, 1): 0.01}) == [[2, 0], [1]]
        assert self.groups([0.8, 0.1, 0.9], {(2, 0): 0.01, (0, 1): 0.04}) == [[2], [0, 1]]
        assert self.groups([0.8, 0.1, 0.9], {(2, 0): 0.01, (0, 1): 0.01}, "lower") == [[1, 0, 2]]

    def test_without_a_score_is_last(self):
        assert self.groups([None, 0.1, 0.9, None], {}) == [[2, 1], [0, 3]]
        assert self.groups([None, None], {}) == [[0, 1]]


class TestItems:
    def test_wins_and_ties_by_hand(self, tmp_path: Path):
        one, other = two(tmp_path, [0.5, 0.5, 0.5, np.nan], [0.25, 0.5, 1, 1])
        found = wins(Aligned([one, other]))
        assert found is not None
        assert found.column == "AP"
        assert found.counts.tolist() == [[3, 3], [3, 4]]
        assert found.shares[0, 1] == found.shares[1, 0] == found.ties[0, 1] == 1 / 3
        assert found.shares[0, 0] == 0

    def test_lower_is_better_where_the_family_says_so(self, tmp_path: Path):
        columns = [{"top1": np.ones(2), "nll": [1.0, 2], "top5": np.ones(2), "stats/label": [0, 1]} for _ in "ab"]
        one, other = (scored(tmp_path, t, c, "classification") for t, c in zip("ab", columns, strict=True))
        one.family.order = lambda columns: ("nll", "lower")  # type: ignore[method-assign]
        aligned = Aligned([one, other])
        aligned.columns[1]["nll"] = np.array([0.5, 3.0])
        found = flips(aligned, (0, 1), 5)
        assert found is not None
        assert [(item.name, item.first, item.second) for item in found.gained] == [("i000", 1, 0.5)]
        assert [item.name for item in found.lost] == ["i001"]

    def test_the_largest_come_first_and_undefined_ones_never(self, tmp_path: Path):
        one, other = two(tmp_path, [0.1, 0.1, 0.1, np.nan, 0.5], [0.2, 0.4, 0.4, 1, 0.5])
        found = flips(Aligned([one, other]), (0, 1), 2)
        assert found is not None
        assert [item.name for item in found.gained] == ["i001", "i002"]
        assert found.lost == []


class TestNumbers:
    def test_what_is_shown_as_zero_has_no_sign(self):
        assert [number(value) for value in (None, -0.00001, -0.5, 2)] == ["n/a", "0.0000", "-0.5000", "2.0000"]
        assert [signed(value) for value in (None, 0, -0.00001, 0.00001, 0.5, -0.5)] == [
            "n/a", "0.0000", "0.0000", "0.0000", "+0.5000", "-0.5000"
        ]  # fmt: skip
        assert number(-0.04, 1) == "0.0"

    def test_a_p_is_never_shown_as_zero(self):
        assert [probability(p) for p in (None, 0, 0.00004, 0.00006, 0.5)] == [
            "n/a", "0.0000", "<.0001", "0.0001", "0.5000"
        ]  # fmt: skip
