"""Correspondence in space: do two views of a scene or an object find the same point of its surface?

Protocol of probe3d on NAVI and ScanNet (El Banani et al. 2024): recall@t is the share of an item's matches whose points in
space are less than t centimetres apart, or which are less than t pixels off in view 1; then the mean over items (probe3d's
mean over all matches, since it keeps 1000 of each item). Pixels are those of view 1, or of the frame that the truth's
`scale1` leads to. An item without a match has recall 0; one without a valid cell in either view is left out and counted.
Matches that start where the truth is unknown count neither way; those that end there are wrong in space. By the bin of the
angle between the views the same numbers stand beside, as <metric>/<bin>.

The ceiling sends the same matches to the best valid cell, the floor to a valid cell at random (by counting).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval._matches import match_kinds, read_matches
from benchkit.eval.base import METHOD, Benchmark, Columns, Metric
from benchkit.geometry.pose import projected
from benchkit.metrics import correspondence3d as scores_of
from benchkit.metrics.intervals import mean_defined
from benchkit.settings import setting
from benchkit.store.items import ArrayItems, Items
from benchkit.store.points import MATCH_FIELDS

TRUTH = ("K0", "K1", "R", "t", "size0", "size1", "xyz0", "xyz1")
ANGLE = "category/angle"
BEST_PIXELS = "pixels1"  # of the ceiling alone: where matches would best end for the error in pixels
SHOWN = 4  # matches of the oracle


@dataclasses.dataclass
class Settings:
    """Settings of the scores."""

    centimetres: list[float] = setting(
        [1.0, 2.0, 5.0], "thresholds of the distance in space; the middle one is the headline"
    )
    pixels: list[float] = setting([5.0, 25.0, 50.0], "thresholds in pixels of view 1")

    def __post_init__(self) -> None:
        for name in ("centimetres", "pixels"):
            values = getattr(self, name)
            if not values or any(not 0 < each < np.inf for each in values) or sorted(set(values)) != values:
                raise ValueError(f"{name} are rising numbers above 0, not {values}")


class Pair(NamedTuple):
    """One item: its matches and its truth.

    Attributes:
        starts, ends, pixels: (m, 2), matched places in view 0 and in view 1, the latter as scored in space and in pixels.
        points: (m, 3), R X0 + t, NaN where X0 is unknown.
        view: view 1; scale: from its pixels to the scored ones; scored: whether both views have a valid cell.
    """

    starts: np.ndarray
    ends: np.ndarray
    pixels: np.ndarray
    points: np.ndarray
    view: scores_of.View
    scale: float
    scored: bool


class Correspondence3D(Benchmark):
    """See the module."""

    level = "geometry"
    source = "probe3d (El Banani et al. 2024): correspondence on NAVI and ScanNet"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scene_pairs", "truth": "xyz"},
        "model": {"head": {"name": "match_upsampled"}},
    }
    folder = "navi"
    needs = MATCH_FIELDS
    floor_head = None
    whole_views = True
    comparable = METHOD
    trial = ("data.n_test=6", "model.features.layers=3")

    def _names(self) -> list[str]:
        metres = [f"recall@{limit:g}cm" for limit in self.settings.centimetres]
        return [*metres, *(f"recall@{limit:g}px" for limit in self.settings.pixels)]

    @property
    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.settings.centimetres) / 100, np.array(self.settings.pixels)

    def metrics(self) -> list[Metric]:
        """The headline is the middle distance in space."""
        words = {"cm": "less than {} cm apart in space", "px": "less than {} pixels off in view 1"}
        lines = [
            Metric(name, "higher", f"share of matches {words[name[-2:]].format(name[7:-2])}", "", name)
            for name in self._names()
        ]
        first = lines.pop(len(self.settings.centimetres) // 2)
        count = Metric("num_matches", "neither", "matches that start at a known point, on average", "", "num_matches")
        return [first, *lines, count]

    def check(self, truth: Items) -> None:
        """Every item has two views with cameras and points in space."""
        views = truth.read("views") if "views" in truth else [""]
        absent = [name for name in TRUTH if name not in truth]
        if absent or any(each.count("\n") != 1 for each in views):
            what = f"there is no {absent[0]}" if absent else "some items are no pairs"
            raise UsageError(
                f"correspondence3d needs pairs of views with cameras and points in space, and {what}: data.truth=xyz with "
                "data.name=navi, scannet_pairs or scene_pairs."
            )

    def score(self, predictions: Items, targets: Items) -> Columns:
        """Recalls of each item, NaN where nothing is valid."""
        rows, counts = [], []
        for row in range(len(targets.names)):
            pair = self._pair(predictions, targets, row)
            found = scores_of.errors(pair.points, pair.ends, pair.pixels, pair.view, pair.scale)
            rows.append(scores_of.recalls(found, *self._limits) if pair.scored else None)
            counts.append(float(found.known.sum()))
        return self._columns(rows, counts, targets)

    def _pair(self, predictions: Items, targets: Items, row: int) -> Pair:
        """One item's matches, checked, and its truth."""
        said = read_matches(predictions, row)
        pixels = np.asarray(predictions.item(BEST_PIXELS, row)) if BEST_PIXELS in predictions else said.points1
        return self._with_truth(said.points0, said.points1, pixels, targets, row)

    def _with_truth(self, starts: np.ndarray, ends: np.ndarray, pixels: np.ndarray, targets: Items, row: int) -> Pair:
        R, t = (np.asarray(targets.item(name, row), np.float64) for name in ("R", "t"))
        views = [_view(targets, row, k) for k in (0, 1)]
        points = scores_of.moved(scores_of.points_at(views[0], starts), R, t)
        scale = float(targets.item("scale1", row)) if "scale1" in targets else 1.0
        scored = all(view.valid.any() for view in views)
        return Pair(starts, ends, pixels, points, views[1], scale, scored)

    def _columns(self, rows: list[np.ndarray | None], counts: list[float], targets: Items) -> Columns:
        names = self._names()
        table = np.array([np.full(len(names), np.nan) if row is None else row for row in rows])
        columns: Columns = {name: table[:, k] for k, name in enumerate(names)}
        columns["num_matches"] = np.array(counts)
        if ANGLE in targets:
            columns["stats/angle"] = np.array([_bin(text) for text in targets.read(ANGLE)])
        return columns

    def ceiling(self, predictions: Items, targets: Items) -> Items:
        """The same matches, sent to the valid cell that is best for each error."""
        fields: dict[str, list[np.ndarray]] = {field: [] for field in (*self.needs, BEST_PIXELS)}
        for row in range(len(targets.names)):
            pair = self._pair(predictions, targets, row)
            ends, pixels = scores_of.best_places(pair.points, pair.view, pair.ends, pair.scale)
            values: tuple[np.ndarray, ...] = (
                pair.starts,
                ends,
                np.arange(len(ends), dtype=np.int32),
                np.ones(len(ends), np.float32),
                pixels,
            )
            for field, value in zip(fields, values, strict=True):
                fields[field].append(value)
        return ArrayItems(targets.names, fields, {})

    def chance(self, targets: Items, predictions: Items) -> Columns:
        """The mean over the valid cells of view 1, for the very keypoints that are matched."""
        rows, counts = [], []
        for row in range(len(targets.names)):
            pair = self._pair(predictions, targets, row)
            found = scores_of.chances(pair.points, pair.view, pair.scale, *self._limits)
            rows.append(found if pair.scored else None)
            counts.append(float(np.isfinite(pair.points).all(axis=1).sum()))
        return self._columns(rows, counts, targets)

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means over the items with valid truth."""
        return {metric.name: mean_defined(columns[metric.column])[0] for metric in self.metrics()}

    def breakdown(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, float | None]:
        """<metric>/<bin>: recalls of the items of each bin of angles, as the data set bins them."""
        angles = columns.get("stats/angle")
        if angles is None:
            return {}
        bins = np.unique(angles[np.isfinite(angles).all(axis=1)], axis=0)
        return {
            f"{name}/{low:g}-{high:g}": mean_defined(columns[name][(angles == [low, high]).all(axis=1)])[0]
            for name in self._names()
            for low, high in bins
        }

    def oracle(self, targets: Items) -> Items:
        """Of the valid cells of view 0 the ones whose point view 1 shows best, matched to where they truly are."""
        fields: dict[str, list[np.ndarray]] = {field: [] for field in self.needs}
        for row in range(len(targets.names)):
            view = _view(targets, row, 0)
            starts = view.centres(*np.nonzero(view.valid))
            there = self._with_truth(starts, starts, starts, targets, row)
            ends = projected(there.points, there.view.K)
            ends[~np.isfinite(ends)] = 0
            found = scores_of.errors(there.points, ends, ends, there.view, there.scale)
            best = np.resize(np.argsort(found.metres, kind="stable")[:SHOWN], SHOWN if len(starts) else 0)
            values: tuple[np.ndarray, ...] = (
                starts[best],
                ends[best],
                np.arange(len(best), dtype=np.int32),
                np.ones(len(best), np.float32),
            )
            for field, value in zip(self.needs, values, strict=True):
                fields[field].append(value)
        same = len({len(each) for each in fields["matches0"]}) == 1
        return ArrayItems(targets.names, {k: np.stack(v) if same else v for k, v in fields.items()}, {})

    def told(self, column: str, row: Mapping[str, float]) -> str:
        """The share, and of how many."""
        return f"{super().told(column, row)}, {row['num_matches']:.0f} matches"

    def legend(self) -> str:
        """Of the lines."""
        return (
            f"lines: some matches; green: right; red: off by {self.settings.centimetres[-1]:g} cm in space or more; "
            "grey: nothing known where it starts"
        )

    def kinds(self) -> dict[str, Callable[[Any, Any], None]]:
        """Matches, and all keypoints."""
        return match_kinds(self)

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Both views side by side, with some matches from green (right) to red (as far apart as the last distance and more)."""
        from benchkit.viz import matches as viz

        fields = {name: [np.asarray(target[name])] for name in (*TRUTH, "scale1") if name in target}
        matched = {name: [np.asarray(prediction[name])] for name in self.needs}
        pair = self._pair(ArrayItems([""], matched), ArrayItems([""], fields), 0)
        found = scores_of.errors(pair.points, pair.ends, pair.pixels, pair.view, pair.scale)
        off = np.where(found.known, found.metres / self._limits[0][-1], np.nan)
        viz.draw_pairs(axes, pair.starts, pair.ends, off, (target["size0"], target["size1"]), image)


def _view(targets: Items, row: int, which: int) -> scores_of.View:
    camera, size, xyz = (np.asarray(targets.item(f"{name}{which}", row)) for name in ("K", "size", "xyz"))
    return scores_of.View(camera.astype(np.float64), size.astype(np.float64), xyz)


def _bin(text: str) -> tuple[float, float]:
    """Both ends of a bin such as 0-30; NaN of other text."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)", text)
    return (float(found[1]), float(found[2])) if found else (np.nan, np.nan)


build = Correspondence3D

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("correspondence3d"))
