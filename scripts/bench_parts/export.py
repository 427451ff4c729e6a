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

    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as scratch:
        loop = Loop(Path(scratch), count, [f"model.backbone.arch={arch}", f"model.precision={precision}"])
        loop.bare()
        alone, exported = [loop.bare()], []
        for _ in range(ROUNDS):
            exported.append(loop.export(threads))
            alone.append(loop.bare())
    ratios = [2 * e / (before + after) for e, before, after in zip(exported, alone, alone[1:], strict=False)]
    return {
        "figure": f"export of 224-px JPEGs, {arch} {precision}",
        "images_per_second": statistics.median(exported),
        "bare": statistics.median(alone),
        "ratio": statistics.median(ratios),
        "ratios": sorted(ratios),
        "bound": bound,
    }


class Loop:
    """An export of so many distinct JPEGs of 224 pixels by a timm model with random weights, and what bounds it.

    Args:
        scratch: an empty folder.
        count: images, whole batches of them.
        settings: `key=value` of the model, beside batches of 32.
    """

    def __init__(self, scratch: Path, count: int, settings: list[str]) -> None:
        import torch

        from benchkit.conf.build import build
        from benchkit.export.batches import Picture
        from benchkit.export.job import Job
        from benchkit.export.model import LoadedModel
        from benchkit.store.outputs import Outputs

        self.scratch, self.count = scratch, count
        images.make(scratch / "photos", count)
        given = [
            "model.backbone.name=timm",
            "model.random=true",
            f"data.root={scratch / 'photos'}",
            "model.batch_size=32",
        ]
        job = Job(build(None, "retrieval", [*given, *settings]), Outputs(scratch / "out"), "bench")
        self.model = LoadedModel(job.conf)
        keys = self.model.keys(job)
        self.pictures = [
            Picture(v, job.facts[v].sha256, job.facts[v].height, job.facts[v].width, job.dataset) for v in job.views
        ]
        self.forward = self.model.forward(keys)
        self.columns = [*(f"features/{k}" for k in keys), "size", "thumb"]
        self.size = job.conf.model.batch_size
        pixels = torch.randint(0, 256, (self.size, 3, 224, 224), dtype=torch.uint8)
        pixels = pixels.contiguous(memory_format=torch.channels_last).to(self.model.device)
        self.inputs = self.model.preprocess.normalise(pixels)
        self.banks = 0

    def bare(self) -> float:
        """Images per second of the model alone, on one batch that is there already."""
        import torch

        running = self.forward.running
        amp = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(running.model.precision)
        with torch.inference_mode(), torch.autocast(running.device.type, amp, enabled=amp is not None):
            self._wait()
            start = time.perf_counter()
            for _ in range(self.count // self.size):
                running.net(self.inputs, self.forward.keys)
            self._wait()
            return self.count / (time.perf_counter() - start)

    def _wait(self) -> None:
        import torch

        if self.forward.running.cuda:
            torch.cuda.synchronize(self.model.device)

    def decode(self, workers: int) -> float:
        """Images per second of reading, decoding, resizing and thumbnails alone, in as many threads."""
        from benchkit.export.batches import batches
        from benchkit.export.decoding import decoded_batches

        work = batches(self.pictures, self.model.preprocess, self.size)
        with self.forward.running.filling():
            start = time.perf_counter()
            done = sum(len(batch) for batch in decoded_batches(work, self.model.preprocess, workers, "stop"))
            return done / (time.perf_counter() - start)

    def export(self, workers: int) -> float:
        """Images per second from files to the parts of a new bank."""
        from benchkit.progress import Progress
        from benchkit.store.bank import Bank

        self.banks += 1
        silent = Progress(self.count, "forward", "images", silent=True)
        with Bank(self.scratch / f"bank{self.banks}", self.model.identity) as bank:
            start = time.perf_counter()
            self.forward.fill(bank, self.pictures, self.columns, "stop", workers, silent)
            return self.count / (time.perf_counter() - start)


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
