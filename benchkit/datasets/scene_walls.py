"""Generated walls being painted, with exact masks of the Painting Vision taxonomy; several frames show one wall.

Walls are seen in perspective: bare plaster, paint and patches of which nobody could say, windows, skirting boards, fixtures,
obstacles before the wall. Every frame is a function of the generator's version, the seed, its wall and its name; no wall is in
two splits.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.datasets._dense_labels import read_classes
from benchkit.datasets._generated import Generated, GeneratedSettings, number_of
from benchkit.datasets._painting_table import FrameSettings
from benchkit.datasets.base import Arrays
from benchkit.errors import UsageError
from benchkit.metrics.painting import VOID
from benchkit.progress import track
from benchkit.provenance.painting import painting_id
from benchkit.settings import setting
from benchkit.store.files import write_text


@dataclasses.dataclass
class Settings(FrameSettings, GeneratedSettings):
    """Settings of the generated walls."""

    n_train: int = setting(120, "frames in the train split")
    n_test: int = setting(60, "frames in the test split")
    side: int = setting(320, "width of a frame in pixels; its height is three quarters of it")
    frames: int = setting(3, "frames of one wall")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frames < 1:
            raise ValueError("a wall has at least one frame")


class SceneWalls(Generated):
    """See the module."""

    maps = ("mask",)

    def __init__(self, settings: Settings) -> None:
        from benchkit.render import wall

        super().__init__(settings)
        self.generator = ("scene_walls", f"{wall.VERSION}.{settings.frames}")

    def generated_size(self, view: str) -> tuple[int, int]:
        """Three by four."""
        return self.settings.side * 3 // 4, self.settings.side

    def group(self, item: str) -> str:
        """The wall."""
        return f"{item.split('/')[0]}-{number_of(item) // self.settings.frames:05d}"

    def image(self, view: str) -> np.ndarray:
        """The rendered frame, read-only."""
        return _rendered(view, self.group(view), self.settings.seed, self.generated_size(view))[0]

    def target(self, item: str) -> Arrays:
        """`mask`: uint8 (h, w), the ten classes, 255 void."""
        return {"mask": _rendered(item, self.group(item), self.settings.seed, self.generated_size(item))[1]}

    def own_id(self, split: str, images: Mapping[str, str]) -> str | None:
        """The specification's, with the recipe of a mask in place of its bytes; none of a limited split."""
        if set(images) != set(self.items(split)):
            return None
        masks = {item: hashlib.sha256(f"mask\0{self.recipe(item)}".encode()).hexdigest() for item in images}
        return painting_id((item, images[item], masks[item], split, self.group(item)) for item in images)

    def meta(self) -> dict[str, Any]:
        """Class names and the void label."""
        return {"classes": read_classes(["painting"], Path()), "ignore": VOID}


@lru_cache(maxsize=256)  # several models in one process look at the same frames; at 320 pixels this is 79 MB
def _rendered(item: str, wall: str, seed: int, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    from benchkit.render.wall import labels, make_frame, make_wall, picture

    shown, look = make_wall(wall, seed), make_frame(item, seed)
    found = picture(shown, look, *size), labels(shown, look, *size)
    for each in found:
        each.setflags(write=False)
    return found


def write_folder(folder: Path, n_train: int, n_test: int) -> None:
    """Write the frames as a folder of files, as a user's own would be: frames/, masks/ and frames.csv.

    Raises:
        UsageError: the folder is there already.
    """
    from PIL import Image

    if folder.exists():
        raise UsageError(f"{folder} exists already: name a new folder.")
    data = SceneWalls(Settings(n_train=n_train, n_test=n_test))
    rows = ["file,mask,split,wall_id"]
    for split in ("train", "test"):
        for item in track(data.items(split), len(data.items(split)), f"writing {split}", "frames"):
            paths = [f"{kind}/{item.replace('/', '_')}.png" for kind in ("frames", "masks")]
            for path, pixels in zip(paths, (data.image(item), data.target(item)["mask"]), strict=True):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(folder / path)
            rows.append(",".join([*paths, split, data.group(item)]))
    write_text(folder / "frames.csv", "\n".join(rows) + "\n")


build = SceneWalls
