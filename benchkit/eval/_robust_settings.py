"""Which estimators run, with which thresholds and options; and what their results are called."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from benchkit.conf.find import nearest
from benchkit.conf.schema import hints
from benchkit.conf.values import Plain, read_as
from benchkit.errors import UsageError
from benchkit.estimators.base import Estimator
from benchkit.registry import Component, find
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


@dataclasses.dataclass
class RobustSettings:
    """Settings of the estimators."""

    estimator: list[str] = setting(["poselib"], "robust estimators: poselib, opencv, pycolmap, or a dotted path")
    ransac_th: list[float] | None = setting(
        None,
        "largest error of an inlier in pixels; of several all run, and the best on this set is named as such; -1: 0.5, 1, "
        "1.5, 2, 2.5 and 3 (default: the estimator's own)",
    )
    options: dict[str, str] = setting({}, "options of the estimators' libraries, by the library's names")
    workers: int = setting(0, "threads; 0: as many as there are cores", identity=False)

    def __post_init__(self) -> None:
        if not self.estimator or len(set(self.estimator)) < len(self.estimator):
            raise ValueError(f"estimator names different estimators, not {self.estimator}")
        if min(self.thresholds() or [1.0]) <= 0 or len(set(self.thresholds())) < len(self.thresholds()):
            raise ValueError(f"ransac_th is different numbers above 0, or -1 alone, not {self.ransac_th}")
        if self.ransac_th == [] or self.workers < 0:
            raise ValueError("ransac_th names at least one threshold, and workers is not negative")
        self._refuse_unknown(self.components())

    def thresholds(self) -> list[float]:
        """Those that were asked for; none where each estimator has its own."""
        return list(SEVERAL) if self.ransac_th == [-1] else list(self.ransac_th or [])

    def components(self) -> list[Component]:
        """The estimators, by their modules; imports no library."""
        return [find("estimators", name) for name in self.estimator]

    def labels(self, name: str) -> list[str]:
        """What an estimator's results are called, one per threshold."""
        short = name.rpartition(".")[2]
        several = self.thresholds()
        return [f"{short}[{each:g}]" for each in several] if len(several) > 1 else [short]

    def build(self, kind: str) -> list[Runs]:
        """The estimators, ready to run.

        Args:
            kind: homography or relative_pose.

        Raises:
            UsageError: a library is missing.
        """
        built = [(each.name, each.build(self._given(each))) for each in self.components()]
        return [
            Runs(estimator, self.thresholds() or [estimator.default_threshold[kind]], self.labels(name))
            for name, estimator in built
        ]

    def _given(self, component: Component) -> Any:
        """The estimator's settings, with those options that it has, each read as its type."""
        types = hints(component.settings)
        values = {}
        for key in (key for key in self.options if key in types):
            try:
                values[key] = read_as(types[key], Plain(self.options[key]))
            except ValueError as error:
                raise ValueError(f"options.{key} of {component.name}: {error}") from None
        return component.settings(**values)

    def _refuse_unknown(self, components: Sequence[Component]) -> None:
        known = sorted({key for each in components for key in hints(each.settings)})
        for key in self.options:
            if key not in known:
                raise UsageError(
                    f"options.{key} is an option of none of {', '.join(self.estimator)}. {nearest(key, known)}"
                    f"There are {', '.join(known)}."
                )
        for each in components:
            self._given(each)
