"""Preprocessing: a coordinate-coded image through every resize shows flips, swaps, shifts and second crops."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

from benchkit.errors import UsageError
from benchkit.preprocess import Preprocess

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZES = [(480, 640), (640, 480), (333, 517), (100, 37), (37, 100), (255, 257), (224, 224), (256, 256), (1, 1), (7, 5)]
STRETCHED = [(1, 5000), (5000, 1), (3, 400), (400, 30)]
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def coordinates(height: int, width: int) -> np.ndarray:
    """R = 0..255 from left to right, G = 0..255 from top to bottom, B a sawtooth."""
    y, x = np.mgrid[:height, :width]
    ramp = [np.round(x * 255 / max(width - 1, 1)), np.round(y * 255 / max(height - 1, 1)), (13 * x + 7 * y) % 256]
    return np.stack(ramp, axis=-1).astype(np.uint8)


def prepared(image: np.ndarray, resize: str, **settings: object) -> np.ndarray:
    """(h, w, 3) int."""
    preprocess = _preprocess(resize=resize, **settings)
    pixels = preprocess.apply(image)
    assert pixels.dtype == torch.uint8
    assert tuple(pixels.shape) == (3, *preprocess.shape(*image.shape[:2]))
    return pixels.permute(1, 2, 0).numpy().astype(int)


def _preprocess(**settings: object) -> Preprocess:
    defaults = {"size": 224, "resize": "crop", "short": 256, "interpolation": "bicubic", "mean": MEAN, "std": STD}
    return Preprocess(**{**defaults, **settings})


def by_torchvision(image: np.ndarray, short: int, size: int, interpolation: str) -> np.ndarray:
    """The usual evaluation transform on a PIL image."""
    usual = v2.Compose([v2.Resize(short, v2.InterpolationMode(interpolation)), v2.CenterCrop(size)])
    return np.asarray(usual(Image.fromarray(image))).astype(int)


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("size", SIZES)
def test_crop_is_torchvisions(size, interpolation):
    image = coordinates(*size)
    ours = prepared(image, "crop", interpolation=interpolation)
    np.testing.assert_allclose(ours, by_torchvision(image, 256, 224, interpolation), atol=2)


@pytest.mark.parametrize("short", [224, 232, 256, 257, 300])
@pytest.mark.parametrize("size", [(375, 500), (500, 333), (427, 640), (181, 193)])
def test_crop_where_rounding_matters(size, short):
    """torchvision's rule is int(short * long / shorter), and round(half the rest) for the corner."""
    image = coordinates(*size)
    ours = prepared(image, "crop", short=short, interpolation="bilinear")
    np.testing.assert_allclose(ours, by_torchvision(image, short, 224, "bilinear"), atol=2)


def test_resized_by_hand():
    preprocess = _preprocess(short=256)
    assert preprocess.resized(375, 500) == (256, 341)  # 256 * 500 / 375 = 341.33
    assert preprocess.resized(500, 333) == (384, 256)  # 256 * 500 / 333 = 384.38
    assert preprocess.resized(181, 193) == (256, 272)  # 256 * 193 / 181 = 272.97: int, not round
    assert _preprocess(resize="pad").resized(480, 640) == (168, 224)
    assert _preprocess(resize="pad").resized(640, 479) == (224, 168)  # 167.65: round
    assert _preprocess(resize="squash").resized(480, 640) == (224, 224)


@pytest.mark.parametrize("size", STRETCHED)
@pytest.mark.parametrize("interpolation", FILTERS)
def test_stretched_images_are_cropped_alike(size, interpolation):
    image = coordinates(*size)
    expected = by_torchvision(image, 20, 16, interpolation)
    ours = prepared(image, "crop", short=20, size=16, interpolation=interpolation)
    channels = 3 if interpolation == "bilinear" else 2  # bicubic overshoots at the sawtooth, clipped between two passes
    np.testing.assert_allclose(ours[..., :channels], expected[..., :channels], atol=2)


@pytest.mark.parametrize("size", STRETCHED)
def test_stretched_images_never_become_giants(size, monkeypatch):
    monkeypatch.setattr(functional, "resize", lambda *_, **__: pytest.fail("1 GB for one crop"))
    prepared(coordinates(*size), "crop")


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("size", SIZES + STRETCHED)
@pytest.mark.parametrize("resize", ["pad", "squash"])
def test_pad_and_squash_resize_as_pil(resize, size, interpolation):
    image = coordinates(*size)
    height, width = _preprocess(resize=resize).resized(*size)
    by_pil = np.asarray(Image.fromarray(image).resize((width, height), FILTERS[interpolation])).astype(int)
    ours = prepared(image, resize, interpolation=interpolation, multiple=14)
    channels = 2 if interpolation == "bicubic" and size in STRETCHED else 3  # as above
    np.testing.assert_allclose(ours[:height, :width, :channels], by_pil[..., :channels], atol=2)


