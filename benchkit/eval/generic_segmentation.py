"""Generic segmentation: which pixels belong to an object, whatever it is?

IoU and F1 of the foreground and pixel accuracy, each per image and then the mean over images (VisBench's protocol); where
neither truth nor prediction has foreground, IoU and F1 are 1. iou_pooled is the IoU of the pixels of all images together:
another number, which large objects decide. foreground_share says how much there is to find: a prediction of background
alone has pixel_acc of 1 minus it. The floor of each score is the better one of background alone and foreground alone: the
former has an IoU of 0, the latter one of the foreground's share. Unlabelled pixels (255) count nowhere; an image without
others is left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval._dense import Arrays, Dense
from benchkit.eval.base import Columns, Metric
from benchkit.eval.semantic_segmentation import draw_masks
from benchkit.metrics import segmentation as scores_of
from benchkit.metrics.intervals import mean_defined
from benchkit.registry import NoSettings as Settings
from benchkit.store.items import Items

__all__ = ["GenericSegmentation", "Settings", "build"]

COUNTS = ("true_positives", "predicted", "true")


class GenericSegmentation(Dense):
    """See the module."""

    level = "mid"
    task = "binary"
    source = "foreground IoU, F1 and accuracy at .5 per image, then the mean, as in VisBench"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scenes", "truth": "foreground"},
        "model": {"head": {"name": "dense_linear"}},
    }
    needs = ("mask",)
    floor_head = None

    def metrics(self) -> list[Metric]:
        """The headline is iou."""
        return [
            Metric("iou", "higher", "intersection over union of the foreground", column="iou"),
            Metric("f1", "higher", "twice the intersection over the sum of both foregrounds (Dice)", column="f1"),
            Metric("pixel_acc", "higher", "share of the pixels that are right", column="pixel_acc"),
            Metric("iou_pooled", "higher", "intersection over union, both summed over all images"),
            Metric("foreground_share", "neither", "true foreground among the pixels", column="foreground_share"),
        ]

    def check(self, truth: Items) -> None:
        """Masks of 0, 1 and the ignored value."""
        if "mask" not in truth or np.asarray(truth.item("mask", 0)).dtype.kind not in "ui":
            raise UsageError("generic segmentation needs data with a mask of 0 (background) and 1 (foreground).")
        if len(truth.meta.get("classes", ())) != 2:
            raise UsageError(
                f"generic segmentation has two classes, background and foreground, and these data have "
                f"{len(truth.meta.get('classes', ()))}: map all objects to 1 (of masks in a folder, "
                "data.truth=foreground does), or run semantic_segmentation."
            )

    def score_item(self, prediction: Arrays, target: Arrays) -> dict[str, Any]:
        """IoU, F1, accuracy and foreground share of one image, and the counts of its foreground."""
        matrix = scores_of.confusion(prediction["mask"], target["mask"], 2, target["meta"].get("ignore"))
        positives, predicted, true = (int(each[1]) for each in scores_of.counts_of(matrix))
        stats = zip(COUNTS, (positives, predicted, true), strict=True)
        scores = scores_of.binary(positives, predicted, true, int(matrix.sum()))
        return {**scores, **{f"stats/{name}": count for name, count in stats}}

    def pooled(self, target: Arrays, grid: tuple[int, int]) -> Arrays:
        """Foreground where its share of the resized cells is the larger one."""
        return {"mask": scores_of.pooled_labels(target["mask"], grid, 2, target["meta"].get("ignore"))}

    def chance(self, targets: Items, predictions: Items) -> Columns:
        """Background everywhere or foreground everywhere: for each score the one that is better."""
        both = [self.score(self.constant({"mask": np.array(k, np.uint8)}, targets), targets) for k in (0, 1)]
        background, foreground = (self.summarize(columns) for columns in both)

        def better(metric: str) -> Columns:
            return both[(foreground[metric] or 0) > (background[metric] or 0)]

        columns = {m.column: better(m.name)[m.column] for m in self.metrics() if m.column}
        return {**columns, **{f"stats/{name}": better("iou_pooled")[f"stats/{name}"] for name in COUNTS}}

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means over the images with a labelled pixel, and the IoU of all images together."""
        means = {m.name: mean_defined(columns[m.column])[0] for m in self.metrics() if m.column}
        positives, predicted, true = (int(columns[f"stats/{name}"].sum()) for name in COUNTS)
        nothing = means["iou"] is None
        return {**means, "iou_pooled": None if nothing else scores_of.foreground_iou(positives, predicted, true)}

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Image, truth and prediction."""
        draw_masks(axes, prediction["mask"], target, image)


build = GenericSegmentation

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("generic_segmentation"))
