"""Plots of whole sets: what the family shows, scores by category, scores against layers; of one experiment or of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchkit.experiments.experiment import Experiment
from benchkit.experiments.ranking import Ranking
from benchkit.provenance.identity import identity_hash
from benchkit.viz import series

Draw = Callable[[Any], None]  # on an empty matplotlib Figure


def plots(experiment: Experiment) -> dict[str, Draw]:
    """By name: what its family shows of the whole set (the confusion matrix ...), and scores by category."""
    from benchkit.store.table import Table

    with Table(experiment.folder / "targets.h5", "targets") as targets:
        meta = targets.meta
    return {**experiment.family.pictures(experiment.columns, meta), **_by_category([experiment])}


def joint_plots(experiments: Sequence[Experiment]) -> dict[str, Draw]:
    """By name: what several experiments of one benchmark show together; nothing of fewer than two."""
    if len(experiments) < 2:
        return {}
    return {**_compared(experiments), **_by_category(experiments), **layer_plot(experiments)}


def layer_plot(experiments: Sequence[Experiment]) -> dict[str, Draw]:
    """Headline against layer: a line for every model and head of which two or more layers were scored.

    `final` stands behind the last layer. Experiments of several layers at once have no place on the axis.
    """
    lines: dict[str, list[tuple[float, Experiment]]] = {}
    for each in experiments:
        if (layer := _layer(each.record)) is not None:
            lines.setdefault(_but_layer(each.record), []).append((layer, each))
    kept = [line for line in lines.values() if len({layer for layer, _ in line}) > 1]
    if not kept:
        return {}
    metric = next(iter(kept[0][0][1].record["scores"]))
    found: dict[str, dict[float, series.Score]] = {}
    floors: dict[str, float] = {}
    for line in kept:
        label = in_common([each.tag for _, each in line])
        scores = {layer: each.record["scores"].get(metric) for layer, each in line}
        known = {layer: series.Score.of(score) for layer, score in scores.items() if score}
        found[label] = {layer: score for layer, score in known.items() if score is not None}
        lowest = [score["floor"] for score in scores.values() if score and score["floor"] is not None]
        floors |= {label: lowest[0]} if lowest else {}
    return {"layers": lambda figure: series.against(figure, found, floors, "layer", metric)}


def _layer(record: Mapping[str, Any]) -> float | None:
    asked = record["conf"]["model"]["features"]["layers"]
    if len(record["features"]["keys"]) != 1:  # of several layers
        return None
    if asked == "final":
        return float(record["backbone"]["depth"])
    return float(asked) if isinstance(asked, int) else None


def _but_layer(record: Mapping[str, Any]) -> str:
    """What experiments of one line share."""
    protocol = {key: value for key, value in record["protocol"].items() if key != "layers"}
    return identity_hash([record["backbone"]["identity_hash"], protocol])


def in_common(tags: Sequence[str]) -> str:
    """What the tags begin with in common."""
    common = min(tags, key=len)
    while not all(tag.startswith(common) for tag in tags):
        common = common[:-1]
    return common.rstrip("+") or tags[0]


def _by_category(experiments: Sequence[Experiment]) -> dict[str, Draw]:
    """Bars of the headline's scores by class or category, else of the first score that has any."""
    parts = [name.rpartition("/")[0] for each in experiments for name in each.record.get("breakdown") or {}]
    headline = next(iter(experiments[0].record["scores"]))
    metric = headline if headline in parts else next(iter(parts), "")
    found = {each.tag: scores for each in experiments if (scores := _categories(each.record, metric))}
    if not any(found.values()):
        return {}
    return {"by_category": lambda figure: series.by_category(figure, found, metric)}


def _categories(record: Mapping[str, Any], metric: str) -> dict[str, series.Score]:
    within = f"{metric}/"
    scores = {
        name.removeprefix(within): series.Score.of(score)
        for name, score in (record.get("breakdown") or {}).items()
        if metric and name.startswith(within)
    }
    return {name: score for name, score in scores.items() if score is not None}


def _compared(experiments: Sequence[Experiment]) -> dict[str, Draw]:
    """What the family shows of several tags: labels say which column, and over how many items, where these differ."""
    found = [(each, Ranking(each.folder, each.family)) for each in experiments]
    if not all(ranking.column for _, ranking in found):
        return {}
    columns, counts = {ranking.column for _, ranking in found}, {len(ranking.names) for _, ranking in found}
    scores = {}
    for each, ranking in found:
        column = f", {ranking.column}" if len(columns) > 1 else ""
        count = f", {len(ranking.names)} items" if len(counts) > 1 else ""
        scores[f"{each.tag}{column}{count}"] = ranking.columns[ranking.column]
    return experiments[0].family.compared(scores)
