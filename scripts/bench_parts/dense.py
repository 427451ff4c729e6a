"""Training of a dense linear probe from a bank: CPU-seconds per epoch, and peak memory where the bank does not fit in it.

Everything goes through the files an export leaves, and each figure is measured in a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SIDE, CLASSES, BATCH = 224, 4, 8
ITEMS, SHAPE, BOUND = 200, (192, 14, 14), 0.6
LARGE = (768, 16, 16)
FULL = (4_000_000_000, 300_000_000)  # bytes of the bank, and max_memory; a tenth of both without --long
ROWS_PER_PART = 64


def run(threads: int, long: bool = False) -> list[dict[str, Any]]:
    """Figures with their bounds; `long` trains from a bank of 4 GB instead of .4 GB."""
    size, memory = (value if long else value // 10 for value in FULL)
    with tempfile.TemporaryDirectory() as scratch:
        small, large = Path(scratch) / "small", Path(scratch) / "large"
        make(small, ITEMS, SHAPE)
        speed = _child("speed", small, 1)
        make(large, size // (2 * int(np.prod(LARGE))), LARGE)
        streamed = _child("memory", large, threads, memory)
        held = _child("memory", large, threads, 4 * size)
    name = f"dense training, bank of {size / 1e9:g} GB, max_memory {memory / 1e6:.0f} MB"
    return [
        {"figure": f"dense_linear {ITEMS}x{SHAPE} to {SIDE} px, {CLASSES} classes, an epoch", **speed, "bound": BOUND},
        {"figure": name, **streamed, "bound_extra_mb": 600, "from_memory": held,
         "ratio": streamed["seconds"] / held["seconds"], "bound": 2.0},
    ]  # fmt: skip


def make(folder: Path, count: int, shape: tuple[int, int, int]) -> None:
    """A bank of random maps in float16, a tag's index of it, and masks of class rectangles."""
    from benchkit.store.bank import Bank
    from benchkit.store.columns import Rows
    from benchkit.store.features import write_features
    from benchkit.store.table import write_table

    names = [f"{number:06d}" for number in range(count)]
    images = [hashlib.sha256(name.encode()).hexdigest() for name in names]
    generator = np.random.default_rng(0)
    with Bank(folder / "bank", {"model": "bench"}) as bank:
        for start in range(0, count, ROWS_PER_PART):
            some = images[start : start + ROWS_PER_PART]
            maps = generator.standard_normal((len(some), *shape), dtype=np.float32).astype(np.float16)
            bank.add(some, {"features/patch@final": maps, "reason": [""] * len(some)}, {"cpu": "any"})
        bank.scan()
        write_features(folder / "tag", bank, names, images, ["patch@final"])

    def masks() -> Any:
        for _ in names:
            yield np.kron(generator.integers(0, CLASSES, (8, 8)), np.ones((SIDE // 8, SIDE // 8)))[None].astype(
                np.uint8
            )

    columns = {"mask": Rows(np.dtype(np.uint8), (SIDE, SIDE), masks())}
    meta = {"classes": [str(number) for number in range(CLASSES)], "ignore": 255}
    write_table(folder / "truth.h5", "targets", names, columns, meta=meta)


def _child(what: str, folder: Path, threads: int, *rest: int) -> dict[str, Any]:
    pinned = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, __file__, what, str(folder), str(threads), *map(str, rest)]
    done = subprocess.run(command, env={**os.environ, **pinned, "PYTHONPATH": root}, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def fit(folder: Path, epochs: int, threads: int, memory: int, count: int | None = None) -> None:
    """Train on the first `count` items."""
    from benchkit.heads import dense_linear
    from benchkit.heads.base import ModelSide
    from benchkit.store.items import TableItems
    from benchkit.store.maps import Maps
    from benchkit.store.table import Table

    settings = dense_linear.Settings(epochs=epochs, warmup_epochs=epochs / 4, batch_size=BATCH, max_memory=memory)
    head = dense_linear.build(settings)
    head.prepare(ModelSide("bench"), {"task": "semantic"})
    with Table(folder / "truth.h5", "targets") as table:
        names = table.names[:count]
        frames, extents = np.full((len(names), 2), SIDE), np.ones((len(names), 2))
        with Maps(folder / "tag", names, names, ["patch@final"], frames, extents) as maps:
            head.fit("patch@final", maps, TableItems(table, names), 0, threads)


def speed(folder: Path, threads: int) -> dict[str, Any]:
    """CPU-seconds per epoch of the whole fit, reading included, when maps stay in memory and when none does; and of the bare
    resizing and cross-entropy of as many images in torch, forward and backward."""
    epochs = 5
    fit(folder, 1, threads, 0, BATCH)  # imports and first calls
    held = _cpu(fit, folder, epochs, threads, FULL[0]) / epochs
    streamed = _cpu(fit, folder, epochs, threads, 0) / epochs
    return {"cpu_seconds": held, "cpu_seconds_streamed": streamed, "floor_torch": _cpu(bare)}


def bare() -> None:
    """torch's own interpolation and cross-entropy of 200 images."""
    import torch

    logits = torch.randn(BATCH, CLASSES, *SHAPE[1:], requires_grad=True)
    labels = torch.randint(CLASSES, (BATCH, SIDE, SIDE))
    for _ in range(ITEMS // BATCH):
        wide = torch.nn.functional.interpolate(logits, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
        torch.nn.functional.cross_entropy(wide, labels).backward()


def _cpu(work: Any, *args: Any) -> float:
    start = time.process_time()
    work(*args)
    return time.process_time() - start


def memory(folder: Path, threads: int, limit: int) -> dict[str, Any]:
    """Wall and CPU seconds of two epochs, and by how much memory grows above what the process holds before."""
    fit(folder, 1, threads, 0, BATCH)
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    started, cpu = time.perf_counter(), time.process_time()
    fit(folder, 2, threads, limit)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "cpu_seconds": cpu, "extra_mb": (peak - before) / 1e6}


if __name__ == "__main__":
    what, where, count, *others = sys.argv[1:]
    print(json.dumps({"speed": speed, "memory": memory}[what](Path(where), int(count), *map(int, others))))
