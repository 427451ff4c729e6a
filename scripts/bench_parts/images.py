"""Folders of distinct JPEGs for the other parts: smooth noise, two classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def make(root: Path, count: int, side: int = 224, classes: int = 10) -> None:
    """Write `count` JPEGs of `side` pixels (about 20 KB each) as root/<class>/<number>.jpg."""
    import simplejpeg
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(count):
        folder = root / f"class{number % classes}"
        folder.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 256, (28, 28, 3), np.uint8)).resize((side, side))
        pixels = np.clip(np.asarray(coarse, np.int16) + rng.integers(-12, 13, (side, side, 3)), 0, 255).astype(np.uint8)
        (folder / f"{number:06d}.jpg").write_bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=85))
