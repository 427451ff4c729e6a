"""Image files: decoded whole, upright, 8-bit RGB, or refused with a reason."""

import io
import struct
import time
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from benchkit.images import MAX_PIXELS, Unreadable, decode_exact, decode_fast, inspect

SIZES = [(61, 91), (91, 61), (1, 1), (1, 300), (300, 1), (17, 16), (8, 8)]
ORIENTATION = 0x0112


def pattern(height: int, width: int) -> np.ndarray:
    """R ramps with x, G with y, B is a fine pattern; some noise."""
    y, x = np.mgrid[:height, :width]
    ramp = np.stack([x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (7 * x + 3 * y) % 256], axis=-1)
    return (ramp + np.random.default_rng(0).integers(-9, 10, ramp.shape)).clip(0, 255).astype(np.uint8)


def encoded(image: Image.Image | np.ndarray, kind: str = "JPEG", **options: object) -> bytes:
    image = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def exif(orientation: int) -> Image.Exif:
    block = Image.Exif()
    block[ORIENTATION] = orientation
    return block


def decoded(data: bytes) -> np.ndarray:
    """Both decoders' and inspect's common answer."""
    exact, fast = decode_exact(data), decode_fast(data)
    assert exact.dtype == fast.dtype == np.uint8
    assert exact.flags.c_contiguous
    assert fast.flags.c_contiguous
    np.testing.assert_array_equal(exact, fast)
    assert inspect(data) == exact.shape[:2]
    return exact


def refused(data: bytes) -> str:
    """Both decoders and inspect refuse; the decoders' reason."""
    reasons = []
    for read in (inspect, decode_fast, decode_exact):
        with pytest.raises(Unreadable) as caught:
            read(data)
        reasons.append(str(caught.value))
    return reasons[-1]


def by_pil(data: bytes) -> np.ndarray:
    return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "options",
    [
        {"subsampling": "4:4:4"},
        {"subsampling": "4:2:2"},
        {"subsampling": "4:2:0"},
        {"subsampling": "4:2:0", "progressive": True},
        {"subsampling": "4:1:1"},
        {"quality": 100, "optimize": True},
        {"quality": 1},
        {"restart_marker_blocks": 3},
        {"restart_marker_rows": 1},
        {"keep_rgb": True},
    ],
    ids=str,
)
def test_fast_jpeg_equals_pil(size, options):
    data = encoded(pattern(*size), **options)
    np.testing.assert_array_equal(decoded(data), by_pil(data))


@pytest.mark.parametrize("size", SIZES)
def test_grey_and_cmyk_jpeg(size):
    for mode in ("L", "CMYK"):
        data = encoded(Image.fromarray(pattern(*size)).convert(mode))
        np.testing.assert_array_equal(decoded(data), by_pil(data))


def test_ycck_jpeg_is_read_as_what_its_adobe_marker_says():
    data = bytearray(encoded(Image.fromarray(pattern(40, 50)).convert("CMYK")))
    marker = data.index(b"Adobe")
    assert data[marker + 11] == 0
    data[marker + 11] = 2  # transform: YCCK
    np.testing.assert_array_equal(decoded(bytes(data)), by_pil(bytes(data)))
    assert (decoded(bytes(data)) != pattern(40, 50)).mean() > 0.5


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(kind, orientation):
    lossless = {"PNG": {}, "TIFF": {"compression": "tiff_lzw"}, "WEBP": {"lossless": True}, "JPEG": {}}[kind]
    data = encoded(pattern(40, 64), kind, exif=exif(orientation), **lossless)
    np.testing.assert_array_equal(decoded(data), by_pil(data))
    assert decoded(data).shape == ((40, 64, 3) if orientation < 5 else (64, 40, 3))


def test_orientation_6_by_hand():
    """The first row as stored is the right column of the upright image (EXIF 2.32: 0th row = visual right)."""
    stored = pattern(3, 5)
    upright = decoded(encoded(stored, "PNG", exif=exif(6)))
    np.testing.assert_array_equal(upright[:, -1], stored[0])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", [0, 9, 255])
def test_orientations_that_do_not_exist_change_nothing(kind, orientation):
    assert decoded(encoded(pattern(20, 30), kind, exif=exif(orientation))).shape == (20, 30, 3)


def _segment(number: int, body: bytes) -> bytes:
    return b"\xff" + bytes([0xE0 + number]) + struct.pack(">H", len(body) + 2) + body


def test_orientation_behind_64_kb_of_other_segments_and_in_xmp():
    plain = encoded(pattern(20, 30))
    profile = b"".join(_segment(2, b"ICC_NOT\x00" + bytes(60_000)) for _ in range(2))
    block = exif(6).tobytes()
    late = plain[:2] + profile + _segment(1, b"Exif\x00\x00" + block.removeprefix(b"Exif\x00\x00")) + plain[2:]
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    for data in (late, encoded(pattern(20, 30), xmp=xmp)):
        assert decoded(data).shape == (30, 20, 3)
        np.testing.assert_array_equal(decoded(data), by_pil(data))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize("block", [b"garbage!" * 3, b"II*\0\x08\0\0\0\xff\xff\x12\x01", b"MM"])
