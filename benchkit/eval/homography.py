"""Homography: how exactly do matches of two views of a plane tell how it moved?

HPatches protocol of Glue Factory (cvg/glue-factory, gluefactory/eval/hpatches.py), in the frame that the data set says (HPatches:
short side 480): prec@t is the share of an item's matches whose mean forward and backward transfer error is below t, 0 without
a match, averaged over items. H_error_<estimator> is the mean distance of the first view's four corners under the estimate and
the truth, H_error_dlt the same of the direct linear transform of all matches weighted by their scores; @t is the area under
the recall curve up to t over t, mAA the mean of these areas. LoFTR's thresholds are eval.auc=3,5,10.

The floor answers that nothing moved, and sends matched keypoints (some 32 of an item, evenly spaced) to any of the second view.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchkit.estimators.base import Estimate
from benchkit.eval._matches import Matches, read_matches
from benchkit.eval._robust import SAMPLED, TwoViews
from benchkit.eval._robust_settings import RobustSettings, Runs
from benchkit.eval.base import Metric
from benchkit.geometry.homography import transfer
from benchkit.metrics import homography as scores_of
from benchkit.settings import setting
from benchkit.store.items import ArrayItems, Items

PRECISE = (1, 3)  # pixels
SIDE = 8  # points a side of the oracle's grid


@dataclasses.dataclass
class Settings(RobustSettings):
    """Settings of the scores."""

    auc: list[float] = setting([1.0, 3.0, 5.0], "thresholds of the areas in pixels; LoFTR: 3, 5, 10")


@dataclasses.dataclass(frozen=True)
class Truth:
    """In the scored frame.

    Attributes:
        homography: (3, 3); size0, size1: width and height of the views; scale0, scale1: from original pixels.
    """

    homography: np.ndarray
    size0: np.ndarray
    size1: np.ndarray
    scale0: float
    scale1: float


class Homography(TwoViews):
    """See the module."""

    source = "HPatches (Balntas et al. 2017) in the protocol of Glue Factory (cvg/glue-factory)"
    defaults: Mapping[str, Any] = {
        "data": {"name": "warped"},
        "model": {"head": {"name": "match", "mutual": True, "ratio": 1.0, "max_matches": None}},
    }
    folder = "warped"
    trial = ("data.n_test=12", "model.features.layers=2", "eval.auc=5,10,20", "eval.options.max_iterations=1000")
    kind = "homography"
    stem = "H_error"
    suffix = "px"
    unit = "px"
    truth = ("homography", "size0", "size1", "scale0", "scale1")
    obtain = "data.name=warped and data.name=hpatches give them"
    categories = ("kind", "warp")
    others = ("dlt",)
    medians = True
    what = "corner error"

    def match_metrics(self) -> list[Metric]:
        """Precision of matches."""
        said = "share of an item's matches that are less than {}px off, on average over items"
        return [Metric(f"prec@{t}px", "higher", said.format(t), "", f"prec@{t}px") for t in PRECISE]

    def read_truth(self, targets: Items, row: int) -> Truth:
        """Everything in the scored frame."""
        matrix, size0, size1, scale0, scale1 = (np.asarray(targets.item(field, row), float) for field in self.truth)
        scaled = scores_of.scaled(matrix, float(scale0), float(scale1), size0)
        return Truth(scaled, size0 * scale0, size1 * scale1, float(scale0), float(scale1))

    def estimate(self, runs: Runs, matches: Matches, truth: Truth) -> list[Estimate]:
        """Thresholds are pixels of the scored frame."""
        points0, points1 = matches.points0 * truth.scale0, matches.points1 * truth.scale1
        return runs.estimator.homographies(points0, points1, runs.thresholds, matches.seed)

    def error(self, model: np.ndarray, truth: Truth) -> float:
        """Mean distance of four corners."""
        return scores_of.corner_error(model, truth.homography, truth.size0)

    def constant_model(self, truth: Truth) -> np.ndarray:
        """The first view lies over the second, corner on corner."""
        return np.diag([*(truth.size1 / truth.size0), 1.0])

    def about_matches(self, matches: Matches, truth: Truth) -> dict[str, Any]:
        """Precision, and the error of the direct linear transform."""
        points0, points1 = matches.points0 * truth.scale0, matches.points1 * truth.scale1
        errors = scores_of.transfer_errors(points0, points1, truth.homography)
        direct = scores_of.weighted_dlt(points0, points1, matches.scores)
        return {
            **{f"prec@{t}px": float((errors < t).mean()) if len(errors) else 0.0 for t in PRECISE},
            "H_error_dlt": np.inf if direct is None else self.error(direct, truth),
            "failed_dlt": float(direct is None),
        }

    def expected(self, matches: Matches, truth: Truth) -> dict[str, Any]:
        """Mean over all keypoints of the second view."""
        some = matches.matched[:: max(1, len(matches.matched) // SAMPLED)]
        points0, points1 = matches.keypoints0[some] * truth.scale0, matches.keypoints1 * truth.scale1
        errors = scores_of.transfer_errors_all(points0, points1, truth.homography)
        return {f"prec@{t}px": float((errors < t).mean()) if errors.size else 0.0 for t in PRECISE}

    def oracle(self, targets: Items) -> Items:
        """A grid of points of the first view, matched to where they truly are."""
        fields: dict[str, list[np.ndarray]] = {field: [] for field in self.needs}
        for row in range(len(targets.names)):
            truth = self.read_truth(targets, row)
            cells = (np.arange(SIDE) + 0.5) / SIDE
            points0 = np.stack(np.meshgrid(*(cells[:, None] * truth.size0).T), axis=-1).reshape(-1, 2)
            points1 = transfer(truth.homography, points0)
            places = np.where(np.isfinite(points1).all(axis=1), np.arange(SIDE**2), -1).astype(np.int32)
            points1 = np.where(places[:, None] >= 0, points1, 0)
            values: tuple[np.ndarray, ...] = (points0 / truth.scale0, points1 / truth.scale1, places, np.ones(SIDE**2))
            for field, value in zip(self.needs, values, strict=True):
                fields[field].append(value)
        return ArrayItems(targets.names, {field: np.stack(values) for field, values in fields.items()}, {})

    def legend(self) -> str:
        """Of the lines."""
        return f"lines: some matches; green: right; red: off by {PRECISE[-1]} px or more, in the scored frame"

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Both views side by side, with some matches from green (right) to red (off by the loosest threshold and more)."""
        from benchkit.viz import matches as viz

        items = (ArrayItems([""], {k: [v] for k, v in each.items()}) for each in (prediction, target))
        matches, truth = read_matches(next(items), 0), self.read_truth(next(items), 0)
        errors = scores_of.transfer_errors(
            matches.points0 * truth.scale0, matches.points1 * truth.scale1, truth.homography
        )
        sizes = (np.asarray(target["size0"]), np.asarray(target["size1"]))
        viz.draw_pairs(axes, matches.points0, matches.points1, errors / PRECISE[-1], sizes, image)


build = Homography

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("homography"))
