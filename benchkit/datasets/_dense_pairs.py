"""Images and targets joined by their stems, never by position; which of them a split's list names."""

from __future__ import annotations

import dataclasses
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchkit.datasets._dense_places import ANYWHERE, SPLIT, Places
from benchkit.datasets._dense_readers import TARGET_SUFFIXES
from benchkit.datasets._listing import tree
from benchkit.datasets._lists import refuse_twice
from benchkit.errors import UsageError, some
from benchkit.images import SUFFIXES
from benchkit.provenance.strict import read_lines

Index = dict[str, list[str]]  # files by stem


@dataclasses.dataclass(frozen=True)
class Affix:
    """What stands before and behind the stem in the names of files of one kind."""

    before: str
    behind: str
    suffixes: tuple[str, ...]

    def stem(self, name: str) -> str | None:
        """The stem of a file's name; None when the name is of another kind."""
        base, suffix = os.path.splitext(name)
        fits = suffix.lower() in self.suffixes and base.startswith(self.before) and base.endswith(self.behind)
        if not fits or len(base) <= len(self.before) + len(self.behind) - 1:
            return None
        return base[len(self.before) : len(base) - len(self.behind)] or None


class Pairs:
    """The pairs of every split: {item: (image, target)}; an item's name is its image's path below the root.

    Args:
        places: the folders.
        settings: prefixes, suffixes and lists.
    """

    def __init__(self, places: Places, settings: Any) -> None:
        self.places, self.settings = places, settings
        self.image = Affix(settings.image_prefix, settings.image_suffix, SUFFIXES)
        self.target = Affix(settings.target_prefix, settings.target_suffix, TARGET_SUFFIXES)
        self._indexed = cache(self._index)

    def split(self, name: str) -> dict[str, tuple[Path, Path]]:
        """The pairs of a split, or of several, `a+b`.

        Raises:
            UsageError: two files with one stem, an image without target, a target without image, a wrong list.
        """
        found: dict[str, tuple[Path, Path]] = {}
        for part in name.split("+"):
            found.update(self._split(part, self._list(name, part)))
        return found

    @property
    def divided(self) -> bool:
        """Whether the data say what is in which split."""
        return self.places.has_splits or bool(self.settings.stems or self.settings.train_stems)

    def _list(self, name: str, part: str) -> str | None:
        """The list of a split; None where all that is in its folder belongs to it."""
        said = self.settings
        stems = said.stems if name == said.split else said.train_stems or (SPLIT in (said.stems or "") and said.stems)
        if stems:
            return str(stems).replace(SPLIT, part)
        if (said.stems or said.train_stems) and not self.places.has_splits:
            key = "stems" if name == said.split else "train_stems"
            raise UsageError(f"data.{key} is not set: name the file that lists the images of split {name!r}.")
        return None

    def _split(self, name: str, listed: str | None) -> dict[str, tuple[Path, Path]]:
        folders = [self.places.images.replace(SPLIT, name), self.places.targets.replace(SPLIT, name)]
        lacking = [f for f in folders if not f.startswith(ANYWHERE) and not (self.places.root / f).is_dir()]
        if lacking:
            raise UsageError(f"split {name!r} has no folder {self.places.root / lacking[0]}.")
        images, targets = self._indexed(*folders)
        stems = sorted(images) if listed is None else self._listed(listed, folders, images)
        _refuse_lacking([s for s in stems if s not in targets], "image", "target", *self._where(*folders))
        if listed is None:
            _refuse_lacking([s for s in targets if s not in images], "target", "image", *self._where(*folders[::-1]))
        return {self._one(images, stem): self._pair(images, targets, stem) for stem in stems}

    def _where(self, *folders: str) -> list[str]:
        return [str(self.places.root / folder) for folder in folders]

    def _pair(self, images: Index, targets: Index, stem: str) -> tuple[Path, Path]:
        return self.places.root / self._one(images, stem), self.places.root / self._one(targets, stem)

    def _one(self, index: Index, stem: str) -> str:
        files = index[stem]
        if len(files) > 1:
            raise UsageError(
                f"{self.places.root}: {' and '.join(sorted(files))} have one stem, {stem!r}, so it is not known which is "
                "meant: remove or rename one."
            )
        return files[0]

    def _index(self, images: str, targets: str) -> tuple[Index, Index]:
        root = self.places.root
        shared = os.path.normpath(images) == os.path.normpath(targets)
        if shared and (self.image.before, self.image.behind) == (self.target.before, self.target.behind):
            raise UsageError(
                f"images and targets lie in one folder, {root / images}: say how their names differ with "
                "data.target_suffix (_mask, say), data.image_suffix, data.target_prefix or data.image_prefix."
            )
        others = [os.path.normpath(root / targets)] if not (shared or targets.startswith(ANYWHERE)) else []
        found = self._files(images, self.image, others), self._files(targets, self.target, [])
        if shared:
            marked = {file for files in found[1].values() for file in files}
            longer = len(self.target.before + self.target.behind) > len(self.image.before + self.image.behind)
            return (_without(found[0], marked) if longer else found[0]), found[1]
        return found

    def _files(self, folder: str, affix: Affix, skipped: Sequence[str]) -> Index:
        index: Index = defaultdict(list)
        root, parent = self.places.root, folder.removeprefix(f"{ANYWHERE}/")
        top = root if folder.startswith(ANYWHERE) else root / folder
        entries = (found for _, found in tree(str(top), skipped=skipped))
        for path in (path for found in entries for path in (*found.images, *found.others)):
            stem = affix.stem(os.path.basename(path))
            above = os.path.relpath(os.path.dirname(path), top).replace(os.sep, "/")
            parts = [] if above == "." else above.split("/")
            if stem is None or (top == root and folder.startswith(ANYWHERE) and parent not in parts):
                continue
            if folder.startswith(ANYWHERE):
                place = len(parts) - 1 - parts[::-1].index(parent)
                parts = parts[:place] + parts[place + 1 :]
            index["/".join([*parts, stem])].append(os.path.normpath(os.path.relpath(path, root)).replace(os.sep, "/"))
        return dict(index)

    def _listed(self, listed: str, folders: Sequence[str], images: Index) -> list[str]:
        """The stems that a list names: as stems, names or paths of images; or folders of them."""
        inside, beside = self.places.root / listed, Path(listed).expanduser()
        path = inside if inside.is_file() or not beside.is_file() else beside
        seen: dict[str, int] = {}
        tails: dict[str, list[str]] = defaultdict(list)
        for stem in images:
            tails[stem.rpartition("/")[2]].append(stem)
        found = []
        for number, line in read_lines(path):
            stems = self._named(line, folders, images, tails)
            if not stems:
                raise UsageError(f"{path}:{number}: {line!r} names no image below {self.places.root / folders[0]}.")
            for stem in stems:
                refuse_twice(path, number, stem, seen)
            found += stems
        if not found:
            raise UsageError(f"{path} names no image: it should hold a stem, or a path, a line.")
        return sorted(found)

    def _named(self, line: str, folders: Sequence[str], images: Index, tails: Mapping[str, list[str]]) -> list[str]:
        found = self._entry(line, folders, images, tails)
        words = line.split()
        if found or len(words) != 2:
            return found
        found = self._entry(words[0], folders, images, tails)  # some lists name the target behind the image
        target = self._stems(re.split(r"[/\\]", words[1])[-1])
        return found if len(found) == 1 and found[0].rpartition("/")[2] in target else []

    def _entry(self, entry: str, folders: Sequence[str], images: Index, tails: Mapping[str, list[str]]) -> list[str]:
        """The stems that one name in a list stands for."""
        tops = {os.path.basename(os.path.abspath(self.places.root / each)) for each in (*folders, ".")}
        folder = folders[0]
        parts = [part for part in entry.replace("\\", "/").split("/") if part not in ("", ".")]
        if folder.startswith(ANYWHERE):
            parts = [part for part in parts if part != folder.removeprefix(f"{ANYWHERE}/")]
        for start in range(len(parts)):
            if start and parts[start - 1] not in tops:
                continue  # another folder's file of that name is another file
            above, names = parts[start:-1], self._stems(parts[-1])
            known = next((stem for stem in ("/".join([*above, each]) for each in names) if stem in images), None)
            if known is not None:
                return [known]
        if len(parts) == 1:
            tail = next((tails[each] for each in self._stems(parts[0]) if len(tails.get(each, ())) == 1), None)
            if tail is not None:
                return tail
        below = "/".join(parts) + "/"
        if any(stem.startswith(below) for stem in images):
            return sorted(stem for stem in images if stem.startswith(below))
        return []

    def _stems(self, name: str) -> list[str]:
        """What may be the stem in a list's entry: an image's name, the stem itself, a name without suffix, a target's."""
        bare = self.image.suffixes[0]
        able = (
            self.image.stem(name),
            name,
            self.image.stem(name + bare),
            self.target.stem(name),
            self.target.stem(name + bare),
        )
        return [stem for stem in able if stem]


def _refuse_lacking(stems: Sequence[str], what: str, partner: str, where: str, there: str) -> None:
    if stems:
        count = f"1 {what} has" if len(stems) == 1 else f"{len(stems)} {what}s have"
        raise UsageError(
            f"{count} no {partner} with the same stem: {some(sorted(stems))} below {where}, looked for below {there}. "
            "Mend that, or list what is to be used with data.stems and data.train_stems; data.image_prefix, "
            "data.target_prefix, data.image_suffix and data.target_suffix say what names have besides the stem."
        )


def _without(index: Index, files: set[str]) -> Index:
    kept = {stem: [file for file in names if file not in files] for stem, names in index.items()}
    return {stem: names for stem, names in kept.items() if names}
