"""Segmentation: pixels counted by true and predicted class, and what the counts say.

Intersection over union of a class: true positives / (true + predicted - true positives). A class that is predicted but
absent from the truth counts, as 0; one that is absent from both does not count (PASCAL VOC's and Cityscapes' definition).
Only pixels with a true class count at all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchkit.errors import RunError
from benchkit.metrics.resample import resample, to_grid_and_back

BYTES = 256  # values of a mask of one byte
Mask = NDArray[np.integer]
Counts = tuple[np.ndarray, np.ndarray, np.ndarray]  # true positives, predicted and true pixels, (..., K) each


def confusion(prediction: Mask, truth: Mask, n_classes: int, ignore: int | None) -> NDArray[np.int64]:
    """Pixels (K, K) by true class (row) and predicted class (column).

    Args:
        prediction: integers (h, w), class indices; anything where the truth is `ignore`. Bytes are fastest.
        truth: integers (h, w), class indices or `ignore`.
        n_classes: K.
        ignore: the value of pixels that count nowhere; None where every pixel has a class.

    Raises:
        RunError: a value is no class.
    """
    if prediction.dtype == truth.dtype == np.uint8:
        return _confusion_of_bytes(prediction, truth, n_classes, ignore)
    predicted, true = _valid(prediction, truth, n_classes, ignore)
    pairs = true.astype(np.intp) * n_classes + predicted
    return np.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes)


def _confusion_of_bytes(prediction: Mask, truth: Mask, n_classes: int, ignore: int | None) -> NDArray[np.int64]:
    """By every pair of bytes there can be, so that no pixel has to be picked out or checked before."""
    pairs = truth.astype(np.uint16)
    pairs <<= 8
    pairs |= prediction
    counts = _counted(pairs.ravel()).reshape(BYTES, BYTES)
    if ignore is not None and ignore < BYTES:
        counts[ignore] = 0
    for what, odd in (("truth", counts[n_classes:].any(axis=1)), ("prediction", counts[:, n_classes:].any(axis=0))):
        if odd.any():
            raise _no_class(what, int(odd.argmax()) + n_classes, n_classes)
    return counts[:n_classes, :n_classes]


def _counted(pairs: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Times that each value occurs, (65536,); masks have long runs of one value, whose lengths are added as wholes."""
    ends = np.append(np.flatnonzero(pairs[1:] != pairs[:-1]), pairs.size - 1)
    if ends.size > pairs.size // 16:
        return np.bincount(pairs, minlength=BYTES**2)
    lengths = np.diff(ends, prepend=-1)
    return np.bincount(pairs[ends], weights=lengths, minlength=BYTES**2).astype(np.int64)


def _valid(prediction: Mask, truth: Mask, n_classes: int, ignore: int | None) -> tuple[Mask, Mask]:
    """Predicted and true classes of the pixels that count."""
    valid = np.ones(truth.shape, bool) if ignore is None else truth != ignore
    predicted, true = prediction[valid], truth[valid]
    for what, values in (("truth", true), ("prediction", predicted)):
        odd = (values < 0) | (values >= n_classes)
        if odd.any():
            raise _no_class(what, int(values[odd.argmax()]), n_classes)
    return predicted, true


def counts_of(matrix: NDArray[np.int64]) -> Counts:
    """True positives, predicted and true pixels per class, (K,) each, of a confusion matrix (K, K)."""
    return np.diagonal(matrix).copy(), matrix.sum(axis=0), matrix.sum(axis=1)


def counts(prediction: Mask, truth: Mask, n_classes: int, ignore: int | None) -> Counts:
    """True positives, predicted and true pixels per class, (K,) each, without the K x K numbers of `confusion`.

    Raises:
        RunError: a value is no class.
    """
    predicted, true = _valid(prediction, truth, n_classes, ignore)
    found = [np.bincount(values, minlength=n_classes) for values in (true[predicted == true], predicted, true)]
    return found[0], found[1], found[2]


def ious(positives: NDArray, predicted: NDArray, true: NDArray) -> NDArray[np.float64]:
    """Intersection over union per class, (..., K) from counts (..., K); NaN where the union is empty."""
    return _share(positives, predicted.astype(np.int64) + true - positives)


def mean_iou(positives: NDArray, predicted: NDArray, true: NDArray) -> NDArray[np.float64]:
    """Mean over the classes with a non-empty union, (...) from counts (..., K); NaN where there is none."""
    return _mean_defined(ious(positives, predicted, true))


def pixel_accuracy(positives: NDArray, true: NDArray) -> NDArray[np.float64]:
    """Share of the pixels that are right, (...) from counts (..., K); NaN without pixels."""
    return _share(positives.sum(axis=-1), true.sum(axis=-1))


def mean_accuracy(positives: NDArray, true: NDArray) -> NDArray[np.float64]:
    """Share of each class's pixels that are right, then the mean over the classes that occur; NaN without pixels."""
    return _mean_defined(_share(positives, true))


def binary(positives: int, predicted: int, true: int, pixels: int) -> dict[str, float]:
    """IoU and F1 (Dice) of the foreground, the share of pixels that are right, the share that is foreground.

    Where neither truth nor prediction has foreground, IoU and F1 are 1: nothing was there and nothing was said to be.
    Without pixels all are NaN.
    """
    if not pixels:
        return dict.fromkeys(("iou", "f1", "pixel_acc", "foreground_share"), float("nan"))
    wrong = predicted + true - 2 * positives
    return {
        "iou": foreground_iou(positives, predicted, true),
        "f1": 2 * positives / (predicted + true) if predicted + true else 1.0,
        "pixel_acc": (pixels - wrong) / pixels,
        "foreground_share": true / pixels,
    }


def foreground_iou(positives: int, predicted: int, true: int) -> float:
    """Intersection over union; 1 where neither has foreground."""
    union = predicted + true - positives
    return positives / union if union else 1.0


def pooled_labels(truth: Mask, grid: tuple[int, int], n_classes: int, ignore: int | None) -> Mask:
    """The labels that a grid of cells allows: each class's share of every cell, resized bilinearly, then the largest.

    Args:
        truth: unsigned integers (h, w), class indices or `ignore`; ignored pixels add to no class.
        grid: rows and columns.

    Returns:
        class indices (h, w); class 0 where the cells around have no class.
    """
    down, up = to_grid_and_back(truth.shape, grid)
    best, labels = np.zeros(truth.shape, np.float32), np.zeros(truth.shape, truth.dtype)
    for label in np.unique(truth).tolist():
        if label == ignore or label >= n_classes:
            continue
        shares = resample(resample((truth == label).astype(np.float32), *down), *up)
        larger = shares > best
        labels[larger] = label
        np.copyto(best, shares, where=larger)
    return labels


def _share(part: NDArray, whole: NDArray) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return np.divide(part, whole, dtype=np.float64)


def _mean_defined(values: NDArray[np.float64]) -> NDArray[np.float64]:
    defined = ~np.isnan(values)
    return _share(np.where(defined, values, 0).sum(axis=-1), defined.sum(axis=-1))


def _no_class(what: str, value: int, n_classes: int) -> RunError:
    return RunError(f"the {what} holds {value}, and the classes are 0 to {n_classes - 1}: export again.")