def test_broken_exif_does_not_make_an_image_unreadable(block):
    plain = encoded(pattern(20, 30))
    data = plain[:2] + _segment(1, b"Exif\x00\x00" + block) + plain[2:]
    np.testing.assert_array_equal(decoded(data), decoded(plain))


def test_exif_thumbnail_is_not_the_image():
    thumbnail = encoded(pattern(8, 8))
    block = b"Exif\x00\x00II*\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00" + thumbnail
    plain = encoded(pattern(40, 64))
    data = plain[:2] + _segment(1, block) + plain[2:]
    np.testing.assert_array_equal(decoded(data), decoded(plain))
    refused(data[: 2 + 4 + len(block)])  # ends with the thumbnail's end mark


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP", "GIF", "WEBP", "PPM"])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "P", "L", "1"])
def test_modes(kind, mode):
    try:
        data = encoded(Image.fromarray(pattern(20, 31)).convert(mode), kind)
    except OSError:
        pytest.skip(f"{kind} holds no {mode}")
    assert decoded(data).shape == (20, 31, 3)
    np.testing.assert_array_equal(decoded(data), by_pil(data))


def test_values_of_modes_by_hand():
    grey = np.array([[0, 128, 255]], np.uint8)
    for image in (grey, np.stack([grey, grey // 2], axis=-1)):  # grey, grey + alpha
        np.testing.assert_array_equal(decoded(encoded(image, "PNG"))[0, :, 1], [0, 128, 255])
    clear = np.array([[[10, 20, 30, 0], [40, 50, 60, 255]]], np.uint8)
    np.testing.assert_array_equal(decoded(encoded(clear, "PNG")), clear[..., :3])
    palette = Image.fromarray(np.array([[0, 1, 2]], np.uint8), "P")
    palette.putpalette([9, 8, 7, 200, 100, 50, 1, 2, 3])
    for options in ({}, {"transparency": 1}):
        pixels = decoded(encoded(palette, "PNG", **options))
        np.testing.assert_array_equal(pixels[0], [[9, 8, 7], [200, 100, 50], [1, 2, 3]])
    bits = Image.fromarray(np.array([[True, False]]))
    np.testing.assert_array_equal(decoded(encoded(bits, "PNG"))[0, :, 0], [255, 0])


def png16(values: np.ndarray) -> bytes:
    """16-bit PNG with 1 to 4 channels."""
    height, width, channels = values.shape

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\x00" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("top", [200, 65536])
def test_16_bits_are_scaled_not_clipped(channels, top):
    values = np.random.default_rng(channels).integers(0, top, (5, 7, channels))
    shown = decoded(png16(values))
    expected = values[..., [0, 0, 0] if channels < 3 else [0, 1, 2]] >> 8
    np.testing.assert_array_equal(shown, expected)


def test_16_bit_tiff_and_pgm():
    values = np.arange(0, 65536, 4096, dtype=np.uint16).reshape(4, 4)
    pgm = b"P5\n4 4\n65535\n" + values.astype(">u2").tobytes()
    for data in (encoded(values, "TIFF"), pgm):
        np.testing.assert_array_equal(decoded(data)[..., 2], values >> 8)


@pytest.mark.parametrize(("values", "word"), [(np.float32(0.5), "floating-point"), (np.int32(-4), "32-bit")])
def test_values_without_a_brightness_are_refused(values, word):
    assert word in refused(encoded(np.full((4, 5), values), "TIFF"))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "TIFF", "PNG"])
def test_first_frame_of_many(kind):
    frames = [Image.fromarray(np.full((20, 30, 3), value, np.uint8)) for value in (40, 80, 120)]
    more = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **more)
    assert Image.open(io.BytesIO(data)).n_frames == 3
    assert (decoded(data) == 40).all()


def test_several_pictures_in_one_jpeg():
    frames = [Image.fromarray(pattern(20, 30)), Image.fromarray(pattern(40, 50))]
    data = encoded(frames[0], "MPO", save_all=True, append_images=frames[1:])
    assert decoded(data).shape == (20, 30, 3)


KINDS = {
    "jpeg": ("JPEG", {"quality": 90}),
    "progressive": ("JPEG", {"progressive": True}),
    "restarts": ("JPEG", {"restart_marker_blocks": 4}),
    "png": ("PNG", {}),
    "gif": ("GIF", {}),
    "webp": ("WEBP", {}),
    "webp_lossless": ("WEBP", {"lossless": True}),
    "bmp": ("BMP", {}),
    "tiff": ("TIFF", {}),
    "tiff_lzw": ("TIFF", {"compression": "tiff_lzw"}),
    "tiff_jpeg": ("TIFF", {"compression": "jpeg"}),
    "ppm": ("PPM", {}),
}


