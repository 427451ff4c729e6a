"""Photos stored turned, with a tag that says how to hold them: their cameras, and maps, of the upright picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets._pair_items import Matrix, rigid
from benchkit.errors import UsageError
from benchkit.images import open_whole

UPRIGHT = 1
QUARTERS = {UPRIGHT: 0, 3: 2, 6: 3, 8: 1}  # EXIF orientation: quarter turns against the clock that make it upright

BACK = {6: 8, 8: 6}  # what turns an upright picture into the stored one; a half turn is its own


def orientation(data: bytes) -> int:
    """The EXIF orientation of an encoded image, 1 to 8.

    Raises:
        Unreadable: it is no image.
    """
    try:
        found = int(open_whole(data).getexif().get(0x0112, UPRIGHT))
    except (ValueError, TypeError, SyntaxError):  # a broken block says nothing
        return UPRIGHT
    return found if 1 <= found <= 8 else UPRIGHT


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
