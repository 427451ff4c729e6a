"""HPatches, sequences (Balntas et al. 2017): six pictures each of 116 planar scenes, homographies from the first to the others.

The first picture with each other one is a pair. Eight sequences of large pictures are left out, as by D2-Net, SuperGlue and
Glue Factory (datasets/hpatches.py): 540 pairs of 108 sequences. Names that begin with i_ change in light, with v_ in viewpoint.

Homographies are applied to points in the corner convention as the files have them, and errors are counted after both pictures
are scaled to a short side of data.short_side: that is what Glue Factory does (its keypoints count from the corner; H is
multiplied by the two scales and by nothing else). Read as of pixel centres (data.pixels=centre), as OpenCV warps pictures with
them, they differ by half a pixel times what they scale.
"""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path
from typing import Literal

import numpy as np

from benchkit.datasets._listing import check_name
from benchkit.datasets._pair_items import Matrix, floats
from benchkit.datasets.base import Arrays, Dataset, DataSettings
from benchkit.errors import UsageError
from benchkit.images import Unreadable, inspect
from benchkit.provenance.strict import read_lines
from benchkit.settings import setting

LAYOUT = "root/<sequence>/1.ppm ... 6.ppm and root/<sequence>/H_1_2 ... H_1_6, the sequences i_ajuntament ... v_yuri"
LARGE = (
    "i_contruction",  # so the archive spells it
    "i_crownnight",
    "i_dc",
    "i_pencils",
    "i_whitebuilding",
    "v_artisans",
    "v_astronautis",
    "v_talent",
)
KINDS = {"i": "illumination", "v": "viewpoint"}
OTHERS = range(2, 7)
SUFFIXES = (".ppm", ".png", ".jpg")  # of copies that were converted


@dataclasses.dataclass
class Settings(DataSettings):
    """Settings of HPatches."""

    short_side: int = setting(480, "errors are in pixels of pictures whose short side is this long")
    large: bool = setting(False, "take the eight sequences of large pictures too")
    pixels: Literal["corner", "centre"] = setting(
        "corner",
        "what homographies count from: corner of the top-left pixel (as Glue Factory takes them), or its centre",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.short_side < 1:
            raise ValueError(f"short_side is above 0, not {self.short_side}")


class HPatches(Dataset):
    """See the module; an item is `<sequence>/1_<k>`.

    Raises:
        UsageError: root holds no sequences, or one is not whole; names it.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if not settings.root:
            raise UsageError(f"HPatches needs data.root=DIR, laid out as {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        sequences = sorted(path.parent.name for path in self.root.glob("[iv]_*/H_1_2"))
        if not sequences:
            raise UsageError(f"data.root={settings.root} holds no sequences of HPatches. Expected: {LAYOUT}.")
        self._sequences = [name for name in sequences if settings.large or name not in LARGE]
        self._suffix = {name: self._suffix_of(name) for name in self._sequences}
        self._sizes: dict[str, tuple[float, float]] = {}

    def _suffix_of(self, sequence: str) -> str:
        found = next((suffix for suffix in SUFFIXES if (self.root / sequence / f"1{suffix}").is_file()), None)
        if found is None:
            raise UsageError(f"{self.root / sequence} holds no 1.ppm. Expected: {LAYOUT}.")
        missing = [name for k in OTHERS for name in (f"{k}{found}", f"H_1_{k}") if not self._is_there(sequence, name)]
        if missing:
            raise UsageError(f"{self.root / sequence} holds no {', '.join(missing)}. Expected: {LAYOUT}.")
        return found

    def _is_there(self, sequence: str, name: str) -> bool:
        return os.path.isfile(self.root / sequence / name)

    def items(self, split: str) -> list[str]:
        """`<sequence>/1_<k>`, k from 2 to 6."""
        if split != "test":
            raise UsageError(f"HPatches has the split test, not {split!r}: set data.split=test.")
        return [f"{sequence}/1_{k}" for sequence in self._sequences for k in OTHERS]

    def views(self, item: str) -> tuple[str, str]:
        """The first picture, and the k-th."""
        sequence, _, pair = item.partition("/")
        suffix = self._suffix[sequence]
        return f"{sequence}/1{suffix}", f"{sequence}/{pair[2:]}{suffix}"

    def also_called(self, item: str) -> tuple[str, ...]:
        """Glue Factory's name: the k-th picture."""
        sequence, _, pair = item.partition("/")
        return (f"{sequence}/{pair[2:]}.ppm", "_".join(self.views(item)))

    def path(self, view: str) -> Path:
        """The picture's file."""
        return self.root / view

    def _size(self, view: str) -> tuple[float, float]:
        """Width and height; not a number of a picture that cannot be read, whose items are skipped."""
        if view not in self._sizes:
            try:
                height, width = inspect(self.path(view).read_bytes())
            except (OSError, Unreadable):
                return math.nan, math.nan
            self._sizes[view] = (width, height)
        return self._sizes[view]

    def target(self, item: str) -> Arrays:
        """`homography`: float64 (3, 3), from the first view's pixels (corner convention) to the second's; `size0`, `size1`:
        float64 (2,), width and height; `scale0`, `scale1`: float64, from pixels to the scored frame.
        """
        sizes = [np.array(self._size(view), np.float64) for view in self.views(item)]
        scales = [np.float64(self.settings.short_side / size.min()) for size in sizes]
        return {
            "homography": self._homography(item),
            "size0": sizes[0],
            "size1": sizes[1],
            "scale0": np.asarray(scales[0]),
            "scale1": np.asarray(scales[1]),
        }

    def _homography(self, item: str) -> Matrix:
        matrix = read_homography(self._file(item))
        if self.settings.pixels == "corner":
            return matrix
        half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
        return np.asarray(half @ matrix @ np.linalg.inv(half))

    def _file(self, item: str) -> Path:
        sequence, _, pair = item.partition("/")
        return self.root / sequence / f"H_{pair}"

    def target_paths(self, item: str) -> tuple[Path, ...]:
        """The homography's file."""
        return (self._file(item),)

    def examine(self, item: str) -> str:
        """A file that holds no homography."""
        try:
            read_homography(self._file(item))
        except UsageError as error:
            return str(error)
        return ""

    def group(self, item: str) -> str:
        """The sequence."""
        return item.partition("/")[0]

    def category(self, item: str) -> dict[str, str]:
        """`kind`: illumination or viewpoint."""
        return {"kind": KINDS[item[0]]}


def read_homography(path: Path) -> Matrix:
    """The nine numbers of a file, float64 (3, 3), last entry 1.

    Raises:
        UsageError: there are not nine, or they are no homography.
    """
    lines = read_lines(path)
    numbers = floats([cell for _, line in lines for cell in line.split()], str(path))
    if len(numbers) != 9:
        raise UsageError(f"{path}: {len(numbers)} numbers, and a homography has nine.")
    matrix = np.array(numbers).reshape(3, 3)
    if abs(matrix[2, 2]) < 1e-12 or abs(np.linalg.det(matrix / matrix[2, 2])) < 1e-12:
        raise UsageError(f"{path}: {' '.join(f'{each:g}' for each in numbers)} is no homography.")
    return np.asarray(matrix / matrix[2, 2])


__all__ = ["LAYOUT", "HPatches", "Settings", "build"]

build = HPatches
