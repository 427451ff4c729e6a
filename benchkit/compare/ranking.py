"""A ranking in which experiments that the data do not tell apart share a place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from benchkit.compare.aligned import Aligned
from benchkit.compare.differences import LEVEL, Chance, differences
from benchkit.eval.base import Metric


def ranked(aligned: Aligned, metric: Metric, chance: Chance) -> list[list[int]]:
    """`tied_groups` of experiments by a metric of theirs: one test for each, over the common items."""
    count = len(aligned.experiments)
    alone = dataclasses.replace(chance.for_tests(count * (count - 1) // 2), resamples=0)

    def p(one: int, other: int) -> float | None:
        return differences(aligned, (one, other), [metric], alone)[0].p

    return tied_groups([aligned.score(place, metric) for place in range(count)], metric.better, p)


def tied_groups(scores: Sequence[float | None], better: str, p: Callable[[int, int], float | None]) -> list[list[int]]:
    """Places of experiments, the best group first, each group by score.

    The best experiment opens a group; those that follow join it until one is told apart from the group's best: that one
    opens the next. So a group is a run of the ranking of which no member is significantly worse than its first. Two are
    told apart where p < .05 after Bonferroni's correction for all k (k - 1) / 2 pairs of k experiments: as the best of many
    is looked for, the pairs that are not tested count too.

    Args:
        scores: one per experiment; those without one come last, as a group.
        better: higher or lower.
        p: of the difference of two, by place; asked for one pair per experiment. None tells nothing apart.
    """
    sign = 1 if better == "lower" else -1
    known = [place for place, score in enumerate(scores) if score is not None]
    known.sort(key=lambda place: (sign * (scores[place] or 0), place))
    pairs = len(known) * (len(known) - 1) / 2
    groups: list[list[int]] = []
    for place in known:
        found = p(groups[-1][0], place) if groups else 0.0
        if not groups or (found is not None and found * pairs < LEVEL):
            groups.append([place])
        else:
            groups[-1].append(place)
    without = [place for place, score in enumerate(scores) if score is None]
    return [*groups, without] if without else groups
