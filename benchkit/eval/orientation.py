"""Orientation: which way does brightness change around each pixel?

The truth is made from the image after the crop, so any images will do: the main direction of the structure tensor as cosine
and sine of the doubled angle, since an edge and its reverse run the same way, at the length of its coherence (see
`benchkit.metrics.structure`). Heads learn the two channels with an L1 loss; the predicted length is not scored. The error is
half the angle between the two vectors, each pixel weighted by its true coherence, so that flat pixels, which have no
direction, count next to nothing: mean in degrees (45 by chance), and the shares below 11.25 and 22.5 degrees, per image,
then the mean over images (VisBench, tasks/low_level/orientation.py and metrics/dense.py). An image of one colour has no
direction anywhere: it is left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchkit.eval._dense import Arrays, Dense
from benchkit.eval.base import Columns, Metric
from benchkit.metrics import orientation as scores_of
from benchkit.metrics.intervals import mean_defined
from benchkit.metrics.magnitude import pooled_map
from benchkit.metrics.structure import orientation
from benchkit.registry import NoSettings as Settings

__all__ = ["Orientation", "Settings", "build"]

WHEEL = "hsv"  # a colour map whose ends meet, as angles of 0 and 180 degrees do


class Orientation(Dense):
    """See the module."""

    level = "low"
    task = "maps"
    folder = "images"
    source = "structure tensor (Bigun and Granlund 1987); encoding, weights and thresholds as VisBench's orientation"
    defaults: Mapping[str, Any] = {"data": {"name": "scenes"}, "model": {"head": {"name": "dense_linear"}}}
    needs = ("map",)

    def derive(self, image: np.ndarray) -> dict[str, np.ndarray]:
        """`map`: float32 (h, w, 2), coherence x (cos, sin) of the doubled angle."""
        return {"map": orientation(image)}

    def metrics(self) -> list[Metric]:
        """The headline is error."""
        shares = [
            Metric(f"d{k}", "higher", f"share of coherence that is less than {limit:g} degrees off", "", f"d{k}")
            for k, limit in enumerate(scores_of.THRESHOLDS, 1)
        ]
        return [
            Metric("error", "lower", "mean angle, weighted by coherence; 45 by chance", "degrees", "error"),
            *shares,
        ]

    def score_item(self, prediction: Arrays, target: Arrays) -> dict[str, Any]:
        """The scores of one image, NaN where nothing has a direction."""
        return scores_of.errors(prediction["map"], target["map"])

    def pooled(self, target: Arrays, grid: tuple[int, int]) -> Arrays:
        """Each cell's mean vector, resized: the dominant direction where directions agree."""
        return {"map": pooled_map(target["map"], grid)}

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means over the images that have a direction anywhere."""
        return {m.name: mean_defined(columns[m.column])[0] for m in self.metrics()}

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Image, truth and prediction: the angle as colour where the truth has one."""
        from benchkit.viz import maps as viz

        coherent = np.linalg.norm(target["map"], axis=-1) > 0
        shown = [
            (name, viz.values_picture(_degrees(field["map"]), coherent, 0, 180, WHEEL))
            for name, field in (("truth", target), ("prediction", prediction))
        ]
        viz.side_by_side(axes, [*([] if image is None else [("image", image)]), *shown])
        viz.scale(axes, 0, 180, "degrees", WHEEL)


def _degrees(vectors: np.ndarray) -> np.ndarray:
    """0 to 180, from right towards down."""
    return np.degrees(np.arctan2(vectors[..., 1], vectors[..., 0])) / 2 % 180


build = Orientation

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("orientation"))
