"""Relative pose from pooled features: do two vectors say how the second camera stands to the first?

Protocol of VisBench's relative_pose (visbench 0.27: tasks/mid_level/pose.py, metrics/pose.py): a head learns the pose
X1 = R X0 + t of pairs, and is scored by the angle between its rotation and the true one, mean and median over the pairs, the
share of pairs within 15 and 30 degrees (inclusive), and the distance between translations in metres. An error in degrees says
nothing alone: the floor is the mean pose of the train pairs (by VisBench the mean of their seven numbers, here the
rotation nearest to their sum, and the mean translation). With few train pairs heads do not beat it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchkit.errors import RunError, UsageError
from benchkit.eval.base import Benchmark, Columns, Metric
from benchkit.geometry.rotation import angle, to_matrix, to_quaternion
from benchkit.registry import NoSettings as Settings
from benchkit.store.items import ArrayItems, Items

__all__ = ["PoseProbe", "Settings", "build"]

WITHIN = (15, 30)  # degrees


class PoseProbe(Benchmark):
    """See the module."""

    level = "geometry"
    source = "VisBench: relative_pose on NAVI (visbench 0.27, metrics/pose.py)"
    defaults: Mapping[str, Any] = {
        "data": {"name": "scene_pairs", "truth": "pose", "n_train": 240},
        "model": {"head": {"name": "pose_mlp"}},
    }
    folder = "pairs"
    trial = ("data.n_train=24", "data.n_test=12")
    needs = ("quaternion", "translation")

    def metrics(self) -> list[Metric]:
        """The headline is the mean angle."""
        shares = [
            Metric(f"accuracy@{k}deg", "higher", f"share of pairs whose rotation is off by at most {k} degrees", "",
                   f"accuracy@{k}deg")
            for k in WITHIN
        ]  # fmt: skip
        return [
            Metric("rotation_error", "lower", "mean angle between rotations", "degrees", "rotation_error"),
            Metric("median_rotation_error", "lower", "median angle between rotations", "degrees"),
            *shares,
            Metric("translation_error", "lower", "mean distance between translations", "m", "translation_error"),
            Metric("median_translation_error", "lower", "median distance between translations", "m"),
        ]

    def check(self, truth: Items) -> None:
        """Every item has two views and a pose."""
        views = truth.read("views") if "views" in truth else [""]
        if "R" not in truth or "t" not in truth or any(each.count("\n") != 1 for each in views):
            raise UsageError(
                "pose_probe needs data whose items are two views with their relative pose (R, t): data.name=pairs, navi or "
                "scene_pairs."
            )

    def score(self, predictions: Items, targets: Items) -> Columns:
        """Errors of each pair."""
        turn, move = (np.asarray(predictions.read(field), np.float64) for field in self.needs)
        lengths = np.linalg.norm(turn, axis=1)
        odd = ~(np.isfinite(lengths) & (lengths > 0) & np.isfinite(move).all(axis=1))
        if odd.any():
            row = int(odd.argmax())
            raise RunError(
                f"row {row} ({targets.names[row]!r}): the predicted pose holds NaN, infinity or a quaternion of length 0: "
                "export again."
            )
        degrees = angle(to_matrix(turn), np.asarray(targets.read("R")))
        return {
            "rotation_error": degrees,
            **{f"accuracy@{k}deg": (degrees <= k).astype(np.float64) for k in WITHIN},
            "translation_error": np.linalg.norm(move - np.asarray(targets.read("t"), np.float64), axis=1),
        }

    def summarize(self, columns: Columns) -> dict[str, float | None]:
        """Means and medians over the pairs."""
        medians = {f"median_{name}": np.median(columns[name]) for name in ("rotation_error", "translation_error")}
        values = {**{name: column.mean() for name, column in columns.items()}, **medians}
        return {name: float(value) for name, value in values.items()}

    def oracle(self, targets: Items) -> Items:
        """The true poses."""
        fields = {
            "quaternion": to_quaternion(np.asarray(targets.read("R"))),
            "translation": np.asarray(targets.read("t")),
        }
        return ArrayItems(targets.names, fields, {})

    def told(self, column: str, row: Mapping[str, float]) -> str:
        """Both errors."""
        return f"rotation error {row['rotation_error']:.3g} deg, translation error {row['translation_error']:.3g} m"

    def legend(self) -> str:
        """Of the lines."""
        return (
            "crosses: points of the first view; lines on which they lie in the second: green: true pose; red: predicted"
        )

    def draw(self, axes: Any, prediction: Mapping[str, Any], target: Mapping[str, Any], image: Any = None) -> None:
        """Points of view 0, and where they lie in view 1 by the true pose (green lines) and by the predicted one (red)."""
        from benchkit.geometry.pose import epipolar_lines
        from benchkit.viz import matches as viz

        K0, K1, size0, size1 = (np.asarray(target[name]) for name in ("K0", "K1", "size0", "size1"))
        x, y = np.meshgrid(*(np.array([0.25, 0.5, 0.75]) * side for side in size0))
        points = np.stack([x.ravel(), y.ravel()], axis=1)
        said = to_matrix(np.asarray(prediction["quaternion"])), np.asarray(prediction["translation"], np.float64)
        poses = [((np.asarray(target["R"]), np.asarray(target["t"])), "limegreen"), (said, "red")]
        lines = [(epipolar_lines(points, K0, K1, R, t), color) for (R, t), color in poses]
        viz.draw_epipolar(axes, points, lines, (size0, size1), image)


build = PoseProbe

if __name__ == "__main__":
    from benchkit.commands.eval import main_of

    raise SystemExit(main_of("pose_probe"))
