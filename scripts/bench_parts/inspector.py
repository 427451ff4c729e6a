"""The inspector's scatter of 20 experiments x 5,000 items, drawn by Agg: following the mouse, and another score on an axis."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EXPERIMENTS, ITEMS, CLASSES, REPEATS = 20, 5_000, 12, 15


def run(threads: int) -> list[dict[str, Any]]:
    """Medians in seconds, with their bounds."""
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": root}
    done = subprocess.run([sys.executable, __file__], env=env, check=True, capture_output=True)
    size = f"inspector, {EXPERIMENTS} experiments x {ITEMS} items"
    return [{**each, "figure": f"{size}: {each['figure']}"} for each in json.loads(done.stdout)]


def measured() -> list[dict[str, Any]]:
    """In this process."""
    from matplotlib.backend_bases import MouseEvent

    from benchkit.inspect.viewer import Viewer

    window = Canvases()
    viewer = Viewer([Made(row) for row in range(EXPERIMENTS)], window)  # type: ignore[list-item]
    viewer.start()
    canvas = viewer.scatter.figure.canvas
    canvas.draw()
    (left, low), (right, high) = viewer.scatter.axes.bbox.get_points()
    places = iter(np.random.default_rng(0).uniform((left, low), (right, high), (REPEATS, 2)))

    def hover() -> None:
        MouseEvent("motion_notify_event", canvas, *next(places))._process()

    def axis() -> None:
        viewer.act("y")  # without an event loop it is drawn at once

    return [
        {"figure": "the mouse moves", "seconds": _median(hover), "bound": 0.1},
        {"figure": "another score on an axis", "seconds": _median(axis), "bound": 1.0},
    ]


class Canvases:
    """A window without a screen."""

    def open(self, key: int, figure: Any, title: str) -> None:
        """Drawn by Agg."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        FigureCanvasAgg(figure)

    def close(self, key: int) -> None:
        """Nothing to do."""

    def changed(self) -> None:
        """Nothing to do."""

    def say(self, text: str, error: bool = False) -> None:
        """An error would spoil the measurement."""
        if error:
            raise RuntimeError(text)


class Made:
    """An experiment with scores from a generator."""

    benchmark, group = "classification", [""] * ITEMS

    def __init__(self, row: int) -> None:
        from benchkit.registry import find

        family = find("eval", "classification")
        self.tag, self.family = f"experiment_{row:02}", family.build(family.settings())
        self.names = [f"test/{k:06}" for k in range(ITEMS)]
        random = np.random.default_rng(row)
        self.item_scores = {name: random.random(ITEMS) for name in ("top1", "top5", "nll")}
        self.categories = {"class": [f"class_{k % CLASSES}" for k in range(ITEMS)]}

    def metric_of(self, column: str) -> Any:
        """As an experiment has it."""
        return next((each for each in self.family.metrics() if each.column == column), None)


def _median(work: Callable[[], None]) -> float:
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


if __name__ == "__main__":
    print(json.dumps(measured()))
