"""Image, target, prediction and error of pixel maps side by side, each with its own scale; invalid pixels are magenta.

The second picture lays the target half-transparent over the image: a target that has slipped against its image shows there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchkit.metrics import normals as angles_of
from benchkit.metrics import orientation
from benchkit.viz import maps

RIGHT, WRONG = np.array([225, 225, 225], np.uint8), np.array([20, 20, 20], np.uint8)
ERRORS = "inferno"  # colour map of errors
WHEEL = "hsv"  # of angles: its ends meet, as 0 and 180 degrees do
CUT = 99  # the per cent of the pixels that the scale of errors spans; a few wild ones would hide the rest
WIDTH = 2.6  # inches of a panel
DPI = (100, 250)  # pixels an inch, at least and at most: as many as show every pixel of the frame
BETWEEN = 0.7  # inches between two rows, for scales and captions
NAMES = ("error", "prediction", "target", "target over image", "image")  # of the panels
NAMED = 40  # classes that the legend names


@dataclass(frozen=True)
class Scale:
    """What the colours of a picture mean: `low` to `high` through a colour map of matplotlib."""

    low: float
    high: float
    unit: str
    colours: str


@dataclass(frozen=True)
class Panel:
    """One picture, uint8 (h, w, 3), with its scale where it shows numbers, or a line that says what its colours mean."""

    name: str
    picture: np.ndarray
    scale: Scale | None = None
    note: str = ""


@dataclass(frozen=True)
class Row:
    """The pictures of one item, and the classes that occur in them, commonest first."""

    caption: str
    panels: list[Panel]
    present: list[int] = field(default_factory=list)


def panels(name: str, prediction: np.ndarray, target: np.ndarray, meta: Mapping[str, Any], image: Any) -> list[Panel]:
    """Image, target over image (both only where there is an image), target, prediction, error.

    Args:
        name: the field: mask, depth, normals or map.
        prediction, target: of one item in the scored frame, (h, w) or (h, w, C).
        meta: of the targets: `classes` of masks, `unit` of numbers.
        image: uint8 (h, w, 3) in the same frame, or None.
    """
    truth, predicted, error = _KINDS[name](prediction, target, meta)
    if image is None:
        return [truth, predicted, error]
    return [Panel("image", image), Panel("target over image", _over(image, truth.picture)), truth, predicted, error]


def present_in(name: str, prediction: np.ndarray, target: np.ndarray, meta: Mapping[str, Any]) -> list[int]:
    """Classes of a mask's target and prediction, commonest first; nothing of other fields."""
    if name != "mask":
        return []
    counts = np.bincount(np.concatenate([target.ravel(), prediction.ravel()]), minlength=len(meta["classes"]))
    counts = counts[: len(meta["classes"])]
    return [int(k) for k in np.argsort(-counts, kind="stable") if counts[k]]


