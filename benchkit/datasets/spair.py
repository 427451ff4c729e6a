"""SPair-71k, and what is laid out like it: pairs of photos of one class, and keypoints that both show.

The layout is that of the data set itself (Min et al. 2019, "SPair-71k: A Large-scale Benchmark for Semantic Correspondence";
its devkit): `Layout/<large|small>/<split>.txt` names one pair a line, `PairAnnotation/<split>/<pair>.json` says which photos
and points they are, `JPEGImages/<category>/` holds the photos. `ImageAnnotation` and `Segmentation` are not read. Splits are
trn, val and test.

Points and boxes are indices of pixels there (DIFT, eval_spair.py, reads features at them): half a pixel is added to each, so
that the corner of the top-left pixel is (0, 0). Widths and heights of boxes stay the differences that thresholds are made of.

Your own pairs: the same files; of the annotation only category, src_imname, trg_imname, src_kps, trg_kps, trg_bndbox,
src_imsize and trg_imsize are needed. Numbers of points may differ from pair to pair.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchkit.datasets._listing import check_name
from benchkit.datasets._lists import refuse_twice
from benchkit.datasets.base import Arrays, Dataset, DataSettings
from benchkit.errors import UsageError, reason
from benchkit.provenance import strict
from benchkit.provenance.strict import read_lines
from benchkit.settings import setting

LAYOUT = (
    "root/Layout/large/<trn|val|test>.txt, root/PairAnnotation/<trn|val|test>/<number>-<image>-<image>:<category>.json and "
    "root/JPEGImages/<category>/<image>.jpg"
)
PIXEL = 0.5  # from the index of a pixel to its centre
GRADES = {  # what the numbers of the difficulties mean, by the devkit
    "viewpoint_variation": ("easy", "medium", "hard"),
    "scale_variation": ("easy", "medium", "hard"),
    "truncation": ("none", "source", "target", "both"),
    "occlusion": ("none", "source", "target", "both"),
}


@dataclasses.dataclass
class Settings(DataSettings):
    """Settings of SPair-71k."""

    layout: Literal["large", "small"] = setting(
        "large", "which lists of pairs: large (all 70,958) or small (fewer of them)"
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Pair:
    """One annotation.

    Attributes:
        category: class of both objects.
        views: paths of source and target photo below root.
        target: see `Spair.target`.
        grades: difficulties that the annotation tells, in words.
        sha256: of the annotation's file.
    """

    category: str
    views: tuple[str, str]
    target: Arrays
    grades: dict[str, str]
    sha256: str


class Spair(Dataset):
    """See the module; an item is `<split>/<pair>`.

    Raises:
        UsageError: root is no folder laid out so; a list or an annotation is wrong (says which and how).
    """

    given = ("queries",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if not settings.root:
            raise UsageError(f"SPair-71k needs data.root=DIR, laid out as {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        self.lists = self.root / "Layout" / settings.layout
        if not os.path.isdir(self.lists):
            raise UsageError(f"data.root={settings.root} has no folder Layout/{settings.layout}. Expected: {LAYOUT}.")
        self._known: dict[str, Pair] = {}

    def items(self, split: str) -> list[str]:
        """In name order."""
        path = self.lists / f"{split}.txt"
        if not os.path.isfile(path):
            there = ", ".join(sorted(each.stem for each in self.lists.glob("*.txt"))) or "none"
            raise UsageError(f"{self.lists} has no list {split}.txt; there are {there}: set data.split=NAME.")
        seen: dict[str, int] = {}
        for number, name in read_lines(path):
            check_name(name)
            refuse_twice(path, number, name, seen)
        return sorted(f"{split}/{name}" for name in seen)

    def _pair(self, item: str) -> Pair:
        if item not in self._known:
            path = self.root / "PairAnnotation" / f"{item}.json"
            try:
                text = path.read_bytes()
                self._known[item] = read_pair(text)
            except (OSError, ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
                said = f"it has no {error}" if isinstance(error, KeyError) else reason(error)
                raise UsageError(f"{path}: this annotation of a pair cannot be used: {said}.") from error
        return self._known[item]

    def views(self, item: str) -> tuple[str, str]:
        """The source, whose points are given, and the target."""
        return self._pair(item).views

    def path(self, view: str) -> Path:
        """The photo."""
        return self.root / view

    def target(self, item: str) -> Arrays:
        """`queries`, `points`: float64 (k, 2), x and y of the same keypoints in source and target, those that both show;
        `box`: float64 (4,), x0, y0, x1, y1 of the object in the target; `size0`, `size1`: float64 (2,), width and height.
        """
        return self._pair(item).target

    def target_files(self, item: str) -> list[str]:
        """sha256 of the annotation."""
        return [self._pair(item).sha256]

    def label(self, item: str) -> str:
        """The class: limited splits have all."""
        return self._pair(item).category

    def category(self, item: str) -> dict[str, str]:
        """`class`, and how difficult the pair is: viewpoint_variation, scale_variation, truncation, occlusion."""
        pair = self._pair(item)
        return {"class": pair.category, **pair.grades}

    def meta(self) -> dict[str, Any]:
        """Class names: the folders of photos."""
        photos = self.root / "JPEGImages"
        return {"classes": sorted(each.name for each in photos.iterdir() if each.is_dir()) if photos.is_dir() else []}


def read_pair(text: bytes) -> Pair:
    """The pair that an annotation tells of.

    Raises:
        KeyError, TypeError, ValueError: something is missing or not as it should be.
    """
    told = strict.parse(text)
    names = [str(told[key]) for key in ("category", "src_imname", "trg_imname")]
    for name in names:
        if name in ("", ".", "..") or os.path.basename(name) != name or "\\" in name:
            raise ValueError(f"{name!r} is no name of a folder or file")
        check_name(name)
    category, source, target = names
    queries, points = (_points(told[key]) for key in ("src_kps", "trg_kps"))
    if len(queries) != len(points):
        raise ValueError(f"src_kps are {len(queries)} points and trg_kps {len(points)}")
    box = np.array(told["trg_bndbox"], np.float64)
    if box.shape != (4,) or not (box[2:] > box[:2]).all():
        raise ValueError(f"trg_bndbox is x0, y0, x1, y1, not {told['trg_bndbox']}")
    sizes = {f"size{k}": _size(told[f"{side}_imsize"]) for k, side in enumerate(("src", "trg"))}
    return Pair(
        category,
        (f"JPEGImages/{category}/{source}", f"JPEGImages/{category}/{target}"),
        {"queries": queries + PIXEL, "points": points + PIXEL, "box": box + PIXEL, **sizes},
        {name: grades[int(told[name])] if name in told else "" for name, grades in GRADES.items()},
        hashlib.sha256(text).hexdigest(),
    )


def _points(told: Any) -> np.ndarray:
    """float64 (k, 2)."""
    points = np.array(told, np.float64).reshape(len(told), -1) if len(told) else np.zeros((0, 2))
    if points.shape[1] != 2 or not np.isfinite(points).all():
        raise ValueError("keypoints are pairs of numbers, x and y")
    return points


def _size(told: Any) -> np.ndarray:
    """float64 (2,) of width, height and, where it is told, channels."""
    size = np.array(told[:2], np.float64)
    if size.shape != (2,) or not (size > 0).all():
        raise ValueError(f"an image's size is width and height, not {told}")
    return size


build = Spair
