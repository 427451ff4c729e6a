"""Images per second on a CUDA device from files to parts, against the bare forward and the rate at which images are decoded."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from export import Loop

MODELS = (("vit_base_patch14_dinov2", ["model.backbone.extra_kwargs.img_size=224", "data.size=224"]), ("resnet50", []))
ROUNDS, COUNT, BATCH = 5, 16_384, 256
BOUND = 0.9  # of the smaller of both


def run(threads: int, device: str = "cuda", count: int = COUNT, batch: int = BATCH) -> list[dict]:
    """A figure for each model in bf16 at 224 pixels; where there is no such device, a line that says so."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        return [{"figure": "export on a CUDA device", "skipped": "torch finds no CUDA device here"}]
    return [_measured(arch, settings, device, count, batch) for arch, settings in MODELS]


def _measured(arch: str, settings: list[str], device: str, count: int, batch: int) -> dict:
    from benchkit.export.shares import cpus

    given = [f"model.backbone.arch={arch}", *settings, "model.precision=bf16", f"model.batch_size={batch}"]
    with tempfile.TemporaryDirectory() as scratch:
        loop = Loop(Path(scratch), count, [*given, f"model.device={device}"])
        loop.bare()
        rounds = [(loop.export(cpus()), loop.bare(), loop.decode(cpus())) for _ in range(ROUNDS)]
    exported, bare, decoded = (statistics.median(each) for each in zip(*rounds, strict=True))
    ratios = sorted(export / min(alone, ahead) for export, alone, ahead in rounds)
    return {
        "figure": f"export of 224-px JPEGs to parts, {arch} bf16, batches of {batch}",
        "device": loop.model.platform["device"],
        "decoding_threads": cpus(),
        "images_per_second": exported,
        "bare": bare,
        "decoding": decoded,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "bound": BOUND,
    }


if __name__ == "__main__":  # DEVICE COUNT BATCH: on a CPU too, to see that it runs
    print(json.dumps(run(2, sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), indent=1))