def sheet(figure: Any, rows: Sequence[Row], classes: Sequence[str], title: str) -> None:
    """A row of pictures per item on an empty matplotlib Figure, with scales below them and the classes at the foot."""
    shapes = [row.panels[-1].picture.shape[:2] for row in rows]
    tall = WIDTH * max(height / width for height, width in shapes) + BETWEEN
    present = list(dict.fromkeys(k for row in rows for k in row.present))[:NAMED]
    foot = 0.65 + 0.2 * -(-(len(present) + 3) // 6)
    across, whole = len(rows[0].panels), len(rows) * tall + foot + 0.2
    figure.set_size_inches(across * (WIDTH + 0.15), whole)
    figure.set_dpi(float(np.clip(max(width for _, width in shapes) / WIDTH, *DPI)))
    grid = figure.subplots(len(rows), across, squeeze=False)
    figure.subplots_adjust(0.01, foot / whole, 0.99, 1 - 0.7 / whole, 0.04, BETWEEN / (tall - BETWEEN))
    for line, row in zip(grid, rows, strict=True):
        line[0].set_title(row.caption, loc="left", fontsize=8, parse_math=False, pad=14)
        for axes, panel in zip(line, row.panels, strict=True):
            draw_panel(axes, panel)
    figure.suptitle(title, parse_math=False, fontsize=10, y=1 - 0.12 / whole, va="top")
    _legend(figure, present, classes, maps.class_colours(len(classes)))


def draw_panel(axes: Any, panel: Panel) -> None:
    """One picture under its name, with its scale, or what its colours mean, below."""
    axes.imshow(panel.picture, interpolation="nearest")
    axes.set_axis_off()
    axes.text(0.5, 1.01, panel.name, transform=axes.transAxes, ha="center", va="bottom", fontsize=7, parse_math=False)
    if panel.scale is not None:
        maps.scale(axes, panel.scale.low, panel.scale.high, panel.scale.unit, panel.scale.colours)
    if panel.note:
        maps.caption(axes, panel.note)


def draw_key(axes: Any, present: Sequence[int], classes: Sequence[str]) -> None:
    """The colours of the classes that occur in a picture, below it; nothing where none do."""
    maps.legend(axes, present, classes, maps.class_colours(len(classes)))


def _legend(figure: Any, present: Sequence[int], classes: Sequence[str], colours: np.ndarray) -> None:
    from matplotlib.patches import Patch

    named = [(colours[k], classes[k]) for k in present]
    named += [(RIGHT, "right"), (WRONG, "wrong")] if present else []
    named.append((maps.INVALID, "invalid: nothing known, or ignored"))
    patches = [Patch(color=tuple((colour / 255).tolist()), label=name) for colour, name in named]
    drawn = figure.legend(handles=patches, fontsize=7, ncols=6, loc="lower center", frameon=False)
    for text in drawn.get_texts():
        text.set_parse_math(False)


def _over(image: np.ndarray, picture: np.ndarray) -> np.ndarray:
    return ((image.astype(np.uint16) + picture) // 2).astype(np.uint8)


def _mask(prediction: np.ndarray, target: np.ndarray, meta: Mapping[str, Any]) -> list[Panel]:
    colours = maps.class_colours(len(meta["classes"]))
    error = np.where((prediction == target)[..., None], RIGHT, WRONG)
    error = np.where((target < len(colours))[..., None], error, maps.INVALID)
    truth, predicted = maps.labels_picture(target, colours), maps.labels_picture(prediction, colours)
    return [Panel("target", truth), Panel("prediction", predicted), Panel("error", error)]


def _depth(prediction: np.ndarray, target: np.ndarray, meta: Mapping[str, Any]) -> list[Panel]:
    valid = (target > 0) & np.isfinite(target)
    return _numbers(prediction, target, valid, np.isfinite(prediction) & (prediction > 0), str(meta.get("unit", "")))


def _map(prediction: np.ndarray, target: np.ndarray, meta: Mapping[str, Any]) -> list[Panel]:
    """Of several channels (but two, which are an orientation) the length, and the length of the difference."""
    if target.ndim == 2:
        return _numbers(prediction, target, np.isfinite(target), np.isfinite(prediction), str(meta.get("unit", "")))
    if target.shape[2] == 2:
        return _orientation(prediction, target)
    unit = str(meta.get("unit", ""))
    here, there, apart = (np.linalg.norm(each, axis=2) for each in (prediction, target, prediction - target))
    shown = _numbers(here, there, np.isfinite(there), np.isfinite(here), f"{unit} (length)")
    return [*shown[:2], _error(apart, np.isfinite(apart), unit)]


def _numbers(
    prediction: np.ndarray, target: np.ndarray, valid: np.ndarray, answered: np.ndarray, unit: str
) -> list[Panel]:
    low, high = (float(target[valid].min()), float(target[valid].max())) if valid.any() else (0.0, 1.0)
    scale = Scale(low, high, unit, maps.TURBO)
    pictures = [("target", target, valid), ("prediction", prediction, answered)]
    shown = [Panel(name, maps.values_picture(values, known, low, high), scale) for name, values, known in pictures]
    difference = np.abs(np.where(valid & answered, prediction - target, 0))
    return [*shown, _error(difference, valid & answered, unit)]


def _normals(prediction: np.ndarray, target: np.ndarray, meta: Mapping[str, Any]) -> list[Panel]:
    note = "red: right, green: up, blue: towards the camera"
    pictures = [("target", target), ("prediction", prediction)]
    shown = [Panel(name, maps.normals_picture(vectors), None, note) for name, vectors in pictures]
    valid = _directed(target) & _directed(prediction)
    degrees = np.zeros(valid.shape, np.float32)
    degrees[valid] = angles_of.angles(prediction[valid][:, None], target[valid][:, None])
    return [*shown, _error(degrees, valid, "degrees")]


def _orientation(prediction: np.ndarray, target: np.ndarray) -> list[Panel]:
    """Vectors of the doubled angle; a vector of length 0 has none."""
    scale = Scale(0, 180, "degrees", WHEEL)
    shown, valid = [], _directed(target)
    for name, vectors in (("target", target), ("prediction", prediction)):
        degrees = np.degrees(np.arctan2(vectors[..., 1], vectors[..., 0])) / 2 % 180
        shown.append(Panel(name, maps.values_picture(degrees, _directed(vectors), 0, 180, WHEEL), scale))
    return [*shown, _error(orientation.angles(prediction, target), valid, "degrees")]


def _directed(vectors: np.ndarray) -> np.ndarray:
    """Bool (h, w): vectors that are not zero."""
    return np.linalg.norm(vectors, axis=-1) > 0


def _error(values: np.ndarray, valid: np.ndarray, unit: str) -> Panel:
    """From 0 to what `CUT` per cent of the pixels stay below."""
    high = float(np.percentile(values[valid], CUT)) if valid.any() else 0.0
    high = high or float(values[valid].max(initial=0)) or 1.0
    cut = f" (cut at {CUT} % of the pixels)" if (values[valid] > high).any() else ""
    return Panel(f"error{cut}", maps.values_picture(values, valid, 0, high, ERRORS), Scale(0, high, unit, ERRORS))


_KINDS: dict[str, Callable[[np.ndarray, np.ndarray, Mapping[str, Any]], list[Panel]]] = {
    "mask": _mask,
    "depth": _depth,
    "normals": _normals,
    "map": _map,
}
