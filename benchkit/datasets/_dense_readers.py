"""Files of pixel maps as the numbers they store: nothing is converted, scaled or made up on the way.

Palette images give their indices, grey PNG of 1, 2 or 4 bits its values (PIL spreads the latter over 0 to 255), 16-bit
PNG, PGM and TIFF whole numbers of 16 bits, TIFF and .npy floating numbers, .mat a variable or a field of one.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ImageOps

from benchkit.datasets._mat_elements import refuse_unsound
from benchkit.errors import UsageError, printable, reason, some
from benchkit.images import MAX_PIXELS, SUFFIXES, Unreadable, open_whole, read_whole

LOSSY = ("JPEG", "MPO", "JPEG2000", "WEBP", "AVIF")  # what they store is near what was written, which is no label
TARGET_SUFFIXES = (*SUFFIXES, ".npy", ".mat")
MAX_VALUES = 8 * MAX_PIXELS  # of a map of several channels


_GAP = rb"(?:\s*#[^\n]*\n\s*|\s)+"
_PGM = re.compile(rb"P5" + _GAP + rb"(\d+)" + _GAP + rb"(\d+)" + _GAP + rb"(\d+)(?:\s*#[^\n]*\n|\s)")
_PPM = re.compile(_PGM.pattern.replace(b"P5", b"P6", 1))
_SPREAD = {2: 85, 4: 17}  # what PIL multiplies grey PNG values of so many bits with


def read_stored(path: Path, mat_key: str | None = None, *, labels: bool) -> np.ndarray:
    """The numbers of a file: (h, w) or (h, w, C), of the type they are stored in.

    Args:
        path: an image, .npy or .mat file.
        mat_key: the variable of a .mat file, fields behind dots; None: the only one that could be a map.
        labels: what it holds are labels, not amounts of something.

    Raises:
        Unreadable: it is damaged, too large, holds Python objects, or nothing of that kind; says which.
        UsageError: it needs a library that is not installed.
    """
    reader = _READERS.get(path.suffix.lower())
    values = reader(path, mat_key) if reader else _picture(read_whole(path), labels)
    return values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values


def _npy(path: Path, _: str | None) -> np.ndarray:
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy raises ValueError, OSError, EOFError, SyntaxError ... of damaged headers
        raise Unreadable(f"{path.name} is no whole .npy file of numbers ({error})") from error
    if not isinstance(values, np.ndarray) or values.size > MAX_VALUES:
        raise Unreadable(f"{path.name} is no single array of at most {MAX_VALUES:,} numbers")
    return np.array(values)


def _picture(data: bytes, labels: bool) -> np.ndarray:
    pgm = _PGM.match(data)
    return _pgm(data, pgm) if pgm else _image(data, labels)


def _pgm(data: bytes, head: re.Match[bytes]) -> np.ndarray:
    """Binary PGM; PIL multiplies its values where their maximum is neither 255 nor 65535."""
    width, height, maximum = (int(number) for number in head.groups())
    if not (0 < width * height <= MAX_PIXELS and 0 < maximum < 65536):
        raise Unreadable("it claims no size or range that a PGM file can have")
    stored = np.dtype(">u2" if maximum > 255 else "u1")
    if len(data) - head.end() < width * height * stored.itemsize:
        raise Unreadable("it is truncated")
    values = np.frombuffer(data, stored, width * height, head.end()).reshape(height, width)
    return values.astype(stored.newbyteorder("="))


def _image(data: bytes, labels: bool) -> np.ndarray:
    image = open_whole(data)
    _refuse_unfit(image, labels)
    if image.format == "PPM" and not ((head := _PPM.match(data)) and head[3] == b"255"):
        raise Unreadable(
            "it is a PNM file of text, single bits or another range, whose values would be scaled; save it as PNG"
        )
    if getattr(image, "n_frames", 1) > 1:
        raise Unreadable(f"it holds {image.n_frames} images, and one is expected")
    bits, colour = (data[24], data[25]) if image.format == "PNG" else (0, 0)
    if bits == 16 and colour != 0:
        raise Unreadable("it holds colours of 16 bits, of which only 8 would be read; save it as .npy")
    try:
        image.load()
        values = np.asarray(ImageOps.exif_transpose(image))  # upright, as the photo is read
    except Unreadable:
        raise
    except Exception as error:  # PIL's plugins raise OSError, SyntaxError, struct.error, ValueError, EOFError ...
        raise Unreadable(f"it does not decode to a whole image ({reason(error)})") from error
    if values.dtype == bool:
        values = values.astype(np.uint8)
    if bits in _SPREAD and colour == 0:
        values = values // _SPREAD[bits]
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _refuse_unfit(image: Any, labels: bool) -> None:
    """By content, not by name: losses spoil labels and amounts, and indices into a palette are labels alone."""
    if image.format in LOSSY or "jpeg" in str(image.info.get("compression", "")).lower():
        what = "so its labels are not what they were" if labels else "so its numbers are not what they were"
        raise Unreadable(f"it is stored with losses (JPEG, WebP), {what}")
    if image.mode == "P" and not labels:
        raise Unreadable("it holds indices into a palette, which are no quantities")


def read_mat(path: Path, key: str | None) -> np.ndarray:
    """A map from a MATLAB file: the variable `key` (fields behind dots), or the only one of two or three dimensions."""
    return _as_map(path, key or _only(path), _variables(path, key.split(".")[0] if key else None))


_READERS = {".mat": read_mat, ".npy": _npy}


def read_annotators(path: Path) -> list[np.ndarray]:
    """The boundary maps of a BSDS500 file: `groundTruth`, a cell per annotator with `Boundaries` and `Segmentation`.

    Raises:
        Unreadable: it is not laid out so.
    """
    cells = _variables(path, "groundTruth").get("groundTruth")
    listed = [cells] if isinstance(cells, dict) else list(np.atleast_1d(np.asarray(cells, dtype=object)).ravel())
    found = [np.asarray(each["Boundaries"]) for each in listed if isinstance(each, dict) and "Boundaries" in each]
    if (
        not found
        or len(found) != len(listed)
        or len({each.shape for each in found}) != 1
        or found[0].ndim != 2
        or found[0].dtype.kind not in "uifb"
    ):
        raise Unreadable(f"{path.name} has no groundTruth of cells with Boundaries of one size")
    return found


def _only(path: Path) -> str:
    """The one numeric variable that could be a map."""
    able = [name for name, shape, kind in _listed(path) if len(shape) in (2, 3) and min(shape) > 1 and kind in _NUMERIC]
    if len(able) != 1:
        names = some(printable(name, 60) for name, _, _ in _listed(path)) or "none"
        raise Unreadable(f"{path.name} has {len(able)} variables that could be the map (of {names}): say data.mat_key")
    return able[0]


_NUMERIC = (*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "double", "single", "logical")


def _as_map(path: Path, key: str, variables: Mapping[str, Any]) -> np.ndarray:
    value: Any = variables
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            inner = _paths(variables) if len(variables) > 1 or key.split(".")[0] in variables else []
            there = (
                some(printable(each, 60) for each in [*inner] or [name for name, _, _ in _listed(path)]) or "nothing"
            )
            raise Unreadable(f"{path.name} has no {key}; it has {there}: say data.mat_key")
        value = value[name]
    array = np.asarray(value)
    if array.dtype.kind not in "uifb":
        raise Unreadable(f"{key} in {path.name} holds no numbers")
    return array


def _paths(variables: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in variables.items():
        if isinstance(value, Mapping):
            yield from _paths(value, f"{above}{name}.")
        elif not name.startswith("__"):
            yield above + name


def _listed(path: Path) -> list[tuple[str, tuple[int, ...], str]]:
    """(name, shape, kind) of every variable, from the headers."""
    found = _by_scipy(path, lambda io_module, data: io_module.whosmat(data))
    if any(np.prod(shape, dtype=np.float64) > MAX_VALUES for _, shape, _ in found):
        raise Unreadable(f"{path.name} claims more than {MAX_VALUES:,} numbers")
    return list(found)


def _variables(path: Path, name: str | None) -> dict[str, Any]:
    _listed(path)
    names = None if name is None else [name]
    return dict(
        _by_scipy(path, lambda io_module, data: io_module.loadmat(data, variable_names=names, simplify_cells=True))
    )


def _by_scipy(path: Path, read: Callable[[Any, io.BytesIO], Any]) -> Any:
    scipy_io = need_scipy()
    data = path.read_bytes()
    try:
        refuse_unsound(data)
        return read(scipy_io, io.BytesIO(data))
    except NotImplementedError as error:
        raise Unreadable(f"{path.name} is a MATLAB 7.3 file: save it with -v7") from error
    except Exception as error:  # damaged files raise anything
        raise Unreadable(f"{path.name} is no whole MATLAB file ({reason(error)})") from error


def need_scipy() -> Any:
    """scipy.io.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import scipy.io
    except ImportError:
        raise UsageError("reading .mat files needs scipy: pip install 'benchkit[mat]'.") from None
    return scipy.io
