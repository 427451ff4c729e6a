"""Depth: how far away is each pixel?

d1, d2, d3 (share of pixels within a factor of 1.25, 1.25^2, 1.25^3, strictly), abs_rel and RMSE per image, then the mean
over images (probe3d, El Banani et al. 2024; thresholds of Eigen et al. 2014). Valid pixels are those with a true depth
above 0; an image without any is left out and counted. Options, each part of the fingerprint: the part of NYUv2's frame
that Eigen et al. scored, a largest depth, and the same scores after a scale and a shift per image, under their own names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval._dense import Arrays, Dense
from benchkit.eval.base import Columns, Metric
from benchkit.metrics import depth as scores_of
from benchkit.metrics.intervals import mean_defined
from benchkit.settings import setting
from benchkit.store.items import Items


@dataclasses.dataclass
class Settings:
    """Settings of the scores."""

    crop: Literal["none", "eigen"] = setting(
        "none", "none, or eigen: rows 45 to 471 and columns 41 to 601 of a whole 480 x 640 frame"
    )
    aligned: bool = setting(False, "also score after a scale and a shift per image, by least squares (d1_aligned ...)")
    max_depth: float | None = setting(
        None, "in the truth's unit: true depths beyond it are not scored, predictions are cut to it"
    )

    def __post_init__(self) -> None:
        if self.max_depth is not None and self.max_depth <= 0:
            raise ValueError(f"max_depth must be above 0, not {self.max_depth}")


class Depth(Dense):
    """See the module."""

    level = "mid"
    task = "depth"
    source = "probe3d (El Banani et al. 2024); thresholds as Eigen et al. 2014; alignment as MiDaS"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scenes", "truth": "depth"},
        "model": {"head": {"name": "dense_linear"}},
    }
    needs = ("depth",)

    def metrics(self) -> list[Metric]:
        """The headline is d1."""
        found = _metrics("", "")
        return found + (_metrics("_aligned", ", after a scale and a shift per image") if self.settings.aligned else [])

    def check(self, truth: Items) -> None:
        """Maps of one number per pixel."""
        sample = np.asarray(truth.item("depth", 0)) if "depth" in truth else np.zeros(0)
        if sample.ndim != 2 or sample.dtype.kind != "f":
            raise UsageError("depth needs data with a depth map per image: floating numbers, 0 where there is none.")

    def score_item(self, prediction: Arrays, target: Arrays) -> dict[str, Any]:
        """The scores of one image, NaN without a valid pixel."""
        predicted, truth = prediction["depth"], target["depth"]
        if self.settings.crop == "eigen":
            predicted, truth = scores_of.eigen_crop(predicted), scores_of.eigen_crop(truth)
        limit = self.settings.max_depth
        truth = truth if limit is None else np.where(truth <= limit, truth, 0)
        found = scores_of.errors(_cut(predicted, limit), truth)
        if self.settings.aligned:
            again = scores_of.errors(_cut(scores_of.aligned(predicted, truth), limit), truth)
            found |= {f"{name}_aligned": value for name, value in again.items()}
        return found

    def pooled(self, target: Arrays, grid: tuple[int, int]) -> Arrays:
        """Each cell's mean of the valid pixels, resized."""
        return {"depth": scores_of.pooled_depth(target["depth"], grid)}

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means over the images with a valid pixel."""
        return {m.name: mean_defined(columns[m.column])[0] for m in self.metrics()}

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Image, truth and prediction on the truth's scale, which is drawn below."""
        from benchkit.viz import maps as viz

        truth, predicted = target["depth"], prediction["depth"]
        valid = truth > 0
        low, high = (float(truth[valid].min()), float(truth[valid].max())) if valid.any() else (0.0, 1.0)
        maps = [
            ("truth", viz.values_picture(truth, valid, low, high)),
            ("prediction", viz.values_picture(predicted, predicted > 0, low, high)),
        ]
        viz.side_by_side(axes, [*([] if image is None else [("image", image)]), *maps])
        viz.scale(axes, low, high, target["meta"].get("unit", ""))


def _metrics(suffix: str, how: str) -> list[Metric]:
    shares = [
        Metric(f"d{k}{suffix}", "higher", f"share of pixels within a factor of 1.25^{k}{how}", "", f"d{k}{suffix}")
        for k in (1, 2, 3)
    ]
    return [
        *shares,
        Metric(f"abs_rel{suffix}", "lower", f"mean |error| over the true depth{how}", "", f"abs_rel{suffix}"),
        Metric(f"rmse{suffix}", "lower", f"root mean square error{how}", "the truth's", f"rmse{suffix}"),
    ]


def _cut(depth: np.ndarray, limit: float | None) -> np.ndarray:
    return depth if limit is None else np.minimum(depth, limit)


build = Depth

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("depth"))
