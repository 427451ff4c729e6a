"""Images with a pixel map each, in folders: masks, depth, normals, edges and the like, joined by the stems of their names.

`root/<split>/{images,<targets>}`, `root/{images,<targets>}/<split>`, or image and target folders with a list of stems per
split, as published sets come. Targets stay in the frame of the image's file, upright, and must have its size; what they
store is read as it is (see `_dense_readers`), and every file is examined before the first image goes through a model. An
image without a single valid pixel is no fault: it counts in no score, and records say how many there were.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

from benchkit.datasets import _dense_normals
from benchkit.datasets._dense_labels import Labels, read_classes, read_colors, read_label_map
from benchkit.datasets._dense_pairs import Pairs
from benchkit.datasets._dense_places import find_places
from benchkit.datasets._dense_readers import need_scipy
from benchkit.datasets._dense_settings import Settings
from benchkit.datasets._dense_truth import FIELDS, Reader
from benchkit.datasets._listing import check_name
from benchkit.datasets._splitting import NOT_NAMES, SeededSplit
from benchkit.datasets.base import Arrays, Dataset
from benchkit.errors import UsageError
from benchkit.images import Unreadable, inspect
from benchkit.provenance.identity import identity_hash

LAYOUT = (
    "root/<split>/images/<stem>.jpg and root/<split>/<targets>/<stem>.png, where <targets> is labels, masks, annotations, "
    "depths, normals or edges (or the two the other way round, root/images/<split>; or no split, and data.stems lists)"
)


class DenseFolder(Dataset):
    """See the module.

    Raises:
        UsageError: a folder, a partner, a list or a table is missing or wrong; names it.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if not settings.root:
            raise UsageError(f"a folder of images and pixel maps needs data.root=DIR, laid out as {LAYOUT}.")
        self.root = Path(settings.root).expanduser()
        check_name(str(self.root))
        if not self.root.is_dir():
            raise UsageError(f"data.root={settings.root} is no folder. Expected: {LAYOUT}.")
        self.places = find_places(self.root, settings, LAYOUT)
        self.kind = self.places.kind
        self.maps = (FIELDS[self.kind],)
        self.stacks = self.maps if self.kind == "boundaries" else ()
        self._check_settings()
        self._pairs = Pairs(self.places, settings)
        self._found: dict[str, dict[str, tuple[Path, Path]]] = {}
        self._files: dict[str, tuple[Path, Path]] = {}

    def _check_settings(self) -> None:
        said, masks = self.settings, self.kind in ("mask", "foreground")
        if self.kind == "normals" and not (said.normals_from or said.intrinsics):
            raise UsageError(
                "it must be said where the true normals come from: data.normals_from=TEXT (the sensor, renderer or method), "
                "or data.intrinsics=fx,fy,cx,cy to make them from depth."
            )
        only_masks = {"label_map": said.label_map, "colors": said.colors, "classes": said.classes, "num_classes":
                      said.num_classes}  # fmt: skip
        useless = [key for key, value in only_masks.items() if value and not masks]
        useless += ["target_scale"] if said.target_scale and masks else []
        useless += ["inverse"] if said.inverse and self.kind != "depth" and not said.intrinsics else []
        useless += ["zero"] if said.zero == "hole" and self.kind in ("foreground", "boundaries") else []
        useless += ["zero"] if said.zero == "hole" and said.label_map else []
        useless += [k for k in ("classes", "num_classes") if self.kind == "foreground" and only_masks[k]]
        if useless:
            raise UsageError(f"data.{useless[0]} has no use for {self.kind} targets as they are set up here: drop it.")

    def items(self, split: str) -> list[str]:
        """Paths of the images below root, in name order."""
        if not self._pairs.divided:
            return SeededSplit(self.settings, self._all, lambda item: "").items(split)
        self.settings.refuse_fraction(str(self.root), self.settings.wanted)
        return sorted(self._split(split))

    @cached_property
    def _all(self) -> list[str]:
        found = sorted(self._split(""))
        if not found:
            raise UsageError(f"{self.root} holds no images with targets. Expected: {LAYOUT}.")
        return found

    def _split(self, name: str) -> dict[str, tuple[Path, Path]]:
        if name not in self._found:
            found = self._pairs.split(name)
            if any(target.suffix.lower() == ".mat" for _, target in found.values()):
                need_scipy()
            self._found[name] = found
            self._files.update(found)
        return self._found[name]

    def path(self, view: str) -> Path:
        """The image file."""
        return self._files[view][0]

    def target_paths(self, item: str) -> tuple[Path, ...]:
        """The target's file."""
        return (self._files[item][1],)

    def group(self, item: str) -> str:
        """The image's folder, where data.groups says that its images belong together."""
        return os.path.dirname(item) if self.settings.groups == "folder" else ""

    @cached_property
    def _label_map(self) -> dict[str, str] | None:
        return read_label_map(self.settings.label_map, self.root)

    @cached_property
    def _colors(self) -> dict[int, int] | None:
        return read_colors(self.settings.colors, self.root)

    @cached_property
    def classes(self) -> list[str]:
        """Class names of a mask; numbers where nobody names them.

        Raises:
            UsageError: names, number and label map do not agree.
        """
        if self.kind == "foreground":
            return ["background", "foreground"]
        beside = ["classes.txt"] if (self.root / "classes.txt").is_file() else []
        said = self.settings.classes or beside
        names, count = read_classes(said, self.root), self.settings.num_classes
        count = count or (len(names) if names else self._counted())
        if names and len(names) != count:
            raise UsageError(f"data.num_classes={count}, and {len(names)} classes are named by {', '.join(said[:3])}.")
        beyond = [new for new in (self._label_map or {}).values() if new.isdigit() and int(new) >= count]
        if beyond:
            raise UsageError(f"data.label_map maps to class {beyond[0]}, and classes are 0 to {count - 1}.")
        if count > 65535:
            raise UsageError(f"there are {count:,} classes, and masks hold at most 65,535: see data.num_classes.")
        return names or [str(number) for number in range(count)]

    def _counted(self) -> int:
        """Classes of the label map, or of the train targets: one more than the largest."""
        mapped = [int(new) for new in (self._label_map or {}).values() if new.isdigit()]
        if mapped:
            return max(mapped) + 1
        train = self.settings.train_split
        if train in NOT_NAMES:
            raise UsageError(
                "the number of classes is not known, since no train targets are read: say data.num_classes=N or "
                "data.classes=NAMES."
            )
        items, read = self.items(train), Reader(self.kind, self.settings, self._labels(None), self._colors)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return 1 + max(pool.map(lambda item: _largest(read, self._files[item][1]), items), default=-1)

    def _labels(self, count: int | None) -> Labels:
        said = self.settings
        return Labels(said.ignore, self._label_map, said.zero == "hole", self.kind == "foreground", count)

    @cached_property
    def reader(self) -> Reader:
        """Reads targets."""
        masks = self.kind in ("mask", "foreground")
        labels = self._labels(len(self.classes)) if masks else None
        return Reader(self.kind, self.settings, labels, self._colors if masks else None)

    @cached_property
    def _rules(self) -> str:
        """What files of tables, and other targets, add to the settings."""
        masks = self.kind in ("mask", "foreground")
        colors = {str(k): v for k, v in (self._colors or {}).items()}
        return identity_hash([self.kind, self.classes if masks else None, self._label_map, colors])

    def examined_by(self) -> tuple[str, ...]:
        """Tables and classes."""
        return (self._rules,)

    def target_files(self, item: str) -> list[str]:
        """sha256 of the tables by which its target is read."""
        return [self._rules]

    def examine(self, item: str) -> str:
        """What is wrong with a target: unreadable, wrong type, unknown label, other size than the image."""
        image, target = self._files[item]
        try:
            size, channels = self.reader.examine(target)
            if channels != self._channels:
                raise Unreadable(f"it has {channels} numbers a pixel, and that of the first item {self._channels}")
        except Unreadable as error:
            return f"its target {self._shown(target)}: {error}"
        try:
            upright = inspect(image.read_bytes())
        except (OSError, Unreadable):
            return ""  # the image has a problem of its own, which is named by others
        if size == upright:
            return ""
        turned = "; it is that of the file before its EXIF rotation" if size == upright[::-1] else ""
        return (
            f"its target {self._shown(target)} is {size[1]} x {size[0]} pixels, and the image, upright, is {upright[1]} x "
            f"{upright[0]}{turned}: targets are never resized to fit"
        )

    @cached_property
    def _channels(self) -> int:
        """Numbers a pixel of the first target that can be read; every target has as many."""
        for _, target in self._files.values():
            try:
                return self.reader.examine(target)[1]
            except (OSError, Unreadable):
                continue
        return 0

    def _shown(self, path: Path) -> str:
        return os.path.relpath(path, self.root)

    def target(self, item: str) -> Arrays:
        """`mask`, `depth`, `normals`, `map` or `boundaries` in the frame of the image file.

        mask: uint8 (h, w), 255 ignored; above 255 classes uint16, 65535 ignored. depth: float32 (h, w), metres, 0 where
        there is none, with `intrinsics` K float64 (3, 3) where they are known. normals: float32 (h, w, 3), unit, x right,
        y down, z forward, zero where there is none. map: float32 (h, w) or (h, w, C), NaN where there is none.
        boundaries: uint8 (annotators, h, w), 1 on boundaries.
        """
        return self.reader(self._files[item][1])

    def meta(self) -> dict[str, Any]:
        """Classes and ignored value of masks, unit of depth and maps, source of normals."""
        said = self.settings
        if self.kind in ("mask", "foreground"):
            return {"classes": self.classes, "ignore": self._labels(len(self.classes)).ignored}
        if self.kind == "depth":
            return {"unit": "m"} | ({"max_depth": said.max_depth} if said.max_depth else {})
        if self.kind == "normals":
            made = f" ({_dense_normals.method()})" if said.intrinsics else ""
            return {"normals_from": (said.normals_from or "depth and intrinsics") + made}
        return {"unit": said.unit} if self.kind == "map" else {}


def _largest(read: Reader, target: Path) -> int:
    """The largest class in a target; -1 where there is none, or it cannot be read, which examining it will say."""
    try:
        mask = read(target)["mask"]
    except (OSError, Unreadable):
        return -1
    present = mask[mask != 65535]
    return int(present.max()) if present.size else -1


__all__ = ["LAYOUT", "DenseFolder", "Settings", "build"]

build = DenseFolder
