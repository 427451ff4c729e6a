"""Image files as upright 8-bit RGB arrays, and what can be known of a file without decoding it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from benchkit.errors import UsageError

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
MAX_PIXELS = 178_956_970  # twice PIL's warning threshold: where PIL itself refuses a decompression bomb


class Unreadable(UsageError):
    """An image file that cannot be decoded whole."""


def inspect(data: bytes) -> tuple[int, int]:
    """Upright (height, width) of an encoded image, from its header where the file looks complete.

    Raises:
        Unreadable: empty, unknown, too large, or truncated; the message says which.
    """
    image = _open(data)
    if not _looks_complete(data, image.format or ""):
        decode_exact(data)
    width, height = image.size
    return (width, height) if _orientation(image) >= 5 else (height, width)


def decode_fast(data: bytes) -> np.ndarray:
    """Decode to uint8 (H, W, 3) RGB; JPEG through libjpeg-turbo directly, pixels equal to PIL's."""
    import simplejpeg

    if data[:2] != b"\xff\xd8" or _rotated(data):
        return decode_exact(data)
    try:
        height, width, colorspace, _ = simplejpeg.decode_jpeg_header(data)
        if colorspace not in ("YCbCr", "Gray", "RGB") or height * width > MAX_PIXELS:
            return decode_exact(data)
        return simplejpeg.decode_jpeg(data, colorspace="RGB", fastdct=False, fastupsample=False)
    except ValueError:  # not plain JPEG after all, or damaged: PIL decides, and says why
        return decode_exact(data)


def decode_exact(data: bytes) -> np.ndarray:
    """Decode to uint8 (H, W, 3) RGB through PIL: EXIF rotation applied, 16-bit scaled, first frame of animations.

    Raises:
        Unreadable: the data do not decode to a whole image.
    """
    from PIL import ImageOps

    image = _open(data)
    try:
        image.load()
        upright = ImageOps.exif_transpose(image)
        return np.ascontiguousarray(_rgb(upright))
    except Unreadable:
        raise
    except Exception as error:  # PIL's plugins raise OSError, SyntaxError, struct.error, ValueError, EOFError ...
        raise Unreadable(f"it does not decode to a whole image ({error})") from error


DECODERS: dict[str, Callable[[bytes], np.ndarray]] = {"fast": decode_fast, "pil": decode_exact}


def _open(data: bytes) -> Any:
    from PIL import Image

    if not data:
        raise Unreadable("it is empty (0 bytes)")
    try:
        image = Image.open(io.BytesIO(data))
    except Image.DecompressionBombError as error:
        raise Unreadable(f"it claims more than {MAX_PIXELS:,} pixels") from error
    except Exception as error:
        raise Unreadable("it is no image in a known format, or its header is damaged") from error
    if image.size[0] * image.size[1] > MAX_PIXELS:
        raise Unreadable(f"it claims more than {MAX_PIXELS:,} pixels")
    return image


def _rgb(image: Any) -> np.ndarray:
    if image.mode in ("I;16", "I;16B", "I;16L", "I;16N", "I"):
        values = np.asarray(image).astype(np.int64)
        scaled = values >> 8 if values.max(initial=0) > 255 else values  # 16-bit grey; PIL's own conversion clips
        return np.repeat(scaled.clip(0, 255).astype(np.uint8)[:, :, None], 3, axis=2)
    if image.mode == "F":
        raise Unreadable("it holds floating-point values, which have no agreed brightness; convert it to 8 bits")
    return np.asarray(image.convert("RGB"))


def _orientation(image: Any) -> int:
    try:
        return int(image.getexif().get(0x0112, 1) or 1)
    except Exception:  # a broken EXIF block says nothing about the orientation
        return 1


def _rotated(jpeg: bytes) -> bool:
    return b"Exif\x00" in jpeg[:65536] and _orientation(_open(jpeg)) != 1


def _looks_complete(data: bytes, kind: str) -> bool:
    if kind == "JPEG":
        return data.rstrip(b"\x00").endswith(b"\xff\xd9")
    if kind == "PNG":
        return b"IEND" in data[-64:]
    return False
