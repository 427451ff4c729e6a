"""Pictures of boards: all scores as a heat map, and scores against costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.boards.board import Board
from benchkit.boards.costs import COSTS, Cost, front
from benchkit.boards.grid import Column, grid_of
from benchkit.viz.cost import Panel, costs
from benchkit.viz.heatmap import heatmap

ARROWS = {"higher": " \N{UPWARDS ARROW}", "lower": " \N{DOWNWARDS ARROW}"}  # which way is better


def draw_boards(boards: Sequence[Board], folder: Path) -> list[Path]:
    """Draw leaderboard.png and, where a board has two tags, leaderboard_costs.png, with a PDF of each; returns the files."""
    found = _saved(lambda figure: draw_heatmap(figure, boards), folder / "leaderboard.png", tight=True)
    if _panels(boards):
        found += _saved(lambda figure: draw_costs(figure, boards), folder / "leaderboard_costs.png", tight=False)
    return found


def draw_heatmap(figure: Any, boards: Sequence[Board]) -> None:
    """Headline of every tag on every benchmark, on an empty matplotlib Figure."""
    grid = grid_of(boards)
    shape = len(grid.tags), len(grid.columns)
    positions, other = np.full(shape, np.nan), np.zeros(shape, bool)
    texts = [[""] * shape[1] for _ in grid.tags]
    for column, each in enumerate(grid.columns):
        places = each.positions()
        for row, tag in enumerate(grid.tags):
            texts[row][column] = _text(each, tag)
            positions[row, column] = places.get(tag, np.nan)
            other[row, column] = tag in each.rows and tag not in each.first
    names = [f"{each.benchmark} {each.metric}{ARROWS.get(each.better, '')}" for each in grid.columns]
    heatmap(figure, grid.tags, names, texts, positions, other)


def draw_costs(figure: Any, boards: Sequence[Board]) -> None:
    """Score against parameters, speed and bytes of every board that has two tags to compare, on an empty Figure."""
    costs(figure, _panels(boards))


def _panels(boards: Sequence[Board]) -> list[list[Panel]]:
    rows = [[_panel(board, cost) for cost in COSTS] for board in boards]
    return [kept for row in rows if (kept := [panel for panel in row if len(panel.points) > 1])]


def _panel(board: Board, cost: Cost) -> Panel:
    points = {
        row.tag: (float(spent), row.value, None if row.low is None or row.high is None else (row.low, row.high))
        for row in board.rows
        if row.value is not None and (spent := getattr(row, cost.column)) is not None
    }
    title = f"{board.benchmark}{f', board {board.number}' if board.protocol else ''}"
    score = f"{board.metric}{f' ({board.unit})' if board.unit else ''}{ARROWS.get(board.better, '')}"
    return Panel(title, cost.name, score, points, [board.rows[number].tag for number in front(board, cost)])


def _text(column: Column, tag: str) -> str:
    value = column.value(tag)
    if value is not None:
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.3g}"
    return "n/a" if tag in column.rows else ""


def _saved(draw: Callable[[Any], None], path: Path, tight: bool) -> list[Path]:
    from matplotlib.figure import Figure

    from benchkit.experiments.pictures import save, save_pdf

    figure = Figure()
    draw(figure)
    return [save(figure, path, tight), save_pdf(figure, path.with_suffix(".pdf"))]
