"""Painting Vision 1.0: where are wall and window, and how much of the wall is painted?

Two tiers over one mask of ten classes (see `metrics.painting`). Tier 1 asks any model for three: other, wall, window. mIoU is
the mean over those of them that occur in the truth of intersection over union, both summed over all frames; window_precision
and window_recall say how far a window may be trusted. Tier 2 asks for paint: painted_coverage_mae is the mean over frames of
the distance of the painted shares of the decided (painted or unpainted) wall, predicted and true; mIoU_full_10class is the mean
over the classes of the ten that occur. 255 is void and counts nowhere. Frames of one wall are resampled together. The floor is
a prediction that says `other` everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.eval._dense import Arrays, Dense
from benchkit.eval.base import Columns, Metric
from benchkit.eval.semantic_segmentation import draw_masks
from benchkit.metrics import painting as scores_of
from benchkit.metrics import segmentation
from benchkit.metrics.intervals import mean_defined
from benchkit.registry import NoSettings as Settings
from benchkit.store.items import Items

__all__ = ["PaintingVision", "Settings", "build"]

COUNTS = ("true_positives", "predicted", "true")


class PaintingVision(Dense):
    """See the module."""

    level = "high"
    task = "semantic"
    source = "Painting Vision Benchmark 1.0, taxonomy 1.0"
    folder = "painting"
    benchmark_version = "1.0"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scene_walls"},
        "model": {"head": {"name": "dense_linear"}},
    }
    needs = ("mask",)
    floor_head = None
    comparable = ("benchmark", "version", "dataset_id")  # exactly its own triple, whatever the model
    project = staticmethod(scores_of.project)

    def metrics(self) -> list[Metric]:
        """The headline is mIoU."""
        return [
            Metric("mIoU", "higher", "of other, wall and window, over those in the truth, summed over all frames"),
            Metric("window_precision", "higher", "share of the pixels called window that are"),
            Metric("window_recall", "higher", "share of the window pixels that are called so"),
            Metric(
                "painted_coverage_mae",
                "lower",
                "mean over frames of |painted share predicted - true| of the decided wall",
                "",
                "painted_coverage_error",
            ),
            Metric(
                "mIoU_full_10class", "higher", "of all ten classes, over those in the truth, summed over all frames"
            ),
            Metric("classes_in_truth", "neither", "of the ten, over how many mIoU_full_10class is the mean"),
            Metric("undecided_predictions", "neither", "frames with decided wall whose prediction decides none"),
        ]

    def check(self, truth: Items) -> None:
        """Masks of the ten classes."""
        if "mask" not in truth or len(truth.meta.get("classes", ())) != scores_of.N_CLASSES:
            raise UsageError(
                "painting_vision needs masks of the ten classes of its taxonomy: data.name=painting with a table of frames, "
                "or the generated scene_walls."
            )

    def score_item(self, prediction: Arrays, target: Arrays) -> dict[str, Any]:
        """Pixels per class in both tiers, mIoU of the three within the frame, and the error of the painted share.

        `prediction["meta"]` says `labels: shared` where the mask holds the three shared classes alone: then there is no
        second tier, and its columns are NaN or 0.
        """
        mask, truth = prediction["mask"], target["mask"]
        full = prediction["meta"].get("labels") != "shared"
        three = scores_of.shared(truth)
        tier1 = _counts(scores_of.shared(mask) if full else mask, three, len(scores_of.SHARED))
        tier2 = _counts(mask if full else np.zeros_like(truth), truth, scores_of.N_CLASSES)
        found = {
            "mIoU_per_image": scores_of.mean_of_present(scores_of.ious_of_present(*tier1)),
            "painted_coverage_error": float("nan"),
            "stats/full": np.uint8(full),
            "stats/undecided": np.uint8(0),
        }
        if full:
            said, true = scores_of.painted(mask, truth), scores_of.painted(truth, truth)
            found["painted_coverage_error"] = scores_of.coverage_error(said, true)
            found["stats/undecided"] = np.uint8(bool(true[1]) and not said[1])
        for tier, counts in (("shared", tier1), ("full", tier2)):
            found |= {f"stats/{tier}_{n}": c.astype(np.uint32) for n, c in zip(COUNTS, counts, strict=True)}
        return found

    def pooled(self, target: Arrays, grid: tuple[int, int]) -> Arrays:
        """Each cell's shares of the ten classes, resized, then the largest."""
        labels = segmentation.pooled_labels(target["mask"], grid, scores_of.N_CLASSES, scores_of.VOID)
        return {"mask": labels}

    def chance(self, targets: Items, predictions: Items) -> Columns:
        """`other` everywhere."""
        return self.score(self.constant({"mask": np.zeros((), np.uint8)}, targets), targets)

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """From the counts of all frames together; the painted share from the frames."""
        positives, predicted, true = _totals(columns, "shared")
        values: dict[str, Any] = {
            "mIoU": scores_of.mean_of_present(scores_of.ious_of_present(positives, predicted, true)),
            "window_precision": _share(positives[-1], predicted[-1]),
            "window_recall": _share(positives[-1], true[-1]),
            "painted_coverage_mae": None,
            "mIoU_full_10class": None,
            "undecided_predictions": None,
        }
        full = _totals(columns, "full")
        if columns["stats/full"].all():
            values["mIoU_full_10class"] = scores_of.mean_of_present(scores_of.ious_of_present(*full))
            values["painted_coverage_mae"] = mean_defined(columns["painted_coverage_error"])[0]
            values["undecided_predictions"] = float(columns["stats/undecided"].sum(dtype=np.int64))
        values["classes_in_truth"] = float((full[2] > 0).sum())
        return {name: None if value is None or np.isnan(value) else float(value) for name, value in values.items()}

    def breakdown(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, float | None]:
        """iou/other, iou/wall, iou/window; None for a class that is absent from the truth."""
        values = scores_of.ious_of_present(*_totals(columns, "shared"))
        named = zip(scores_of.SHARED, values, strict=True)
        return {f"iou/{name}": None if np.isnan(value) else float(value) for name, value in named}

    def pictured(
        self, prediction: np.ndarray, target: np.ndarray, meta: Mapping[str, Any], said: Mapping[str, Any]
    ) -> tuple[np.ndarray, np.ndarray, Mapping[str, Any]]:
        """In the shared classes where the prediction has no others."""
        if said.get("labels") != "shared":
            return prediction, target, meta
        return prediction, scores_of.shared(target), {**meta, "classes": list(scores_of.SHARED)}

    def submission(self, summaries: Mapping[str, Any]) -> dict[str, Any]:
        """The scores as a submission holds them: keys exactly as in the specification."""
        return {
            "benchmark_version": self.benchmark_version,
            "taxonomy_version": scores_of.TAXONOMY_VERSION,
            "shared_metrics": {
                "mIoU": summaries["mIoU"],
                "iou": {name: summaries[f"iou/{name}"] for name in scores_of.SHARED},
                "window_precision": summaries["window_precision"],
                "window_recall": summaries["window_recall"],
            },
            "paint_state_metrics": {name: summaries[name] for name in ("painted_coverage_mae", "mIoU_full_10class")},
        }

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Image, truth and prediction, with the commonest classes named."""
        draw_masks(axes, prediction["mask"], target, image)


def _counts(prediction: np.ndarray, truth: np.ndarray, n_classes: int) -> segmentation.Counts:
    return segmentation.counts_of(segmentation.confusion(prediction, truth, n_classes, scores_of.VOID))


def _totals(columns: Columns, tier: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    positives, predicted, true = (columns[f"stats/{tier}_{name}"].sum(axis=0, dtype=np.int64) for name in COUNTS)
    return positives, predicted, true


def _share(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None


build = PaintingVision

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("painting_vision"))
