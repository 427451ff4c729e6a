"""From stored labels to class indices: colour tables, label maps, ignored labels, names of classes.

The order is: colours become labels (data.colors), labels become classes (data.label_map; or one lower, where data.zero
says that 0 is a hole), the ignored label and what maps to `ignore` become the ignored value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchkit.conf.find import configs_dir
from benchkit.datasets._lists import refuse_twice
from benchkit.errors import UsageError, some
from benchkit.images import Unreadable
from benchkit.provenance.strict import read_lines

IGNORE = "ignore"
REST = "*"
Table = Mapping[str, str] | str  # a table in the conf, or the file that holds it
_NONE = -(1 << 40)  # what `_new` says of a label that counts nowhere
_INLINE = re.compile(r"\s*[^:,\s]+\s*:\s*[^:,\s]+\s*(,\s*[^:,\s]+\s*:\s*[^:,\s]+\s*)*")
_HEX = re.compile(r"#?([0-9a-fA-F]{6})")


class Labels:
    """What stored labels mean.

    Args:
        ignore: the stored label that counts nowhere, or None.
        label_map: stored label -> class, or `ignore`; `*` for all others; None: as stored.
        hole: 0 is a hole, and every other label is the class one below.
        foreground: class 1 is everything but background (0).
        n_classes: above every class; None: not known yet, so that none is too large.
    """

    def __init__(
        self,
        ignore: int | None,
        label_map: Mapping[str, str] | None = None,
        hole: bool = False,
        foreground: bool = False,
        n_classes: int | None = None,
    ) -> None:
        self.ignore, self.hole, self.foreground, self.n_classes = ignore, hole, foreground, n_classes
        self.rest = None if label_map is None else label_map.get(REST)
        self.map = None if label_map is None else {int(k): _class(v) for k, v in label_map.items() if k != REST}

    @property
    def ignored(self) -> int:
        """The value of ignored pixels in `apply`'s masks."""
        return 255 if self.n_classes is not None and self.n_classes <= 255 else 65535

    def apply(self, stored: np.ndarray) -> np.ndarray:
        """Class indices, uint8 with 255 ignored, above 255 classes (or where their number is open) uint16 with 65535.

        Args:
            stored: whole numbers, (h, w).

        Raises:
            Unreadable: a label that is no class; names it and its number of pixels.
        """
        plain = stored if stored.dtype == np.uint8 or stored.dtype == np.uint16 else stored.astype(np.int64)
        low = min(int(plain.min(initial=0)), 0)
        if int(plain.max(initial=0)) - low > 65535:
            raise Unreadable(f"it holds labels from {plain.min()} to {plain.max()}, which are no class indices")
        counts = np.bincount((plain - low if low else plain).ravel())
        new = np.zeros(len(counts), np.uint8 if self.ignored == 255 else np.uint16)
        unknown = {}
        for place in np.flatnonzero(counts).tolist():
            value = self._new(place + low)
            if value is None:
                unknown[place + low] = int(counts[place])
            else:
                new[place] = self.ignored if value == _NONE else value
        if unknown:
            raise Unreadable(self._unknown(unknown))
        return new[plain - low]

    def _new(self, label: int) -> int | None:
        """The class of a stored label, _NONE where it counts nowhere, None where it is unknown."""
        if self.map is not None:
            mapped = self.map.get(label, _NONE if label == self.ignore else _class(self.rest) if self.rest else None)
        elif label == self.ignore or (self.hole and label == 0):
            return _NONE
        else:
            mapped = label - 1 if self.hole else label
        if mapped is None or mapped == _NONE:
            return mapped
        if self.foreground:
            mapped = min(mapped, 1)
        return mapped if 0 <= mapped < (self.n_classes or 65535) else None

    def _unknown(self, counts: Mapping[int, int]) -> str:
        shown = some([f"{label} ({count:,} pixels)" for label, count in counts.items()])
        known = "those of data.label_map" if self.map is not None else self._range()
        ignored = "none is ignored" if self.ignore is None else f"{self.ignore} is ignored"
        what = "an unknown label" if len(counts) == 1 else f"{len(counts)} unknown labels"
        return (
            f"its mask holds {what}, {shown}: known are {known}, and {ignored}; see data.num_classes, data.ignore and "
            "data.label_map"
        )

    def _range(self) -> str:
        first = int(self.hole)
        return f"{first} to {(self.n_classes or 65535) - 1 + first}" + (", and 0 is a hole" if self.hole else "")


def _class(text: str) -> int:
    return _NONE if text == IGNORE else int(text)


def coded(stored: np.ndarray, colors: Mapping[int, int] | None) -> np.ndarray:
    """A mask of one number per pixel from one of colours.

    Args:
        stored: (h, w), or (h, w, 3 or 4) uint8.
        colors: colour (r * 65536 + g * 256 + b) -> label.

    Raises:
        Unreadable: colours without a table, or one that is not in it.
    """
    if stored.ndim == 2:
        if colors is not None:
            raise Unreadable("its mask stores labels, not colours: data.colors has no use")
        return stored
    if stored.ndim == 3 and stored.shape[2] in (2, 4) and stored.dtype == np.uint8 and (stored[..., -1] == 255).all():
        stored = stored[..., :-1]  # nothing is transparent
    if stored.ndim == 3 and stored.shape[2] == 1:
        return coded(stored[..., 0], colors)
    if stored.ndim != 3 or stored.shape[2] != 3 or stored.dtype != np.uint8:
        raise Unreadable(f"its mask is {stored.dtype} {stored.shape}: neither a label nor a colour per pixel")
    if colors is None:
        if (stored == stored[..., :1]).all():
            return stored[..., 0]  # grey saved as colour
        raise Unreadable("its mask is coded in colours: say which colour is which label with data.colors")
    red, green, blue = (stored[..., k].astype(np.int32) for k in range(3))
    present, places = np.unique(red * 65536 + green * 256 + blue, return_inverse=True)
    unknown = [f"({c >> 16}, {c >> 8 & 255}, {c & 255})" for c in present.tolist() if c not in colors]
    if unknown:
        raise Unreadable(f"its mask has a colour that is not in data.colors: {some(unknown)}")
    labels = np.array([colors[c] for c in present.tolist()], np.int64)
    return labels[places.reshape(stored.shape[:2])]


