"""Image files as upright 8-bit RGB arrays, and what can be known of a file without decoding it."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np

from benchkit.errors import UsageError, reason

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
MAX_PIXELS = int(
    os.environ.get("BENCHKIT_MAX_PIXELS") or 178_956_970
)  # the default is where PIL refuses bombs: 537 MB of RGB
FLAT_PIXELS, PIXELS_PER_BYTE = (
    32_000_000,
    2000,
)  # so many pixels, and so many for each byte: a blank image has about 1,000
MAX_SCANS = 200  # of a progressive JPEG, which has about ten: each is a pass over all pixels
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "PPM")  # PIL's others may run programs (EPS)

_PNG = b"\x89PNG\r\n\x1a\n"
_DAMAGE = ("premature end", "bad huffman", "bad arithmetic", "found marker")  # libjpeg goes on with grey or old pixels
_TURNED = (b"Exif\x00", b"tiff:Orientation", b"eXIf", b"Raw profile type")  # JPEG, PNG without these are upright
_SCAN = b"\xff\xda"  # a JPEG's scan begins
_BLANK = 64  # compressed pixels do not end in so many zero bytes; a file that was not written to its end does


class Unreadable(UsageError):
    """An image file that cannot be decoded whole."""


def read_whole(path: Path) -> bytes:
    """The bytes of a file; a pipe or a device, which an archive may hold under any name, might never end.

    Raises:
        Unreadable: it is none.
        OSError: it cannot be read.
    """
    if not S_ISREG(path.stat().st_mode):
        raise Unreadable("it is no file, but a pipe, a device or a folder")
    return path.read_bytes()


def inspect(data: bytes) -> tuple[int, int]:
    """Upright (height, width) of an encoded image: equal to the decoded one's, from the header where that says it all.

    Raises:
        Unreadable: empty, unknown, too large, or truncated; the message says which.
    """
    image = _open(data)
    whole = image.format == "PNG" or (image.format == "JPEG" and data.rstrip(b"\x00").endswith(b"\xff\xd9"))
    if not whole:
        height, width = decode_exact(data).shape[:2]
        return height, width
    width, height = image.size
    return (width, height) if _orientation(image, data) >= 5 else (height, width)


def decode_fast(data: bytes) -> np.ndarray:
    """Decode to uint8 (H, W, 3) RGB; JPEG through libjpeg-turbo directly, pixels equal to PIL's.

    Raises:
        Unreadable: the data do not decode to a whole image.
    """
    import simplejpeg

    if data[:2] != b"\xff\xd8" or data.count(_SCAN) > MAX_SCANS:
        return decode_exact(data)
    try:
        height, width, colorspace, _ = _jpeg_header(data)
        if colorspace not in ("YCbCr", "Gray", "RGB") or height * width > _most_pixels(data):
            return decode_exact(data)
        pixels = simplejpeg.decode_jpeg(data, colorspace="RGB", fastdct=False, fastupsample=False)
    except ValueError:  # not plain JPEG after all, or damaged: the exact decoder decides, and says why
        return decode_exact(data)
    turned = any(mark in data for mark in _TURNED)
    return _upright(pixels, _orientation(_open(data), data)) if turned else pixels


def _jpeg_header(data: bytes) -> Any:
    """Height, width, colour space and subsampling.

    Raises:
        ValueError: it cannot be read, or speaks of a subsampling that simplejpeg has no name for.
    """
    import simplejpeg

    try:
        return simplejpeg.decode_jpeg_header(data)
    except KeyError as error:
        raise ValueError(f"unknown subsampling {error}") from error


def decode_exact(data: bytes) -> np.ndarray:
    """Decode to uint8 (H, W, 3) RGB through PIL.

    EXIF (or XMP) rotation is applied, 16-bit values are divided by 256, alpha is dropped, animations and files of
    several pages give their first. What libjpeg only warns of (data that end early or make no sense) is refused.

    Raises:
        Unreadable: the data do not decode to a whole image.
    """
    image = _open(data)
    if image.format in ("JPEG", "MPO"):
        _refuse_damaged_jpeg(data)
    try:
        image.load()
        return _upright(_rgb(image), _orientation(image, data))  # PIL has turned a TIFF by now, and says 1
    except (Unreadable, MemoryError):
        raise
    except Exception as error:  # PIL's plugins raise OSError, SyntaxError, struct.error, ValueError, EOFError ...
        raise Unreadable(f"it does not decode to a whole image ({reason(error)})") from error


DECODERS: dict[str, Callable[[bytes], np.ndarray]] = {"fast": decode_fast, "pil": decode_exact}


def _open(data: bytes) -> Any:
    from PIL import Image

    if not data:
        raise Unreadable("it is empty (0 bytes)")
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS // 2  # where PIL warns; it refuses twice as many
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise Unreadable(f"it claims more than {MAX_PIXELS:,} pixels (BENCHKIT_MAX_PIXELS)") from error
    except Exception as error:
        raise Unreadable("it is no image in a known format, or its header is damaged") from error
    if image.size[0] * image.size[1] > MAX_PIXELS:
        raise Unreadable(f"it claims more than {MAX_PIXELS:,} pixels (BENCHKIT_MAX_PIXELS)")
    if image.size[0] * image.size[1] > _most_pixels(data):
        raise Unreadable(
            f"it claims {image.size[0]} x {image.size[1]} pixels, and has {len(data):,} bytes: it would be blank"
        )
    if image.format in ("JPEG", "MPO") and data.count(_SCAN) > MAX_SCANS:
        raise Unreadable(f"it has more than {MAX_SCANS} scans, each of which takes as long as a whole image")
    if image.format == "PNG":
        _refuse_damaged_png(data)
    if image.format == "WEBP" and data[12:16] in (b"VP8 ", b"VP8L") and not any(data[-_BLANK:]):
        raise Unreadable("it ends in zeros: it was not written to its end")
    return image


def _most_pixels(data: bytes) -> int:
    return min(MAX_PIXELS, FLAT_PIXELS + PIXELS_PER_BYTE * len(data))


open_whole = _open  # for files whose pixels are numbers, not colours: the same formats, bounds and checks


def _refuse_damaged_jpeg(data: bytes) -> None:
    """PIL takes no notice of libjpeg's warnings, and fills what is missing with grey."""
    import simplejpeg

    try:
        cmyk = _jpeg_header(data)[2] in ("CMYK", "YCCK")
        simplejpeg.decode_jpeg(data, colorspace="CMYK" if cmyk else "RGB")
    except ValueError as error:
        if any(sign in str(error).lower() for sign in _DAMAGE):
            raise Unreadable(f"it does not decode to a whole image ({error})") from error


