"""Images per second of the export loop against the bare forward, and memory against the number of images."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import images

MODELS = (("vit_small_patch16_224", "fp32", 0.93, 128), ("resnet18", "bf16", 0.80, 512))
ROUNDS = 9  # the bare forward alone drifts by a tenth within a minute on a shared machine


def run(threads: int) -> list[dict]:
    """Figures with their bounds."""
    figures = [_child("speed", threads, *map(str, m)) for m in MODELS]
    small, large = (_child("memory", threads, count)["peak_mb"] for count in ("1000", "8000"))
    return [
        *figures,
        {"figure": "export peak memory, 1000 and 8000 images", "peak_mb": [small, large], "bound_growth_mb": 50},
    ]


def _child(what: str, threads: int, *rest: str) -> dict:
    pinned = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    done = subprocess.run(
        [sys.executable, __file__, what, str(threads), *rest],
        env={**os.environ, **pinned},
        check=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(done.stdout.splitlines()[-1])


def speed(threads: int, arch: str, precision: str, bound: float, count: int) -> dict:
    """The loop from files to parts, and the same batches through the bare model, in turns; the median of the ratios."""
    import torch

    from benchkit.conf.build import build
    from benchkit.export.batches import Picture
    from benchkit.export.job import Job
    from benchkit.export.model import LoadedModel
    from benchkit.store.bank import Bank
    from benchkit.store.outputs import Outputs

    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "photos"
        images.make(root, count)
        settings = ["model.backbone.name=timm", f"model.backbone.arch={arch}", "model.random=true", f"data.root={root}"]
        conf = build(None, "retrieval", [*settings, f"model.precision={precision}", "model.batch_size=32"])
        job = Job(conf, Outputs(Path(scratch) / "out"), "bench")
        model = LoadedModel(conf)
        keys = model.keys(job)
        pictures = [
            Picture(v, job.facts[v].sha256, job.facts[v].height, job.facts[v].width, job.dataset) for v in job.views
        ]
        forward = model.forward(keys)
        columns = [*(f"features/{k}" for k in keys), "size", "thumb"]
        pixels = torch.randint(0, 256, (32, 3, 224, 224), dtype=torch.uint8).contiguous(
            memory_format=torch.channels_last
        )
        inputs = model.preprocess.normalise(pixels)
        amp = torch.bfloat16 if precision == "bf16" else None

        def bare() -> float:
            with torch.inference_mode(), torch.autocast("cpu", amp, enabled=amp is not None):
                start = time.perf_counter()
                for _ in range(count // 32):
                    forward.backbone(inputs, keys)
                return count / (time.perf_counter() - start)

        bare()
        alone, exported = [bare()], []
        for number in range(ROUNDS):
            with Bank(Path(scratch) / f"bank{number}", model.identity) as bank:
                start = time.perf_counter()
                forward.fill(bank, pictures, columns, "stop", threads)
                exported.append(count / (time.perf_counter() - start))
            alone.append(bare())
    ratios = [2 * e / (before + after) for e, before, after in zip(exported, alone, alone[1:], strict=False)]
    return {
        "figure": f"export of 224-px JPEGs, {arch} {precision}",
        "images_per_second": statistics.median(exported),
        "bare": statistics.median(alone),
        "ratio": statistics.median(ratios),
        "ratios": sorted(ratios),
        "bound": bound,
    }


def memory(threads: int, count: int) -> dict:
    """Peak resident memory of an export of a small model."""
    from benchkit.export import export

    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "photos"
        images.make(root, count, side=64)
        settings = [
            "model.backbone.name=timm",
            "model.backbone.arch=test_resnet",
            "model.random=true",
            f"data.root={root}",
        ]
        export(None, "retrieval", arguments=[*settings, "data.size=64"], tag="bench", outputs=Path(scratch) / "out")
    return {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


if __name__ == "__main__":
    if sys.argv[1] == "speed":
        print(json.dumps(speed(int(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5]), int(sys.argv[6]))))
    else:
        print(json.dumps(memory(int(sys.argv[2]), int(sys.argv[3]))))
