"""What a page knows of the items of one benchmark: names, labels and scores of every experiment, for its own script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.errors import printable
from benchkit.report.embed import packed

if TYPE_CHECKING:
    from benchkit.experiments.joined import Joined


def items_of(joined: Joined, order: tuple[str, str]) -> dict[str, Any]:
    """Plain JSON of E experiments and N items with C columns of scores, that of `order` (column, better) first.

    Keys: `tags` (E), `items` (N); `present`: uint8 (E, N), whether an experiment has an item; `columns`: name, better, unit
    and help of each; `scores`: float32 (C, E, N), NaN where undefined; `categories`: name, labels, and `codes`: int32 (N,).
    Arrays are base64 of their little-endian bytes.
    """
    present = joined.has.astype(np.uint8)
    columns = sorted(joined.columns, key=lambda column: column != order[0])
    scores = [joined.scores(column) for column in columns]
    shape = (len(scores), *present.shape)
    return {
        "tags": [printable(tag) for tag in joined.tags],
        "items": joined.names,
        "present": packed(present),
        "columns": [_column(joined, column, order) for column in columns],
        "scores": packed(np.array(scores, np.float32).reshape(shape)),
        "categories": [_category(name, labels) for name, labels in joined.categories.items()],
    }


def _column(joined: Joined, column: str, order: tuple[str, str]) -> Mapping[str, str]:
    metric = next((found for each in joined.experiments if (found := each.metric_of(column))), None)
    if metric is None:
        better = order[1] if column == order[0] else ""
        return {"name": column, "better": better or "neither", "unit": "", "help": ""}
    return {"name": column, "better": metric.better, "unit": metric.unit, "help": metric.help}


def _category(name: str, labels: Sequence[str]) -> dict[str, Any]:
    known = sorted(set(labels))
    code = {label: place for place, label in enumerate(known)}
    return {"name": name, "labels": known, "codes": packed(np.array([code[label] for label in labels], np.int32))}
