"""Where images and targets of a dense data set lie: patterns of folders, said by the user or found by their names."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchkit.errors import UsageError, some

SPLIT = "{split}"
ANYWHERE = "**"
IMAGES = ("images", "image", "imgs", "img", "rgb", "color", "colour", "photos", "JPEGImages", "leftImg8bit")
TARGETS = {  # names of target folders by what they hold
    "mask": ("labels", "masks", "annotations", "label", "mask", "annotation", "segmentation", "SegmentationClass"),
    "foreground": ("foregrounds", "foreground"),
    "depth": ("depths", "depth"),
    "normals": ("normals", "normal"),
    "map": ("edges", "edge_texture", "edge_occlusion", "occlusion_edges", "keypoints2d", "maps"),
    "boundaries": ("boundaries", "groundTruth"),
}
_KIND = {name: kind for kind, names in TARGETS.items() for name in names}


@dataclasses.dataclass(frozen=True)
class Places:
    """Folders of images and of targets, and what the targets are.

    Attributes:
        root: data.root.
        images, targets: patterns below it; `{split}` stands for the split, a leading `**/` for any folder.
        kind: mask, foreground, depth, normals, map or boundaries.
    """

    root: Path
    images: str
    targets: str
    kind: str

    @property
    def has_splits(self) -> bool:
        """Whether each split has a folder of images."""
        return SPLIT in self.images


def find_places(root: Path, settings: Any, layout: str) -> Places:
    """What the settings say, and where they are silent what is there.

    Raises:
        UsageError: nothing is there, or more than one thing; says which.
    """
    images = settings.image_dir or _images(root, settings.split.split("+"), layout)
    if not _exists(root, images, settings.split):
        raise UsageError(f"data.root={root} has no folder {_shown(images, settings.split)}. Expected: {layout}.")
    if not _below(root, images):
        raise UsageError(f"data.image_dir={images} lies outside data.root={root}: give the folder that holds both.")
    targets = _said(root, images, settings) if settings.targets else _targets(root, images, settings, layout)
    return Places(root, images.rstrip("/"), targets.rstrip("/"), settings.truth or _kind(targets))


def _images(root: Path, splits: list[str], layout: str) -> str:
    """The pattern of the image folder; one without splits only where no folder of splits is there."""
    patterns = [pattern for name in IMAGES for pattern in (f"{SPLIT}/{name}", f"{name}/{SPLIT}")]
    found = [pattern for pattern in patterns if all(_exists(root, pattern, split) for split in splits)]
    others = sorted({split for pattern in patterns for split in _splits(root, pattern)})
    if not found and others:
        raise UsageError(
            f"data.root={root} has no split {'+'.join(splits)!r}; it has {some(others, 8)}: set data.split=NAME. "
            f"Expected: {layout}."
        )
    found = found or [name for name in IMAGES if (root / name).is_dir()]
    if len(found) != 1:
        what = f"several folders of images ({', '.join(found)})" if found else "no folder of images"
        raise UsageError(f"data.root={root} has {what}: name it with data.image_dir=FOLDER. Expected: {layout}.")
    return found[0]


def _splits(root: Path, pattern: str) -> Iterator[str]:
    """Names of the splits that a pattern's folders are there for; of <name>/{split} usual names only."""
    above, _, below = pattern.partition(SPLIT)
    folder = root / above
    for entry in sorted(os.scandir(folder), key=lambda e: e.name) if folder.is_dir() else ():
        usual = entry.name.lower() in ("train", "training", "test", "testing", "val", "valid", "validation")
        if entry.is_dir() and (usual or below) and (folder / (entry.name + below)).is_dir():
            yield entry.name


def _said(root: Path, images: str, settings: Any) -> str:
    """The target folder that data.targets names: beside the images where it is a bare name, else below the root."""
    said = settings.targets
    beside = None if "/" in said or SPLIT in said else _beside(images, said)
    for pattern in (beside, said):
        if pattern is not None and _exists(root, pattern, settings.split):
            return pattern
    where = _shown(beside or said, settings.split)
    raise UsageError(f"data.targets={said}: there is no folder {root / where}.")


def _targets(root: Path, images: str, settings: Any, layout: str) -> str:
    wanted = _wanted(settings)
    beside = [(pattern, name) for name in _KIND if (pattern := _beside(images, name)) is not None]
    found = [(pattern, name) for pattern, name in beside if _exists(root, pattern, settings.split)]
    if wanted and len(found) > 1:
        found = [(pattern, name) for pattern, name in found if _KIND[name] in wanted]
    if len(found) == 1:
        return found[0][0]
    shown = [_shown(pattern, settings.split) for pattern, _ in found]
    what = f"several folders of targets ({', '.join(shown)})" if found else "no folder of targets"
    raise UsageError(
        f"data.root={root} has {what} beside {_shown(images, settings.split)}: name it with data.targets=FOLDER. "
        f"Expected: {layout}."
    )


def _wanted(settings: Any) -> tuple[str, ...]:
    """The kinds of folders that hold the truth asked for."""
    if settings.truth == "foreground":
        return ("foreground", "mask")
    if settings.truth == "normals" and settings.intrinsics is not None:
        return ("depth",)
    return (settings.truth,) if settings.truth else ()


def _kind(targets: str) -> str:
    found = [_KIND[part] for part in reversed(targets.split("/")) if part in _KIND]
    if not found:
        raise UsageError(f"{targets} does not say what the targets are: say it with data.truth={'|'.join(TARGETS)}.")
    return found[0]


def _beside(images: str, name: str) -> str | None:
    """The pattern of a folder beside the images': the last part that is no split has another name."""
    parts = images.rstrip("/").split("/")
    named = [place for place, part in enumerate(parts) if part not in (SPLIT, ANYWHERE, ".", "")]
    if not named:
        return name if parts == ["."] else None
    return "/".join([*parts[: named[-1]], name, *parts[named[-1] + 1 :]])


def _exists(root: Path, pattern: str, split: str) -> bool:
    if pattern.startswith(f"{ANYWHERE}/"):
        return root.is_dir()
    return all((root / _shown(pattern, part)).is_dir() for part in split.split("+"))


def _shown(pattern: str, split: str) -> str:
    return pattern.replace(SPLIT, split)


def _below(root: Path, pattern: str) -> bool:
    path = os.path.normpath(root / pattern)
    return path == os.path.normpath(root) or path.startswith(os.path.normpath(root) + os.sep)
