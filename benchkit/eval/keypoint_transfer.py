"""Keypoint transfer: does a model find the wing tip of one aeroplane in the picture of another?

PCK of SPair-71k: points are given in one image, the model says where they are in the other, and one is correct that lies at
most .1 (.05, .01) times the longer side of the object's box from the truth, in original pixels. pck@0.1 counts points, over
all pairs (DIFT, eval_spair.py: "per point"); pck@0.1_per_image is the mean over pairs, another number. A pair without a common
keypoint has neither. The ceiling sends each point to the nearest place there is on the model's grid; the floor to any pixel of
the image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchkit.errors import RunError, UsageError
from benchkit.eval.base import METHOD, Benchmark, Columns, Metric
from benchkit.metrics import transfer as scores_of
from benchkit.store.items import ArrayItems, Items

NAMES = tuple(f"pck@{alpha:g}" for alpha in scores_of.ALPHAS)
HEADLINE, PER_IMAGE = NAMES[0], f"{NAMES[0]}_per_image"
COUNTS, CLASS = "stats/hits", "stats/class"


class KeypointTransfer(Benchmark):
    """See the module."""

    level = "geometry"
    source = "SPair-71k (Min et al. 2019): PCK by the target's bounding box, per point"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scene_pairs", "truth": "keypoints"},
        "model": {"head": {"name": "transfer"}},
    }
    folder = "spair"
    needs = ("predicted",)
    floor_head = None
    whole_views = True
    comparable = METHOD
    trial = ("data.n_test=12", "model.features.layers=3")

    def metrics(self) -> list[Metric]:
        """The headline counts points."""
        text = "share of {} at most {:g} of the longer side of the object's box off"
        lines = [Metric(n, "higher", text.format("points", a)) for n, a in zip(NAMES, scores_of.ALPHAS, strict=True)]
        per_image = Metric(PER_IMAGE, "higher", text.format("a pair's points", 0.1) + ", mean over pairs", "", HEADLINE)
        return [lines[0], per_image, *lines[1:]]

    def check(self, truth: Items) -> None:
        """Every item has two views, points in both, and the object's box."""
        views = truth.read("views") if "views" in truth else [""]
        absent = [field for field in ("queries", "points", "box", "size0", "size1") if field not in truth]
        if absent or any(each.count("\n") != 1 for each in views):
            raise UsageError(
                "keypoint_transfer needs data whose items are two views with keypoints in both: data.name=spair, or "
                "data.name=scene_pairs with data.truth=keypoints."
            )

    def score(self, predictions: Items, targets: Items) -> Columns:
        """Points and hits of each item."""

        def hits(row: int) -> np.ndarray:
            points, size = _truth(targets, row)
            away = _predicted(predictions, targets, row, len(points)) - points
            return scores_of.hits(np.hypot(away[:, 0], away[:, 1]), size)

        return _columns(targets, hits)

    def ceiling(self, predictions: Items, targets: Items) -> Items | None:
        """Each point at the nearest cell's centre."""
        if "grid" not in predictions:
            return None
        rows = range(len(targets.names))
        best = [scores_of.nearest_cells(_truth(targets, row)[0], predictions.item("grid", row)) for row in rows]
        return ArrayItems(targets.names, {"predicted": best})

    def chance(self, targets: Items, predictions: Items) -> Columns:
        """A pixel of the second view, drawn at random for each point: the same floor for every model."""

        def hits(row: int) -> np.ndarray:
            width, height = np.asarray(targets.item("size1", row)).tolist()
            return scores_of.random_hits(*_truth(targets, row), (width, height))

        return _columns(targets, hits)

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Over the points of all items together, and over items."""
        per_image = columns[HEADLINE][~np.isnan(columns[HEADLINE])]
        mean = float(per_image.mean()) if len(per_image) else None
        return {**dict(zip(NAMES, _shares(columns[COUNTS]), strict=True)), PER_IMAGE: mean}

    def breakdown(self, columns: Columns, meta: Mapping[str, Any]) -> dict[str, float | None]:
        """pck@0.1/<class>, over points; None for a class that does not occur."""
        known = enumerate(meta.get("classes", ()))
        return {f"{HEADLINE}/{name}": _shares(columns[COUNTS][columns[CLASS] == k])[0] for k, name in known}

    def oracle(self, targets: Items) -> Items:
        """The true places."""
        return ArrayItems(targets.names, {"predicted": targets.read("points")})

    def legend(self) -> str:
        """Of the lines."""
        reach = scores_of.ALPHAS[0]
        return (
            f"thin: from a given point to the place found; thick: from there to the true one (cross); green: right; yellow: "
            f"off by {reach:g} of the object's longer side, the threshold; red: by {2 * reach:g} or more"
        )

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Both views side by side: each query joined to the place found, green (right) to red (twice too far off), and that
        to the true one.
        """
        from benchkit.viz import transfer as viz

        places = (target["queries"], prediction["predicted"], target["points"])
        reach = scores_of.ALPHAS[0] * scores_of.extent(np.asarray(target["box"]))
        viz.draw_transfer(axes, places, (target["size0"], target["size1"]), reach, image)


def _truth(targets: Items, row: int) -> tuple[np.ndarray, float]:
    """Points float64 (k, 2), and the longer side of the box."""
    points = np.asarray(targets.item("points", row), np.float64).reshape(-1, 2)
    return points, scores_of.extent(np.asarray(targets.item("box", row)))


def _predicted(predictions: Items, targets: Items, row: int, count: int) -> np.ndarray:
    """float64 (k, 2).

    Raises:
        RunError: they are not as many as the truth, or not finite.
    """
    found = np.asarray(predictions.item("predicted", row), np.float64).reshape(-1, 2)
    where = f"row {row} ({targets.names[row]!r})"
    if len(found) != count:
        raise RunError(f"{where}: {len(found)} points are predicted, and {count} were asked for: export again.")
    if not np.isfinite(found).all():
        raise RunError(f"{where}: predicted points hold NaN or infinity: export again.")
    return found


def _columns(targets: Items, hits: Callable[[int], np.ndarray]) -> Columns:
    """The columns of (4,) points and hits per row."""
    table = np.array([hits(row) for row in range(len(targets.names))])
    with np.errstate(invalid="ignore"):
        own = np.where(table[:, 0] > 0, table[:, 1] / table[:, 0], np.nan)
    return {HEADLINE: own, COUNTS: table, CLASS: _classes(targets)}


def _classes(targets: Items) -> np.ndarray:
    """int64 (N,): index into meta's `classes`, -1 where nobody says it."""
    known = {name: k for k, name in enumerate(targets.meta.get("classes", ()))}
    labels = targets.read("category/class") if "category/class" in targets else [""] * len(targets.names)
    return np.array([known.get(label, -1) for label in labels], np.int64)


def _shares(counts: np.ndarray) -> list[float | None]:
    """Of summed rows of (points, hits ...): hits over points, None without a point."""
    points, *found = counts.sum(axis=0).tolist()
    return [each / points if points else None for each in found]


build = KeypointTransfer

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("keypoint_transfer"))
