"""Pictures of a segmentation of the whole set: IoU of every class, and which classes are taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchkit.viz._matrix import shares_matrix


def class_ious(figure: Any, ious: np.ndarray, true: np.ndarray, predicted: np.ndarray, classes: Sequence[str]) -> None:
    """Bars of each class's IoU, largest first, beside its share of the true and of the predicted pixels.

    Args:
        figure: an empty matplotlib Figure.
        ious: (K,), NaN for classes that are nowhere: they are left out.
        true, predicted: (K,) pixels.
        classes: K names.
    """
    order = [int(k) for k in np.argsort(-np.nan_to_num(ious, nan=-1), kind="stable") if not np.isnan(ious[k])]
    figure.set_size_inches(8, 1.5 + 0.2 * max(len(order), 1))
    left, right = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(order))
    left.barh(places, ious[order], color="tab:blue")
    left.set_xlim(0, 1)
    left.set_xlabel("intersection over union")
    left.set_yticks(places, [classes[k] for k in order], fontsize=7, parse_math=False)
    right.barh(places - 0.2, true[order] / max(true.sum(), 1), 0.4, color="tab:gray", label="truth")
    right.barh(places + 0.2, predicted[order] / max(predicted.sum(), 1), 0.4, color="tab:orange", label="prediction")
    right.set_xlabel("share of the pixels")
    right.legend(fontsize=7)
    left.invert_yaxis()


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
