"""Pictures of a classifier: which classes it takes for which, and how far its confidence can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchkit.viz._matrix import NAMED, shares_matrix

HIGHEST = 5  # scores of one item that are shown
PAIRS = 30  # confusions that are listed where there are more classes


def confusion(figure: Any, counts: np.ndarray, classes: Sequence[str]) -> None:
    """Share of each true class (row) that was taken for each class (column); with many classes the commonest mistakes.

    Args:
        figure: an empty matplotlib Figure.
        counts: (K, K) items, row = truth.
        classes: K names.
    """
    if len(classes) > NAMED:
        _commonest(figure, counts, classes)
        return
    shares_matrix(figure, counts, classes, lambda count, _: str(count), "answer", "the true class")


def _commonest(figure: Any, counts: np.ndarray, classes: Sequence[str]) -> None:
    """Bars of the pairs (truth, answer) that occur most often."""
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:PAIRS]
    pairs = [(int(i) // len(classes), int(i) % len(classes)) for i in order]
    pairs = [pair for pair in pairs if wrong[pair] > 0]
    figure.set_size_inches(9, 1.5 + 0.25 * max(len(pairs), 1))
    axes = figure.subplots()
    axes.barh(range(len(pairs)), [wrong[pair] for pair in pairs], color="tab:red")
    labels = [f"{classes[truth]} taken for {classes[answer]}" for truth, answer in pairs]
    axes.set_yticks(range(len(pairs)), labels, fontsize=7, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("items")


def highest(
    axes: Any, scores: np.ndarray, competing: np.ndarray, label: int, classes: Sequence[str], scores_are: str
) -> None:
    """Bars of the highest scores of one item, and of its own class's: that in green, those above it in red.

    Args:
        axes: of matplotlib.
        scores: (K,).
        competing: indices of the classes that may be the answer.
        label: the true class.
        classes: K names.
        scores_are: what the scores are.
    """
    order = competing[np.argsort(-scores[competing], kind="stable")].tolist()
    shown = order[:HIGHEST] + [label for _ in (0,) if label in order[HIGHEST:]]
    colours = ["tab:green" if k == label else "tab:red" if scores[k] >= scores[label] else "tab:gray" for k in shown]
    axes.barh(range(len(shown)), scores[shown], color=colours, alpha=0.6)
    places = [f"{order.index(k) + 1}. " if k not in order[:HIGHEST] else "" for k in shown]
    names = [place + classes[k] for place, k in zip(places, shown, strict=True)]
    for row, name in enumerate(names):  # on the bars: there may be no room beside them
        axes.text(0.02, row, name, transform=axes.get_yaxis_transform(), va="center", fontsize=7, parse_math=False)
    axes.set_yticks([])
    axes.invert_yaxis()
    axes.set_xlabel(f"{scores_are}; green: the true class", fontsize=7, parse_math=False)
    axes.tick_params(axis="x", labelsize=6)


def reliability(figure: Any, items: np.ndarray, confidence: np.ndarray, accuracy: np.ndarray) -> None:
    """Accuracy against confidence by bin, and how many items are in each.

    Args:
        figure: an empty matplotlib Figure.
        items, confidence, accuracy: (bins,), as `metrics.classification.calibration` gives them.
    """
    figure.set_size_inches(4.5, 6)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    edges = np.linspace(0, 1, len(items) + 1)
    width = edges[1]
    used = items > 0
    error = float((items[used] * np.abs(accuracy[used] - confidence[used])).sum() / max(items.sum(), 1))
    above.bar(edges[:-1][used], accuracy[used], width, align="edge", edgecolor="white", label="accuracy")
    above.plot(confidence[used], confidence[used], "k.", markersize=4, label="mean confidence")
    above.plot([0, 1], [0, 1], "k:", linewidth=1, label="calibrated")
    above.plot(
        (edges[:-1] + width / 2)[used], accuracy[used], "_", color="tab:blue", markersize=8
    )  # also where it is 0
    above.set_ylabel("share of items that are right")
    told = f"calibration error over these bins (ECE): {error:.4f}"
    above.legend(
        fontsize=7, ncols=3, loc="lower left", bbox_to_anchor=(0, 1), title=told, title_fontsize=7, frameon=False
    )
    below.set_yscale("symlog", linthresh=1)  # a bin of one item shows beside one of a thousand
    below.bar(edges[:-1], items, width, align="edge", edgecolor="white", color="tab:gray")
    below.set_ylabel("items")
    below.set_xlabel("confidence of the answer")