@pytest.mark.parametrize("size", SIZES + STRETCHED)
@pytest.mark.parametrize("multiple", [1, 14, 16, 32])
def test_padding(size, multiple):
    preprocess = _preprocess(resize="pad", multiple=multiple)
    height, width = preprocess.resized(*size)
    assert max(height, width) == 224
    padded = prepared(np.full((*size, 3), 200, np.uint8), "pad", multiple=multiple)
    assert padded.shape[0] % multiple == padded.shape[1] % multiple == 0
    assert 0 <= padded.shape[0] - height < multiple
    assert 0 <= padded.shape[1] - width < multiple
    assert (padded[:height, :width] == 200).all()
    fill = [124, 116, 104]  # 255 * mean = 123.7, 116.3, 103.5
    assert (padded[height:] == fill).all()
    assert (padded[:, width:] == fill).all()


def test_padding_is_near_zero_after_the_normalisation():
    preprocess = _preprocess(resize="pad", multiple=32)
    pixels = preprocess.apply(np.full((100, 37, 3), 255, np.uint8))
    values = preprocess.normalise(pixels[None])
    assert values[..., -1].abs().max() < 0.5 / 255 / min(STD) + 1e-6


@pytest.mark.parametrize("size", [(480, 640), (640, 480), (333, 517), (300, 301)])
@pytest.mark.parametrize("resize", ["crop", "pad", "squash"])
def test_coordinates_arrive_where_they_belong(size, resize):
    """Value of the centre of output pixel (i, j), from the geometry alone: no flip, no swap, no half-pixel shift."""
    ours = prepared(coordinates(*size), resize, interpolation="bilinear")
    height, width = _preprocess(resize=resize).resized(*size)
    top, left = (round((height - 224) / 2), round((width - 224) / 2)) if resize == "crop" else (0, 0)
    ys, xs = np.arange(min(224, height)) + top, np.arange(min(224, width)) + left
    expected_x = ((xs + 0.5) * size[1] / width - 0.5) * 255 / (size[1] - 1)
    expected_y = ((ys + 0.5) * size[0] / height - 0.5) * 255 / (size[0] - 1)
    inner = slice(4, -4)  # antialiasing is one-sided at the border
    rows, columns = ours[: len(ys), : len(xs), 1], ours[: len(ys), : len(xs), 0]
    np.testing.assert_allclose(columns[:, inner], np.tile(expected_x[inner], (len(ys), 1)), atol=1)
    np.testing.assert_allclose(rows[inner], np.tile(expected_y[inner, None], (1, len(xs))), atol=1)


@pytest.mark.parametrize("size", [(480, 640), (333, 517), (100, 37), (600, 600)])
def test_nearest_takes_the_pixel_under_the_centre(size):
    height = width = 224
    ours = prepared(coordinates(*size), "squash", interpolation="nearest")[..., :2]
    ys, xs = (np.arange(height) + 0.5) * size[0] / height, (np.arange(width) + 0.5) * size[1] / width
    between = (np.abs(ys - ys.round()) < 1e-3)[:, None] | (
        np.abs(xs - xs.round()) < 1e-3
    )  # a tie: either pixel is right
    expected = coordinates(*size)[ys.astype(int)[:, None], xs.astype(int)][..., :2]
    assert ((ours == expected).all(-1) | between).all()
    assert between.mean() < 0.5


@pytest.mark.parametrize("resize", ["crop", "pad", "squash"])
def test_an_image_of_the_right_size_is_left_alone(resize):
    image = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    np.testing.assert_array_equal(prepared(image, resize, short=224), image)


def test_input_is_not_changed_and_may_be_read_only():
    image = coordinates(224, 224)
    image.flags.writeable = False
    kept = image.copy()
    preprocess = _preprocess(short=224)
    preprocess.normalise(preprocess.apply(image)[None])
    np.testing.assert_array_equal(image, kept)


def test_normalise():
    pixels = torch.arange(0, 256, dtype=torch.uint8).repeat(3, 1).reshape(1, 3, 16, 16)
    ours = _preprocess().normalise(pixels).numpy()
    expected = (np.arange(256) / 255 - np.array(MEAN)[:, None]) / np.array(STD)[:, None]
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours.reshape(3, 256), expected, atol=2e-6)
    usual = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])(pixels)
    np.testing.assert_allclose(ours, usual.numpy(), atol=2e-6)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"resize": "stretch"}, "data.resize"),
        ({"interpolation": "lanczos"}, "interpolation"),
        ({"decoder": "opencv"}, "data.decoder"),
        ({"size": 0}, "data.size"),
        ({"size": -5, "resize": "pad"}, "data.size"),
        ({"short": 200}, "data.resize_short"),
        ({"multiple": 0}, "positive"),
        ({"mean": (0.5, 0.5)}, "mean"),
        ({"mean": (123.7, 116.3, 103.5)}, "from 0 to 1"),
        ({"mean": (float("nan"),) * 3}, "mean"),
        ({"std": (0.2, 0.2)}, "three"),
        ({"std": (0.2, 0.0, 0.2)}, "std"),
        ({"std": (0.2, float("nan"), 0.2)}, "std"),
    ],
)
def test_bad_settings_are_refused(settings, word):
    with pytest.raises(UsageError, match=word):
        _preprocess(**settings)
