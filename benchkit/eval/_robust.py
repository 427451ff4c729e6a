"""What families share whose score is a geometric model, robustly estimated from matches of two views.

Every estimator runs on every item at every threshold, in threads, seeded by the item's name; what is known of the matches
alone is computed once. An estimate that failed has an infinite error, stays in the denominator, and is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from benchkit.errors import RunError, UsageError, reason
from benchkit.estimators._threads import over_items
from benchkit.estimators.base import Estimate
from benchkit.eval._matches import Matches, match_kinds, read_matches
from benchkit.eval._robust_settings import Runs, short_name
from benchkit.eval.base import METHOD, Benchmark, Columns, Metric
from benchkit.metrics import curves
from benchkit.metrics.intervals import mean_defined
from benchkit.store.items import Items
from benchkit.store.points import MATCH_FIELDS

PART = "stats/in/"  # columns that say which items have a value of the category
SAMPLED = 32  # matches of an item, evenly spaced, of which chance is computed
Values = dict[str, float | None]


class TwoViews(Benchmark):
    """A family that scores estimates.

    Attributes:
        kind: what is estimated, as estimators call it.
        stem, suffix: names are `<stem>_<estimator>@<threshold><suffix>`.
        unit: of errors.
        truth: fields of the targets without which nothing can be scored.
        obtain: which data have them, for messages.
        categories: the label columns whose values have areas of their own (`<metric>/<value>`).
        others: errors beside the estimators', which `about_matches` gives as `<stem>_<other>`.
        medians: whether median errors are told.
        what: the error, as captions call it.
    """

    level = "geometry"
    needs = MATCH_FIELDS
    floor_head = None
    whole_views = True
    comparable = METHOD
    kind = ""
    stem = ""
    suffix = ""
    unit = ""
    truth: tuple[str, ...] = ()
    obtain = ""
    categories: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    medians = False
    what = ""

    def kinds(self) -> dict[str, Callable[[Any, Any], None]]:
        """Matches, and all keypoints."""
        return match_kinds(self)

    def read_truth(self, targets: Items, row: int) -> Any:
        """One item's truth, as the other methods take it."""
        raise NotImplementedError

    def estimate(self, runs: Runs, matches: Matches, truth: Any) -> list[Estimate]:
        """One estimate per threshold."""
        raise NotImplementedError

    def error(self, model: np.ndarray, truth: Any) -> float:
        """How far a model is off."""
        raise NotImplementedError

    def about_matches(self, matches: Matches, truth: Any) -> dict[str, Any]:
        """Columns that need no estimator, among them the errors of `others`."""
        raise NotImplementedError

    def expected(self, matches: Matches, truth: Any) -> dict[str, Any]:
        """The same for the matched keypoints sent to any keypoint of the second view, by arithmetic; without errors."""
        raise NotImplementedError

    def constant_model(self, truth: Any) -> np.ndarray:
        """What the floor answers to everything."""
        raise NotImplementedError

    def match_metrics(self) -> list[Metric]:
        """Metrics of `about_matches`; those with a column are its mean."""
        raise NotImplementedError

    def labels(self) -> list[str]:
        """Of all estimates, in the order of tables."""
        return [label for name in self.settings.estimator for label in self.settings.labels(name)]

    def metrics(self) -> list[Metric]:
        """The headline is the mean area of the first estimator, at its best threshold where there are several."""
        return self._metrics

    @cached_property
    def _metrics(self) -> list[Metric]:
        lists = [self._of_estimator(name) for name in self.settings.estimator]
        lists += [self._of_label(other, "") for other in self.others]
        counts = [Metric("num_matches", "neither", "matches of an item, on average", "", "num_matches")]
        counts += [
            Metric(name, "neither", "inliers of an item's estimate, on average; 0 where it failed", "", name)
            for name in map(self._inliers, self.labels())
        ]
        return [*(metric for each in lists for metric in each), *self.match_metrics(), *counts]

    def _of_estimator(self, name: str) -> list[Metric]:
        labels = self.settings.labels(name)
        each = [metric for label in labels for metric in self._of_label(label, "")]
        if len(labels) == 1:
            return each
        best, said = best_of(name), ", at the threshold that is best on this very set"
        threshold = Metric(f"{self.stem}_{best}_threshold", "neither", "that threshold", "px")
        return [*self._of_label(best, said), threshold, *each]

    def _of_label(self, label: str, said: str) -> list[Metric]:
        limits = [f"{limit:g}{self.suffix}" for limit in self.settings.auc]
        about = [("higher", f"mean of the areas up to {', '.join(limits)}{said}", "")]
        about += [("higher", f"area under the recall curve of errors up to {limit}{said}", "") for limit in limits]
        about += [("lower", f"median error; none where half of the estimates failed{said}", self.unit)]
        return [Metric(name, *each) for name, each in zip(self._names(label), about, strict=False)]

    def _names(self, label: str) -> list[str]:
        """Of the numbers that are made of a label's errors: mean area, areas and, where it is told, the median."""
        name = f"{self.stem}_{label}"
        areas = [f"{name}@{limit:g}{self.suffix}" for limit in self.settings.auc]
        return [f"{name}_mAA", *areas, *([f"median_{name}"] if self.medians else [])]

    def _inliers(self, label: str) -> str:
        return "ransac_inliers" if len(self.labels()) == 1 else f"ransac_inliers_{label}"

    def check(self, truth: Items) -> None:
        """Every item has two views and the truth; the estimators' libraries are there."""
        views = truth.read("views") if "views" in truth else [""]
        absent = [field for field in self.truth if field not in truth]
        if absent or any(each.count("\n") != 1 for each in views):
            lack = f"has no {absent[0]!r}" if absent else "has items that are no pairs"
            raise UsageError(
                f"this benchmark scores pairs of views with {', '.join(self.truth)}; {self.obtain}: it {lack}."
            )
        self.settings.build(self.kind)

    def score(self, predictions: Items, targets: Items) -> Columns:
        """Errors of every estimate, and what is known of the matches."""
        runs = self.settings.build(self.kind)

        def one(row: int) -> dict[str, Any]:
            matches, truth = read_matches(predictions, row), self.read_truth(targets, row)
            try:
                return {**self.about_matches(matches, truth), **self._estimated(runs, matches, truth)}
            except (ValueError, np.linalg.LinAlgError) as error:  # a camera or a homography that is none
                raise RunError(f"row {row} ({targets.names[row]!r}): {reason(error)}.") from error

        rows = over_items(one, len(targets.names), self.settings.workers, "estimating", "pairs")
        return {**self.columns(rows), **self._parts(targets)}

    def _estimated(self, runs: Sequence[Runs], matches: Matches, truth: Any) -> dict[str, float]:
        found: dict[str, float] = {"num_matches": float(len(matches.matched))}
        for each in runs:
            for label, estimate in zip(each.labels, self.estimate(each, matches, truth), strict=True):
                failed = estimate.model is None
                found[f"{self.stem}_{label}"] = np.inf if estimate.model is None else self.error(estimate.model, truth)
                found[f"failed_{label}"] = float(failed)
                found[self._inliers(label)] = float(estimate.inliers.sum())
        return found

    def columns(self, rows: list[dict[str, Any]]) -> Columns:
        """What `score` found, item by item, as columns."""
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _parts(self, targets: Items) -> Columns:
        found: Columns = {}
        for column in (f"category/{name}" for name in self.categories):
            values = np.array(targets.read(column)) if column in targets else np.zeros(0)
            different = sorted(set(values.tolist()))
            found |= {f"{PART}{value}": values == value for value in different} if len(different) > 1 else {}
        return found

    def chance(self, targets: Items, predictions: Items) -> Columns:
        """The same answer for every item, and matches with keypoints at random."""
        rows = []
        for row in range(len(targets.names)):
            matches, truth = read_matches(predictions, row), self.read_truth(targets, row)
            error = self.error(self.constant_model(truth), truth)
            found = {**self.expected(matches, truth), "num_matches": float(len(matches.matched))}
            found |= {f"{self.stem}_{label}": error for label in (*self.labels(), *self.others)}
            rows.append({**found, **{self._inliers(label): np.nan for label in self.labels()}})
        return self.columns(rows)

    def summarize(self, columns: Columns) -> Values:
        """Areas, medians, means, and how many estimates failed."""
        means = {m.name: mean_defined(columns[m.column])[0] for m in self.metrics() if m.column}
        failed = {f"n_{name}": float(columns[name].sum()) for name in columns if name.startswith("failed_")}
        numbers = self._numbers(columns)
        found: Values = {}
        for label, row in numbers.items():
            found |= self._named(label, row)
        for name in self.settings.estimator:
            found |= self._best(name, numbers, bool(failed)) if len(self.settings.labels(name)) > 1 else {}
        return {**found, **means, **failed}

    def _numbers(self, columns: Columns) -> dict[str, np.ndarray]:
        """By label: the numbers that `_names` names."""
        labels = [*self.labels(), *self.others]
        errors = np.stack([columns[f"{self.stem}_{label}"] for label in labels])
        areas = curves.areas(errors, self.settings.auc)
        parts = [areas.mean(axis=1, keepdims=True), areas]
        if self.medians:
            parts.append(np.median(errors, axis=1, keepdims=True))
        return dict(zip(labels, np.concatenate(parts, axis=1), strict=True))

    def _named(self, label: str, numbers: np.ndarray) -> Values:
        pairs = zip(self._names(label), numbers.tolist(), strict=True)
        return {name: value if np.isfinite(value) else None for name, value in pairs}

    def _best(self, name: str, numbers: Mapping[str, np.ndarray], estimated: bool) -> Values:
        """The numbers at the threshold with the largest mean area (of equal ones the first); and that threshold, but for the
        floor, which is not estimated.
        """
        rows = [numbers[label] for label in self.settings.labels(name)]
        place = int(np.argmax([row[0] for row in rows]))
        best = best_of(name)
        threshold = float(self.settings.thresholds()[place]) if estimated else None
        return {**self._named(best, rows[place]), f"{self.stem}_{best}_threshold": threshold}

    def breakdown(self, columns: Columns, meta: Mapping[str, Any]) -> Values:
        """Areas and medians of the items of each value of a category; none where it has one value only."""
        found: Values = {}
        for part in (name for name in columns if name.startswith(PART)):
            chosen = columns[part].astype(bool)
            some = {name: column[chosen] for name, column in columns.items() if name.startswith(f"{self.stem}_")}
            numbers = self._numbers(some) if chosen.any() else {}  # a resample may hold none of them
            for label in (*self.labels(), *self.others):
                named = self._named(label, numbers[label]) if numbers else dict.fromkeys(self._names(label))
                found |= {f"{name}/{part.removeprefix(PART)}": value for name, value in named.items()}
        return found

    def pictures(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, Callable[[Any], None]]:
        """How many items are at most so far off, of every estimate."""
        from benchkit.viz import curves as viz

        errors = {label: columns[f"{self.stem}_{label}"] for label in (*self.labels(), *self.others)}
        return {f"{self.kind}_errors": lambda figure: viz.cumulative(figure, errors, self.settings.auc, self.unit)}

    def compared(self, scores: Mapping[str, np.ndarray]) -> dict[str, Callable[[Any], None]]:
        """The same of several tags."""
        from benchkit.viz import curves as viz

        return {f"{self.kind}_errors": lambda figure: viz.cumulative(figure, scores, self.settings.auc, self.unit)}

    def order(self, columns: Columns) -> tuple[str, str]:
        """Errors of the headline: of the first estimator, at the threshold that is best on this set."""
        names = [f"{self.stem}_{label}" for label in self.settings.labels(self.settings.estimator[0])]
        if any(name not in columns for name in names):
            return super().order(columns)
        areas = [curves.areas(columns[name], self.settings.auc).mean() for name in names]
        return names[int(np.argmax(areas))], "lower"

    def told(self, column: str, row: Mapping[str, float]) -> str:
        """The error, and how many of the matches the estimate calls inliers."""
        label = column.removeprefix(f"{self.stem}_")
        counts = [row.get(name, np.nan) for name in (self._inliers(label), "num_matches")]
        if label not in self.labels() or np.isnan(counts).any():
            return super().told(column, row)
        which = f" ({label})" if len(self.labels()) > 1 else ""
        if not np.isfinite(row[column]):
            return f"no estimate{which} from {counts[1]:.0f} matches"
        return f"{self.what} {row[column]:.3g} {self.unit}{which}, {counts[0]:.0f} inliers of {counts[1]:.0f} matches"


def best_of(name: str) -> str:
    """The label of an estimator's results at the threshold that is best on the evaluated set."""
    return f"{short_name(name)}_best"
