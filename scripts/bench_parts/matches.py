"""Time of mutual neighbours with ratio and distance tests between two 64 x 64 grids of 384 numbers, against the bare product."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.nn.functional import normalize

CELLS, CHANNELS, REPEATS = 64 * 64, 384, 9


def run(threads: int, long: bool = False) -> list[dict]:
    """One figure with its bound."""
    from benchkit.allocation import keep_freed_memory
    from benchkit.heads.match import Settings
    from benchkit.heads.solvers.grid_matches import match

    keep_freed_memory()  # as every export does
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    one, other = (normalize(torch.randn(CELLS, CHANNELS, generator=generator), dim=1) for _ in range(2))
    settings = Settings(ratio=0.9, mutual=True, distance=1.2)
    out = torch.empty(CELLS, CELLS)
    ours, product = [], []
    for _ in range(REPEATS):  # in turns, so that a busy machine slows both; the fastest of each counts
        product.append(_seconds(lambda: torch.mm(one, other.T, out=out)))
        ours.append(_seconds(lambda: match(one, other, settings)))
    figure = {"seconds": min(ours), "matmul_seconds": min(product), "ratio": min(ours) / min(product), "bound": 1.3}
    return [{"figure": "mutual neighbours 64x64x384 with ratio and distance tests", **figure}]


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
