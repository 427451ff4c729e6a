"""Boundaries: where would people draw the outlines of things?

BSDS500's protocol (Arbelaez et al. 2011): the soft map is reduced to ridges, thresholded, thinned, and its pixels matched one
to one with those of each annotator within .0075 of the diagonal; ODS is F at the best threshold for all images, OIS at each
image's best, AP the mean precision over recalls (`benchkit.metrics.boundaries`). Counts stand per image and threshold in
results.h5. Human agreement on BSDS500 is ODS .803. Its numbers are those of whole images: data.resize=pad or squash.

Heads learn `map`, the annotators' mean under a Gaussian as wide as that distance, 1 on a line that all have drawn; a map of
lines one pixel wide is best predicted as nothing under an L1 loss. A constant map says nothing and scores 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval._dense import Arrays, Dense, Made
from benchkit.eval._magnitude import draw_values
from benchkit.eval.base import Columns, Metric
from benchkit.metrics import boundaries as scores_of
from benchkit.metrics.magnitude import pooled_map
from benchkit.metrics.structure import smooth
from benchkit.settings import setting
from benchkit.store.items import Items

SPREAD = 0.0075  # of the diagonal: sigma of what heads learn


@dataclasses.dataclass
class Settings:
    """Settings of the scores."""

    thresholds: int = setting(99, "how many thresholds, evenly between 0 and 1")
    max_dist: float = setting(0.0075, "the distance within which pixels match, as a share of the diagonal")
    nms: bool = setting(True, "reduce predictions to their ridges first (non-maximum suppression)")
    ap: Literal["levels", "toolbox"] = setting(
        "levels",
        "levels, or toolbox: nothing below the least recall reached, and 101 values over 100, as its code has it",
    )

    def __post_init__(self) -> None:
        if self.thresholds < 1 or not 0 <= self.max_dist < 1:
            raise ValueError(
                f"thresholds must be at least 1 and max_dist from 0 to 1, not {self.thresholds} and {self.max_dist}"
            )


class Boundaries(Dense):
    """See the module."""

    level = "low"
    task = "maps"
    source = "BSDS500 (Arbelaez et al. 2011), conventions of the edges toolbox (Dollar and Zitnick 2013)"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scenes", "truth": "boundaries"},
        "model": {"head": {"name": "dense_linear"}},
    }
    needs = ("map",)
    scored = ("boundaries",)

    def metrics(self) -> list[Metric]:
        """The headline is ods."""
        return [
            Metric("ods", "higher", "F of matched boundary pixels at the best threshold for all images"),
            Metric("ois", "higher", "the same F where each image has its own best threshold"),
            Metric("ap", "higher", "mean precision over recalls"),
        ]

    def check(self, truth: Items) -> None:
        """A stack of binary maps per image; and scipy, which matches pixels."""
        sample = np.asarray(truth.item("boundaries", 0)) if "boundaries" in truth else np.zeros(0)
        if sample.ndim != 3 or sample.dtype.kind not in "ui":
            raise UsageError("boundaries needs data with boundary maps of each image, one of every annotator.")
        try:
            import scipy  # noqa: F401
        except ImportError:
            raise UsageError("boundaries are matched by scipy: pip install 'benchkit[boundaries]'.") from None

    def complete(self, fields: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Adds `map`, float32 (h, w) in 0..1: the annotators' mean, widened."""
        mean = fields["boundaries"].mean(axis=0, dtype=np.float32)
        sigma = max(SPREAD * float(np.hypot(*mean.shape)), 0.5)
        return {**fields, "map": np.minimum(smooth(mean, sigma) * np.float32(sigma * np.sqrt(2 * np.pi)), 1)}

    def score_item(self, prediction: Arrays, target: Arrays) -> dict[str, Any]:
        """Counts by threshold, and the F of the image's own best threshold."""
        known = self.settings
        thresholds = scores_of.levels(known.thresholds)
        counts = scores_of.image_counts(prediction["map"], target["boundaries"], thresholds, known.max_dist, known.nms)
        best = scores_of.best_counts(counts[None])[0]
        return {"best_f": float(scores_of.f_measure(*scores_of.curve(best))), "stats/counts": counts}

    def pooled(self, target: Arrays, grid: tuple[int, int]) -> Arrays:
        """Each cell's mean of what heads learn, resized."""
        return {"map": pooled_map(target["map"], grid)}

    def oracle(self, targets: Items) -> Items:
        """The annotators' mean: at the optimum where there is one annotator, and as thin as predictions are made."""
        return Made(targets, lambda row: {"map": targets.item("boundaries", row).mean(axis=0, dtype=np.float32)})

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """From the counts of all images together; undefined where nothing is drawn in any."""
        counts = columns["stats/counts"]
        total = counts.sum(axis=0, dtype=np.int64)
        if not total[:, scores_of.DRAWN].any():
            return {metric.name: None for metric in self.metrics()}
        best = scores_of.best_counts(counts).sum(axis=0, dtype=np.int64)
        average = scores_of.average_precision if self.settings.ap == "levels" else scores_of.toolbox_average_precision
        return {
            "ods": scores_of.ods(total),
            "ois": float(scores_of.f_measure(*scores_of.curve(best))),
            "ap": average(total),
        }

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Image, the annotators' mean and the prediction."""
        draw_values(axes, prediction["map"], target["boundaries"].mean(axis=0, dtype=np.float32), "", image)


build = Boundaries

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("boundaries"))