def read_label_map(given: Table | None, root: Path) -> dict[str, str] | None:
    """data.label_map: a table, text such as `7:0, 8:1, *:ignore`, or a file of lines `old new`.

    Raises:
        UsageError: an entry that is no label or no class.
    """
    if not given:
        return None
    where = "data.label_map"
    if isinstance(given, Mapping):
        found = {str(old): str(new) for old, new in given.items()}
    elif _INLINE.fullmatch(given):
        pairs = [pair.split(":") for pair in given.split(",")]
        found = {old.strip(): new.strip() for old, new in pairs}
        if len(found) < len(pairs):
            raise UsageError(f"{where} maps a label twice.")
    else:
        path = find_table(given, root, "label_map")
        found, where = dict(_columns(path)), f"data.label_map={path}"
    for old, new in found.items():
        if not (old == REST or re.fullmatch(r"-?\d+", old)) or not re.fullmatch(rf"\d+|{IGNORE}", new):
            raise UsageError(f"{where}: {old}: {new} should be a stored label (or *) and a class (or {IGNORE}).")
    return found


def _columns(path: Path) -> list[tuple[str, str]]:
    seen: dict[str, int] = {}
    found = []
    for number, line in read_lines(path):
        words = re.split(r"[\s,;:]+", line.strip())
        if len(words) < 2:
            raise UsageError(f"{path}:{number}: two columns are expected, not {line!r}.")
        refuse_twice(path, number, words[0], seen)
        found.append((words[0], words[1]))
    return found


def read_colors(given: Table | None, root: Path) -> dict[int, int] | None:
    """data.colors: a table `r g b` or `rrggbb` -> label, or a file of lines `r g b [name]`, labels counted from 0.

    Returns:
        {r * 65536 + g * 256 + b: label}.

    Raises:
        UsageError: no colour, or a colour twice.
    """
    if not given:
        return None
    if isinstance(given, Mapping):
        lines = [(f"data.colors: {colour}", str(colour), str(label)) for colour, label in given.items()]
    else:
        path = find_table(given, root, "colors")
        rows = [(number, line) for number, line in read_lines(path) if not line.startswith("# ")]
        lines = [(f"{path}:{number}", line, str(label)) for label, (number, line) in enumerate(rows)]
    found: dict[int, int] = {}
    for where, text, label in lines:
        colour = _colour(text)
        if colour is None or not re.fullmatch(r"-?\d+", label):
            raise UsageError(f"{where}: this should be a colour, r g b from 0 to 255, and a label.")
        if colour in found:
            raise UsageError(f"{where}: this colour is there a second time. Drop one.")
        found[colour] = int(label)
    return found


def _colour(text: str) -> int | None:
    whole = _HEX.fullmatch(text.strip())
    if whole:
        return int(whole[1], 16)
    parts = [p for p in re.split(r"[\s,;]+", text.strip()) if p][:3]
    if len(parts) < 3 or not all(p.isdigit() and int(p) < 256 for p in parts):
        return None
    red, green, blue = map(int, parts)
    return red << 16 | green << 8 | blue


def read_classes(given: Sequence[str] | None, root: Path) -> list[str] | None:
    """data.classes: names; or one word, a list that ships with benchkit (voc, ade20k, ...) or a file, a name a line.

    Shipped are VOC's 21 (background first), ADE20K's 150 as Scene Parsing 2016 numbers them (first names of
    objectInfo150), Cityscapes' 19 train ids, CamVid's 11 of SegNet's copy, NYUv2's 40 (Gupta et al. 2013), and
    COCO-Stuff's 171 (the 80 things and 91 stuff classes of Caesar et al. 2018 that occur, by rising id).

    Raises:
        UsageError: a file that is not there, or a name twice.
    """
    if not given:
        return None
    if len(given) > 1:
        names, where = list(given), "data.classes"
    else:
        path = find_table(given[0], root, "classes")
        names, where = [line for _, line in read_lines(path)], str(path)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{where} names {twice[0]!r} twice: scores of two classes need two names.")
    return names


def find_table(given: str, root: Path, key: str) -> Path:
    """The file that a setting names: a shipped list by its stem, else a path, relative to data.root or as it stands."""
    places = [configs_dir() / "labels" / f"{given}.txt"] if re.fullmatch(r"\w+", given) else []
    places += [root / given, Path(given).expanduser()]
    found = next((path for path in places if os.path.isfile(path)), None)
    if found is None:
        shipped = ", ".join(sorted(path.stem for path in (configs_dir() / "labels").glob("*.txt")))
        raise UsageError(f"data.{key}={given} is neither a file, below data.root or here, nor one of {shipped}.")
    return found