def _refuse_damaged_png(data: bytes) -> None:
    """PIL stops at the last pixel, before any checksum; every chunk that pixels depend on has one."""
    start = len(_PNG)
    while start + 12 <= len(data):
        end = start + 8 + int.from_bytes(data[start : start + 4], "big")
        kind, checksum = data[start + 4 : start + 8], data[end : end + 4]
        if kind in (b"IHDR", b"PLTE", b"IDAT", b"IEND") and zlib.crc32(data[start + 4 : end]).to_bytes(4) != checksum:
            raise Unreadable(f"it is truncated or damaged (checksum of its {kind.decode()} chunk)")
        if kind == b"IEND":
            return
        start = end + 4
    raise Unreadable("it is truncated: it has no end mark")


def _rgb(image: Any) -> np.ndarray:
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM"):
        high = (np.asarray(image) >> 8).astype(np.uint8)  # PIL's own conversion clips
        return np.repeat(high[:, :, None], 3, axis=2)
    if image.mode in ("I", "F"):
        kind = "floating-point" if image.mode == "F" else "32-bit"
        raise Unreadable(f"it holds {kind} values, which have no agreed brightness; convert it to 8 bits")
    return np.asarray(image.convert("RGB"))


def _orientation(image: Any, data: bytes) -> int:
    """EXIF orientation, 1 to 8; asked for only where there can be one, since PIL decodes a PNG to look for it."""
    if image.format in ("JPEG", "PNG") and not any(mark in data for mark in _TURNED):
        return 1
    try:
        found = int(image.getexif().get(0x0112, 1))
    except Exception:  # a broken EXIF block says nothing about the orientation
        return 1
    return found if 1 <= found <= 8 else 1


def _upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Undo an EXIF orientation (EXIF 2.32, tag 274). pixels: (H, W, 3)."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
