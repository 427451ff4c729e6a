"""Data inside a page: JSON that no text can break out of, arrays as base64, pictures as data: addresses."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np

from benchkit.report.markup import Markup, element

_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_KINDS = {b"\xff\xd8": "jpeg", b"\x89P": "png", b"RI": "webp"}  # by the first two bytes
QUALITY = 72  # of WebP


def json_block(name: str, value: Any) -> Markup:
    """`<script type="application/json">` with an id: data that no browser runs; strict JSON (ValueError for a NaN)."""
    return element("script", Markup(escaped_json(value)), type="application/json", id=name)


def escaped_json(value: Any) -> str:
    """JSON in which no character means anything to HTML, or ends a line in JavaScript."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.translate({ord(letter): code for letter, code in _ESCAPED.items()})


def packed(array: np.ndarray) -> str:
    """The bytes of an array as base64, little-endian, in C order."""
    return base64.b64encode(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()).decode()


def data_uri(encoded: bytes) -> str:
    """A `data:` address of an encoded JPEG, PNG or WebP."""
    return f"data:image/{_KINDS[encoded[:2]]};base64,{base64.b64encode(encoded).decode()}"


def webp(picture: np.ndarray, side: int | None = None, quality: int | None = QUALITY) -> bytes:
    """uint8 (h, w, 3) as WebP, its longer side at most `side`; `quality` None: lossless, which suits plots."""
    from PIL import Image

    image = Image.fromarray(picture)
    if side is not None:
        image.thumbnail((side, side), Image.Resampling.BOX)
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", lossless=quality is None, quality=80 if quality is None else quality, method=4)
    return buffer.getvalue()
