"""10,000 banked images: how large the bank is, and how long the commands take that need no forward."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import images

COUNT, SIDE = 10_000, 48


def run(threads: int) -> list[dict]:
    """Seconds of whole processes, the fastest of three, and bytes."""
    pinned = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    with tempfile.TemporaryDirectory() as scratch:
        root, out = Path(scratch) / "photos", Path(scratch) / "out"
        images.make(root, COUNT, SIDE)
        conf = Path(scratch) / "bench.yaml"
        conf.write_text(
            "model: {backbone: {name: timm, arch: vit_small_patch16_224, extra_kwargs: {img_size: 48}}, random: true}\n"
        )
        export = [sys.executable, "-m", "benchkit.export", "--conf", str(conf), "--outputs", str(out), f"data.root={root}",
                  "--tag", "bench", "data.size=48"]  # fmt: skip

        def seconds(command: list[str], times: int = 3) -> float:
            return min(_seconds(command, {**os.environ, **pinned}) for _ in range(times))

        first = seconds([*export, "--benchmark", "retrieval"], 1)
        again = seconds([*export, "--benchmark", "retrieval"])
        score = [sys.executable, "-m", "benchkit.eval", "classification", "--tag", "bench", "--outputs", str(out)]
        head = seconds([*export, "--benchmark", "classification", "model.head.name=knn"], 1)
        scored = seconds([*score, "--overwrite_eval"])
        retrieval = seconds(
            [sys.executable, "-m", "benchkit.eval", "retrieval", "--tag", "bench", "--outputs", str(out)], 1
        )
        bank = next((out / "features").iterdir())
        stored, numbers = _bytes(bank)
    return [
        {
            "figure": "bank over its numbers, 10000 x 384 float32, thumbnails left out of both",
            "ratio": stored / numbers,
            "bound": 1.1,
        },
        {"figure": "export of 10000 48-px images, whole process", "seconds": first},
        {"figure": "finished tag of 10000 images recognised, whole process", "seconds": again, "bound": 1.0},
        {"figure": "another head (kNN) on 10000 banked images, whole process", "seconds": head},
        {"figure": "eval classification of 2500 items of it, whole process", "seconds": scored, "bound": 1.0},
        {"figure": "eval retrieval of 10000 items, whole process", "seconds": retrieval},
    ]


def _seconds(command: list[str], env: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=env, check=True, capture_output=True)
    return time.perf_counter() - start


def _bytes(bank: Path) -> tuple[int, int]:
    """Bytes that features take in the parts (their share of names, checksums and structure included), and their numbers."""
    from benchkit.store.table import Table

    stored = numbers = 0
    for part in bank.glob("part-*.h5"):
        with Table(part, "bank") as table:
            columns = [c for c in table.columns if c.startswith("features/")]
            numbers += sum(table.node(c).nbytes for c in columns)
            thumbs = sum(table.node("thumb")[d].nbytes for d in ("values", "offsets", "shapes"))
            stored += part.stat().st_size - thumbs - table.node("size").nbytes
    return stored, numbers


if __name__ == "__main__":
    print(json.dumps(run(2), indent=1))
