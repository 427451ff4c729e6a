"""Relative pose: how exactly do matches of two photos tell how the camera moved?

Protocol of MegaDepth-1500 and ScanNet-1500 (SuperGlue, LoFTR, Glue Factory: cvg/glue-factory, gluefactory/eval/utils.py).
The error of a pose is the larger of its rotation's and its translation's angle, the latter folded at 90 degrees;
rel_pose_error_<estimator>@t is the area under the recall curve of errors up to t degrees over t, mAA the mean of these areas.
epi_prec@t is the share of an item's matches closer to their epipolar lines than t in normalised coordinates, 0 without a
match, undefined where the truth only turns.

With eval.depth=true also, of views with depth: reproj_prec@t, the share of the matches with depth at both ends that project
less than t pixels from each other; gt_match_precision@3px and gt_match_recall@3px against the keypoints that depth says belong
together; AP, the area under precision and recall of all items' matches by their scores (Glue Factory's ETH3D, counted at no
more than 256 scores). An item without matches has precision 0; where depth says nothing of any of them it is undefined.

The floor answers one step to the right without turning, and sends matched keypoints (some 32 of an item, evenly spaced) to any
of the second view.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.estimators.base import Estimate
from benchkit.eval import _depth_matches as depth_scores
from benchkit.eval._matches import Matches, read_matches
from benchkit.eval._pose_oracle import points_in_both
from benchkit.eval._robust import SAMPLED, TwoViews, Values
from benchkit.eval._robust_settings import RobustSettings, Runs
from benchkit.eval.base import Columns, Metric
from benchkit.geometry import pose as geometry
from benchkit.metrics import pose as scores_of
from benchkit.metrics.matches import DepthPair
from benchkit.settings import setting
from benchkit.store.items import ArrayItems, Items

EPIPOLAR = {"1e-4": 1e-4, "5e-4": 5e-4, "1e-3": 1e-3}
STEP = np.concatenate([np.eye(3), np.array([[-1.0], [0], [0]])], axis=1)  # the camera moves to the right
DRAWN = EPIPOLAR["1e-3"]  # the epipolar error from which on a match is drawn in red
POINTS = 64  # of the oracle


@dataclasses.dataclass
class Settings(RobustSettings):
    """Settings of the scores."""

    auc: list[float] = setting([5.0, 10.0, 20.0], "thresholds of the areas in degrees")
    depth: bool = setting(False, "score matches against depth too, where the data have it")


@dataclasses.dataclass(frozen=True)
class Truth:
    """Cameras (3, 3), X1 = R X0 + t, sizes (width, height), and depth where it is asked for."""

    K0: np.ndarray
    K1: np.ndarray
    R: np.ndarray
    t: np.ndarray
    size0: np.ndarray
    size1: np.ndarray
    depth: DepthPair | None = None


class RelativePose(TwoViews):
    """See the module."""

    source = "MegaDepth-1500 (Sun et al. 2021), ScanNet-1500 (Sarlin et al. 2020), in the protocol of cvg/glue-factory"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scene_pairs"},
        "model": {"head": {"name": "match", "mutual": True, "ratio": 1.0, "max_matches": None}},
    }
    folder = "pairs"
    trial = ("data.n_test=12", "model.features.layers=2", "eval.options.max_iterations=1000")
    kind = "relative_pose"
    stem = "rel_pose_error"
    unit = "deg"
    truth = ("K0", "K1", "R", "t", "size0", "size1")
    what = "R/t error"
    obtain = "data.name=pairs reads your own, data.name=scene_pairs makes some"
    categories = ("angle", "source")

    def match_metrics(self) -> list[Metric]:
        """Of matches against the pose and, where it is asked for, against depth."""
        said = "share of an item's matches that are less than {} from their epipolar lines, normalised, on average over items"
        epipolar = [Metric(f"epi_prec@{t}", "higher", said.format(t), "", f"epi_prec@{t}") for t in EPIPOLAR]
        return [*epipolar, *(depth_scores.metrics() if self.settings.depth else [])]

    def check(self, truth: Items) -> None:
        """Depth, where it is asked for, and what all families check."""
        self._check_depth(truth)
        super().check(truth)

    def _check_depth(self, targets: Items) -> None:
        if self.settings.depth and not ("depth0" in targets and "depth1" in targets):
            raise UsageError(
                "eval.depth=true needs views with depth, and these data have no depth0 and depth1: drop it, or export data "
                "that have them (generated pairs: data.truth=depth)."
            )

    def score(self, predictions: Items, targets: Items) -> Columns:
        """As all families, once it is clear that depth is there."""
        self._check_depth(targets)
        return super().score(predictions, targets)

    def read_truth(self, targets: Items, row: int) -> Truth:
        """Cameras, and depth where it is asked for."""
        K0, K1, R, t, size0, size1 = (np.asarray(targets.item(field, row), np.float64) for field in self.truth)
        if not self.settings.depth:
            return Truth(K0, K1, R, t, size0, size1)
        depth0, depth1 = (np.asarray(targets.item(field, row)) for field in ("depth0", "depth1"))
        return Truth(K0, K1, R, t, size0, size1, DepthPair(K0, K1, R, t, size0, size1, depth0, depth1))

    def estimate(self, runs: Runs, matches: Matches, truth: Truth) -> list[Estimate]:
        """Thresholds are pixels of the views."""
        points = matches.points0, matches.points1
        return runs.estimator.relative_poses(*points, truth.K0, truth.K1, runs.thresholds, matches.seed)

    def error(self, model: np.ndarray, truth: Truth) -> float:
        """The larger of both angles."""
        return scores_of.pose_error(model[:, :3], model[:, 3], truth.R, truth.t)

    def constant_model(self, truth: Truth) -> np.ndarray:
        """One step to the right."""
        return STEP

    def about_matches(self, matches: Matches, truth: Truth) -> dict[str, Any]:
        """Precision of matches."""
        first, second = geometry.normalised(matches.points0, truth.K0), geometry.normalised(matches.points1, truth.K1)
        found: dict[str, Any] = self._epipolar(first, second, truth)
        return found if truth.depth is None else {**found, **depth_scores.scores(matches, truth.depth)}

    def expected(self, matches: Matches, truth: Truth) -> dict[str, Any]:
        """Mean over all keypoints of the second view."""
        some = matches.matched[:: max(1, len(matches.matched) // SAMPLED)]
        first = geometry.normalised(matches.keypoints0[some], truth.K0)[:, None]
        second = geometry.normalised(matches.keypoints1, truth.K1)[None]
        found: dict[str, Any] = self._epipolar(first, second, truth)
        return found if truth.depth is None else {**found, **depth_scores.expected(matches, some, truth.depth)}

    def _epipolar(self, first: np.ndarray, second: np.ndarray, truth: Truth) -> dict[str, float]:
        if not truth.t.any():
            return {f"epi_prec@{name}": np.nan for name in EPIPOLAR}
        errors = scores_of.epipolar_errors(first, second, geometry.essential(truth.R, truth.t))
        shares = {name: float((errors < t).mean()) if errors.size else 0.0 for name, t in EPIPOLAR.items()}
        return {f"epi_prec@{name}": share for name, share in shares.items()}

    def columns(self, rows: list[dict[str, Any]]) -> Columns:
        """With counts by score, of matches against depth."""
        return super().columns(depth_scores.with_counts(rows) if self.settings.depth else rows)

    def summarize(self, columns: Columns) -> Values:
        """With AP, of matches against depth."""
        average = depth_scores.average(columns) if self.settings.depth else {}
        return {**super().summarize(columns), **average}

    def pictures(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, Callable[[Any], None]]:
        """Errors of poses and, against depth, precision and recall of matches."""
        found = super().pictures(columns, meta)
        return {**found, **depth_scores.pictures(columns)} if self.settings.depth else found

    def oracle(self, targets: Items) -> Items:
        """Points that both cameras see, matched."""
        fields: dict[str, list[np.ndarray]] = {field: [] for field in self.needs}
        for row in range(len(targets.names)):
            truth = self.read_truth(targets, row)
            points = points_in_both(truth, truth.depth, POINTS)
            for field, value in zip(self.needs, points, strict=True):
                fields[field].append(value)
        return ArrayItems(targets.names, {field: np.stack(values) for field, values in fields.items()}, {})

    def legend(self) -> str:
        """Of the lines."""
        return (
            f"lines: some matches; green: right; red: off by {DRAWN:g} (normalised) or more; grey: unknown (pure rotation); "
            "blue: true epipolar line of one (dots)"
        )

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Both views side by side, with some matches from green to red (by their epipolar error), and in blue the epipolar
        line of the surest match that is right, or of the surest one.
        """
        from benchkit.viz import matches as viz

        items = [ArrayItems([""], {k: [v] for k, v in each.items()}) for each in (prediction, target)]
        matches, truth = read_matches(items[0], 0), self.read_truth(items[1], 0)
        first, second = geometry.normalised(matches.points0, truth.K0), geometry.normalised(matches.points1, truth.K1)
        errors = scores_of.epipolar_errors(first, second, geometry.essential(truth.R, truth.t))
        marked = None
        if len(errors) and truth.t.any():
            row = int(np.argmax(errors < DRAWN))  # matches are in the order of their scores; 0 where none is right
            line = geometry.epipolar_lines(matches.points0[row][None], truth.K0, truth.K1, truth.R, truth.t)[0]
            ends = viz.line_within(line, truth.size1)
            marked = None if ends is None else (row, ends)
        errors = errors if truth.t.any() else np.full(len(errors), np.nan)
        sizes = (truth.size0, truth.size1)
        viz.draw_pairs(axes, matches.points0, matches.points1, errors / DRAWN, sizes, image, marked)


build = RelativePose

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("relative_pose"))
