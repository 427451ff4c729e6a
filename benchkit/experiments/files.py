"""Prediction, truth and thumbnails of single items of a tag, from the files in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

GAP = 3  # pixels between the views of an item


class TagFiles:
    """Prediction, truth and thumbnail of single items."""

    def __init__(self, folder: Path) -> None:
        from benchkit.store.table import Table

        self.predictions = Table(folder / "predictions.h5", "predictions")
        self.targets = Table(folder / "targets.h5", "targets")
        self.thumbs = Table(folder / "thumbs.h5", "thumbs") if (folder / "thumbs.h5").exists() else None

    def item(self, name: str) -> tuple[dict[str, Any], dict[str, Any], Any]:
        """Everything `Benchmark.draw` takes, with thumbnails as images."""
        thumbs = self.thumbnails(name)
        return *self.fields(name), thumbs if thumbs is None or len(thumbs) == 2 else beside(thumbs)

    def fields(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Prediction and target by field; the target has `meta`."""
        prediction = {c: self.predictions.item(c, self.predictions.position[name]) for c in self.predictions.columns}
        row = self.targets.position[name]
        target: dict[str, Any] = {c: self.targets.item(c, row) for c in self.targets.columns}
        return prediction, {**target, "meta": self.targets.meta}

    def views(self, name: str) -> list[str]:
        """The images that an item is made of, as the data set calls them."""
        return str(self.targets.item("views", self.targets.position[name])).split("\n")

    def count_views(self) -> int:
        """How many images an item is made of."""
        return len(self.targets.item("views", 0).split("\n"))

    def thumbnails(self, name: str) -> list[Any] | None:
        """Of the item's views, uint8 (h, w, 3) each; None where there are none."""
        import numpy as np

        from benchkit.images import decode_exact

        if self.thumbs is None:
            return None
        rows = [np.asarray(self.thumbs.item("thumb", self.thumbs.position[view])) for view in self.views(name)]
        return [decode_exact(row.tobytes()) for row in rows]

    def __enter__(self) -> TagFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for table in (self.predictions, self.targets, self.thumbs):
            if table is not None:
                table.close()


def beside(thumbs: Sequence[Any]) -> Any:
    """Views side by side, on white where their heights differ."""
    import numpy as np

    height = max(len(thumb) for thumb in thumbs)
    white = [((0, height - len(t)), (GAP * (place > 0), 0), (0, 0)) for place, t in enumerate(thumbs)]
    padded = [np.pad(t, pad, constant_values=255) for t, pad in zip(thumbs, white, strict=True)]
    return np.concatenate(padded, axis=1)
