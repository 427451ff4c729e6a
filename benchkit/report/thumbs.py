"""Thumbnails of a page: each picture once, whichever items, tags and benchmarks show it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchkit.report.embed import data_uri, webp

if TYPE_CHECKING:
    from benchkit.experiments.experiment import Experiment
    from benchkit.report.damage import Damage

MOST = 4096  # bytes of one
ALL = 4_500_000  # bytes of all: a third more in the page
SMALLER = ((96, 60), (80, 50), (64, 45), (48, 40))  # side and quality of WebP, tried where they would be more


class Thumbs:
    """Gathers encoded pictures by content."""

    def __init__(self) -> None:
        self._pictures: list[bytes] = []
        self._place: dict[bytes, int] = {}

    def of(self, experiments: Sequence[Experiment], names: Sequence[str], damage: Damage) -> list[list[int]]:
        """Places of the views of each item, as `addresses` numbers them; nothing for an item without."""
        found: dict[str, list[int]] = {}
        for each in experiments:
            if (each.folder / "thumbs.h5").exists():
                with damage.of(each):
                    self._gather(each, found)
        return [found.get(name, []) for name in names]

    def _gather(self, experiment: Experiment, found: dict[str, list[int]]) -> None:
        """Add those of the items that are not in `found` yet."""
        from benchkit.store.table import Table

        folder = experiment.folder
        with Table(folder / "thumbs.h5", "thumbs") as thumbs, Table(folder / "targets.h5", "targets") as targets:
            views = dict(zip(targets.names, targets.read("views"), strict=True))
            for name in (name for name in experiment.names if name not in found and name in views):
                rows = [thumbs.position.get(view) for view in views[name].split("\n")]
                known = [thumbs.item("thumb", row) for row in rows if row is not None]
                found[name] = [self.add(np.asarray(row).tobytes()) for row in known]

    def addresses(self) -> list[str]:
        """All pictures as `data:` addresses, made smaller where there are too many."""
        chosen = self._pictures
        for side, quality in SMALLER:
            if sum(map(len, chosen)) <= ALL and all(len(each) <= MOST for each in chosen):
                break
            chosen = [_smaller(each, side, quality) for each in self._pictures]
        return [data_uri(each) for each in chosen]

    def add(self, encoded: bytes) -> int:
        """Place of an encoded picture among the addresses."""
        key = hashlib.sha256(encoded).digest()
        if key not in self._place:
            self._place[key] = len(self._pictures)
            self._pictures.append(encoded)
        return self._place[key]


def _smaller(encoded: bytes, side: int, quality: int) -> bytes:
    from benchkit.images import decode_exact

    return webp(decode_exact(encoded), side, quality)
