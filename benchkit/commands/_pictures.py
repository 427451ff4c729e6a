"""A sheet of items as the benchmark draws them: wrong ones first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchkit.store.files import replacing

SHOWN = 24
GAP = 3  # pixels between the views of an item


def contact_sheet(folder: Path, record: Mapping[str, Any]) -> Path:
    """Draw the items with the lowest score, then the highest, from the tag's own files; returns the PNG.

    The score is the first of the metrics that each item has.
    """
    import numpy as np
    from matplotlib.figure import Figure

    from benchkit.registry import find
    from benchkit.store.table import Table

    component = find("eval", record["family"])
    family = component.build(component.settings(**record["conf"]["eval"]))
    named = {metric.column: metric.name for metric in family.metrics() if metric.column}
    with Table(folder / "results.h5", "results") as results:
        numbers = (c for c in results.columns if results.shape(c) == () and results.dtype(c).kind == "f")
        column = next(iter(named), None) or next(numbers)
        scores, names, headline = results.read(column), results.names, named.get(column, column)
    order = [int(i) for i in np.argsort(scores, kind="stable") if not np.isnan(scores[i])]
    chosen = order if len(order) <= SHOWN else order[: SHOWN // 2] + order[-SHOWN // 2 :]
    with TagFiles(folder) as files:
        across = 6 if files.count_views() == 1 else 3
        down = max(-(-len(chosen) // across), 1)
        figure = Figure(figsize=(12, 2.1 * down))
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, row in zip(grid, chosen, strict=False):
            family.draw(axes, *files.item(names[row]))
    for axes in grid[len(chosen) :]:
        axes.set_axis_off()
    figure.suptitle(f"{record['benchmark']} / {record['tag']}: lowest, then highest {headline}", parse_math=False)
    return save(figure, folder / f"{headline}.png")


def family_pictures(folder: Path, record: Mapping[str, Any]) -> list[Path]:
    """Draw what the family shows of the whole set (the confusion matrix ...) from the tag's own files; returns the PNGs."""
    from matplotlib.figure import Figure

    from benchkit.registry import find
    from benchkit.store.table import Table

    component = find("eval", record["family"])
    family = component.build(component.settings(**record["conf"]["eval"]))
    with Table(folder / "results.h5", "results") as results, Table(folder / "targets.h5", "targets") as targets:
        columns = {name: results.read(name) for name in results.columns if name != "group" and "category/" not in name}
        pictures = family.pictures(columns, targets.meta)
    paths = []
    for name, draw in pictures.items():
        figure = Figure()
        draw(figure)
        figure.suptitle(f"{record['benchmark']} / {record['tag']}: {name}", parse_math=False, fontsize=9)
        paths.append(save(figure, folder / f"{name}.png"))
    return paths


def save(figure: Any, path: Path, tight: bool = True) -> Path:
    """Write a figure as PNG, whole or not at all; returns the path. `tight`: its parts are moved so that all of them show."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if tight:
        figure.tight_layout()
    with replacing(path, read_only=False) as unfinished, unfinished.open("wb") as handle:
        FigureCanvasAgg(figure).print_png(handle)
    return path


class TagFiles:
    """Prediction, truth and thumbnail of single items."""

    def __init__(self, folder: Path) -> None:
        from benchkit.store.table import Table

        self.predictions = Table(folder / "predictions.h5", "predictions")
        self.targets = Table(folder / "targets.h5", "targets")
        self.thumbs = Table(folder / "thumbs.h5", "thumbs") if (folder / "thumbs.h5").exists() else None

    def item(self, name: str) -> tuple[dict[str, Any], dict[str, Any], Any]:
        """Everything `Benchmark.draw` takes."""
        prediction = {c: self.predictions.item(c, self.predictions.position[name]) for c in self.predictions.columns}
        row = self.targets.position[name]
        target: dict[str, Any] = {c: self.targets.item(c, row) for c in self.targets.columns}
        return prediction, {**target, "meta": self.targets.meta}, self._thumbs(target["views"].split("\n"))

    def count_views(self) -> int:
        """How many images an item is made of."""
        return len(self.targets.item("views", 0).split("\n"))

    def _thumbs(self, views: list[str]) -> Any:
        """The item's views side by side, on white where their heights differ."""
        import numpy as np

        from benchkit.images import decode_exact

        if self.thumbs is None:
            return None
        rows = [np.asarray(self.thumbs.item("thumb", self.thumbs.position[view])) for view in views]
        thumbs = [decode_exact(row.tobytes()) for row in rows]
        if len(thumbs) == 1:
            return thumbs[0]
        height = max(len(thumb) for thumb in thumbs)
        white = [((0, height - len(t)), (GAP * (place > 0), 0), (0, 0)) for place, t in enumerate(thumbs)]
        padded = [np.pad(t, pad, constant_values=255) for t, pad in zip(thumbs, white, strict=True)]
        return np.concatenate(padded, axis=1)

    def __enter__(self) -> TagFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for table in (self.predictions, self.targets, self.thumbs):
            if table is not None:
                table.close()


def score_bars(path: Path, records: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Path:
    """Headline score of every model on every benchmark, with intervals and the floor as a line; returns the PNG."""
    from matplotlib.figure import Figure

    shown = {name: by_tag for name, by_tag in records.items() if by_tag}
    figure = Figure(figsize=(1.5 + 3.2 * max(len(shown), 1), 3.6))
    grid = figure.subplots(1, max(len(shown), 1), squeeze=False)[0]
    for axes, (benchmark, by_tag) in zip(grid, shown.items(), strict=False):
        metric = next(iter(next(iter(by_tag.values()))["scores"]))
        for place, (tag, record) in enumerate(by_tag.items()):
            score = record["scores"][metric]
            low, high = score["interval"] or (score["value"], score["value"])
            error = [[max(score["value"] - low, 0)], [max(high - score["value"], 0)]]
            axes.bar(place, score["value"], yerr=error, capsize=4, label=tag)
        if score["floor"] is not None:
            axes.axhline(score["floor"], color="black", linestyle=":", label="floor")
        axes.set_title(f"{benchmark}: {metric}", parse_math=False)
        axes.set_xticks([])
    grid[-1].legend(fontsize=7)
    return save(figure, path)
