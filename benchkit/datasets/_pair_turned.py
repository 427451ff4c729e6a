"""Photos stored turned, with a tag that says how to hold them: their cameras, and maps, of the upright picture."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets._pair_items import Matrix, rigid
from benchkit.errors import UsageError
from benchkit.images import Unreadable, inspect, open_whole, read_whole

UPRIGHT = 1
QUARTERS = {UPRIGHT: 0, 3: 2, 6: 3, 8: 1}  # EXIF orientation: quarter turns against the clock that make it upright

BACK = {6: 8, 8: 6}  # what turns an upright picture into the stored one; a half turn is its own

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
TEXTS = (b"eXIf", b"tEXt", b"zTXt", b"iTXt")  # chunks of a PNG that may tell how to hold it
HEAD = 2**20  # bytes of a JPEG file, before which its size and orientation stand


def header(path: Path) -> tuple[int, int, int]:
    """Stored width and height of an image file, and its EXIF orientation (1 to 8), mostly without reading its pixels.

    Raises:
        Unreadable: it is no image.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        known = _png(file) if file.read(8) == PNG else None
    if known is not None:
        return (*known, UPRIGHT)
    image = _opened(path)
    try:
        found = int(image.getexif().get(0x0112, UPRIGHT))
    except Exception:  # a broken block says nothing
        found = UPRIGHT
    found = found if 1 <= found <= 8 else UPRIGHT
    if image.format == "JPEG":
        return (*image.size, found)
    height, width = inspect(read_whole(path))  # of a TIFF, PIL may or may not have turned the size already
    return (height, width, found) if found >= 5 else (width, height, found)


def _opened(path: Path) -> Any:
    """The image, of a JPEG no more than its beginning where that says all."""
    with path.open("rb") as file:
        start = file.read(HEAD)
    if start[:2] == JPEG:
        try:
            return open_whole(start)
        except Unreadable:
            pass  # size and orientation may stand further behind
    return open_whole(read_whole(path))


def _png(file: BinaryIO) -> tuple[int, int] | None:
    """Width and height, from the chunks' heads; None where one may hold an orientation, or they make no sense."""
    size = None
    while len(head := file.read(8)) == 8:
        length, kind = struct.unpack(">I4s", head)
        if kind == b"IHDR":
            size = struct.unpack(">II", file.read(8))
            length -= 8
        if kind == b"IEND":
            return size
        if kind in TEXTS:
            return None
        file.seek(length + 4, os.SEEK_CUR)
    return None


def upright_camera(K: Matrix, size: tuple[int, int], turned: int) -> tuple[Matrix, Matrix]:
    """Intrinsics of the upright picture, and the rotation (4, 4) from the camera's old frame to that of the picture.

    Args:
        K: (3, 3) of the stored picture, without skew where that is turned by a quarter.
        size: width and height of the stored picture.
        turned: its EXIF orientation.

    Raises:
        UsageError: the tag says that the picture is mirrored, which no camera does.
    """
    if turned not in QUARTERS:
        raise UsageError(f"its EXIF orientation {turned} mirrors it: store it as it was taken.")
    width, height = size
    pixels, frame = np.eye(3), np.eye(3)
    quarter = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    for _ in range(QUARTERS[turned]):
        step = quarter.copy()
        step[1, 2] = width  # (x, y) -> (y, width - x)
        pixels, frame = step @ pixels, quarter @ frame
        width, height = height, width
    return pixels @ K @ frame.T, rigid(frame, np.zeros(3))


def upright_map(values: NDArray[np.floating], turned: int) -> NDArray[np.floating]:
    """A pixel map (h, w) of the stored picture, of the upright one."""
    return np.ascontiguousarray(np.rot90(values, QUARTERS[turned]))
