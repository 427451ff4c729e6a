"""Time of the full mAP against the bare matrix product, and peak memory, each measured in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

DIMENSIONS, CLASSES, REPEATS, BLOCK = 384, 10, 3, 2048


def run(threads: int, long: bool = False) -> list[dict]:
    """Figures with their bounds; `long` adds the peak memory for 100,000 items, which takes minutes."""
    speed = _child("speed", threads)
    figures = [{"figure": "retrieval 20000x384 full mAP", **speed, "bound": 2.8, "bound_mb": 300}]
    if long:
        figures.append({"figure": "retrieval 100000 items", **_child("memory", threads), "bound_mb": 1000})
    return figures


def _child(what: str, threads: int) -> dict:
    pinned = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    pinned["OPENBLAS_THREAD_TIMEOUT"] = "20"  # as importing benchkit sets it, where numpy is imported after
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, __file__, what, str(threads)]
    done = subprocess.run(command, env={**os.environ, **pinned, "PYTHONPATH": root}, check=True, capture_output=True)
    return json.loads(done.stdout)


def speed(threads: int) -> dict:
    from benchkit.metrics.ranking import retrieval

    features, labels = _items(20_000)
    before = _peak_mb()
    ours = [_seconds(lambda: retrieval(features, labels, threads=threads))]
    extra = _peak_mb() - before
    product = [_seconds(lambda: _multiply(features))]
    for _ in range(REPEATS - 1):  # in turns, so that a busy machine slows both; the fastest of each counts
        ours.append(_seconds(lambda: retrieval(features, labels, threads=threads)))
        product.append(_seconds(lambda: _multiply(features)))
    seconds, matmul = min(ours), min(product)
    return {"seconds": seconds, "matmul_seconds": matmul, "ratio": seconds / matmul, "extra_mb": extra}


def memory(threads: int) -> dict:
    from benchkit.metrics.ranking import retrieval

    features, labels = _items(100_000)
    calls: list[int] = []
    seconds = _seconds(
        lambda: retrieval(features, labels, threads=threads, progress=lambda done, _: calls.append(done))
    )
    return {"seconds": seconds, "progress_calls": len(calls), "peak_mb": _peak_mb()}


def _items(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, DIMENSIONS), dtype=np.float32), rng.integers(0, CLASSES, n)


def _multiply(features: np.ndarray) -> None:
    out = np.empty((BLOCK, len(features)), np.float32)
    for start in range(0, len(features), BLOCK):
        rows = features[start : start + BLOCK]
        np.matmul(rows, features.T, out=out[: len(rows)])


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _peak_mb() -> float:
    """Peak resident memory of this process alone (ru_maxrss would inherit the parent's)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    measure = {"speed": speed, "memory": memory}[sys.argv[1]]
    print(json.dumps(measure(int(sys.argv[2]))))
