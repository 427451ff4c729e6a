"""A sweep as a table with a row per tag, and as a picture: the headline score against what was swept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.commands._tables import number
from benchkit.experiments.pictures import save

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
    """Draw the headline score with its interval against the swept value; returns the PNG.

    Args:
        folder: results/<benchmark>.
        swept: place and record of every tag of one benchmark and model.
    """
    from matplotlib.figure import Figure

    ordered = sorted(swept, key=_order)
    what, first = ordered[0][0][0], ordered[0][1]
    metric = next(iter(first["scores"]))
    figure = Figure(figsize=(5.5, 3.8))
    axes = figure.subplots()
    points = [(place[1], record["scores"][metric]) for place, record in ordered]
    values = [score["value"] for _, score in points]
    axes.plot([x for x, _ in points], values, "o-")
    ends = [score["interval"] or (score["value"], score["value"]) for _, score in points]
    axes.fill_between([x for x, _ in points], [low for low, _ in ends], [high for _, high in ends], alpha=0.2)
    if first["scores"][metric]["floor"] is not None:
        axes.axhline(first["scores"][metric]["floor"], color="black", linestyle=":", label="floor")
        axes.legend(fontsize=7)
    if what == "layer":
        axes.set_xticks([x for x, _ in points], [_layer(record) for _, record in ordered], fontsize=7)
    axes.set_xlabel(what)
    axes.set_ylabel(metric, parse_math=False)
    axes.set_title(f"{first['benchmark']}: {_plain(ordered)}", parse_math=False, fontsize=9)
    return save(figure, folder / f"{_plain(ordered)}-{what}.png")


def _order(entry: tuple[Place, Mapping[str, Any]]) -> tuple[float, str]:
    return entry[0][1], entry[1]["tag"]


def _layer(record: Mapping[str, Any]) -> str:
    return str(record["conf"]["model"]["features"]["layers"])


def _plain(ordered: Sequence[tuple[Place, Mapping[str, Any]]]) -> str:
    """What the tags begin with in common."""
    tags = [record["tag"] for _, record in ordered]
    common = min(tags, key=len)
    while not all(tag.startswith(common) for tag in tags):
        common = common[:-1]
    return common.rstrip("+") or "sweep"
