"""What changes a model's bits, measured: the same small export made in several ways, each in a process of its own.

What is promised to be equal (design: fixed batches) is compared by content hash: shards, a stopped and resumed export. What
cannot be (threads, CPU capability, batch size, precision) is compared by value, against a stated tolerance.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchkit.errors import RunError, reason
from benchkit.progress import track
from benchkit.store.table import Table
from benchkit.store.verify import folder_content

IMAGES = 72  # generated scenes: two whole batches of 32, and the rest of a third
TAG = "checked"
BENCHMARK = "retrieval"  # no head that learns: what differs is the model's
SAME_PRECISION = 1e-3  # of a row's largest value: other threads, capability or batch size
LOWER_PRECISION = 0.99  # cosine to fp32: measured .9933 (EfficientNet-Lite0), .99996 (ViT-S, random weights)


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to make the export.

    Attributes:
        name: what is different.
        runs: arguments of each export, one after the other.
        environment: of their processes.
        promise: `bits` (equal content), `fp32` (equal within SAME_PRECISION) or `lower` (cosine at least LOWER_PRECISION).
    """

    name: str
    runs: tuple[tuple[str, ...], ...]
    promise: str
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Finding:
    """How one way compares with the first.

    Attributes:
        equal: content hashes are.
        apart: largest difference of a feature, of its row's largest value.
        cosine: lowest over the images.
        kept: whether what is promised of it holds.
    """

    way: Way
    equal: bool
    apart: float
    cosine: float
    kept: bool


def ways(threads: int, batch_size: int, capability: str, cores: int) -> list[Way]:
    """All ways but the first, which they are compared with: fp32, and as the conf says.

    Args:
        threads, batch_size: of the first.
        capability: of its CPU, as torch calls it.
        cores: of this machine: more threads than that are not tried.
    """
    found = [Way("the same again", ((),), "bits")]
    found += [Way(f"{n} shards", tuple(("--shard", f"{i}/{n}") for i in range(n)), "bits") for n in (2, 3, 7)]
    found.append(Way("stopped, then resumed", (("--shard", "1/2"), ()), "bits"))
    found += [Way(f"{n} thread{'s' * (n > 1)}", ((),), "fp32", {"OMP_NUM_THREADS": str(n), "MKL_NUM_THREADS": str(n)})
              for n in (1, 2, 4) if n != threads and n <= cores]  # fmt: skip
    found += [Way(f"batches of {n}", ((f"model.batch_size={n}",),), "fp32") for n in (1, 8, 32) if n != batch_size]
    lower = {"AVX512": ("avx2", "default"), "AVX2": ("default",)}.get(capability.upper(), ())
    found += [Way(f"CPU capability {each}", ((),), "fp32", {"ATEN_CPU_CAPABILITY": each}) for each in lower]
    return [*found, Way("bf16", (("model.precision=bf16",),), "lower")]


def measure(conf: str, arguments: Sequence[str], every: Sequence[Way], threads: int) -> list[Finding]:
    """Make the export in every way and compare it with the conf's own in fp32.

    Args:
        conf: name or path.
        arguments: further `key=value` settings of all of them.
        every: see `ways`.
        threads: of the first.

    Raises:
        RunError: an export fails; says what it printed.
    """
    base = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    first = Way("", ((),), "bits", base)
    with tempfile.TemporaryDirectory(prefix="benchkit-determinism-") as below:
        made = {each.name: Path(below, str(place)) for place, each in enumerate([first, *every])}
        for each in track([first, *every], len(made), "determinism", "exports"):
            for run in each.runs:
                _export(conf, [*arguments, *run], made[each.name], {**base, **each.environment})
        return [_compared(each, made[""], made[each.name]) for each in every]


def _export(conf: str, arguments: Sequence[str], outputs: Path, environment: Mapping[str, str]) -> None:
    given = ["--conf", conf, "--benchmark", BENCHMARK, "--tag", TAG, "--outputs", str(outputs), f"data.n_test={IMAGES}"]
    given += ["model.precision=fp32", *arguments]  # of two settings of one key the later counts
    command = [sys.executable, "-m", "benchkit", "export", *given]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise RunError(f"{' '.join(command)} ended with {done.returncode}: {reason(Exception(done.stderr), 600)}.")


def _compared(way: Way, first: Path, other: Path) -> Finding:
    one, two = (_features(outputs) for outputs in (first, other))
    apart, cosine = difference(one, two)
    folders = [outputs / "results" / BENCHMARK / TAG for outputs in (first, other)]
    equal = folder_content(folders[0]) == folder_content(folders[1])
    rules: dict[str, Callable[[], bool]] = {
        "bits": lambda: equal,
        "fp32": lambda: apart <= SAME_PRECISION,
        "lower": lambda: cosine >= LOWER_PRECISION,
    }
    return Finding(way, equal, apart, cosine, rules[way.promise]())


def _features(outputs: Path) -> np.ndarray:
    """float64 (N, C) in name order."""
    with Table(outputs / "results" / BENCHMARK / TAG / "predictions.h5", "predictions") as table:
        return np.asarray(table.read("embedding"), np.float64)


def difference(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Largest difference of two (N, C), of the row's largest value, and the lowest cosine of their rows."""
    scale = np.maximum(np.abs(one).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosines = np.divide((one * other).sum(axis=1), lengths, out=np.ones(len(one)), where=lengths > 0)
    return float((np.abs(one - other) / scale).max()), float(cosines.min())
