"""Matches against depth: the scores of one item, counts by score of all, average precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchkit.eval._matches import Matches
from benchkit.eval.base import Columns, Metric
from benchkit.metrics import curves
from benchkit.metrics.matches import ALONE, UNKNOWN, DepthPair, reprojection_errors, true_matches

PIXELS = (1, 3, 5)
LEVELS = 256  # scores at which right and wrong matches are counted
RANKED, COUNTS, POSITIVES = "ranked", "stats/right_and_wrong", "stats/true_matches"


def metrics() -> list[Metric]:
    """In the order of tables."""
    said = "share of the matches with depth at both ends that project less than {}px from each other"
    means = [(f"reproj_prec@{t}px", "higher", said.format(t)) for t in PIXELS]
    means += [
        ("gt_match_precision@3px", "higher", "share of the matches that depth confirms, of those it can tell"),
        ("gt_match_recall@3px", "higher", "share of the true matches between the keypoints that were found"),
        ("covisible", "neither", "share of the matches with depth at both ends"),
    ]
    average = Metric("AP", "higher", "area under precision and recall of all items' matches by their scores")
    found = [Metric(name, better, f"{text}, on average over items", "", name) for name, better, text in means]
    return [*found[:-1], average, found[-1]]


def scores(matches: Matches, pair: DepthPair) -> dict[str, Any]:
    """Columns of one item, and under RANKED what `with_counts` makes counts of."""
    errors = reprojection_errors(matches.points0, matches.points1, pair)
    known = ~np.isnan(errors)
    true = true_matches(matches.keypoints0, matches.keypoints1, pair)
    right, told = (matches.matches0 == true)[matches.matched], (true != UNKNOWN)[matches.matched]
    positives = np.count_nonzero(true > ALONE)
    return {
        **{f"reproj_prec@{t}px": _share(errors[known] < t, len(errors)) for t in PIXELS},
        "covisible": float(known.mean()) if len(errors) else 0.0,
        "gt_match_precision@3px": _share(right[told], len(right)),
        "gt_match_recall@3px": np.count_nonzero(right) / positives if positives else np.nan,
        POSITIVES: positives,
        RANKED: (matches.scores[told], right[told]),
    }


def expected(matches: Matches, some: np.ndarray, pair: DepthPair) -> dict[str, Any]:
    """The same for each matched keypoint sent to any keypoint of the second view; reprojections of those in `some`."""
    count, given = len(matches.keypoints1), len(matches.matched)
    first = np.repeat(matches.keypoints0[some], count, axis=0)
    errors = reprojection_errors(first, np.tile(matches.keypoints1, (len(some), 1)), pair)
    known = ~np.isnan(errors)
    true = true_matches(matches.keypoints0, matches.keypoints1, pair)
    told, positives = (true != UNKNOWN)[matches.matched], np.count_nonzero(true > ALONE)
    right = np.count_nonzero((true > ALONE)[matches.matched]) / max(count, 1)
    told_count = np.count_nonzero(told)
    undefined = np.nan if given else 0.0
    return {
        **{f"reproj_prec@{t}px": _share(errors[known] < t, len(errors)) for t in PIXELS},
        "covisible": float(known.mean()) if len(errors) else 0.0,
        "gt_match_precision@3px": right / told_count if told_count else undefined,
        "gt_match_recall@3px": right / positives if positives else np.nan,
        POSITIVES: positives,
        COUNTS: np.array([[right, told_count - right]]),
    }


def with_counts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with right and wrong matches by score, float (levels, 2), at levels that are the same for all items."""
    if RANKED not in rows[0]:
        return rows
    levels = curves.score_levels(np.concatenate([row[RANKED][0] for row in rows] or [np.zeros(0)]), LEVELS)
    return [{**_without(row), COUNTS: curves.counts_at(levels, *row[RANKED]).astype(np.int32)} for row in rows]


def average(columns: Columns) -> dict[str, float | None]:
    """AP over the matches of all items; none where no keypoints belong together."""
    positives = float(columns[POSITIVES].sum())
    return {"AP": curves.average_precision(*_curve(columns)) if positives else None}


def pictures(columns: Columns) -> dict[str, Callable[[Any], None]]:
    """Precision and recall."""
    from benchkit.viz import curves as viz

    found = average(columns)["AP"]
    label = "no true matches" if found is None else f"AP {100 * found:.1f} %"
    return {"precision_recall": lambda figure: viz.precision_recall(figure, *_curve(columns), label)}


def _curve(columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    counts = columns[COUNTS].sum(axis=0)
    return curves.precision_recall(counts[:, 0], counts[:, 1], float(columns[POSITIVES].sum()))


def _share(right: np.ndarray, count: int) -> float:
    """Of the matches of which something is known: 0 without a match, NaN where nothing is known of any."""
    if len(right):
        return float(right.mean())
    return np.nan if count else 0.0


def _without(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != RANKED}
