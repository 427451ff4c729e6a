"""Pictures of a segmentation of the whole set: how many pixels classes have, and which are taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchkit.viz._matrix import shares_matrix


def class_shares(figure: Any, true: np.ndarray, predicted: np.ndarray, classes: Sequence[str]) -> None:
    """Bars of each class's share of the true and of the predicted pixels, the largest first; those that are nowhere left out.

    Args:
        figure: an empty matplotlib Figure.
        true, predicted: (K,) pixels.
        classes: K names.
    """
    order = [int(k) for k in np.argsort(-true, kind="stable") if true[k] or predicted[k]]
    figure.set_size_inches(6.5, 1.5 + 0.2 * max(len(order), 1))
    axes = figure.subplots()
    places = np.arange(len(order))
    axes.barh(places - 0.2, true[order] / max(true.sum(), 1), 0.4, color="tab:gray", label="truth")
    axes.barh(places + 0.2, predicted[order] / max(predicted.sum(), 1), 0.4, color="tab:orange", label="prediction")
    axes.set_yticks(places, [classes[k] for k in order], fontsize=7, parse_math=False)
    axes.set_xlabel("share of the pixels")
    axes.legend(fontsize=7)
    axes.invert_yaxis()


def pixel_confusion(figure: Any, counts: np.ndarray, classes: Sequence[str]) -> None:
    """Per cent of each true class's pixels (row) that were taken for each class (column); classes without pixels are left out.

    Args:
        figure: an empty matplotlib Figure.
        counts: (K, K) pixels, row = truth.
        classes: K names.
    """
    kept = np.flatnonzero(counts.sum(axis=0) + counts.sum(axis=1))
    counts, names = counts[np.ix_(kept, kept)], [classes[k] for k in kept.tolist()]
    text = lambda _, share: f"{100 * share:.0f}" if share >= 0.005 else ""  # noqa: E731
    shares_matrix(figure, counts, names, text, "prediction", "the true class's pixels")
