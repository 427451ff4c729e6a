"""Frames of walls with index masks of the Painting Vision taxonomy, as a table names them.

Masks hold the ten classes as they are, 255 is void. Frames of one wall are resampled together. The identity of a split is the
specification's own, over the files' bytes (`pv1:...`).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchkit.datasets._dense_labels import Labels, read_classes
from benchkit.datasets._dense_truth import Reader
from benchkit.datasets._listing import check_name
from benchkit.datasets._painting_table import LAYOUT, Frame, FrameSettings, find_table, read_frames
from benchkit.datasets.base import Arrays, Dataset
from benchkit.errors import UsageError, some
from benchkit.images import Unreadable, inspect
from benchkit.metrics.painting import N_CLASSES, VOID
from benchkit.provenance.painting import painting_id
from benchkit.settings import setting

__all__ = ["LAYOUT", "Painting", "Settings", "build", "class_names"]


@dataclasses.dataclass
class Settings(FrameSettings):
    """Settings of a folder of frames."""

    table: str | None = setting(
        None, "the table, relative to data.root (frames.csv, frames.json or data_manifest.json)", identity=False
    )
    classes: list[str] = setting(
        ["painting"], "names of the ten classes of the taxonomy in the order of their labels, or a list or file of them"
    )


class Painting(Dataset):
    """See the module.

    Raises:
        UsageError: root or table are missing, or the table is not as it should be.
    """

    maps = ("mask",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if not settings.root:
            raise UsageError(f"frames of walls need data.root=DIR, laid out as {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        if not self.root.is_dir():
            raise UsageError(f"data.root={settings.root} is no folder. Expected: {LAYOUT}.")
        self.table = find_table(self.root, settings.table)
        self.frames: Mapping[str, Frame] = {frame.file: frame for frame in read_frames(self.table)}
        self.classes = class_names(settings.classes, self.root)
        self.reader = Reader("mask", SimpleNamespace(mat_key=None), Labels(VOID, n_classes=N_CLASSES), None)

    @cached_property
    def splits(self) -> list[str]:
        """Names of the splits."""
        return sorted({frame.split for frame in self.frames.values()})

    def items(self, split: str) -> list[str]:
        """Paths of the frames below root, in name order."""
        if split not in self.splits:
            raise UsageError(f"{self.table} has no split {split!r}; it has {some(self.splits)}: set data.split=NAME.")
        return [file for file, frame in self.frames.items() if frame.split == split]

    def path(self, view: str) -> Path:
        """The image file."""
        return self.root / view

    def target_paths(self, item: str) -> tuple[Path, ...]:
        """The mask's file."""
        return (self.root / self.frames[item].mask,)

    def examine(self, item: str) -> str:
        """What is wrong with a mask: unreadable, an unknown label, another size than the image."""
        (mask,) = self.target_paths(item)
        try:
            size, _ = self.reader.examine(mask)
        except Unreadable as error:
            return f"its mask {self.frames[item].mask}: {error}"
        try:
            upright = inspect(self.path(item).read_bytes())
        except (OSError, Unreadable):
            return ""  # the image has a problem of its own, which is named by others
        if size == upright:
            return ""
        return f"its mask {self.frames[item].mask} is {size[1]} x {size[0]} pixels, and the image {upright[1]} x {upright[0]}"

    def target(self, item: str) -> Arrays:
        """`mask`: uint8 (h, w), the ten classes, 255 void."""
        return self.reader(self.target_paths(item)[0])

    def group(self, item: str) -> str:
        """The wall."""
        return self.frames[item].wall_id

    def own_id(self, split: str, images: Mapping[str, str]) -> str | None:
        """The specification's; none of a limited split, which cannot be submitted."""
        if set(images) != set(self.items(split)):
            return None
        frames = [self.frames[item] for item in images]
        masks = {f.mask: hashlib.sha256((self.root / f.mask).read_bytes()).hexdigest() for f in frames}
        return painting_id((f.file, images[f.file], masks[f.mask], f.split, f.wall_id) for f in frames)

    def meta(self) -> dict[str, Any]:
        """Class names and the void label."""
        return {"classes": self.classes, "ignore": VOID}


def class_names(given: list[str], root: Path) -> list[str]:
    """Names of the ten classes.

    Raises:
        UsageError: they are not ten.
    """
    found = read_classes(given, root) or []
    if len(found) != N_CLASSES:
        raise UsageError(f"data.classes names {len(found)} classes, and the taxonomy has {N_CLASSES}.")
    return found


build = Painting