@pytest.mark.filterwarnings("ignore:(Corrupt EXIF|Truncated File)")
@pytest.mark.parametrize("name", KINDS)
def test_truncated_files_are_refused_or_whole_never_half(name):
    kind, options = KINDS[name]
    data = encoded(pattern(48, 64), kind, **options)
    whole = decoded(data)
    refusals = 0
    for length in [*range(0, len(data), max(1, len(data) // 60)), *range(len(data) - 12, len(data))]:
        for read in (decode_fast, decode_exact):
            try:
                pixels = read(data[:length])
            except Unreadable:
                refusals += 1
                continue
            np.testing.assert_array_equal(pixels, whole)  # only an end mark is missing
    assert refusals > 100


@pytest.mark.parametrize("name", ["jpeg", "progressive", "restarts", "png", "gif", "webp", "webp_lossless", "tiff_lzw"])
def test_files_whose_tail_was_never_written(name):
    """As long as it should be, zeros from some point on: what a crash or an unfinished download leaves."""
    kind, options = KINDS[name]
    data = encoded(pattern(48, 64), kind, **options)
    for kept in (0.3, 0.5, 0.8):
        length = int(kept * len(data))
        refused(data[:length] + bytes(len(data) - length))


def test_jpeg_whose_data_end_early_though_the_end_mark_is_there():
    data = encoded(pattern(200, 300))
    for body in (data[: len(data) // 2], data[: len(data) // 2] + bytes(40)):
        cut = body + b"\xff\xd9"
        for read in (decode_fast, decode_exact):
            with pytest.raises(Unreadable, match="premature end"):
                read(cut)


def test_jpeg_with_something_behind_it_is_fine():
    data = encoded(pattern(40, 50))
    for more in (b"\x00" * 99, b"camera garbage" * 50, data, b"\xff"):
        np.testing.assert_array_equal(decoded(data + more), decoded(data))
    np.testing.assert_array_equal(decoded(data[:-2] + b"\x11" * 20 + data[-2:]), decoded(data))


@pytest.mark.parametrize("flip", [0.3, 0.6, 0.9])
def test_a_flipped_bit_in_a_png_is_known_before_it_is_decoded(flip):
    data = bytearray(encoded(pattern(40, 50), "PNG"))
    data[int(flip * len(data))] ^= 4
    assert "IDAT" in refused(bytes(data))


def test_png_orientation_behind_the_pixels():
    data = encoded(pattern(20, 30), "PNG", exif=exif(8))
    start = data.index(b"eXIf") - 4
    size = 12 + int.from_bytes(data[start : start + 4], "big")
    chunk, rest = data[start : start + size], data[:start] + data[start + size :]
    assert decoded(rest[:-12] + chunk + rest[-12:]).shape == (30, 20, 3)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b"not an image\n" * 10, "no image"),
        (b"\xff\xd8\xff\xd9", "no image"),
        (b"\xff\xd8\xff", "no image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "no image"),
        (bytes(5000), "no image"),
    ],
)
def test_no_images(data, word):
    assert word in refused(data)


def test_the_suffix_does_not_matter():
    """Formats are told by content: decoders never see a name."""
    assert decoded(encoded(pattern(5, 6), "PNG")).shape == decoded(encoded(pattern(5, 6), "GIF")).shape == (5, 6, 3)


def _bombs() -> dict[str, bytes]:
    jpeg = bytearray(encoded(pattern(16, 16)))
    start = jpeg.index(b"\xff\xc0") + 5
    jpeg[start : start + 4] = b"\xff\xff\xff\xff"
    png = bytearray(encoded(pattern(16, 16), "PNG"))
    png[16:24] = struct.pack(">II", 60_000, 60_000)
    png[29:33] = struct.pack(">I", zlib.crc32(png[12:29]))
    gif = bytearray(encoded(pattern(16, 16), "GIF"))
    gif[6:10] = b"\xff\xff\xff\xff"
    return {"jpeg": bytes(jpeg), "png": bytes(png), "gif": bytes(gif), "ppm": b"P6\n60000 60000\n255\n"}


@pytest.mark.parametrize("kind", ["jpeg", "png", "gif", "ppm"])
def test_decompression_bombs_are_refused_from_the_header(kind):
    started = time.process_time()
    assert f"{MAX_PIXELS:,}" in refused(_bombs()[kind])
    assert time.process_time() - started < 0.5


@pytest.mark.filterwarnings("ignore:Image size")
def test_a_large_claim_over_a_small_body_is_not_a_grey_image():
    jpeg = bytearray(encoded(pattern(16, 16)))
    start = jpeg.index(b"\xff\xc0") + 5
    jpeg[start : start + 4] = struct.pack(">HH", 2000, 2000)
    for read in (decode_fast, decode_exact):
        with pytest.raises(Unreadable):
            read(bytes(jpeg))


@pytest.mark.data
def test_real_photos(shared):
    files = sorted((shared / "data" / "caltech101_subset").glob("*/image_000[1-3].jpg"))
    assert len(files) > 20
    for path in files:
        data = path.read_bytes()
        np.testing.assert_array_equal(decoded(data), by_pil(data))
