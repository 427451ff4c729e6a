"""What grows with the number of images: planning, resuming, opening; memory and files.

The images are fabricated and the command is real: a folder of tiny JPEGs, each of other bytes, 1280 in each class folder, four
fifths of them banked. What is remembered of the files and the bank's parts are as an export would have written them, but for
random numbers as features. Then `benchkit export` runs until its first batch is decoded and about to go through the model.
`scripts/bench --scale N` goes up to N images; BENCHKIT_SCRATCH is where (a million images take 7 GB and a million inodes).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

SIZES = (10_000, 100_000, 1_280_000)
CLASS, TEST = 1280, 10  # images of a class folder; one folder in so many is of the test split
BANKED = 0.8
ROWS = 6_000  # in a part
RUNS = 3
SETTINGS = ["data.size=32", "model.head.name=knn"]


def run(threads: int, scale: int | None = None) -> list[dict]:
    """Figures by number of images, the fastest of three runs each; without `scale` of the smallest only."""
    return [figure for count in SIZES if count <= (scale or SIZES[0]) for figure in _figures(count, threads)]


def _figures(count: int, threads: int) -> list[dict]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHKIT_SCRATCH")) as scratch:
        root, out = Path(scratch) / "photos", Path(scratch) / "out"
        fabricate(root, count)
        made = _child("bank", root, out, threads)
        runs = [_child("resume", root, out, threads) for _ in range(RUNS)]
    best = {key: min(each[key] for each in runs) for key in runs[0]}
    return [{"figure": f"{what}, {count:,} images", unit: value} for (what, unit), value in _named({**made, **best})]


def _named(found: dict) -> list[tuple[tuple[str, str], float]]:
    return [((key.rsplit(" ", 1)[0], key.rsplit(" ", 1)[1]), value) for key, value in found.items()]


def _child(what: str, root: Path, out: Path, threads: int) -> dict:
    pinned = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    command = [sys.executable, __file__, what, str(root), str(out), str(time.time())]
    done = subprocess.run(command, env={**os.environ, **pinned}, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def fabricate(root: Path, count: int) -> None:
    """So many JPEGs of a few hundred bytes: one picture, and behind its end the file's number."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.full((32, 32, 3), 128, np.uint8)).save(buffer, "JPEG")
    picture = buffer.getvalue()
    for number, name in enumerate(_names(count)):
        if number % CLASS == 0:
            (root / name).parent.mkdir(parents=True)
        with open(root / name, "wb") as file:
            file.write(picture + number.to_bytes(8, "little"))


def _names(count: int) -> Iterator[str]:
    for number in range(count):
        folder = number // CLASS
        split, label = ("test", folder // TEST) if folder % TEST == 0 else ("train", folder)
        yield f"{split}/class{label % 1000:04d}/{number:08d}.jpg"


def remember(root: Path, out: Path) -> None:
    """What reading every file would have found."""
    from benchkit.datasets.image_folder import ImageFolder
    from benchkit.export import manifest
    from benchkit.provenance.identity import identity_hash
    from benchkit.store.outputs import Outputs

    facts = {}
    for split in root.iterdir():
        for folder in split.iterdir():
            for file in folder.iterdir():
                stat = file.stat()
                sha = hashlib.sha256(file.read_bytes()).hexdigest()
                facts[f"{split.name}/{folder.name}/{file.name}"] = manifest.Facts(
                    sha, 32, 32, "", stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
                )
    path = Outputs(out).manifest(identity_hash([ImageFolder.__name__, str(root.resolve())]))
    manifest._save(path, facts)


def bank(root: Path, out: Path) -> dict:
    """Bank most of the images; seconds to plan and to open, and what lies on the disk."""
    from benchkit.conf.build import build
    from benchkit.export.job import Job
    from benchkit.export.model import LoadedModel
    from benchkit.store.bank import Bank
    from benchkit.store.columns import Ragged
    from benchkit.store.outputs import Outputs

    remember(root, out)
    start = time.perf_counter()
    job = Job(build("color_histogram", "classification", [*SETTINGS, f"data.root={root}"]), Outputs(out), "scale")
    plan = time.perf_counter() - start
    model = LoadedModel(job.conf)
    (key,) = model.keys(job)
    (width,) = model.forward([key]).shapes[str(key)]
    names = [job.facts[view].sha256 for view in job.views]
    rng = np.random.default_rng(0)
    rng.shuffle(names)
    thumb = np.zeros(900, np.uint8)
    folder = job.outputs.bank(model.folder, model.identity_hash)
    with Bank(folder, model.identity) as made:
        for at in range(0, int(BANKED * len(names)), ROWS):
            rows = names[at : min(at + ROWS, int(BANKED * len(names)))]
            columns = {
                "reason": [""] * len(rows),
                f"features/{key}": rng.normal(size=(len(rows), width)).astype(np.float32),
                "size": np.full((len(rows), 2), 32, np.int32),
                "thumb": Ragged(thumb.dtype, 1, [thumb] * len(rows)),
            }
            made.add(rows, columns, model.platform)
    start = time.perf_counter()
    with Bank(folder, model.identity):
        opened = time.perf_counter() - start
    files = [file for file in out.rglob("*") if file.is_file()]
    return {
        "data set read, files unchanged, in the process seconds": plan,
        "bank opened, in the process seconds": opened,
        "outputs files": len(files),
        "outputs bytes": sum(file.stat().st_size for file in files),
    }


def resume(root: Path, out: Path, started: float) -> dict:
    """The command, until its first batch."""
    import resource

    from benchkit.__main__ import main
    from benchkit.export.forward import Forward

    def launched(self: Forward, batch: object) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        found = {
            "resume, from the process's start to the first forward seconds": time.time() - started,
            "resume, of a processor cpu_seconds": usage.ru_utime + usage.ru_stime,
            "resume, peak memory mb": usage.ru_maxrss / 1024,
        }
        print(json.dumps(found), flush=True)
        os._exit(0)

    Forward._launched = launched  # type: ignore[assignment, method-assign]
    arguments = ["--conf", "color_histogram", "--benchmark", "classification", "--outputs", str(out), "--tag", "scale"]
    raise SystemExit(main(["export", *arguments, *SETTINGS, f"data.root={root}"]))


if __name__ == "__main__":
    what, root, out, started = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4])
    print(json.dumps(bank(root, out) if what == "bank" else resume(root, out, started)))
