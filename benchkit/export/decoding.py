"""Pictures read, verified, decoded and resized in threads, some batches ahead of the model."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from benchkit.errors import RunError
from benchkit.export.batches import Picture
from benchkit.images import DECODERS, Unreadable
from benchkit.preprocess import Preprocess, channels_first

THUMB_SIDE, THUMB_BYTES = 96, 4096
_AHEAD = 3  # batches decoded before they are needed, and images for each thread: bounds memory


@dataclasses.dataclass
class Decoded:
    """A picture as the model's input (uint8 (3, h, w)), its thumbnail (JPEG bytes), or why there is none."""

    picture: Picture
    pixels: Any = None
    thumb: np.ndarray | None = None
    problem: str = ""


def decoded_batches(
    work: Iterable[list[Picture]], preprocess: Preprocess, workers: int, on_error: str
) -> Generator[list[Decoded]]:
    """Decode batches in threads, a few ahead of whoever takes them.

    Raises:
        RunError: an image cannot be decoded and `on_error` is stop.
    """
    with ThreadPoolExecutor(workers, thread_name_prefix="decode") as pool:
        waiting: deque[list[Future[Decoded]]] = deque()
        images = 0
        try:
            for batch in work:
                waiting.append([pool.submit(decode, picture, preprocess) for picture in batch])
                images += len(batch)
                if len(waiting) > _AHEAD and images - len(waiting[0]) >= _AHEAD * workers:
                    images -= len(waiting[0])
                    yield _results(waiting.popleft(), on_error)
            while waiting:
                yield _results(waiting.popleft(), on_error)
        finally:
            for future in (f for batch in waiting for f in batch):
                future.cancel()


def _results(futures: list[Future[Decoded]], on_error: str) -> list[Decoded]:
    results = [future.result() for future in futures]
    bad = next((r for r in results if r.problem), None)
    if bad is not None and on_error == "stop":
        where = bad.picture.dataset.path(bad.picture.view) or bad.picture.view
        raise RunError(
            f"{where}: {bad.problem}. What was finished is kept: mend the file and run the same command again, or leave "
            "such files out with data.on_error=skip --overwrite."
        )
    return results


def decode(picture: Picture, preprocess: Preprocess) -> Decoded:
    """Read, verify, decode and preprocess one picture."""
    try:
        image = read_image(picture, preprocess.decoder)
    except Unreadable as error:
        return Decoded(picture, problem=str(error))
    return Decoded(picture, preprocess.apply(image), thumbnail(image))


def read_image(picture: Picture, decoder: str) -> np.ndarray:
    """Read, verify and decode one picture: uint8 (H, W, 3).

    Raises:
        Unreadable: it cannot be decoded.
        RunError: it cannot be read any more, or is another one by now.
    """
    dataset, view = picture.dataset, picture.view
    where = dataset.path(view) or view
    try:
        data = dataset.read(view)
    except OSError as error:  # it could be read a moment ago, so this says nothing about its bytes
        raise RunError(
            f"{where} cannot be read any more ({error.strerror}). What was finished is kept: run the same command again."
        ) from error
    if data is None:
        return dataset.image(view)
    if hashlib.sha256(data).hexdigest() != picture.sha256:
        raise RunError(f"{where} changed while the export ran. Run the same command again.")
    return DECODERS[decoder](data)


def thumbnail(image: np.ndarray) -> np.ndarray:
    """JPEG bytes (uint8) of a small copy, at most 4 KB."""
    import simplejpeg
    from torchvision.transforms.v2 import functional

    scale = min(1.0, THUMB_SIDE / max(image.shape[:2]))
    size = [max(1, round(side * scale)) for side in image.shape[:2]]
    view = functional.resize(channels_first(image), size, antialias=True)
    small = np.ascontiguousarray(view[0].permute(1, 2, 0).numpy())
    for quality in (75, 50, 25, 5):
        encoded = simplejpeg.encode_jpeg(small, quality=quality)
        if len(encoded) <= THUMB_BYTES:
            break
    return np.frombuffer(encoded, np.uint8)
