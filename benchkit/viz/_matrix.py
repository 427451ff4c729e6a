"""Which classes are taken for which: the matrix that pictures of classifiers and of segmentations share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

NAMED = 40  # classes whose names fit beside the matrix


def shares_matrix(
    figure: Any, counts: np.ndarray, classes: Sequence[str], text: Callable[[int, float], str], answer: str, of: str
) -> None:
    """The share of each row that every column has, as colours with a text in each cell.

    Args:
        figure: an empty matplotlib Figure.
        counts: (K, K), row = truth.
        classes: K names.
        text: what a cell says, of its count and its share.
        answer: what the columns are.
        of: what the shares are shares of.
    """
    side = 2.5 + 0.3 * len(classes)
    figure.set_size_inches(side + 1, side)
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for row, column in zip(*np.nonzero(counts), strict=True):
        said, dark = text(int(counts[row, column]), float(shares[row, column])), shares[row, column] > 0.5
        axes.text(column, row, said, ha="center", va="center", fontsize=6, color="white" if dark else "black")
    axes.set_xticks(range(len(classes)), classes, rotation=90, fontsize=7, parse_math=False)
    axes.set_yticks(range(len(classes)), classes, fontsize=7, parse_math=False)
    axes.set_xlabel(answer)
    axes.set_ylabel("truth")
    figure.colorbar(image, ax=axes, label=f"share of {of}", fraction=0.04)
