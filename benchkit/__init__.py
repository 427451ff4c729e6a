"""benchkit: what a vision backbone can do, item by item, from files. Export once, evaluate many.

result = benchkit.run("efficientnet_lite0", "classification")
result.summaries; result.items; result.record
"""

from __future__ import annotations

import os
from typing import Any

# OpenBLAS's threads keep a core busy for 25 ms after every product, which is time that sorting and decoding need; 2^20
# cycles are enough to catch the next product. Read when NumPy is first imported; whoever has set it is left alone.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

__version__ = "0.1.0"

_INTERFACE = ("run", "load")


def __getattr__(name: str) -> Any:
    """`run` and `load` are imported when first used: `benchkit` itself costs nothing to import."""
    if name in _INTERFACE:
        from benchkit import interface

        return getattr(interface, name)
    raise AttributeError(f"module 'benchkit' has no attribute {name!r}")
