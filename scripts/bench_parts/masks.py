"""Time of scoring 1,000 masks of 512 x 512 from their files, against counting the same pixels in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

COUNT, SIDE, CLASSES, IGNORE, REPEATS = 1000, 512, 21, 255, 3


def run(threads: int) -> list[dict]:
    """The figure with its bound in seconds."""
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": root},
        check=True,
        capture_output=True,
    )
    name = f"scoring {COUNT} masks of {SIDE}x{SIDE}, {CLASSES} classes"
    return [{"figure": name, **json.loads(done.stdout), "bound_seconds": 2}]


def measure() -> dict:
    """The whole score from two tables; the same counts of arrays in memory; both in CPU seconds too."""
    from benchkit.eval.semantic_segmentation import Settings, build
    from benchkit.metrics.segmentation import confusion
    from benchkit.store.columns import Rows
    from benchkit.store.items import TableItems
    from benchkit.store.table import Table, write_table

    names = [f"{k:04d}" for k in range(COUNT)]
    meta = {"classes": [f"class {k}" for k in range(CLASSES)], "ignore": IGNORE}
    family = build(Settings())
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("predictions", "targets"):
            masks = Rows(np.dtype(np.uint8), (SIDE, SIDE), (mask[None] for mask in _masks(kind == "targets")))
            write_table(Path(folder) / kind, kind, names, {"mask": masks}, meta=meta)
        with Table(Path(folder) / "predictions") as predicted, Table(Path(folder) / "targets") as true:
            tables = TableItems(predicted), TableItems(true)
            whole = _least(lambda: family.summarize(family.score(*tables)))
    pairs = [*zip(_masks(False), _masks(True), strict=True)]
    bare = _least(lambda: [confusion(*pair, CLASSES, IGNORE) for pair in pairs])
    return {"seconds": whole[0], "cpu_seconds": whole[1], "counting_cpu_ms_a_mask": bare[1] / COUNT * 1e3}


def _masks(ignored: bool) -> Iterator[np.ndarray]:
    """Masks of some blocks each, as photographs have them, some pixels ignored."""
    rng = np.random.default_rng(int(ignored))
    for _ in range(COUNT):
        mask = np.kron(rng.integers(0, CLASSES, (16, 16), dtype=np.uint8), np.ones((SIDE // 16,) * 2, np.uint8))
        if ignored:
            mask[:: SIDE // 32] = IGNORE
        yield mask


def _least(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds, the least of some runs."""
    found = []
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(w for w, _ in found), min(c for _, c in found)


if __name__ == "__main__":
    print(json.dumps(measure()))
