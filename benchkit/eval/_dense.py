"""What the families of per-pixel benchmarks share: scoring item by item, the constant map, the grid's ceiling."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchkit.errors import RunError, UsageError
from benchkit.eval.base import Benchmark, Columns
from benchkit.progress import track
from benchkit.store.items import Items

Arrays = Mapping[str, Any]  # fields, and `meta` of a target


class Dense(Benchmark):
    """A family whose truth and predictions are pixel maps in the scored frame.

    A subclass says which fields it `needs`, the same of truth and prediction, and writes `score_item`, and `pooled` where
    a grid limits what can be said.
    """

    dense = True
    folder = "dense_folder"
    scored: tuple[str, ...] = ()  # fields of the truth alone that `score_item` reads beside those of `needs`

    def score_item(self, prediction: Arrays, target: Arrays) -> dict[str, Any]:
        """Metrics (floats, NaN where undefined) and sufficient statistics ("stats/...") of one item.

        Args:
            prediction, target: the fields of `needs`, each (h, w) or (h, w, C), and `meta`; `target` has those of `scored`
                too.
        """
        raise NotImplementedError

    def pooled(self, target: Arrays, grid: tuple[int, int]) -> Arrays:
        """The truth pooled to a map of grid cells and resized to the frame: what a head that has learned all could say.

        Of classes it is no strict bound: logits of one cell may lean on their neighbours', and then follow an edge within a
        cell. `target` has `meta` too.
        """
        raise NotImplementedError

    def score(self, predictions: Items, targets: Items) -> Columns:
        """`score_item` of every item, in threads."""
        meta, said = dict(targets.meta), dict(predictions.meta)

        def one(row: int) -> dict[str, Any]:
            prediction = {field: predictions.item(field, row) for field in self.needs}
            target = {field: targets.item(field, row) for field in (*self.needs, *self.scored)}
            try:
                _check(prediction, target)
                prediction["meta"], target["meta"] = said, meta
                return self.score_item(prediction, target)
            except RunError as error:
                raise RunError(f"row {row} ({targets.names[row]!r}): {error}") from error

        count = len(targets.names)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            rows = list(track(pool.map(one, range(count)), count, "scoring", "items"))
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def constant(self, fields: Arrays, targets: Items) -> Items:
        """The same value at every pixel."""
        return Made(targets, lambda row: {f: _filled(fields[f], targets.item(f, row)) for f in self.needs})

    def chance(self, targets: Items, predictions: Items) -> Columns | None:
        """Of masks the commonest class of the evaluated truth itself, everywhere; None of other maps."""
        if "mask" not in self.needs:
            return None
        counts = np.zeros(1 << 16, np.int64)
        for row in range(len(targets.names)):
            counts += np.bincount(np.asarray(targets.item("mask", row)).ravel(), minlength=len(counts))
        commonest = counts[: len(targets.meta["classes"])].argmax()
        return self.score(self.constant({"mask": np.asarray(commonest)}, targets), targets)

    def ceiling(self, predictions: Items, targets: Items) -> Items | None:
        """The truth through each item's grid; None where the head says nothing of a grid."""
        if "grid" not in predictions:
            return None
        grids, meta = np.asarray(predictions.read("grid")), dict(targets.meta)

        def best(row: int) -> Arrays:
            target = {**{f: targets.item(f, row) for f in self.needs}, "meta": meta}
            return self.pooled(target, (int(grids[row][0]), int(grids[row][1])))

        return Made(targets, best)

    def kinds(self) -> dict[str, Callable[[Any, Any], None]]:
        """As the family draws it, and each panel of `viz.panels` by itself."""
        from benchkit.viz.panels import NAMES

        return {**super().kinds(), **{name: functools.partial(self._panel, name) for name in NAMES}}

    def _panel(self, name: str, axes: Any, item: Any) -> None:
        from benchkit.viz import panels as viz

        field = self.needs[0]
        predicted, truth, meta = self.pictured(
            item.prediction[field], item.target[field], item.target["meta"], item.said
        )
        shown = viz.panels(field, predicted, truth, meta, item.framed((truth.shape[0], truth.shape[1])))
        found = {each.name.split(" (")[0]: each for each in shown}
        if name not in found:
            raise UsageError(f"there is no {name} of {item.name}: neither the data set nor thumbs.h5 is there.")
        viz.draw_panel(axes, found[name])
        if name in ("target", "prediction", "target over image"):
            shows = predicted if name == "prediction" else truth
            viz.draw_key(axes, viz.present_in(field, shows, shows, meta), list(meta.get("classes", ())))

    def oracle(self, targets: Items) -> Items:
        """The truth as prediction."""
        return Made(targets, lambda row: {field: targets.item(field, row) for field in self.needs})


class Made:
    """Items whose fields are made when they are asked for, since all of them would not fit in memory."""

    def __init__(self, like: Items, make: Callable[[int], Arrays]) -> None:
        self.names, self.meta = like.names, dict(like.meta)
        self._make = make

    def __contains__(self, field: str) -> bool:
        return bool(self.names) and field in self._make(0)

    def read(self, field: str) -> Any:
        """All rows of a field: one array where they have one shape."""
        rows = [self.item(field, row) for row in range(len(self.names))]
        return np.stack(rows) if len({row.shape for row in rows}) == 1 else rows

    def item(self, field: str, row: int) -> np.ndarray:
        """One row of a field."""
        return np.asarray(self._make(row)[field])


def _filled(value: np.ndarray, like: np.ndarray) -> np.ndarray:
    shape = like.shape[: like.ndim - value.ndim]
    return np.broadcast_to(value, (*shape, *value.shape))


def _check(prediction: Arrays, target: Arrays) -> None:
    for field, value in prediction.items():
        if value.shape != target[field].shape:
            raise RunError(
                f"{field} is predicted as {value.shape}, and the truth is {target[field].shape}: export again."
            )
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise RunError(f"{field} holds NaN or infinity: the head diverged, or overflowed. Export again in float32.")
