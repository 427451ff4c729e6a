"""Surface normals: which way does the surface face at each pixel?

The angle between predicted and true direction in degrees: shares below 11.25, 22.5 and 30 degrees (strictly), mean,
median and root mean square per image, then the mean over images (probe3d, El Banani et al. 2024; thresholds of Fouhey et
al. 2013). eval.pooling=pixel takes the same statistics of the pixels of all images together (Bae et al. 2021), under
names of their own. Valid pixels have a true vector that is not zero; an image without any is left out and counted. Where
the true normals come from (rendered, depth, another model) is in the targets and the record as normals_from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval._dense import Arrays, Dense
from benchkit.eval.base import Columns, Metric
from benchkit.metrics import normals as scores_of
from benchkit.metrics.intervals import mean_defined
from benchkit.settings import setting
from benchkit.store.items import Items

POOLED = "_pooled"


@dataclasses.dataclass
class Settings:
    """Settings of the scores."""

    pooling: Literal["image", "pixel"] = setting(
        "image", "image: per image, then the mean; pixel: of all pixels together (d1_pooled ...)"
    )


class Normals(Dense):
    """See the module."""

    level = "mid"
    task = "normals"
    source = "probe3d (El Banani et al. 2024); thresholds as Fouhey et al. 2013; pooled pixels as Bae et al. 2021"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scenes", "truth": "normals"},
        "model": {"head": {"name": "dense_linear"}},
    }
    needs = ("normals",)

    def metrics(self) -> list[Metric]:
        """The headline is d1."""
        pooled = self.settings.pooling == "pixel"
        of, unit = ("of all images" if pooled else "of an image"), "degrees"
        lines = [
            *((f"d{k}", "higher", f"share of the pixels {of} that are less than {t:g} degrees off", "")
              for k, t in enumerate(scores_of.THRESHOLDS, 1)),
            ("mean", "lower", f"mean angle over the pixels {of}", unit),
            ("median", "lower", f"median angle over the pixels {of}", unit),
            ("rmse", "lower", f"root mean square angle over the pixels {of}", unit),
        ]  # fmt: skip
        return [Metric(n + POOLED * pooled, b, h, u, "" if pooled else n) for n, b, h, u in lines]

    def check(self, truth: Items) -> None:
        """Maps of three numbers per pixel, of a named source."""
        sample = np.asarray(truth.item("normals", 0)) if "normals" in truth else np.zeros(0)
        if sample.ndim != 3 or sample.shape[-1] != 3 or sample.dtype.kind != "f":
            raise UsageError(
                "normals needs data with a vector (x right, y down, z forward) per pixel of each image; from depth they are made "
                "with data.truth=normals data.intrinsics=fx,fy,cx,cy."
            )
        if not truth.meta.get("normals_from"):
            raise UsageError("it must be said where the true normals come from: meta has no normals_from.")

    def score_item(self, prediction: Arrays, target: Arrays) -> dict[str, Any]:
        """The scores of one image, NaN without a valid pixel, and where pixels are pooled what they add to the pool."""
        degrees = scores_of.angles(prediction["normals"], target["normals"])
        found: dict[str, Any] = scores_of.errors(degrees)
        if self.settings.pooling == "pixel":
            wide = degrees.astype(np.float64)
            below = [np.count_nonzero(wide < limit) for limit in scores_of.THRESHOLDS]
            sums = np.array([len(wide), *below, wide.sum(), wide @ wide], np.float64)
            found |= {"stats/sums": sums, "stats/angles": scores_of.histogram(degrees).astype(np.uint32)}
        return found

    def pooled(self, target: Arrays, grid: tuple[int, int]) -> Arrays:
        """Each cell's mean direction, resized."""
        return {"normals": scores_of.pooled_normals(target["normals"], grid)}

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means over the images with a valid pixel, or the statistics of all pixels."""
        if self.settings.pooling == "image":
            return {m.name: mean_defined(columns[m.column])[0] for m in self.metrics()}
        count, *sums = columns["stats/sums"].sum(axis=0)
        if not count:
            return {m.name: None for m in self.metrics()}
        *shares, mean, square = (float(each / count) for each in sums)
        median = scores_of.median_of(columns["stats/angles"].sum(axis=0, dtype=np.int64))
        values = (*shares, mean, median, square**0.5)
        return dict(zip((name + POOLED for name in scores_of.NAMES), values, strict=True))

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Image, truth and prediction: right, up and towards the camera are red, green and blue."""
        from benchkit.viz import maps as viz

        maps = [("truth", target["normals"]), ("prediction", prediction["normals"])]
        shown = [(name, viz.normals_picture(vectors)) for name, vectors in maps]
        viz.side_by_side(axes, [*([] if image is None else [("image", image)]), *shown])
        viz.caption(axes, "red: right, green: up, blue: towards the camera")


build = Normals

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("normals"))
