"""A sweep as a table with a row per tag, and as a picture: the headline score against what was swept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.commands._tables import number

Place = tuple[str, float]


def sweep_rows(swept: Sequence[tuple[Place, Mapping[str, Any]]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: one experiment a row, one metric a column, the headline with its interval."""
    metrics = list(dict.fromkeys(name for _, record in swept for name in record["scores"]))
    rows = []
    for _, record in sorted(swept, key=_order):
        scores = [record["scores"].get(name) for name in metrics]
        cells = ["" if score is None else number(score["value"]) for score in scores]
        interval = scores[0]["interval"] if scores[0] else None
        ends = [number(end) for end in interval] if interval else ["", ""]
        rows.append([record["benchmark"], record["tag"], cells[0], *ends, *cells[1:]])
    return ["benchmark", "tag", metrics[0], "low", "high", *metrics[1:]], rows


def sweep_picture(folder: Path, swept: Sequence[tuple[Place, Mapping[str, Any]]]) -> Path:
    """Draw the headline score with its interval against the swept value, as PNG and PDF; returns the PNG.

    Args:
        folder: results/<benchmark>.
        swept: place and record of every tag of one benchmark and model.
    """
    from benchkit.experiments.pictures import save_plots
    from benchkit.experiments.plots import in_common
    from benchkit.viz import series

    ordered = sorted(swept, key=_order)
    what, first = ordered[0][0][0], ordered[0][1]
    metric = next(iter(first["scores"]))
    scores = {place[1]: series.Score.of(record["scores"][metric]) for place, record in ordered}
    known, floor = {x: score for x, score in scores.items() if score}, first["scores"][metric]["floor"]
    name, floors = in_common([record["tag"] for _, record in ordered]), {} if floor is None else {metric: floor}
    draw = lambda figure: series.against(figure, {metric: known}, floors, what, metric)  # noqa: E731
    return save_plots(folder, {f"{name}-{what}": draw}, first["benchmark"])[0]


def _order(entry: tuple[Place, Mapping[str, Any]]) -> tuple[float, str]:
    return entry[0][1], entry[1]["tag"]
