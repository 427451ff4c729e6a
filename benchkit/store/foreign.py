"""HDF5 that a stranger may have written: what is followed and how much is read is decided before the library reads values.

Links lead to other files, virtual and external data sets are made of them, and a data set may claim any shape: unwritten
values take no room in the file, and deflated ones a thousandth.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import h5py
import numpy as np
from h5py import h5d, h5g, h5l, h5o

DEPTH = 8  # groups in groups
RATIO, FLOOR = 100, 64 << 20  # numbers may take so many times their room in the file, or so many bytes


class Refused(ValueError):
    """Why a file is not read; without a full stop."""


def paths(group: h5py.Group, linked: bool = False) -> list[str]:
    """Names of all data sets below a group, sorted; no data set is opened.

    Args:
        group: where to begin.
        linked: links that are none of an object in the same file are left out; else they are refused.

    Raises:
        Refused: such a link, or groups deeper than DEPTH.
    """
    found: list[str] = []
    left = [(group.id, b"", 1)]
    while left:
        here, above, depth = left.pop()
        for name in _names(here, linked):
            path = above + name
            if h5o.get_info(here, name).type != h5o.TYPE_GROUP:
                found.append(_text(path))
            elif depth == DEPTH:
                raise Refused(f"its groups are more than {DEPTH} deep")
            else:
                left.append((h5g.open(here, name), path + b"/", depth + 1))
    return sorted(found)


def _names(group: h5g.GroupID, linked: bool) -> list[bytes]:
    names: list[bytes] = []

    def take(name: bytes, info: h5l.LinkInfo) -> None:
        if info.type == h5l.TYPE_HARD:
            names.append(name)
        elif not linked:
            raise Refused(f"{_text(name)} is none of its own, but a link to elsewhere, which is not followed")

    group.links.iterate(take, info=True)
    return names


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise Refused(f"{name!r} in it is no name: it is not UTF-8") from None


def node(group: h5py.Group, path: str) -> h5py.Dataset | h5py.Group:
    """The object of a path below a group.

    Raises:
        KeyError: there is none.
        Refused: a part of the path is a link that is none of an object in the same file.
    """
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        above = "/".join(parts[:count]).encode()
        if not group.id.links.exists(above):
            raise KeyError(path)
        if group.id.links.get_info(above).type != h5l.TYPE_HARD:
            raise Refused(
                f"{'/'.join(parts[:count])} is none of its own, but a link to elsewhere, which is not followed"
            )
    found = group[path]
    if not isinstance(found, h5py.Dataset | h5py.Group):
        raise Refused(f"{path} is a type, and no data set or group")
    return found


def dataset(group: h5py.Group, path: str) -> h5py.Dataset:
    """As `node`, a data set whose values lie in the file itself.

    Raises:
        KeyError, Refused: as `node`; or it is none.
    """
    found = node(group, path)
    if not isinstance(found, h5py.Dataset):
        raise Refused(f"{path} is no data set")
    _refuse_elsewhere(found.id.get_create_plist(), path)
    return found


def _dtype(found: h5py.Dataset, path: str) -> np.dtype:
    try:
        return np.dtype(found.dtype)
    except (TypeError, ValueError) as error:  # numbers of a kind that numpy has not
        raise Refused(f"{path} is of a type that cannot be read ({error})") from None


def _refuse_elsewhere(made: h5py.h5p.PropDCID, path: str) -> None:
    if made.get_layout() == h5d.VIRTUAL or made.get_external_count():
        raise Refused(f"{path} is made of another file, which is not read")


def place(found: h5py.Dataset) -> int | None:
    """Where the values of a data set of our own begin in the file; None where it has none.

    Raises:
        Refused: it is not laid out as benchkit writes it, or claims more bytes than the file has.
    """
    name = str(found.name)
    dtype = _dtype(found, name)
    made = found.id.get_create_plist()
    _refuse_elsewhere(made, name)
    if found.shape is None or dtype.kind not in "biufS" or made.get_layout() != h5d.CONTIGUOUS:
        raise Refused(f"{name} is laid out as nothing that benchkit writes ({dtype}, {found.shape})")
    claimed = dtype.itemsize * math.prod(found.shape)
    if not claimed:
        return None
    begin = found.id.get_offset()
    if begin is None or begin + claimed > _bytes(found):
        raise Refused(f"{name} claims {claimed:,} bytes that the file does not have")
    return int(begin)


def _bytes(found: h5py.Dataset) -> int:
    """Of its file."""
    return os.fstat(found.file.id.get_vfd_handle()).st_size


def numbers(group: h5py.Group, path: str, most: int, kinds: str = "fiu") -> h5py.Dataset:
    """A data set of numbers from elsewhere, in whatever layout: at most `most`, and no more than its room in the file tells of.

    Raises:
        KeyError, Refused: as `dataset`; or it holds something else, or claims too much.
    """
    found = dataset(group, path)
    dtype = _dtype(found, path)
    if found.shape is None or dtype.kind not in kinds:
        raise Refused(f"{path} holds {dtype}, not {'' if 'f' in kinds else 'whole '}numbers")
    stored = min(found.id.get_storage_size(), _bytes(found))  # what an index of chunks says need not be true
    refuse_large(path, found.shape, dtype, most, stored)
    if found.chunks:  # one is read, or made up, whole
        refuse_large(path, found.chunks, dtype, most, stored)
    return found


def refuse_large(path: str, shape: Sequence[int], dtype: np.dtype, most: int, stored: int) -> None:
    """Raises Refused where an array would have more than `most` numbers, or takes far more memory than the `stored` bytes."""
    count = math.prod(shape)
    if count > most or count * dtype.itemsize > FLOOR + RATIO * stored:
        raise Refused(f"{path} claims the shape {tuple(shape)}, which is more than its {stored:,} bytes can tell")
