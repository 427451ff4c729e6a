"""How fast `benchkit doctor` verifies banks of each kind that lie on the disk and not in memory, against the disk itself."""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PARTS = 96  # of 32 MB, of each kind
TIMES = 3
BOUND = 0.5  # of the disk's speed
BLOCK = 4 << 20
TAGS = 250  # of nine files


def run(threads: int, long: bool = False) -> list[dict[str, Any]]:
    """Gigabytes per second, the best of three runs each, and seconds for many small files; `long`: twice the bytes.

    The disk is read past the page cache (O_DIRECT) where the system can, one file after the other in blocks of 4 MB. The files'
    pages are dropped before each run of doctor; `cold` says whether they were. Where not (as on tmpfs), the ratio means
    nothing: put TMPDIR on a disk, or run `sync; echo 3 > /proc/sys/vm/drop_caches` as root before `benchkit doctor`. Others that
    use the processors slow doctor down, and the disk not: `load` tells of them, and `cpu_gb_per_s` is what one processor does.
    """
    with tempfile.TemporaryDirectory() as scratch:
        figures = [_figure(Path(scratch), kind, PARTS * (2 if long else 1)) for kind in KINDS]
        return [*figures, _tree(Path(scratch))]


def _figure(scratch: Path, kind: str, parts: int) -> dict[str, Any]:
    folder = scratch / kind
    fabricate(folder, kind, parts)
    files = sorted(folder.iterdir())
    size, disk, doctor, cold = sum(path.stat().st_size for path in files), [], [], True
    load, used = os.getloadavg()[0], _used()
    for _ in range(TIMES):
        cold &= _dropped(files)
        disk.append(size / _read(files) / 1e9)
        cold &= _dropped(files)
        doctor.append(size / _doctor(folder) / 1e9)
    cpu = (_used() - used) / TIMES
    warm = size / _doctor(folder) / 1e9
    shutil.rmtree(folder)
    return {
        "figure": f"doctor verifies {size / 1e9:.1f} GB of {kind}, whole process",
        "gb_per_s": max(doctor),
        "disk_gb_per_s": max(disk),
        "ratio": max(doctor) / max(disk),
        "bound": BOUND,
        "cold": cold,
        "gb_per_s_in_memory": warm,
        "cpu_gb_per_s": size / cpu / 1e9,
        "load": load,
        "all": {"doctor": doctor, "disk": disk},
    }


def _octets(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.frombuffer(rng.bytes(count), np.uint8)


def _pooled(rng: np.random.Generator) -> dict[str, Any]:
    return {"features/cls@final": _octets(rng, 5000 * 3072).view("f4").reshape(5000, 768)}


def _maps(rng: np.random.Generator) -> dict[str, Any]:
    return {"features/patch@final": _octets(rng, 85 * 768 * 512).view("f2").reshape(85, 768, 16, 16)}


def _points(rng: np.random.Generator) -> dict[str, Any]:
    from benchkit.store.columns import Ragged

    counts = rng.integers(300, 1500, 60).tolist()
    descriptors = [_octets(rng, 512 * n).view("f4").reshape(n, 128) for n in counts]
    points = [_octets(rng, 8 * n).view("f4").reshape(n, 2) for n in counts]
    dtype = np.dtype("f4")
    return {"features/descriptors": Ragged(dtype, 2, descriptors), "features/points": Ragged(dtype, 2, points)}


KINDS: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "rows of 768 float32 and thumbnails": _pooled,
    "maps of 768x16x16 float16 and thumbnails": _maps,
    "300-1500 points and descriptors an image, and thumbnails": _points,
}


def fabricate(folder: Path, kind: str, parts: int) -> None:
    """A bank of random bits, written as an export writes it."""
    from benchkit.store.bank import Bank
    from benchkit.store.columns import Ragged

    rng = np.random.default_rng(0)
    with Bank(folder, {"kind": kind}) as bank:
        for _ in range(parts):
            columns = KINDS[kind](rng)
            values = next(iter(columns.values()))
            count = len(values.arrays if isinstance(values, Ragged) else values)
            thumbs = [_octets(rng, int(n)) for n in rng.integers(2000, 4000, count)]
            names = [rng.bytes(32).hex() for _ in range(count)]
            small = {"size": np.full((count, 2), 224, np.int32), "reason": [""] * count}
            bank.add(names, {**columns, **small, "thumb": Ragged(np.dtype("u1"), 1, thumbs)}, {"cpu": "any"})


def _dropped(files: list[Path]) -> bool:
    """Drop the pages of files; whether hardly any are in memory any more, as far as the system tells."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in files:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
    return float(np.mean([_in_memory(path) for path in files])) < 0.01


def _in_memory(path: Path) -> float:
    """Which part of a file's pages are in memory; 1 where the system does not tell."""
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        octets = np.frombuffer(mapped, np.uint8)
        pages = (ctypes.c_ubyte * -(-len(octets) // mmap.PAGESIZE))()
        told = ctypes.CDLL(None).mincore(ctypes.c_void_p(octets.ctypes.data), ctypes.c_size_t(len(octets)), pages)
        del octets
    return float(np.mean(np.frombuffer(pages, np.uint8) & 1)) if told == 0 else 1.0


def _read(files: list[Path]) -> float:
    """Seconds to read the files, past the page cache where that is possible."""
    start, buffer = time.perf_counter(), mmap.mmap(-1, BLOCK)  # O_DIRECT wants a buffer of whole pages
    for path in files:
        handle = os.open(path, os.O_RDONLY)
        with contextlib.suppress(OSError, AttributeError):
            direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
            os.close(handle)
            handle = direct
        position = 0
        while count := os.preadv(handle, [buffer], position):
            position += count
        os.close(handle)
    return time.perf_counter() - start


def _doctor(path: Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "benchkit", "doctor", str(path)], check=True, capture_output=True)
    return time.perf_counter() - start


def _used() -> float:
    """Seconds of all processors that the commands so far have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tree(scratch: Path) -> dict[str, Any]:
    """A small tag, copied often: what a file costs that has hardly any bytes."""
    from benchkit.eval import evaluate
    from benchkit.export import export

    (end,) = export(
        "color_histogram", "classification", tag="first", arguments=["data.n_train=48", "data.n_test=24", "data.side=32"],
        outputs=scratch, say=lambda text: None,
    )  # fmt: skip
    if isinstance(end, Exception):
        raise end
    evaluate("classification", "first", outputs=scratch)
    folder = scratch / "results" / "classification" / "first"
    for number in range(1, TAGS):
        shutil.copytree(folder, folder.with_name(f"tag{number}"))
    count = sum(1 for path in folder.parent.glob("*/*.*"))
    seconds = min(_doctor(folder.parent) for _ in range(2))
    return {"figure": f"doctor of {TAGS} small tags, whole process", "seconds": seconds, "files": count,
            "ms_per_file": 1000 * seconds / count}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(run(2), indent=1))
