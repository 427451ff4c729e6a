"""Correspondence: does a cell of one image find the same place in a warped one?

Warped-plane protocol of VisBench: matches between two views under a known homography. recall@t is the share of the matches
closer than t to the truth, pooled over the matches of all items (within an item too, where one without a match has 0);
auc@10px the area under the recall curve up to 10 pixels. How many matches there are is told beside them, since few sure ones
score higher than many. The ceiling is the same for the same matches sent to the nearest cell there is: a grid cannot be
right to the pixel. The floor sends each match to a cell at random.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from benchkit.errors import RunError, UsageError
from benchkit.eval._matches import match_kinds
from benchkit.eval.base import METHOD, Benchmark, Columns, Metric
from benchkit.geometry.homography import transfer
from benchkit.metrics import correspondence as scores_of
from benchkit.settings import setting
from benchkit.store.items import ArrayItems, Items

NAMES = (*(f"recall@{t}" for t in scores_of.THRESHOLDS), "auc@10")
Pair = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # keypoints0, keypoints1, matches0, homography


@dataclasses.dataclass
class Settings:
    """Settings of the scores."""

    threshold_units: Literal["pixel", "patch"] = setting(
        "pixel", "of thresholds: pixels of the view, or widths of a cell of the second view's grid (VisBench 0.2)"
    )


class Correspondence(Benchmark):
    """See the module."""

    level = "geometry"
    source = "warped planes of VisBench: recall of matches under a known homography"
    defaults: Mapping[str, Any] = {
        "data": {"name": "warped"},
        "model": {"head": {"name": "match"}},
    }
    folder = "warped"
    needs = ("keypoints0", "keypoints1", "matches0")
    floor_head = None
    whole_views = True
    comparable = METHOD
    trial = ("data.n_test=12", "model.features.layers=3")

    def metrics(self) -> list[Metric]:
        """The headline is recall at 5 pixels (or 1 cell)."""
        unit = "px" if self.settings.threshold_units == "pixel" else "p"
        lines = [Metric(f"{n}{unit}", "higher", f"share of matches closer than {n[7:]}{unit}") for n in NAMES[:-1]]
        area = Metric(f"auc@10{unit}", "higher", f"area under the recall curve up to 10{unit}")
        first = lines.pop(2 if unit == "px" else 0)
        count = Metric("num_matches", "neither", "matches of an item, on average", "", "num_matches")
        return [first, *lines, area, count]

    def check(self, truth: Items) -> None:
        """Every item has two views and a homography."""
        views = truth.read("views") if "views" in truth else [""]
        if "homography" not in truth or any(each.count("\n") != 1 for each in views):
            raise UsageError("correspondence needs data whose items are two views and a homography: data.name=warped.")

    def score(self, predictions: Items, targets: Items) -> Columns:
        """Sums and shares of each item's matches."""
        return self._columns([scores_of.sums(*each) for each in self._distances(predictions, targets)])

    def _distances(self, predictions: Items, targets: Items) -> list[tuple[np.ndarray, float]]:
        """Errors of each item's matches, and the unit of thresholds."""
        found = []
        for row in range(len(targets.names)):
            pair = self._pair(predictions, targets, row)
            chosen = pair[2] >= 0
            points1 = pair[1][pair[2][chosen]]
            found.append((scores_of.errors(pair[0][chosen], points1, pair[3]), self._unit(pair[1])))
        return found

    def _pair(self, predictions: Items, targets: Items, row: int) -> Pair:
        points0, points1, matches = (np.asarray(predictions.item(field, row)) for field in self.needs)
        where = f"row {row} ({targets.names[row]!r})"
        if not (np.isfinite(points0).all() and np.isfinite(points1).all()):
            raise RunError(f"{where}: keypoints hold NaN or infinity: export again.")
        if len(matches) != len(points0) or (len(matches) and int(matches.max()) >= len(points1)):
            raise RunError(f"{where}: matches0 names keypoints that are not there: the head that made them is wrong.")
        return (
            points0.astype(np.float64),
            points1.astype(np.float64),
            matches,
            np.asarray(targets.item("homography", row)),
        )

    def _unit(self, points1: np.ndarray) -> float:
        """Pixels of a unit: 1, or the least distance between two of the second view's columns of cells."""
        if self.settings.threshold_units == "pixel":
            return 1.0
        columns = np.unique(points1[:, 0])
        return float(np.diff(columns).min()) if len(columns) > 1 else 1.0

    def _columns(self, sums: list[np.ndarray]) -> Columns:
        table = np.array(sums)
        return {
            **{name: np.array([scores_of.shares(each)[k] for each in sums]) for k, name in enumerate(NAMES)},
            "num_matches": table[:, 0],
            "stats/sums": table,
        }

    def ceiling(self, predictions: Items, targets: Items) -> Items:
        """The same matches, each sent to the second view's keypoint that is nearest to the truth."""
        fields: dict[str, list[np.ndarray]] = {field: [] for field in self.needs}
        for row in range(len(targets.names)):
            points0, points1, matches, homography = self._pair(predictions, targets, row)
            chosen = np.flatnonzero(matches >= 0)
            true = transfer(homography, points0[chosen])
            known = np.isfinite(true).all(axis=1)
            best = matches.copy()
            best[chosen[known]] = scores_of.nearest(true[known], points1)
            for field, value in zip(self.needs, (points0, points1, best), strict=True):
                fields[field].append(value)
        return ArrayItems(targets.names, fields, {})

    def chance(self, targets: Items, predictions: Items) -> Columns:
        """The mean over all keypoints of the second view, for the very keypoints that are matched."""
        sums = []
        for row in range(len(targets.names)):
            points0, points1, matches, homography = self._pair(predictions, targets, row)
            each = [
                scores_of.sums(
                    scores_of.errors(np.tile(point, (len(points1), 1)), points1, homography), self._unit(points1)
                )
                for point in points0[matches >= 0]
            ]
            sums.append(
                np.sum([one / max(len(points1), 1) for one in each], axis=0) if each else np.zeros(len(NAMES) + 1)
            )
        return self._columns(sums)

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Over the matches of all items together."""
        unit = "px" if self.settings.threshold_units == "pixel" else "p"
        total = columns["stats/sums"].sum(axis=0)
        values = dict(zip((f"{name}{unit}" for name in NAMES), map(float, scores_of.shares(total)), strict=True))
        return {**values, "num_matches": float(columns["num_matches"].mean())}

    def oracle(self, targets: Items) -> Items:
        """A grid of points of the first view, matched to where they truly are."""
        fields: dict[str, list[np.ndarray]] = {field: [] for field in self.needs}
        for row in range(len(targets.names)):
            width, height = np.asarray(targets.item("size0", row))
            x, y = np.meshgrid((np.arange(4) + 0.5) * width / 4, (np.arange(4) + 0.5) * height / 4)
            points0 = np.stack([x.ravel(), y.ravel()], axis=1)
            values: tuple[np.ndarray, ...] = (
                points0,
                transfer(np.asarray(targets.item("homography", row)), points0),
                np.arange(16, dtype=np.int32),
            )
            for field, value in zip(self.needs, values, strict=True):
                fields[field].append(value)
        stacked = {field: np.stack(values) for field, values in fields.items()}
        return ArrayItems(targets.names, stacked, {})

    def order(self, columns: Columns) -> tuple[str, str]:
        """The headline's share of the item's own matches."""
        column = self.metrics()[0].name.rstrip("px")
        return (column, "higher") if column in columns else super().order(columns)

    def told(self, column: str, row: Mapping[str, float]) -> str:
        """The share, and of how many matches."""
        name = self.metrics()[0].name
        if column != name.rstrip("px"):
            return super().told(column, row)
        return f"{name} {row[column]:.3g}, {row['num_matches']:.0f} matches"

    def legend(self) -> str:
        """Of the lines."""
        unit = "px" if self.settings.threshold_units == "pixel" else "cells of the grid"
        return f"lines: some matches; green: right; red: off by {scores_of.AREA:g} {unit} or more"

    def kinds(self) -> dict[str, Callable[[Any, Any], None]]:
        """Matches, and all keypoints."""
        return match_kinds(self)

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Both views side by side, with some matches from green (right) to red (10 pixels or cells off and more)."""
        from benchkit.viz import matches as viz

        points0, points1, matches = (np.asarray(prediction[name]) for name in self.needs)
        chosen = np.flatnonzero(matches >= 0)
        starts, ends = points0[chosen], points1[matches[chosen]]
        wrong = scores_of.errors(starts, ends, np.asarray(target["homography"])) / (
            scores_of.AREA * self._unit(points1)
        )
        viz.draw_pairs(axes, starts, ends, wrong, (target["size0"], target["size1"]), image)


build = Correspondence

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("correspondence"))
