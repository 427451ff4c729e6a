"""Which estimators run, with which thresholds and options; and what their results are called."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchkit.estimators._options import build_all, read_options
from benchkit.estimators.base import Estimator
from benchkit.registry import find
from benchkit.settings import setting

SEVERAL = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)  # pixels: what -1 stands for, as in Glue Factory


@dataclasses.dataclass(frozen=True)
class Runs:
    """One estimator at its thresholds.

    Attributes:
        thresholds: pixels; labels: what each result is called, `poselib`, of several `poselib[1.5]`.
    """

    estimator: Estimator
    thresholds: Sequence[float]
    labels: Sequence[str]


def short_name(name: str) -> str:
    """What an estimator is called in names of metrics: what it calls itself, else the end of its path."""
    return str(getattr(find("estimators", name).build, "name", "") or name.rpartition(".")[2])


@dataclasses.dataclass
class RobustSettings:
    """Settings of the estimators."""

    estimator: list[str] = setting(["poselib"], "robust estimators: poselib, opencv, pycolmap, or a dotted path")
    ransac_th: list[float] | None = setting(
        None,
        "largest error of an inlier in pixels; of several all run, and the best on this set is named as such; -1: 0.5, 1, "
        "1.5, 2, 2.5 and 3 (default: the estimator's own)",
    )
    auc: list[float] = setting([1.0, 3.0, 5.0], "thresholds of the areas under the recall curves of errors")
    options: dict[str, str] = setting({}, "options of the estimators' libraries, by the library's names")
    workers: int = setting(0, "threads; 0: as many as there are cores", identity=False)

    def __post_init__(self) -> None:
        labels = [label for name in self.estimator for label in self.labels(name)]
        if not labels or len(set(labels)) < len(labels):
            raise ValueError(f"estimator and ransac_th name different ones, not {self.estimator} and {self.ransac_th}")
        if self.ransac_th == [] or not all(0 < each < float("inf") for each in self.thresholds()):
            raise ValueError(f"ransac_th is numbers above 0, or -1 alone, not {self.ransac_th}")
        if not self.auc or not all(0 < each < float("inf") for each in self.auc):
            raise ValueError(f"auc is numbers above 0, not {self.auc}")
        if len({f"{each:g}" for each in self.auc}) < len(self.auc):
            raise ValueError(f"auc is different numbers, not {self.auc}")
        if self.workers < 0:
            raise ValueError(f"workers is not negative, not {self.workers}")
        read_options(self.estimator, self.options)

    def thresholds(self) -> list[float]:
        """Those that were asked for; none where each estimator has its own."""
        return list(SEVERAL) if self.ransac_th == [-1] else list(self.ransac_th or [])

    def labels(self, name: str) -> list[str]:
        """What an estimator's results are called, one per threshold."""
        short = short_name(name)
        several = self.thresholds()
        return [f"{short}[{each:g}]" for each in several] if len(several) > 1 else [short]

    def build(self, kind: str) -> list[Runs]:
        """The estimators, ready to run.

        Args:
            kind: homography or relative_pose.

        Raises:
            UsageError: a library is missing.
        """
        built = build_all(self.estimator, self.options)
        return [
            Runs(estimator, self.thresholds() or [estimator.default_threshold[kind]], self.labels(name))
            for name, estimator in built.items()
        ]
