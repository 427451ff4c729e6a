"""One contract over every registered family, data set and head, and every shipped conf: new ones join by themselves."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchkit import registry
from benchkit.conf.build import build
from benchkit.conf.find import BenchmarkConf, benchmark_names, conf_names, configs_dir, find_benchmark, find_conf
from benchkit.conf.layers import Layer, read_yaml
from benchkit.conf.merge import default_layers, merge
from benchkit.errors import BenchkitError, UsageError
from benchkit.export.split import Split
from benchkit.heads.base import Head
from benchkit.metrics.intervals import bootstrap
from benchkit.store.columns import Ragged
from benchkit.store.items import ArrayItems

FAMILIES = registry.names("eval")
SMALL = {"n_train": 48, "n_test": 30, "side": 32}
FINER = {"correspondence3d": {"side": 96}}  # points in space are known at a quarter of it
NAMES = {  # protocols, section 5
    "classification": r"top1|top5|mean_class_acc|nll|ece",
    "retrieval": r"mAP|recall@(1|5|10)",
    "similarity": r"accuracy|f1|precision|recall|tie_rate|share_right|accuracy_imagenet_gap",
    "feature_quality": r"silhouette|rankme|uniformity|alignment",
    "depth": r"(d1|d2|d3|abs_rel|rmse)(_aligned)?",
    "normals": r"(d1|d2|d3|mean|median|rmse)(_pooled)?",
    "semantic_segmentation": r"miou|miou_per_image|pixel_acc|mean_acc",
    "generic_segmentation": r"iou|f1|pixel_acc|iou_pooled|foreground_share",
    **dict.fromkeys(("edges", "keypoints2d", "occlusion_edges", "corner"), r"correlation|rmse|mae"),
    "orientation": r"error|d1|d2",
    "boundaries": r"ods|ois|ap",
    "correspondence": r"recall@(1|2|5|10)px|auc@10px|num_matches",
    "homography": r"prec@(1|3)px|(median_)?H_error_(dlt|poselib)|H_error_(dlt|poselib)(_mAA|@(1|3|5)px)"
    r"|num_matches|ransac_inliers",
    "relative_pose": r"rel_pose_error_poselib(_mAA|@(5|10|20))|epi_prec@(1e-4|5e-4|1e-3)|num_matches|ransac_inliers",
    "keypoint_transfer": r"pck@0\.(1|1_per_image|05|01)",
    "correspondence3d": r"recall@(1|2|5)cm|recall@(5|25|50)px|num_matches",
    "pose_probe": r"(median_)?(rotation|translation)_error|accuracy@(15|30)deg",
    "painting_vision": r"mIoU|window_(precision|recall)|painted_coverage_mae|mIoU_full_10class"
    r"|classes_in_truth|undecided_predictions",
}


class Case:
    """A family with its defaults, and truth of its own generated data."""

    def __init__(self, name: str) -> None:
        self.component = registry.find("eval", name)
        self.family = self.component.build(self.component.settings())
        merged = merge(default_layers(BenchmarkConf(name, name, Layer({}, {})), self.component))
        self.head_name = merged.name("model.head")
        data = registry.find("datasets", merged.name("data"))
        wanted = {**merged.at("data"), **SMALL, **FINER.get(name, {})}
        dataset = data.build(
            data.settings(**{k: v for k, v in wanted.items() if k in data.settings.__dataclass_fields__})
        )
        train, test = (sorted(dataset.items(split)) for split in ("train", "test"))
        self.train = Split(dataset, "train", train, {}).truth(train)
        self.truth = Split(dataset, "test", test, {}).truth(test)
        if self.family.derive:
            self.train, self.truth = (_derived(self.family.derive, dataset, names) for names in (train, test))
        if self.family.complete:
            self.train, self.truth = (_completed(self.family.complete, truth) for truth in (self.train, self.truth))
        self.truth.fields = {field: _listed(value) for field, value in self.truth.fields.items()}
        self.oracle = self.in_memory(self.family.oracle(self.truth))

    def in_memory(self, items: Any) -> ArrayItems:
        """Predictions as arrays that can be changed, whether they are there or made when asked for."""
        return ArrayItems(items.names, {field: items.read(field) for field in self.family.needs}, items.meta)

    def summary(self, predictions: ArrayItems) -> dict[str, float | None]:
        """All numbers of the whole set."""
        columns = self.family.score(predictions, self.truth)
        return {**self.family.summarize(columns), **self.family.whole(predictions, self.truth)}

    def floor_summary(self) -> dict[str, float | None]:
        """All numbers of the constant predictor, or of chance."""
        return {**self.family.summarize(self.floor()), **self.family.whole_chance(self.truth)}

    def floor(self, beside: ArrayItems | None = None) -> dict[str, np.ndarray]:
        """Columns of the constant predictor, or of chance beside some predictions (the oracle's)."""
        if self.family.floor_head is None:
            return self.family.chance(self.truth, beside or self.oracle)
        component = registry.find("heads", self.family.floor_head)
        head = component.build(component.settings())
        head.fit("", None, self.train, 0, 1)
        return self.family.score(self.family.constant(head.state(), self.truth), self.truth)

    def changed(self, change: Any) -> ArrayItems:
        """The oracle with its numbers changed; class indices stay classes, but for NaN, which becomes none."""
        fields = {k: self._changed_field(change, v) for k, v in self.oracle.fields.items()}
        return ArrayItems(self.oracle.names, fields, self.oracle.meta)

    def _changed_field(self, change: Any, values: Any) -> Any:
        """Rows that vary in length are filled up, changed as one array, and cut again."""
        if isinstance(values, np.ndarray):
            return self._changed(change, np.array(values))
        longest = max(map(len, values))
        filled = [np.pad(each, [(0, longest - len(each)), *[(0, 0)] * (each.ndim - 1)]) for each in values]
        changed = self._changed(change, np.stack(filled))
        return [new[: len(each)] for new, each in zip(changed, values, strict=True)]

    def _changed(self, change: Any, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind == "f":
            return change(values)
        new = change(values.astype(np.float64))
        classes = self.truth.meta.get("classes") if self.family.level != "geometry" else None  # whose indices are rows
        last = len(classes) - 1 if classes else int(values.max())
        return np.where(np.isnan(new), last + 1, np.rint(np.nan_to_num(new)).clip(0, last)).astype(values.dtype)

    def noisy(self) -> ArrayItems:
        """Predictions that are right now and then."""
        rng = np.random.default_rng(0)
        spoiled = np.ones(len(self.oracle.names), bool)
        if self.component.name in ESTIMATED:
            spoiled = rng.random(len(spoiled)) < 0.5

        def noise(a: np.ndarray) -> np.ndarray:
            much = rng.normal(size=a.shape) * a.std() * 1.5
            return (a + much * spoiled.reshape(-1, *[1] * (a.ndim - 1))).astype(a.dtype)

        return self.changed(noise)


def _listed(value: Any) -> Any:
    """A column of rows that vary in shape as a list of them."""
    return list(value.each()) if isinstance(value, Ragged) else value


def _derived(derive: Any, dataset: Any, names: list[str]) -> ArrayItems:
    rows = [derive(dataset.image(dataset.views(name)[0])) for name in names]
    return ArrayItems(names, {field: np.stack([row[field] for row in rows]) for field in rows[0]}, dataset.meta())


def _completed(complete: Any, truth: ArrayItems) -> ArrayItems:
    rows = [complete({field: truth.item(field, row) for field in truth.fields}) for row in range(len(truth.names))]
    return ArrayItems(truth.names, {field: np.stack([row[field] for row in rows]) for field in rows[0]}, truth.meta)


@pytest.fixture(scope="module", params=FAMILIES)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


ESTIMATED = (
    "homography",
    "relative_pose",
    "correspondence3d",
)  # noise on every item would leave no estimate that is any good
SAID_FLOORS = ("painting_vision",)  # whose specification says what the floor is (class 0), the best constant or not


def better(metric: Any, one: float, other: float, by: float = 0.0) -> bool:
    """Whether `one` beats `other` by more than `by`; metrics that only inform have nothing to beat."""
    assert metric.better in ("higher", "lower")
    return one > other + by if metric.better == "higher" else one < other - by


class TestFamily:
    def test_declares_itself(self, case: Case):
        family, metrics = case.family, case.family.metrics()
        assert family.level in ("high", "mid", "low", "geometry")
        assert family.source
        assert isinstance(family.version, int)
        assert case.component.module.__doc__
        assert family.folder in registry.names("datasets")
        assert case.head_name in registry.names("heads")
        assert all(m.better in ("higher", "lower", "neither") and m.help for m in metrics)
        assert metrics[0].better != "neither"
        assert len({m.name for m in metrics}) == len(metrics)

    def test_names_of_metrics(self, case: Case):
        pattern = NAMES.get(case.component.name, r"(?!floor_|ceiling_|n_)[\w@./\[\]-]+")
        assert [m.name for m in case.family.metrics() if not re.fullmatch(pattern, m.name)] == []

    def test_accepts_its_own_data(self, case: Case):
        case.family.check(case.truth)

    def test_refuses_heads_that_do_not_fit(self, case: Case):
        head = registry.find("heads", case.head_name)
        case.family.check_head(case.head_name, head.build(head.settings()).gives)
        case.family.check_head("of.somebody", ())
        with pytest.raises(UsageError, match=case.family.needs[0]):
            case.family.check_head("odd", ("something",))

    def test_oracle_reaches_the_optimum(self, case: Case):
        summary = case.summary(case.oracle)
        for metric in case.family.metrics():
            if metric.better == "lower":
                assert summary[metric.name] == pytest.approx(0, abs=1e-6), metric.name
            elif metric.better == "higher" and not metric.unit:  # shares; a count has no optimum
                assert summary[metric.name] == pytest.approx(1, abs=1e-6), metric.name

    def test_floor_is_below_the_oracle(self, case: Case):
        floor, summary = case.floor_summary(), case.summary(case.oracle)
        for metric in case.family.metrics():
            if metric.better != "neither" and floor[metric.name] is not None:  # precision of what is never said
                assert better(metric, summary[metric.name], floor[metric.name]), metric.name

    def test_collapsed_predictions_do_not_beat_the_floor(self, case: Case):
        headline = case.family.metrics()[0]
        said = (0.0,) if case.component.name in SAID_FLOORS else (0.0, 1.0)
        for value in said:
            collapsed = case.changed(lambda a, v=value: np.full_like(a, v))
            try:
                summary = case.family.summarize(case.family.score(collapsed, case.truth))
            except BenchkitError:  # refused: a normal of length 0, say
                continue
            floor = case.family.summarize(case.floor(collapsed))[headline.name]
            assert not better(headline, summary[headline.name], floor, by=1e-9)

    def test_nan_is_an_error(self, case: Case):
        def spoil(values: np.ndarray) -> np.ndarray:
            values = np.array(values)
            values[len(values) // 2] = np.nan
            return values

        spoiled = case.changed(spoil)  # of class indices, one that is no class
        with pytest.raises(BenchkitError, match="row 15"):
            case.family.score(spoiled, case.truth)

    def test_one_row_per_item_in_order(self, case: Case):
        columns = case.family.score(case.noisy(), case.truth)
        assert {len(column) for column in columns.values()} == {len(case.truth.names)}
        for metric in case.family.metrics():
            if metric.column:
                assert columns[metric.column].shape == (len(case.truth.names),)

    def test_a_metric_with_a_column_is_its_mean(self, case: Case):
        columns = case.family.score(case.noisy(), case.truth)
        summary = case.family.summarize(columns)
        for metric in case.family.metrics():
            if metric.column:
                assert summary[metric.name] == pytest.approx(np.nanmean(columns[metric.column])), metric.name

    def test_summaries_hold_every_metric_as_number_or_none(self, case: Case):
        for summary in (case.summary(case.noisy()), case.floor_summary()):
            assert {m.name for m in case.family.metrics()} <= summary.keys()
            assert all(v is None or (isinstance(v, float) and np.isfinite(v)) for v in summary.values())

    def test_summarize_is_pure(self, case: Case):
        columns = case.family.score(case.noisy(), case.truth)
        before = copy.deepcopy(columns)
        for column in columns.values():
            column.flags.writeable = False
        first, again = case.family.summarize(columns), case.family.summarize(columns)
        assert first == again == case.family.summarize(before)
        assert all(np.array_equal(columns[k], before[k], equal_nan=True) for k in before)
        assert columns.keys() == before.keys()

    def test_equal_columns_give_equal_intervals(self, case: Case):
        one, other = (case.family.score(case.noisy(), case.truth) for _ in range(2))
        found = [bootstrap(c, case.family.summarize, n_resamples=50, seed=0) for c in (one, other)]
        assert found[0] == found[1]
        headline = case.family.metrics()[0].name
        low, high = found[0][headline]
        assert low < case.family.summarize(one)[headline] < high

    def test_resamples_of_one_item_have_summaries(self, case: Case):
        columns = case.family.score(case.noisy(), case.truth)
        alone = {name: column[[3, 3, 3]] for name, column in columns.items()}
        summary = case.family.summarize(alone)
        assert all(v is None or np.isfinite(v) for v in summary.values())

    def test_order_of_items_only_orders_rows(self, case: Case):
        predictions = case.noisy()
        order = np.random.default_rng(1).permutation(len(case.truth.names))
        mixed_items = _permuted(predictions, order), _permuted(case.truth, order)
        mixed, whole = case.family.score(*mixed_items), case.family.whole(*mixed_items)
        straight = case.family.score(predictions, case.truth)
        for name, column in straight.items():
            np.testing.assert_allclose(mixed[name], column[order], rtol=1e-12, err_msg=name)
        _assert_close(case.family.summarize(mixed), case.family.summarize(straight), 1e-12)
        _assert_close(whole, case.family.whole(predictions, case.truth), 1e-6)

    def test_pictures_order_items_by_a_number_of_theirs(self, case: Case):
        columns = case.family.score(case.noisy(), case.truth)
        numbers = {k: v for k, v in columns.items() if v.ndim == 1 and v.dtype.kind in "fiub"}
        column, better = case.family.order(numbers)
        assert case.family.order({}) == ("", "")
        assert (better in {"higher", "lower", "neither"}) == (column in numbers)
        if column:
            row = {name: float(values[0]) for name, values in numbers.items()}
            assert case.family.told(column, {**row, column: 0.125}).count("\n") == 0

    def test_draws_an_item(self, case: Case):
        from matplotlib.figure import Figure

        axes = Figure().subplots()
        prediction = {k: v[0] for k, v in case.oracle.fields.items()}
        target = {**{k: v[0] for k, v in case.truth.fields.items()}, "meta": case.truth.meta}
        picture = np.zeros((8, 8, 3), np.uint8)
        pair = "views" in target and target["views"].count("\n") == 1
        case.family.draw(axes, prediction, target, [picture, picture] if pair else picture)
        case.family.draw(axes, prediction, target)


def _assert_close(one: dict[str, float | None], other: dict[str, float | None], rel: float) -> None:
    assert {k for k, v in one.items() if v is None} == {k for k, v in other.items() if v is None}
    defined = [{k: v for k, v in each.items() if v is not None} for each in (one, other)]
    assert defined[0] == pytest.approx(defined[1], rel=rel)


def _permuted(items: ArrayItems, order: np.ndarray) -> ArrayItems:
    fields = {k: v[order] if isinstance(v, np.ndarray) else [v[i] for i in order] for k, v in items.fields.items()}
    return ArrayItems([items.names[i] for i in order], fields, items.meta)


class TestFloorByArithmetic:
    def test_classification(self):
        """48 train scenes, 4 of each of 12 classes: the first class is the constant answer; 3 of 30 items have it."""
        case = Case("classification")
        labels = np.arange(30) % 12
        floor = case.family.summarize(case.floor())
        assert floor["top1"] == pytest.approx((labels == 0).mean())
        assert floor["top5"] == pytest.approx((labels < 5).mean())
        assert floor["mean_class_acc"] == pytest.approx(1 / 12)
        assert floor["nll"] == pytest.approx(np.log(12), rel=1e-5)
        assert floor["ece"] == pytest.approx(3 / 30 - 1 / 12, abs=1e-5)

    def test_classification_without_train(self):
        case = Case("classification")
        chance = case.family.summarize(case.family.chance(case.truth, case.oracle))
        assert chance == pytest.approx(
            {"top1": 1 / 12, "top5": 5 / 12, "mean_class_acc": 1 / 12, "nll": np.log(12), "ece": 0}, abs=1e-12
        )

    def test_retrieval(self):
        """The mean over random orders, drawn here: 30 items, classes of 3 and of 2."""
        case = Case("retrieval")
        floor = case.family.summarize(case.floor())
        rng, labels = np.random.default_rng(0), np.arange(30) % 12
        precision, hits = [], []
        for _ in range(4000):
            query = rng.integers(30)
            others = rng.permutation(np.delete(np.arange(30), query))
            ranks = np.flatnonzero(labels[others] == labels[query]) + 1
            precision.append((np.arange(1, len(ranks) + 1) / ranks).mean())
            hits.append(ranks[0] <= 5)
        assert floor["mAP"] == pytest.approx(np.mean(precision), abs=0.015)
        assert floor["recall@5"] == pytest.approx(np.mean(hits), abs=0.025)
        two, one = (1 - 27 * 28 / (28 * 29), 1 / 29)  # recall@1: two other positives among 29, or one
        assert floor["recall@1"] == pytest.approx((18 * (2 / 29) + 12 * one) / 30)
        assert two > one


class TestClassificationSettings:
    def test_ece_bins(self):
        component = registry.find("eval", "classification")
        with pytest.raises(ValueError, match="ece_bins"):
            component.settings(ece_bins=0)

    def test_undefined_scores_are_none(self):
        """Five classes: the five best say nothing; votes are no likelihood."""
        family = Case("classification").family
        truth = ArrayItems(["a", "b"], {"label": np.array([0, 1])}, {"classes": list("vwxyz")})
        votes = ArrayItems(["a", "b"], {"scores": np.eye(5, dtype=np.float32)[:2]}, {"scores_are": "votes"})
        summary = family.summarize(family.score(votes, truth))
        assert summary["top5"] is None
        assert summary["nll"] is None
        assert summary["top1"] == 1
        assert family.summarize(family.chance(truth, votes))["top5"] is None


@pytest.mark.parametrize("name", registry.names("datasets"))
class TestDataset:
    def test_runs_or_says_what_it_needs(self, name: str, tmp_path: Path):
        component = registry.find("datasets", name)
        fields = component.settings.__dataclass_fields__
        settings = {k: v for k, v in SMALL.items() if k in fields}
        try:
            dataset = component.build(component.settings(**settings))
        except UsageError as error:
            self._refuses(component, str(error), tmp_path)
            return
        assert dataset.generated
        items = dataset.items("test")
        assert items == sorted(set(items))
        assert not set(items) & set(dataset.items("train"))
        for item in items[:2]:
            for view in dataset.views(item):
                image = dataset.image(view)
                assert image.dtype == np.uint8
                assert image.shape == (*dataset.generated_size(view), 3)
                assert np.array_equal(image, dataset.image(view))
                assert dataset.recipe(view) != dataset.recipe(dataset.views(items[-1])[0])
            assert dataset.target(item).keys() == dataset.target(items[-1]).keys()
        with pytest.raises(UsageError, match="split"):
            dataset.items("validation")

    def _refuses(self, component: registry.Component, message: str, folder: Path) -> None:
        layout = component.module.LAYOUT
        assert layout in message
        assert "data.root=DIR" in message
        for root in (folder / "nowhere", folder):
            with pytest.raises(UsageError) as caught:
                component.build(component.settings(root=str(root))).items("test")
            assert layout in str(caught.value)
            assert str(root) in str(caught.value)


@pytest.mark.parametrize("name", registry.names("heads"))
class TestHead:
    def test_fits_and_predicts(self, name: str):
        component = registry.find("heads", name)
        assert component.module.__doc__
        head: Head = component.build(component.settings())
        assert head.wants().kind in ("pool", "patch", "images", None)
        assert head.gives
        of_model = head.wants().kind in ("patch", "images") or head.wants().pool
        if of_model or hasattr(component.settings, "file"):  # reads what a model or a file gives: tests of their own
            return
        features, truth = _blobs(head.wants().views)
        if head.trains or head.votes:
            head.fit("cls@final", features, truth, 0, 1)
        for rows in (slice(0, 24), slice(5, 6)):
            part = ArrayItems(features.names[rows], {"cls@final": features.read("cls@final")[rows]})
            fields = head.predict("cls@final", part, 1)
            assert fields
            assert fields.keys() <= set(head.gives)
            assert all(len(v) == len(part.names) and np.isfinite(v).all() for v in fields.values())
        assert all(np.isfinite(v).all() for v in head.state().values())
        assert bool(head.state()) or not head.trains

    def test_log_hides_no_score(self, name: str):
        component = registry.find("heads", name)
        head: Head = component.build(component.settings())
        if head.wants().kind in ("patch", "images"):
            return
        if head.trains or head.votes:
            head.fit("cls@final", *_blobs(head.wants().views), 0, 1)
        scores = {m.name for family in map(Case, FAMILIES) for m in family.family.metrics()}
        assert not scores & head.log().keys()
        assert all(isinstance(v, float) and np.isfinite(v) for v in head.log().values())


def _blobs(views: int) -> tuple[ArrayItems, ArrayItems]:
    """Features of three classes; of pairs, their classes apart and a pose."""
    labels = np.arange(24) % 3
    rows = (np.eye(4)[labels] + 0.1 * np.random.default_rng(0).normal(size=(24, 4))).astype(np.float32)
    names = [f"{i:02d}" for i in range(24)]
    if views == 2:
        truth = {"R": np.tile(np.eye(3), (24, 1, 1)), "t": rows[:, :3]}
        return ArrayItems(names, {"cls@final": np.stack([rows, rows[::-1]], axis=1)}), ArrayItems(names, truth)
    return ArrayItems(names, {"cls@final": rows}), ArrayItems(names, {"label": labels}, {"classes": ["a", "b", "c"]})


@pytest.mark.parametrize("stem", conf_names())
class TestConf:
    def test_loads_with_every_benchmark(self, stem: str):
        for benchmark in benchmark_names():
            conf = build(stem, benchmark)
            assert conf.stem == stem
            assert conf.plain().keys() == {"data", "model", "eval"}

    def test_says_where_the_model_comes_from(self, stem: str):
        about = build(stem, "classification").about
        assert about.keys() == {"title", "source", "licence", "pretrained_on", "parameters"}
        assert all(about[key].strip() for key in ("title", "source", "licence"))
        assert isinstance(about["pretrained_on"], list)
        assert read_yaml(find_conf(stem)).values.keys() <= {*about, "model", "benchmarks"}


@pytest.mark.parametrize("name", sorted(p.stem for p in (configs_dir() / "benchmarks").glob("*.yaml")))
class TestInstance:
    def test_loads_and_says_how_to_get_its_data(self, name: str):
        found = find_benchmark(name)
        assert found.family in FAMILIES
        conf = build("color_histogram", name)
        assert conf.benchmark == name
        assert conf.title
        component = registry.find("datasets", conf.data.name)
        if not getattr(component.build, "generated", False):
            assert conf.obtain
            assert conf.layout
            assert isinstance(found.layer.values.get("overlaps"), list)
