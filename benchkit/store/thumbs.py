"""thumbs.h5 of an experiment, made again of the pictures that a bank holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchkit.errors import BenchkitError, RunError
from benchkit.store.columns import Ragged
from benchkit.store.content import file_hash
from benchkit.store.features import TagFeatures
from benchkit.store.files import replacing
from benchkit.store.parts import OpenParts
from benchkit.store.table import Table, write_table


def thumbs_again(folder: Path, banks: Sequence[Path], content: str) -> str:
    """Write thumbs.h5 of an experiment; returns what was done in words, "" where no bank has all its pictures.

    Args:
        folder: of the experiment; its features.h5 is whole.
        banks: of its backbone.
        content: hash that the record tells.

    Raises:
        RunError: features.h5 is damaged, or the pictures are others.
    """
    with TagFeatures(folder) as features:
        names, images = features.table.names, features.table.read("image")
        identity = features.meta["identity_hash"]
    for bank in banks:
        places = _places(bank, set(images))
        if all(image in places for image in images):
            _put(folder / "thumbs.h5", names, _Pictures(bank, identity, [places[image] for image in images]), content)
            return f"made again of the pictures in {bank}"
    return ""


def _places(bank: Path, images: set[str]) -> dict[str, tuple[str, int]]:
    """Part and row of pictures, from parts whose pictures are all whole."""
    places: dict[str, tuple[str, int]] = {}
    for path in sorted(bank.glob("part-*.h5")):
        try:
            with Table(path, "bank") as table:
                table.verify("thumb")
                places |= {name: (path.name, row) for row, name in enumerate(table.names) if name in images}
        except BenchkitError:  # damaged, or without pictures
            continue
    return places


class _Pictures:
    """The pictures at some places of a bank, read anew at each call."""

    def __init__(self, bank: Path, identity_hash: str, places: Iterable[tuple[str, int]]) -> None:
        self.bank, self.identity_hash, self.places = bank, identity_hash, places

    def __call__(self) -> Iterator[np.ndarray]:
        parts = OpenParts(self.bank, self.identity_hash)
        try:
            for part, row in self.places:
                yield parts.reading(part, "thumb").item("thumb", row)
        finally:
            parts.close()


def _put(file: Path, names: Sequence[str], pictures: _Pictures, content: str) -> None:
    with replacing(file) as unfinished:
        write_table(unfinished, "thumbs", names, {"thumb": Ragged(np.dtype(np.uint8), 1, pictures)})
        if file_hash(unfinished) != content:
            raise RunError(f"{file} is damaged, and the bank holds other pictures than the record speaks of.")
