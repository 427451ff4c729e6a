"""Pictures that eval leaves: a sheet of items as the benchmark draws them, wrong ones first, and those of whole sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchkit.experiments.experiment import family_of
from benchkit.experiments.files import TagFiles
from benchkit.experiments.plots import Draw
from benchkit.experiments.ranking import Ranking
from benchkit.store.files import replacing
from benchkit.viz.pairs import wrapped

SHOWN = 24


def contact_sheet(folder: Path, record: Mapping[str, Any]) -> Path:
    """Draw the items with the worst score, then the best, from the tag's own files; returns the PNG, named after the score.

    The score is the family's choice (`Benchmark.order`).
    """
    from matplotlib.figure import Figure

    family = family_of(record)
    ranking = Ranking(folder, family)
    order, (worst, best) = (
        ranking.worst(),
        ("highest", "lowest") if ranking.better == "lower" else ("lowest", "highest"),
    )
    chosen = order if len(order) <= SHOWN else order[: SHOWN // 2] + order[-SHOWN // 2 :]
    headline = (
        next((each.name for each in family.metrics() if each.column == ranking.column), ranking.column) or "items"
    )
    with TagFiles(folder) as files:
        across = 6 if files.count_views() == 1 else 3
        down = max(-(-len(chosen) // across), 1)
        figure = Figure(figsize=(12, 2.1 * down))
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, item in zip(grid, chosen, strict=False):
            family.draw(axes, *files.item(item))
            if files.count_views() > 1:
                write_below(axes, ranking.caption(item))
    for axes in grid[len(chosen) :]:
        axes.set_axis_off()
    said = f"{worst}, then {best} {headline}" if ranking.column else "first, then last items"
    title = f"{record['benchmark']} / {record['tag']}: {said}"
    figure.suptitle(wrapped(title, 12), parse_math=False, fontsize=9)
    figure.supxlabel(wrapped(family.legend(), 12), parse_math=False, fontsize=8)
    return save(figure, folder / f"{headline}.png")


def write_below(axes: Any, caption: str) -> None:
    """A small line below a picture."""
    axes.text(0.5, -0.02, caption, transform=axes.transAxes, ha="center", va="top", fontsize=6, parse_math=False)


def save_plots(folder: Path, draws: Mapping[str, Draw], title: str) -> list[Path]:
    """Draw plots of whole sets and leave each as PNG and as PDF in a folder; returns the PNGs."""
    from matplotlib.figure import Figure

    found = []
    for name, draw in draws.items():
        figure = Figure()
        draw(figure)
        said = wrapped(f"{title}: {name.replace('_', ' ')}", float(figure.get_figwidth()))
        figure.suptitle(said, parse_math=False, fontsize=9)
        found.append(save(figure, folder / f"{name}.png"))
        save_pdf(figure, folder / f"{name}.pdf")
    return found


def save(figure: Any, path: Path, tight: bool = True) -> Path:
    """Write a figure as PNG, whole or not at all; returns the path. `tight`: its parts are moved so that all of them show."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if tight:
        figure.tight_layout()
    with replacing(path, read_only=False) as unfinished, unfinished.open("wb") as handle:
        FigureCanvasAgg(figure).print_png(handle)
    return path


def save_pdf(figure: Any, path: Path) -> Path:
    """Write a figure as PDF, whole or not at all, with TrueType letters, as journals ask; equal figures give equal bytes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    with (
        replacing(path, read_only=False) as unfinished,
        unfinished.open("wb") as handle,
        rc_context({"pdf.fonttype": 42}),
    ):
        FigureCanvasPdf(figure).print_pdf(handle, metadata={"CreationDate": None})
    return path


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
