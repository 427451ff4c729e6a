"""Which items lie nearest to one, by the cosine of their embeddings, as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

SHOWN = 7  # nearest items


def nearest(embedding: np.ndarray, row: int, count: int = SHOWN) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the items nearest to one, itself left out, and their cosines; equal ones in name order.

    A zero vector lies at cosine 0 to all.

    Args:
        embedding: (N, C).
        row: of the item.
        count: at most so many.
    """
    vectors = np.asarray(embedding, np.float32)
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = vectors @ vectors[row] / np.maximum(lengths * lengths[row], np.finfo(np.float32).tiny)
    order = np.argsort(-cosines, kind="stable")
    chosen = order[order != row][:count]
    return chosen, cosines[chosen]


def draw_neighbours(axes: Any, item: Any) -> None:
    """The item (`benchkit.experiments.draw.Item`), then the nearest ones: green where they have its class."""
    from benchkit.viz.neighbours import Neighbour, draw_tiles

    files = item.files
    row = files.predictions.position[item.name]
    rows, cosines = nearest(np.asarray(files.predictions.read("embedding")), row)
    classes = item.target["meta"].get("classes", ()) if "label" in item.target else ()
    own = int(item.target["label"]) if "label" in item.target else None
    image = item.image
    tiles = [Neighbour(image, () if own is None else (classes[own],), None)]
    for other, cosine in zip(rows.tolist(), cosines.tolist(), strict=True):
        name = files.predictions.names[other]
        label = None if own is None else int(files.targets.item("label", files.targets.position[name]))
        thumbs = files.thumbnails(name)
        said = (f"{cosine:.3f}",) if label is None else (f"{cosine:.3f}", classes[label])
        tiles.append(Neighbour(thumbs[0] if thumbs else None, said, None if label is None else label == own))
    draw_tiles(axes, tiles)
