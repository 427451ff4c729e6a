"""What can be said of a folder of images and pixel maps."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from benchkit.datasets._splitting import FractionSettings
from benchkit.settings import setting


@dataclasses.dataclass
class Settings(FractionSettings):
    """Settings of a folder of images and pixel maps."""

    image_dir: str | None = setting(
        None, "folder of the images below root; {split} stands for the split, **/NAME for every folder of that name"
    )
    targets: str | None = setting(
        None, "folder of the targets, beside the images' or a path as in image_dir (default: the one that is there)"
    )
    truth: Literal["mask", "foreground", "depth", "normals", "map", "boundaries"] | None = setting(
        None, "what the targets are (default: as their folder is called); foreground: a mask whose labels but 0 are 1"
    )
    stems: str | None = setting(
        None,
        "list of the evaluated split's images, a stem or path a line; {split} stands for the split",
        identity=False,  # what it names is
    )
    train_stems: str | None = setting(
        None, "the same of the train split (default: data.stems, where it has {split})", identity=False
    )
    image_prefix: str = setting("", "what stands before the stem in the names of images")
    image_suffix: str = setting("", "what stands behind the stem in the names of images (_leftImg8bit)")
    target_prefix: str = setting("", "what stands before the stem in the names of targets")
    target_suffix: str = setting("", "what stands behind the stem in the names of targets (_gtFine_labelIds)")
    groups: Literal["none", "folder"] = setting(
        "none", "folder: images of one folder (a scene) are resampled together for intervals"
    )
    classes: list[str] | None = setting(
        None, "class names in the order of labels; or one list: voc, ade20k, ..., or a file (default: root/classes.txt)"
    )
    num_classes: int | None = setting(None, "number of classes (default: of data.classes, else from the train targets)")
    ignore: int | None = setting(255, "stored label that counts nowhere; none: every label is a class")
    zero: Literal["label", "hole"] = setting(
        "label", "hole: 0 in a mask is unlabelled and label k is class k - 1; 0 in a map is no value"
    )
    label_map: dict[str, str] | str | None = setting(
        None, "stored label -> class or `ignore`, * for the rest: a table, text (7:0, 8:1) or a file of two columns"
    )
    colors: dict[str, str] | str | None = setting(
        None, "colours of coded masks: a table (`r g b` -> label) or a file of lines `r g b [name]`, counted from 0"
    )
    mat_key: str | None = setting(None, "variable of .mat files, fields behind dots (default: the only one that fits)")
    target_scale: float | None = setting(
        None, "stored values of depth and maps are divided by it (1000: millimetres to metres)"
    )
    inverse: bool = setting(False, "depth is stored inverse: 1 / metres is the stored value over data.target_scale")
    max_depth: float | None = setting(None, "metres: farther depth counts as none")
    unit: str = setting("", "unit of a map, for tables and pictures")
    intrinsics: list[float] | None = setting(
        None, "fx, fy, cx, cy in pixels of the image file; with data.truth=normals the targets are depth"
    )
    normals_from: str | None = setting(None, "where the true normals come from, for the record (a sensor, a method)")
    normals_axes: list[str] = setting(
        ["x", "y", "z"], "the stored axes that point right, down and forward, with - where they point the other way"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("target_scale", "max_depth", "num_classes"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be a finite number above 0, not {value}")
        known = self.intrinsics
        if known is not None and (len(known) != 4 or 0 in known[:2] or not all(map(math.isfinite, known))):
            raise ValueError("intrinsics are four numbers, fx, fy, cx, cy, in pixels")
        named = [axis[1:] if axis[:1] in ("+", "-") else axis for axis in self.normals_axes]
        if sorted(named) != ["x", "y", "z"]:
            raise ValueError(f"normals_axes are x, y and z in some order, with or without -, not {self.normals_axes}")
