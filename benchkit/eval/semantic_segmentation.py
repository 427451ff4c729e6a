"""Semantic segmentation: what is shown at each pixel?

mIoU is the mean over classes of intersection over union, both summed over all images (PASCAL VOC's and Cityscapes'
definition): over the classes with a non-empty union, so a class that is predicted but absent from the truth counts, as 0.
miou_per_image takes the same mean within every image, then over images; the two differ by points and have two names.
Pixel and mean accuracy come from the same counts as mIoU. Pixels of the ignore label count nowhere; an image without any
other is left out of miou_per_image and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval._dense import Arrays, Dense
from benchkit.eval.base import Columns, Metric
from benchkit.metrics import segmentation as scores_of
from benchkit.metrics.intervals import mean_defined
from benchkit.registry import NoSettings as Settings
from benchkit.store.items import Items
from benchkit.viz._matrix import NAMED

__all__ = ["SemanticSegmentation", "Settings", "build"]


class SemanticSegmentation(Dense):
    """See the module."""

    level = "high"
    task = "semantic"
    source = "mIoU as PASCAL VOC (Everingham et al. 2015); linear head and schedule as in VisBench and probe3d"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scenes", "truth": "mask"},
        "model": {"head": {"name": "dense_linear"}},
    }
    needs = ("mask",)

    def metrics(self) -> list[Metric]:
        """The headline is miou."""
        return [
            Metric("miou", "higher", "mean over classes of intersection over union, summed over all images"),
            Metric("miou_per_image", "higher", "the same mean within an image, then over images", "", "miou_per_image"),
            Metric("pixel_acc", "higher", "share of all pixels whose class is right"),
            Metric("mean_acc", "higher", "share of each class's pixels that are right, then the mean over classes"),
        ]

    def check(self, truth: Items) -> None:
        """Masks of whole numbers, and at least two classes of different names."""
        classes = list(truth.meta.get("classes", ()))
        if "mask" not in truth or np.asarray(truth.item("mask", 0)).dtype.kind not in "ui" or len(classes) < 2:
            raise UsageError("semantic segmentation needs data with a mask of class indices and at least two classes.")
        twice = sorted({str(name) for name in classes if classes.count(name) > 1})
        if twice:
            raise UsageError(f"two classes are called {twice[0]!r}: their scores could not be told apart. Rename one.")

    def score_item(self, prediction: Arrays, target: Arrays) -> dict[str, Any]:
        """Pixels per class: true positives, predicted, true; and by pairs of classes, where they are few."""
        n_classes, ignore = len(target["meta"]["classes"]), target["meta"].get("ignore")
        found: dict[str, Any] = {}
        if n_classes <= scores_of.BYTES:
            matrix = scores_of.confusion(prediction["mask"], target["mask"], n_classes, ignore)
            found = {"pictures/confusion": matrix.astype(np.uint32)} if n_classes <= NAMED else {}
            counts = scores_of.counts_of(matrix)
        else:
            counts = scores_of.counts(prediction["mask"], target["mask"], n_classes, ignore)
        kept = zip(("true_positives", "predicted", "true"), (c.astype(np.uint32) for c in counts), strict=True)
        return {"miou_per_image": float(scores_of.mean_iou(*counts)), **found, **{f"stats/{n}": c for n, c in kept}}

    def pooled(self, target: Arrays, grid: tuple[int, int]) -> Arrays:
        """Each cell's shares of the classes, resized, then the largest."""
        meta = target["meta"]
        return {"mask": scores_of.pooled_labels(target["mask"], grid, len(meta["classes"]), meta.get("ignore"))}

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """From the counts of all images together, but for miou_per_image."""
        positives, predicted, true = _totals(columns)
        whole = {
            "miou": scores_of.mean_iou(positives, predicted, true),
            "pixel_acc": scores_of.pixel_accuracy(positives, true),
            "mean_acc": scores_of.mean_accuracy(positives, true),
        }
        return {**_defined(whole), "miou_per_image": mean_defined(columns["miou_per_image"])[0]}

    def breakdown(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, float | None]:
        """iou/<class>, None for a class that is nowhere."""
        values = scores_of.ious(*_totals(columns))
        return _defined({f"iou/{name}": value for name, value in zip(meta["classes"], values, strict=True)})

    def pictures(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, Callable[[Any], None]]:
        """How many pixels each class has, and the confusion of classes where they are few."""
        from benchkit.viz import segmentation as viz

        _, predicted, true = _totals(columns)
        found: dict[str, Callable[[Any], None]] = {
            "shares": lambda figure: viz.class_shares(figure, true, predicted, meta["classes"])
        }
        if "pictures/confusion" in columns:
            counts = columns["pictures/confusion"].sum(axis=0, dtype=np.int64)
            found["confusion"] = lambda figure: viz.pixel_confusion(figure, counts, meta["classes"])
        return found

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Image, truth and prediction, with the commonest classes named."""
        draw_masks(axes, prediction["mask"], target, image)


def draw_masks(axes: Any, predicted: np.ndarray, target: Mapping[str, Any], image: Any) -> None:
    """Image, true mask and predicted mask side by side. `target` has `mask` and `meta`."""
    from benchkit.viz import maps as viz

    classes, truth = target["meta"]["classes"], target["mask"]
    colours = viz.class_colours(len(classes))
    both = np.concatenate([truth.ravel(), predicted.ravel()])
    counts = np.bincount(both, minlength=len(classes))[: len(classes)]
    masks = [("truth", viz.labels_picture(truth, colours)), ("prediction", viz.labels_picture(predicted, colours))]
    viz.side_by_side(axes, [*([] if image is None else [("image", image)]), *masks])
    present = [int(k) for k in np.argsort(-counts, kind="stable") if counts[k]]
    viz.legend(axes, present, classes, colours)


def _totals(columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    positives, predicted, true = (
        columns[f"stats/{name}"].sum(axis=0, dtype=np.int64) for name in ("true_positives", "predicted", "true")
    )
    return positives, predicted, true


def _defined(values: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: None if np.isnan(value) else float(value) for name, value in values.items()}


build = SemanticSegmentation

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("semantic_segmentation"))
