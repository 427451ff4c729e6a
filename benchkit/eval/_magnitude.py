"""What families share whose truth is how much of something there is at each pixel: edges, corners, keypoints.

Heads learn the map with an L1 loss and no activation, since squares would weigh the few strongest pixels alone. The headline
is Pearson's correlation within an image, then the mean over images: a constant is close to such a truth nearly everywhere,
has a small RMSE, and a correlation of 0 (VisBench, tasks/magnitude_base.py and metrics/dense.py). RMSE and MAE, in the
truth's unit, tell what correlation is blind to: scale and offset. Unknown pixels (NaN) count nowhere; an image whose truth is
constant has no correlation, and is left out of it and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval._dense import Arrays, Dense, Made
from benchkit.eval.base import Columns, Metric
from benchkit.metrics import magnitude as scores_of
from benchkit.metrics.intervals import mean_defined
from benchkit.store.items import Items


class Magnitude(Dense):
    """See the module; a subclass says what is measured, and where the generated truth comes from."""

    task = "maps"
    needs = ("map",)

    def metrics(self) -> list[Metric]:
        """The headline is correlation."""
        return [
            Metric(
                "correlation", "higher", "Pearson's over the pixels of an image, 0 of a constant", "", "correlation"
            ),
            Metric("rmse", "lower", "root mean square error over the pixels of an image", "the truth's", "rmse"),
            Metric("mae", "lower", "mean absolute error over the pixels of an image", "the truth's", "mae"),
        ]

    def check(self, truth: Items) -> None:
        """Maps of one number per pixel; truth made from the image always is one."""
        if self.derive is not None:
            return
        sample = np.asarray(truth.item("map", 0)) if "map" in truth else np.zeros(0)
        if sample.ndim != 2 or sample.dtype.kind != "f":
            raise UsageError(
                "this benchmark needs data with a map of one floating number per pixel, NaN where unknown."
            )

    def score_item(self, prediction: Arrays, target: Arrays) -> dict[str, Any]:
        """Correlation, RMSE and MAE of one image."""
        return scores_of.errors(prediction["map"], target["map"])

    def pooled(self, target: Arrays, grid: tuple[int, int]) -> Arrays:
        """Each cell's mean of the known pixels, resized."""
        return {"map": scores_of.pooled_map(target["map"], grid)}

    def oracle(self, targets: Items) -> Items:
        """The truth as prediction; 0 where it is unknown."""
        return Made(targets, lambda row: {"map": np.nan_to_num(targets.item("map", row))})

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means over the images where each is defined."""
        return {m.name: mean_defined(columns[m.column])[0] for m in self.metrics()}

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Image, truth and prediction on the truth's scale, which is drawn below."""
        draw_values(axes, prediction["map"], target["map"], target["meta"].get("unit", ""), image)


def draw_values(axes: Any, predicted: np.ndarray, truth: np.ndarray, unit: str, image: Any) -> None:
    """Image, true and predicted numbers (h, w) side by side on the truth's scale; unknown ones (NaN) are invalid."""
    from benchkit.viz import maps as viz

    known = np.isfinite(truth)
    low, high = (float(truth[known].min()), float(truth[known].max())) if known.any() else (0.0, 1.0)
    maps = [
        ("truth", viz.values_picture(truth, known, low, high)),
        ("prediction", viz.values_picture(predicted, np.isfinite(predicted), low, high)),
    ]
    viz.side_by_side(axes, [*([] if image is None else [("image", image)]), *maps])
    viz.scale(axes, low, high, unit)
