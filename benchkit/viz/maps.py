"""Pixel maps as pictures: image, truth and prediction side by side on one pair of axes; invalid pixels are magenta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

INVALID = np.array([255, 0, 255], np.uint8)  # a colour that no scale and no class has
TURBO = "turbo"
NAMED = 8  # classes that a legend names
GAP = 0.03  # between two pictures, in widths of one


def class_colours(count: int) -> np.ndarray:
    """uint8 (count, 3): hues by the golden angle, so that neighbouring classes look different; lightness takes turns."""
    from matplotlib.colors import hsv_to_rgb

    index = np.arange(count)
    hue = 0.1 + 0.6 * ((index * 0.618034) % 1) * 1.2  # the hues about magenta are left out
    shade = np.stack([hue, np.where(index % 2, 0.55, 0.85), np.where(index % 3 == 2, 0.6, 0.9)], axis=1)
    return (hsv_to_rgb(shade) * 255).astype(np.uint8)


def labels_picture(mask: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """uint8 (h, w, 3): the colour of each class index (h, w); what is no class is invalid."""
    known = mask < len(colours)
    return np.where(known[..., None], colours[np.where(known, mask, 0)], INVALID)


def normals_picture(normals: np.ndarray) -> np.ndarray:
    """uint8 (h, w, 3): right, up and towards the camera as red, green and blue; zero vectors are invalid."""
    shown = ((normals * np.array([1, -1, -1]) + 1) * 127.5).clip(0, 255).astype(np.uint8)
    return np.where(normals.any(axis=-1, keepdims=True), shown, INVALID)


def values_picture(values: np.ndarray, valid: np.ndarray, low: float, high: float, colours: str = TURBO) -> np.ndarray:
    """uint8 (h, w, 3): numbers (h, w) from `low` to `high` through a colour map of matplotlib; others are cut to the ends."""
    from matplotlib import colormaps

    share = (np.where(valid, values, low) - low) / max(high - low, 1e-12)
    shown = (colormaps[colours](share.clip(0, 1))[..., :3] * 255).astype(np.uint8)
    return np.where(valid[..., None], shown, INVALID)


def side_by_side(axes: Any, pictures: Sequence[tuple[str, np.ndarray]]) -> None:
    """Pictures of one frame, each under its name, with the aspect of the last one.

    A picture of another aspect (the whole image) is cut to the last one's about its centre: the scored frame is a central
    crop, or the whole image.
    """
    height, width = pictures[-1][1].shape[:2]
    for place, (name, picture) in enumerate(pictures):
        left = place * (1 + GAP)
        shown = _centre(picture, height / width)
        axes.imshow(shown, extent=(left, left + 1, height / width, 0), interpolation="nearest")
        axes.text(left + 0.5, -0.02, name, ha="center", va="bottom", fontsize=6, parse_math=False)
    axes.set_xlim(0, len(pictures) * (1 + GAP) - GAP)
    axes.set_ylim(height / width, 0)
    axes.set_aspect("equal")
    axes.set_axis_off()


def scale(axes: Any, low: float, high: float, unit: str, colours: str = TURBO) -> None:
    """The scale of `values_picture` below the pictures, with its two ends."""
    bar = axes.inset_axes((0.1, -0.1, 0.8, 0.05))
    bar.imshow(np.linspace(0, 1, 256)[None], aspect="auto", cmap=colours, extent=(low, max(high, low + 1e-12), 0, 1))
    bar.set_yticks([])
    bar.set_xticks([low, high], [f"{low:.3g}", f"{high:.3g} {unit}"], fontsize=6)


def caption(axes: Any, text: str) -> None:
    """A line below the pictures."""
    axes.text(0.5, -0.03, text, transform=axes.transAxes, ha="center", va="top", fontsize=6, parse_math=False)


def legend(axes: Any, present: Sequence[int], classes: Sequence[str], colours: np.ndarray) -> None:
    """Names and colours of the classes in a picture, the first few of them."""
    from matplotlib.patches import Patch

    patches = [Patch(color=colours[k] / 255, label=classes[k]) for k in present[:NAMED]]
    if patches:
        drawn = axes.legend(
            handles=patches, fontsize=5, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 0.0), frameon=False
        )
        for text in drawn.get_texts():
            text.set_parse_math(False)


def _centre(picture: np.ndarray, aspect: float) -> np.ndarray:
    """The largest central part whose height is `aspect` times its width."""
    height, width = picture.shape[:2]
    rows, columns = min(height, round(width * aspect)), min(width, round(height / aspect))
    top, left = (height - rows) // 2, (width - columns) // 2
    return picture[top : top + max(rows, 1), left : left + max(columns, 1)]
